"""A stored pyramid as its documents describe it: which slabs it has, and where they are."""

from __future__ import annotations

import hashlib
import math
import os
import posixpath
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from mastaba.api.catalogue import MASK_FORMAT, TileLimits
from mastaba_build.errors import PlanError
from mastaba_build.output.destination import Destination
from mastaba_build.output.records import RecordedSlab
from mastaba_build.output.storage import FileWriter, OutputStore
from mastaba_build.output.versions import read_record
from mastaba_build.plugins import PluginSet
from mastaba_build.samples import PixelType
from mastaba_build.sources.listing import parse_json

_REQUESTS = 16
"""Slabs whose size is requested at a time."""

SlabAddress: TypeAlias = tuple[str, int, int]
"""Identifier of the level, slab column, slab row."""


class StoredSlab(NamedTuple):
    """A slab of a pyramid.

    Attributes:
        holder: root of the pyramid that really contains it, relative to the output.
        size: in bytes.
        md5: from the build record; empty if there is none.
        tiles: tiles with data; all tiles in the limits of the level without a build record.
        limits: of these tiles.
    """

    holder: str
    size: int
    md5: str
    tiles: int
    limits: TileLimits


@dataclass(frozen=True, slots=True)
class StoredPyramid:
    """A raster pyramid.

    Attributes:
        path: of the descriptor, as the user named it.
        key: of the descriptor, relative to the output.
        identity: changes when the descriptor or the list changes.
        tile_matrix_set: name of the set.
        slab: width and height of a slab in tiles.
        masks: whether it has mask slabs.
        path_depth: of files; 0 for objects.
        interpolation: kernel of the finest level.
        registration: as in `Plan`.
        limits: tile limits by level.
        slabs: those in the slab list; without a list, all files.
    """

    path: str
    key: str
    identity: str
    tile_matrix_set: str
    pixel_type: PixelType
    slab: tuple[int, int]
    masks: bool
    path_depth: int
    interpolation: str
    registration: str
    limits: Mapping[str, TileLimits]
    slabs: Mapping[SlabAddress, StoredSlab]


def read_pyramid(
    store: OutputStore, output: Destination, path: str, plugins: PluginSet
) -> StoredPyramid:
    """Return a pyramid to whose slabs the output can have links; no slab is read.

    Args:
        store: the output, opened.
        output: the same.
        path: of the descriptor: a file, or ``s3://bucket/key`` and the like.
        plugins: whose storages a descriptor may name.

    Raises:
        PlanError: a document is missing or invalid, a slab is missing or differs from the build
            record, or the pyramid is stored where no link can lead.
        VerificationError: the build record is damaged.
        OutputError: a document cannot be read.
    """
    key = _key_of(output, path)
    stem = key.removesuffix(".json")
    reader = _Reader(store, output)
    try:
        text = reader.store.read(reader.key(key))
    except FileNotFoundError:
        raise PlanError(f"{path}: does not exist") from None
    document = _descriptor(path, text, plugins)
    root, path_depth = _root_of(path, key, document["levels"], output)
    listed = reader.store.read_if_exists(reader.key(f"{stem}.list"))
    if listed is None:
        if not output.is_local:
            raise PlanError(f"{path.removesuffix('.json')}.list: does not exist")
        listed = reader.list(root)
    size = _slab_size(path, document["levels"])
    limits = {level["id"]: TileLimits(**level["tile_limits"]) for level in document["levels"]}
    record = read_record(reader.store, reader.key(stem))
    recorded: dict[SlabAddress, RecordedSlab] = {}
    if record is not None and posixpath.join(posixpath.dirname(stem), record.root) == root:
        recorded = {(one.level, one.column, one.row): one for one in record.stored()}
    lines = _List(path, listed, root, output)

    def stored(line: tuple[SlabAddress, str, str]) -> tuple[SlabAddress, StoredSlab] | None:
        slab, holder, name = line
        known = limits.get(slab[0])
        if known is None or (inside := _tiles_of(slab, size).intersection(known)) is None:
            return None
        found = reader.store.stat(reader.key(f"{holder}/{name}"))
        one = recorded.get(slab)
        if found is None or (one is not None and one.size != found.size):
            what = "does not exist" if found is None else "differs from the build record"
            raise PlanError(f"{path}: its slab {reader.key(f'{holder}/{name}')} {what}")
        if output.listed(holder).split() != [output.listed(holder)]:
            raise PlanError(f"{path}: the slab list cannot name a place with white space")
        if one is not None and one.limits is not None:
            return slab, StoredSlab(holder, one.size, one.md5, one.tiles, one.limits)
        count = (inside.max_row - inside.min_row + 1) * (inside.max_col - inside.min_col + 1)
        return slab, StoredSlab(holder, found.size, "", count, inside)

    with ThreadPoolExecutor(_REQUESTS) as threads:
        slabs = dict(one for one in threads.map(stored, lines) if one is not None)
    specification = document["raster_specifications"]
    channels = specification["channels"]
    nodata: tuple[float, ...] = ()
    with suppress(ValueError):
        nodata = tuple(map(float, specification["nodata"].split(",")[:channels]))
    if len(nodata) != channels or not all(map(math.isfinite, nodata)):
        # The server refuses these too.
        raise PlanError(f"{path}: nodata is not a list of {channels} numbers")
    return StoredPyramid(
        path,
        key,
        hashlib.sha256(text + b"\0" + listed).hexdigest(),
        document["tile_matrix_set"],
        PixelType(document["format"], channels, nodata),
        size,
        "mask_format" in document,
        path_depth,
        specification.get("interpolation", "bicubic"),
        specification.get("registration", "area"),
        limits,
        slabs,
    )


def place_of(store: OutputStore, output: Destination, key: str) -> tuple[OutputStore, str]:
    """Return the store and the key in it of a key relative to an output.

    A file may be anywhere, and the directory of the output need not exist.
    """
    reader = _Reader(store, output)
    return reader.store, reader.key(key)


class _Reader:
    """Reads objects by their key relative to an output, also if its directory does not exist."""

    def __init__(self, store: OutputStore, output: Destination) -> None:
        self._base = os.path.realpath(output.prefix) if output.is_local else None
        self.store = store if self._base is None else OutputStore(FileWriter(), "")

    def key(self, key: str) -> str:
        """Return the key in `store` of a key relative to the output."""
        return key if self._base is None else os.path.normpath(os.path.join(self._base, key))

    def list(self, root: str) -> bytes:
        """Return a slab list of all files below a root."""
        start = f"{self.key(root)}/"
        found = self.store.list(f"{start}DATA/")
        names = sorted(name.removeprefix(start) for name in found if name.endswith(".tif"))
        return "".join(["#\n", *(f"0/{name}\n" for name in names)]).encode()


def reader_of(store: OutputStore, output: Destination) -> _Reader:
    """Return what reads objects by their key relative to an output, also outside of it."""
    return _Reader(store, output)


def _key_of(output: Destination, path: str) -> str:
    """Return the key of a descriptor relative to the output."""
    if not path.endswith(".json"):
        raise PlanError(f"{path}: is not the descriptor of a pyramid, NAME.json")
    scheme, separator, rest = path.partition("://")
    if separator and scheme != "file":
        start = "" if output.is_local else f"{output.storage}://{output.container}/"
        start += f"{output.prefix}/" if output.prefix else ""
        if output.is_local or not path.startswith(start):
            raise PlanError(f"{path}: is not below the output {output}; links cannot lead there")
        return path.removeprefix(start)
    if not output.is_local:
        raise PlanError(f"{path}: is a file, and links from {output} cannot lead to it")
    directory, name = os.path.split(os.path.abspath(rest if separator else path))
    return os.path.relpath(
        os.path.join(os.path.realpath(directory), name), os.path.realpath(output.prefix)
    )


def _descriptor(path: str, text: bytes, plugins: PluginSet) -> dict[str, Any]:
    document = parse_json(text, path)
    for where, reason in plugins.problems("pyramid", document):
        raise PlanError(f"{path}: {where or 'the descriptor'}: {reason}")
    if "raster_specifications" not in document:
        raise PlanError(
            f"{path}: is a pyramid of vector tiles, whose features cannot be merged or decimated; "
            "use tile-join"
        )
    if document.get("mask_format", MASK_FORMAT) != MASK_FORMAT:
        raise PlanError(f"{path}: masks of format {document['mask_format']} are not supported")
    found: dict[str, Any] = document
    return found


def _root_of(
    path: str, key: str, levels: list[dict[str, Any]], output: Destination
) -> tuple[str, int]:
    """Return the root of the slabs of a pyramid, relative to the output, and the path depth."""
    found = set()
    for level in levels:
        storage = level["storage"]
        if storage["type"] != output.storage.upper():
            raise PlanError(
                f"{path}: its slabs are in {storage['type']}, and links from {output} cannot "
                "lead there"
            )
        if output.is_local:
            image = posixpath.join(posixpath.dirname(key), storage["image_directory"])
            end = f"/DATA/{level['id']}"
        else:
            container = storage.get(output.container_field or "", "").partition("@")[0]
            image = f"{container}/{storage['image_prefix']}"
            end = f"/DATA_{level['id']}"
            if not image.startswith(f"{output.root}/"):
                raise PlanError(f"{path}: its slabs are not below the output {output}")
            image = image.removeprefix(f"{output.root}/")
        if not image.endswith(end):
            raise PlanError(f"{path}: the slabs of level {level['id']} are not in NAME{end}")
        found.add((posixpath.normpath(image.removesuffix(end)), storage.get("path_depth", 0)))
    if len(found) != 1:
        raise PlanError(f"{path}: its levels differ in their directory or their path depth")
    return found.pop()


def _slab_size(path: str, levels: list[dict[str, Any]]) -> tuple[int, int]:
    found = {(level["tiles_per_width"], level["tiles_per_height"]) for level in levels}
    if len(found) != 1:
        raise PlanError(f"{path}: its levels have slabs of different sizes")
    return found.pop()


def _tiles_of(slab: SlabAddress, size: tuple[int, int]) -> TileLimits:
    _, column, row = slab
    width, height = size
    return TileLimits(
        row * height, (row + 1) * height - 1, column * width, (column + 1) * width - 1
    )


class _List:
    """The data slabs in a slab list: address of the slab, root that really contains it, name.

    Raises:
        PlanError: when a line is read that is not one of a slab list.
    """

    def __init__(self, path: str, text: bytes, root: str, output: Destination) -> None:
        self._name = f"{path.removesuffix('.json')}.list"
        self._lines = text.decode("utf-8", "replace").splitlines()
        self._root = root
        self._output = output
        self._base = os.path.realpath(output.prefix)

    def __iter__(self) -> Iterator[tuple[SlabAddress, str, str]]:
        if "#" not in self._lines:
            raise PlanError(f"{self._name}: is not a slab list: it has no line #")
        start = self._lines.index("#")
        roots = dict(line.split("=", 1) for line in self._lines[:start] if "=" in line)
        for number, line in enumerate(self._lines[start + 1 :], start + 2):
            if not line.strip():
                continue
            # An MD5 may follow.
            root, _, name = line.split()[0].partition("/")
            if name.startswith("MASK"):
                continue
            try:
                slab = _slab_of(name, is_file=self._output.is_local)
                holder = self._holder(roots[root] if root != "0" else None, name)
            except (ValueError, KeyError):
                raise PlanError(f"{self._name}: line {number} cannot be used: {line}") from None
            yield slab, holder, name

    def _holder(self, root: str | None, name: str) -> str:
        """Return the root that contains a slab; ``root`` is None for the pyramid itself."""
        if self._output.is_local:
            # The roots in a list are absolute, and wrong when the pyramids were moved.
            real = os.path.realpath(os.path.join(self._base, self._root, name))
            if not real.endswith(f"/{name}"):
                raise ValueError
            return os.path.relpath(real.removesuffix(f"/{name}"), self._base)
        if root is None:
            return self._root
        if not root.startswith(f"{self._output.root}/"):
            raise PlanError(f"{self._name}: {root} is not below the output {self._output}")
        return root.removeprefix(f"{self._output.root}/")


def _slab_of(name: str, *, is_file: bool) -> SlabAddress:
    """Return the address of a slab from its name; the inverse of `slab_key`."""
    if not is_file:
        kind, level, column, row = name.split("_")
        if kind != "DATA":
            raise ValueError
        return level, int(column), int(row)
    kind, level, *parts = name.removesuffix(".tif").split("/")
    digits = "".join(parts)
    if kind != "DATA" or not digits or len(digits) % 2:
        raise ValueError
    return level, int(digits[0::2], 36), int(digits[1::2], 36)
