"""The files that one entry of ``sources`` names: folders, globs, lists and STAC items."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import urljoin
from zipfile import BadZipFile, ZipFile

from mastaba.api.documents import Faults, parse_document
from mastaba_build.config.access import is_glob
from mastaba_build.config.configuration import Configuration, SourceOptions
from mastaba_build.errors import PlanError
from mastaba_build.sources.facts import facts_of_item

_EXTENSIONS = frozenset(
    [
        ".asc",
        ".bil",
        ".dt0",
        ".dt1",
        ".dt2",
        ".gpkg",
        ".gtx",
        ".hgt",
        ".img",
        ".jp2",
        ".jpeg",
        ".jpg",
        ".nc",
        ".png",
        ".tif",
        ".tiff",
        ".vrt",
        ".webp",
    ]
)
"""Files of a folder that are rasters."""


class ListedFile(NamedTuple):
    """A file of an entry.

    Attributes:
        path: as GDAL opens it.
        datetime: when it was taken (RFC 3339); empty if unknown.
        facts: what its STAC item says for the table of sources.
    """

    path: str
    datetime: str = ""
    facts: Mapping[str, Any] = MappingProxyType({})


def listed(options: SourceOptions) -> list[ListedFile]:
    """Return the files of an entry, in its order, except for the order of resolution.

    Raises:
        PlanError: there is none, or a list cannot be read.
    """
    # Absolute, because workers on other machines have other working directories.
    found = [
        one._replace(path=os.path.abspath(one.path)) if os.path.exists(one.path) else one
        for one in _files(options)
    ]
    if not found:
        raise PlanError(f"{options.path}: no raster file; name a file, a folder or a glob")
    if options.order != "given":
        found.sort(key=lambda one: os.fsencode(one.path))
    if options.order == "datetime":
        for one in found:
            if not one.datetime:
                raise PlanError(f"{one.path}: has no date; only STAC items can be ordered by it")
        found.sort(key=lambda one: one.datetime)
    return found


def with_access(configuration: Configuration) -> Configuration:
    """Return a configuration whose sources may open the files in their folders.

    A line of a list counts as a source that the user has named.

    Raises:
        PlanError: a list cannot be read.
    """
    paths = [options.path for options in configuration.sources]
    lines = chain.from_iterable(_lines(path) for path in paths if _is_list(path))
    return replace(configuration, access=configuration.access.with_sources([*paths, *lines]))


def read_json(path: str) -> dict[str, Any] | None:
    """Return the object in a JSON file, or None if the path is not one.

    Raises:
        PlanError: the file cannot be read.
    """
    if not path.lower().endswith((".json", ".geojson")) or not os.path.isfile(path):
        return None
    try:
        with open(path, "rb") as stream:
            content = stream.read()
    except OSError as error:
        raise PlanError(f"{path}: cannot be read: {error}") from None
    document = parse_json(content, path)
    return document if isinstance(document, dict) else None


def parse_json(content: bytes, path: str) -> Any:
    """Return the JSON value in the content of a file.

    Raises:
        PlanError: it is invalid; the message names the place.
    """
    try:
        text = content.decode("utf-8-sig")
    except ValueError as error:
        raise PlanError(f"{path}: cannot be read: {error}") from None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        # The reader of configurations finds the place, also of a number with too many digits.
        faults = Faults()
        document = parse_document(text, path, faults)
        if faults.errors:
            found = faults.errors[0]
            raise PlanError(f"{path}: {found.path}: {found.reason}") from None
        return document


def _files(options: SourceOptions) -> Iterator[ListedFile]:
    path = options.path
    document = read_json(path)
    if document is not None and _is_stac(document):
        yield from _assets(document, options)
    elif os.path.isdir(path):
        for folder, _, names in os.walk(path):
            for name in names:
                if os.path.splitext(name)[1].lower() in _EXTENSIONS:
                    yield ListedFile(os.path.join(folder, name))
    elif path.lower().endswith(".zip") and os.path.isfile(path):
        yield from (
            ListedFile(f"/vsizip/{os.path.abspath(path)}/{name}") for name in _members(path)
        )
    elif _is_list(path):
        yield from map(ListedFile, _lines(path))
    elif is_glob(path):
        yield from (
            ListedFile(one) for one in glob.glob(path, recursive=True) if os.path.isfile(one)
        )
    else:
        yield ListedFile(path)


def _members(path: str) -> list[str]:
    """Return the rasters in a ZIP archive."""
    try:
        with ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, BadZipFile, ValueError) as error:
        raise PlanError(f"{path}: cannot be read as a ZIP archive: {error}") from None
    return [name for name in names if os.path.splitext(name)[1].lower() in _EXTENSIONS]


def _is_list(path: str) -> bool:
    return path.lower().endswith((".txt", ".list")) and os.path.isfile(path)


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8") as lines:
            return [line.strip() for line in lines if line.strip()]
    except (OSError, ValueError) as error:
        raise PlanError(f"{path}: the list cannot be read: {error}") from None


def _is_stac(document: dict[str, Any]) -> bool:
    features = document.get("features")
    first = features[0] if isinstance(features, list) and features else document
    return isinstance(first, dict) and "stac_version" in first and "assets" in first


def _assets(document: dict[str, Any], options: SourceOptions) -> Iterator[ListedFile]:
    """Yield one asset of each item of a STAC item or item collection (STAC 1.0)."""
    for position, item in enumerate(document.get("features", [document])):
        try:
            listed = _asset(item, options)
        except (AttributeError, KeyError, TypeError):
            raise PlanError(f"{options.path}: item {position} is not a valid STAC item") from None
        yield listed


def _asset(item: dict[str, Any], options: SourceOptions) -> ListedFile:
    name = f"{options.path}: item {item.get('id', '')}"
    assets = item.get("assets")
    if not isinstance(assets, dict):
        raise PlanError(f"{name}: has no assets")
    keys = [options.asset] if options.asset else _data_assets(assets)
    if len(keys) != 1 or keys[0] not in assets:
        choice = ", ".join(assets) or "none"
        raise PlanError(f"{name}: state one asset with --asset; it has {choice}")
    href = str(assets[keys[0]].get("href", ""))
    base = next((link["href"] for link in item.get("links", []) if link["rel"] == "self"), "")
    properties = item.get("properties") or {}
    date = properties.get("datetime") or properties.get("start_datetime") or ""
    return ListedFile(_resolved(href, base, options.path), str(date), facts_of_item(item, base))


def _data_assets(assets: dict[str, Any]) -> list[str]:
    return [key for key, asset in assets.items() if "data" in asset.get("roles", [])]


def _resolved(href: str, base: str, document: str) -> str:
    """Return the address of an asset, relative to its item or to the document."""
    if "://" in href or os.path.isabs(href):
        return href
    if "://" in base:
        return urljoin(base, href)
    return os.path.normpath(os.path.join(os.path.dirname(document), href))
