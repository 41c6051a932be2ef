"""A coverage as a group of Zarr arrays: a level is an array, and its stored tiles are the chunks.

Zarr 2 (coverages.md section 2.4). Attributes say where the arrays are by the conventions
``multiscales``, ``proj:`` and ``spatial:`` (github.com/zarr-conventions, version 1) and as older
versions of GDAL read it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyproj

from mastaba.api.catalogue import CRS84, Codec
from mastaba.api.tiles import TilePublisher
from mastaba.api.web import Document, Response, printable
from mastaba.errors import TileNotFoundError, UnknownPathError
from mastaba_coverage import TileCodec
from mastaba_ogcapi.coverages.formats import CHUNK
from mastaba_ogcapi.crs import resolvable_crs
from mastaba_ows.boxes import bounds, rounded
from mastaba_ows.links import JSON

if TYPE_CHECKING:
    from mastaba.api.catalogue import CRS, Layer, TileFormat
    from mastaba.api.containers import TileReader
    from mastaba.api.web import Request
    from mastaba_coverage import Coverage, CoverageGrid

METADATA: Final = ".zmetadata"
"""Key of the metadata of the group and of all arrays."""
_GROUP, _ARRAY, _ATTRIBUTES = ".zgroup", ".zarray", ".zattrs"
_CODECS: Final[Mapping[Codec, tuple[str, dict[str, str] | None]]] = {
    Codec.RAW: ("none", None),
    Codec.ZIP: ("deflate", {"id": "zlib"}),
}
"""Compression of tiles in TIFF, and compressor in Zarr, of the codecs whose tiles are chunks."""
_CHUNK: Final = re.compile(r"(0|[1-9]\d{0,9})\.(0|[1-9]\d{0,9})(\.0)?", re.ASCII)
_PLAIN_CODE: Final = re.compile(r"[A-Z]+:\d+")
_CONVENTIONS: Final = {
    name: {
        "schema_url": f"https://raw.githubusercontent.com/zarr-conventions/{folder}"
        "/refs/tags/v1/schema.json",
        "spec_url": f"https://github.com/zarr-conventions/{folder}/blob/v1/README.md",
        "uuid": uuid,
        "name": name,
        "description": text,
    }
    for name, folder, uuid, text in (
        (
            *("multiscales", "multiscales", "d35379db-88df-4056-af3a-620245f8e347"),
            "Multiscale layout of zarr datasets",
        ),
        (
            *("proj:", "geo-proj", "f17cb550-5864-4468-aeb7-f3180cfb622f"),
            "Coordinate reference system information for geospatial data",
        ),
        (
            *("spatial:", "spatial", "689b58e2-cf7b-45e0-9fff-9cfc0883d6b4"),
            "Spatial coordinate information",
        ),
    )
}


class ZarrGroup:
    """The levels of a coverage whose tiles are chunks.

    Args:
        coverage: the stored values.
        grids: those levels, fine to coarse; at least one.
    """

    def __init__(self, coverage: Coverage, grids: Mapping[str, CoverageGrid]) -> None:
        self._coverage = coverage
        self._grids = grids
        self._documents: dict[str, Document] = {}
        self._publishers: dict[str, TilePublisher] = {}
        self._fill = _fill_value(coverage)

    @classmethod
    def of(cls, coverage: Coverage) -> ZarrGroup | None:
        """Return the group of a coverage; None if no tiles are chunks."""
        tile_format = coverage.layer.pyramid.format
        grids = {
            name: grid
            for name, grid in reversed(list(coverage.grids.items()))
            if _are_chunks(tile_format, grid.reader)
        }
        return cls(coverage, grids) if grids else None

    @property
    def levels(self) -> tuple[str, ...]:
        """Names of the arrays, fine to coarse."""
        return tuple(self._grids)

    def key_of(self, level: str, row: int, col: int) -> str:
        """Return the key of a tile below the array of its level."""
        limits = self._grids[level].level.limits
        last = ".0" if len(self._coverage.fields) > 1 else ""
        return f"{row - limits.min_row}.{col - limits.min_col}{last}"

    def document(self, key: str) -> Document:
        """Return a document by its key.

        Raises:
            UnknownPathError: there is no such key.
        """
        found = self._documents.get(key)
        if found is None:
            metadata = self._metadata
            content = metadata if key == METADATA else metadata["metadata"].get(key)
            if content is None:
                raise UnknownPathError(f"this group has no key {printable(key)}")
            found = Document(json.dumps(content, allow_nan=False), JSON)
            # Two threads may build it at the same time; both results are equal.
            self._documents[key] = found
        return found

    def chunk(self, request: Request, path: list[str]) -> Response:
        """Return a chunk as it is stored.

        Args:
            path: name of the array, and numbers of the chunk from its first one on.

        Raises:
            UnknownPathError: there is no such array or key.
            TileOutOfRangeError: the array has no such chunk.
            TileNotFoundError: the chunk is not stored: it consists of the fill value.
            SlabFormatError, StorageError: the chunk cannot be read.
        """
        level, name = path if len(path) == 2 else ("", "")
        grid, place = self._grids.get(level), _CHUNK.fullmatch(name)
        if grid is None or place is None or bool(place[3]) != (len(self._coverage.fields) > 1):
            raise UnknownPathError(f"this group has no key {printable('/'.join(path))}")
        limits = grid.level.limits
        row, col = limits.min_row + int(place[1]), limits.min_col + int(place[2])
        try:
            return self._publisher(level).respond(request, row, col)
        except TileNotFoundError as error:
            if self._fill is not None:
                raise
            # Channels have different values of nodata, which no fill value says.
            return Response(200, [("Content-Type", CHUNK), *error.headers], self._blank(grid))

    def _publisher(self, level: str) -> TilePublisher:
        found = self._publishers.get(level)
        if found is None:
            bare = _bare(self._coverage.layer)
            found = TilePublisher(bare, self._grids[level].reader, None)
            self._publishers[level] = found
        return found

    def _blank(self, grid: CoverageGrid) -> bytes:
        coverage, matrix = self._coverage, grid.matrix
        nodata = np.array(coverage.nodata, coverage.dtype)
        pixels = np.broadcast_to(nodata, (matrix.tile_height, matrix.tile_width, len(nodata)))
        compression, _ = _CODECS[coverage.layer.pyramid.format.codec]
        return TileCodec(compression).encode(pixels)

    @cached_property
    def _metadata(self) -> dict[str, Any]:
        layer = self._coverage.layer
        attributes: dict[str, Any] = {"title": layer.title}
        if layer.attribution:
            attributes["attribution"] = layer.attribution.title
        attributes |= {
            "zarr_conventions": list(_CONVENTIONS.values()),
            "multiscales": {
                "layout": [{"asset": name, **_place(grid)} for name, grid in self._grids.items()]
            },
            **_crs_attributes(self._coverage.crs),
        }
        found = {_GROUP: {"zarr_format": 2}, _ATTRIBUTES: attributes}
        for name, grid in self._grids.items():
            found[f"{name}/{_ARRAY}"] = self._array(grid)
            found[f"{name}/{_ATTRIBUTES}"] = self._attributes(name, grid)
        return {"zarr_consolidated_format": 1, "metadata": found}

    def _array(self, grid: CoverageGrid) -> dict[str, Any]:
        coverage, cells, matrix = self._coverage, grid.stored, grid.matrix
        channels = [len(coverage.fields)] if len(coverage.fields) > 1 else []
        return {
            "zarr_format": 2,
            "shape": [cells.rows, cells.columns, *channels],
            "chunks": [matrix.tile_height, matrix.tile_width, *channels],
            "dtype": coverage.dtype.str,
            "compressor": _CODECS[coverage.layer.pyramid.format.codec][1],
            "fill_value": self._fill,
            "order": "C",
            "filters": None,
            "dimension_separator": ".",
        }

    def _attributes(self, name: str, grid: CoverageGrid) -> dict[str, Any]:
        coverage = self._coverage
        # Of each level its own: xarray opens all as one dataset.
        spatial = [f"y_{name}", f"x_{name}"]
        attributes: dict[str, Any] = {"_ARRAY_DIMENSIONS": spatial}
        if len(coverage.fields) > 1:
            attributes = {"_ARRAY_DIMENSIONS": [*spatial, "band"], "bands": list(coverage.fields)}
        if coverage.unit is not None:
            attributes["units"] = coverage.unit
        return attributes | {
            "zarr_conventions": [_CONVENTIONS["proj:"], _CONVENTIONS["spatial:"]],
            **_crs_attributes(coverage.crs),
            "spatial:dimensions": spatial,
            **_place(grid),
            "spatial:bbox": bounds(grid.bounds(grid.stored)),
            "spatial:registration": "node" if grid.is_post else "pixel",
        }


def _are_chunks(tile_format: TileFormat, reader: TileReader) -> bool:
    """Return whether the tiles of a level are samples, deflated or not, and nothing else."""
    if tile_format.codec not in _CODECS or reader.coding:
        return False
    # What a container converts gets the header that the format may need.
    return not tile_format.needs_tiff_header or not (reader.deliver or reader.decoder)


def _bare(layer: Layer) -> Layer:
    """Return a layer whose tiles have no header and no content coding, and are absent with 404."""
    pyramid = layer.pyramid
    bare = replace(pyramid.format, media_type=CHUNK, content_encoding=None)
    return replace(layer, pyramid=replace(pyramid, format=bare), missing_tile_status=404)


def _fill_value(coverage: Coverage) -> float | int | str | None:
    """Return what chunks that are not stored consist of; None if channels have several values."""
    values = set(coverage.nodata)
    if len(values) > 1:
        return None
    value = values.pop()
    if coverage.dtype.kind == "u":
        return int(value)
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"


def _place(grid: CoverageGrid) -> dict[str, Any]:
    """Return where an array is: its first corner, or the first post of a grid of posts."""
    cells, size = grid.stored, rounded(grid.matrix.cell_size)
    box = grid.bounds(cells)
    return {
        "spatial:shape": [cells.rows, cells.columns],
        "spatial:transform": [size, 0.0, rounded(box.xmin), 0.0, -size, rounded(box.ymax)],
    }


def _crs_attributes(crs: CRS) -> dict[str, Any]:
    """Return the CRS for clients of the convention, and for older versions of GDAL."""
    if _PLAIN_CODE.fullmatch(crs.code) and crs.code != CRS84:
        return {"proj:code": crs.code, "_CRS": {"url": resolvable_crs(crs.code)}}
    found = pyproj.CRS("OGC:CRS84" if crs.code == CRS84 else crs.code)
    return {"proj:projjson": found.to_json_dict(), "_CRS": {"wkt": found.to_wkt()}}
