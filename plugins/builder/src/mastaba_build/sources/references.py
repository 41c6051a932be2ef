"""The files that a file names: what a VRT, a tile index or a description in XML would open."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree

from mastaba_build.config.access import Access, is_remote
from mastaba_build.errors import PlanError, SourceError
from mastaba_build.sources.archives import HDF5, check_archive

_HEAD = 4096
"""Bytes at the start of a file in which GDAL searches for the name of a format."""
_LARGEST_XML = 1 << 28
_MARKS = (
    *(b"<VRTDataset", b"<GDALTileIndexDataset", b"<GDAL_WMS", b"<WMT_MS_Capabilities"),
    *(b"<WMS_Capabilities", b"<WMS_Tile_Service", b"<TileMap", b"<GDAL_WMTS", b"<WCS_GDAL"),
    *(b"<Capabilities", b"<VRTTileIndexDataset", b"<OGRVRTDataSource"),
)
_FILES = frozenset(["sourcefilename", "sourcedataset", "indexdataset", "source", "dempath"])
_TEXTS = frozenset(
    [
        *("srs", "crs", "mdi", "description", "category", "expression", "pixelfunctioncode"),
        *("pixelfunctiontype", "attribution", "copyright", "geotransform", "unittype"),
    ]
)
"""Elements whose texts GDAL does not open."""
_CODE = frozenset(["sql", "spatialsql"])
_FILE_KEY = re.compile(r"dataset|file|dem|path|cutlineds", re.IGNORECASE)
_PREFIX = re.compile(
    r"(?!(?:EPSG|OGC|urn|IGNF|ESRI|IAU_\d+):)[A-Za-z0-9_]{3,}:(?! )", re.IGNORECASE
)
"""The start of what drivers of GDAL take for the name of a part of a file."""
_DEEPEST = 8
_TABLES = "SELECT table_name FROM gpkg_contents WHERE data_type = 'features'"
_VIRTUAL = (
    "SELECT name FROM sqlite_master WHERE sql LIKE 'create virtual table%' "
    "AND NOT (sql LIKE '%using%rtree%(%' OR sql LIKE '%using%fts%(%')"
)


def check_source(name: str, access: Access, *, by: str | None = None, depth: int = 0) -> None:
    """Check that a source, and all files that it names, may be opened.

    Args:
        name: as GDAL takes it.
        by: the file that contains the name; None for a source.

    Raises:
        SourceError: one must not be opened.
    """
    if depth > _DEEPEST:
        raise SourceError(f"{by}: files refer to files, more than {_DEEPEST} levels deep")
    if name.lstrip("\ufeff \t\r\n").startswith("<"):
        _check_xml(name.encode(), by or "the source", access, depth)
        return
    file = access.file_of(name, by)
    if file is None:
        return
    archive = file
    while not os.path.exists(archive) and os.path.dirname(archive) != archive:
        archive = os.path.dirname(archive)
    if not os.path.isfile(archive):
        return
    if archive != file or name.startswith("/vsi"):
        check_archive(archive, _MARKS)
        return
    try:
        with open(file, "rb") as stream:
            head = stream.read(_HEAD)
            text = head.partition(b"\0")[0].lstrip(b"\xef\xbb\xbf \t\r\n")
            if text.startswith(b"<") or any(mark in text for mark in _MARKS):
                _check_xml(head + stream.read(_LARGEST_XML), file, access, depth)
    except OSError as error:
        raise SourceError(f"{file}: cannot be read: {error.strerror}") from None
    check_database(file)
    if not {"HDF5", "netCDF"} & set(access.drivers) and _is_hdf5(file):
        raise SourceError(
            f"{file}: HDF5 and netCDF-4 files may read other files; if you trust it, allow it with "
            "--allow-driver HDF5"
        )
    if name.upper().startswith("GTI:") or ".gti." in os.path.basename(file).lower():
        _check_index(file, access, depth)
    beside = f"{file}.aux.xml"
    if os.path.isfile(beside):
        access.file_of(beside)
        with open(beside, "rb") as stream:
            _check_xml(stream.read(_LARGEST_XML), beside, access, depth)


def _check_xml(text: bytes, name: str, access: Access, depth: int) -> None:
    if any(mark in text for mark in (b"<!DOCTYPE", b"<!ENTITY", b"<![CDATA[")):
        raise SourceError(f"{name}: XML with a document type or CDATA is not read; remove it")
    if len(text) > _LARGEST_XML:
        raise SourceError(f"{name}: has more than {_LARGEST_XML >> 20} MiB of XML")
    try:
        # Comments divide texts for GDAL, so they are kept.
        builder = ElementTree.TreeBuilder(insert_comments=True, insert_pis=True)
        parser = ElementTree.XMLParser(target=builder)  # noqa: S314 - without entities
        root = ElementTree.fromstring(text.strip(), parser)  # noqa: S314 - as above
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise SourceError(f"{name}: is not valid XML: {error}") from None
    # GDAL finds relative names beside the file, or beside that to which a link leads.
    folders = list(dict.fromkeys(map(os.path.dirname, (name, os.path.realpath(name)))))
    for one, is_relative, is_index in _names(root):
        if one.startswith("<"):
            check_source(one, access, by=name, depth=depth + 1)
            continue
        beside = is_relative and not is_remote(one)
        for path in [os.path.join(folder, one) for folder in folders] if beside else [one]:
            check_source(path, access, by=name, depth=depth + 1)
            if is_index:
                _check_index(path, access, depth + 1)


def _names(root: ElementTree.Element) -> Iterator[tuple[str, bool, bool]]:
    """Yield names of files: the name, whether it is relative to the XML, whether it is an index.

    A text of an unknown element is one if it has the form of a path or a URL.
    """
    for element in root.iter():
        known: object = element.tag
        if not isinstance(known, str):
            continue  # a comment
        tag = known.rpartition("}")[2].lower()
        pieces = [element.text, *(child.tail for child in element)]
        texts = [piece.strip() for piece in pieces if piece and piece.strip()]
        attributes = {str(key).lower(): value.strip() for key, value in element.attrib.items()}
        if tag in _CODE or len(attributes) < len(element.attrib):
            raise SourceError(f"<{element.tag}> of this form is not allowed in a source")
        if tag in _FILES:
            is_index = tag == "indexdataset"
            relative = attributes.get("relativetovrt", "0")
            for text in texts:
                if relative != "1":
                    yield text, is_index, is_index
                if relative != "0":
                    yield text, True, is_index
            continue
        key = attributes.get("key", "") or attributes.get("name", "")
        names_file = bool(_FILE_KEY.search(key))
        if tag == "mdi":
            if names_file and key.upper() == key:
                yield from ((text, False, False) for text in texts if _is_path(text))
            continue
        if tag in _TEXTS:
            continue
        for text in texts:
            if _is_path(text) or (names_file and os.path.exists(text)):
                yield text, False, False
        for name, value in attributes.items():
            if _is_path(value) and not name.startswith(("xmlns", "{")):
                yield value, False, False


def _is_path(text: str) -> bool:
    return (
        text.startswith(("/", "\\", "<"))
        or "://" in text
        or os.pardir in re.split(r"[/\\]", text)
        or is_remote(text)
    )


def check_database(file: str) -> None:
    """Check that a file, if it is a SQLite database, reads nothing but itself.

    Raises:
        SourceError: it has virtual tables, which may read other files.
    """
    with open(file, "rb") as stream:
        if stream.read(16) != b"SQLite format 3\0":
            return
    try:
        with closing(sqlite3.connect(f"file:{quote(file)}?mode=ro", uri=True)) as database:
            found = database.execute(_VIRTUAL).fetchone()
    except sqlite3.Error as error:
        raise SourceError(f"{file}: cannot be read: {error}") from None
    if found is not None:
        raise SourceError(f"{file}: contains the virtual table {found[0]!r}, which is not allowed")


def _is_hdf5(file: str) -> bool:
    """Return whether a file is HDF5: its data may be in other files (H5Pset_external, links)."""
    size, at = os.path.getsize(file), 0
    with open(file, "rb") as stream:
        while at < size:  # a block of the user may be before it
            stream.seek(at)
            if stream.read(8) == HDF5:
                return True
            at = 2 * at or 512
    return False


def _check_index(file: str, access: Access, depth: int) -> None:
    """Check the files in an index of tiles (GTI)."""
    try:
        with open(file, "rb") as stream:
            if stream.read(_HEAD).lstrip().startswith(b"<"):
                return  # it is XML, and was checked as such
        values = set(_values_of_index(file))
    except (OSError, ValueError, sqlite3.Error) as error:
        raise SourceError(f"{file}: cannot be read as an index of tiles: {error}") from None
    folder = os.path.dirname(file)
    for value in values:
        beside = os.path.join(folder, value)
        if os.path.exists(beside):
            check_source(beside, access, by=file, depth=depth + 1)
        elif _is_path(value) or _PREFIX.match(value) or os.path.exists(value):
            check_source(value, access, by=file, depth=depth + 1)


def _values_of_index(file: str) -> Iterator[str]:
    """Yield all texts of an index: which of its fields contains the files may be anywhere."""
    end = os.path.splitext(file)[1].lower()
    if end in (".json", ".geojson"):
        with open(file, encoding="utf-8-sig") as stream:
            yield from _texts(json.load(stream))
    elif end == ".gpkg":
        with closing(sqlite3.connect(f"file:{quote(file)}?mode=ro", uri=True)) as database:
            for (table,) in database.execute(_TABLES).fetchall():
                quoted = str(table).replace('"', '""')
                for row in database.execute(f'SELECT * FROM "{quoted}"'):  # noqa: S608
                    yield from (value for value in row if isinstance(value, str))
    else:
        raise SourceError(
            f"{file}: an index of tiles must be a GeoPackage or GeoJSON, so that the files in it "
            "can be checked; convert it with ogr2ogr"
        )


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


_STARTS = {".gpkg": b"SQLite format 3\0", ".fgb": b"fgb", ".shp": b"\0\0\x27\x0a"}
"""How such files begin; drivers that read other files go by their content."""


def check_start(file: Path) -> None:
    """Check that the content of a file is what its name says, and reads no other files."""
    suffix = file.suffix.lower()
    if suffix not in _STARTS:
        return
    try:
        with file.open("rb") as stream:
            start = stream.read(16)
        if not start.startswith(_STARTS[suffix]):
            raise PlanError(f"{file}: its content is not that of a {suffix} file")
        check_database(str(file))
    except OSError as error:
        raise PlanError(f"{file}: cannot be read: {error.strerror}") from None
    except SourceError as error:
        raise PlanError(str(error)) from None
