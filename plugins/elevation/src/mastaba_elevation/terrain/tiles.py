"""Raster tiles: ``/{encoding}/{z}/{x}/{y}.png`` (elevation.md 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from mastaba.api.catalogue import WGS84, BoundingBox
from mastaba.api.tiles import tile_index
from mastaba.api.web import content_disposition
from mastaba.errors import (
    TileNotFoundError,
    TileOutOfRangeError,
    UnknownPathError,
    UnsupportedFormatError,
)
from mastaba_elevation.queries.ground import metres_per_unit
from mastaba_elevation.terrain.encodings import ENCODINGS, Bytes, Encoding
from mastaba_elevation.terrain.filling import REACH, with_constant, with_nearest
from mastaba_elevation.terrain.heights import Heights
from mastaba_elevation.terrain.options import requested_options
from mastaba_elevation.terrain.resource import FORMATS, Resource, caching
from mastaba_render.api.encoders import Raster
from mastaba_render.api.maps import Window, drawn_response

if TYPE_CHECKING:
    from mastaba.api.catalogue import CRS
    from mastaba.api.web import Request, Response
    from mastaba_elevation.queries.datasets import Dataset
    from mastaba_elevation.terrain.coverage import Zoom
    from mastaba_elevation.terrain.settings import Options
    from mastaba_render.api.encoders import Encoder

DOUBLE: Final = "@2x"
_LOSSLESS: Final = {"lossless": "true"}
_PER_PIXEL: Final = 32
"""Bytes of the float64, the number and the colours of a pixel."""

# The formats contain no location.
_NOWHERE: Final = BoundingBox(0.0, 0.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class _TileAddress:
    """A tile as named in a path."""

    tile_matrix_set: str | None
    z: str
    row: int
    column: int
    doubled: bool
    media_type: str


class Tiles(Resource):
    """Heights as colours."""

    operation: ClassVar[str] = "tile"

    def respond(self, request: Request, dataset: Dataset, path: list[str]) -> Response:
        place = self._place(path)
        options = requested_options(request.query, self.context.settings.options)
        coverage = self.context.coverage(dataset, place.tile_matrix_set)
        zoom = coverage.zoom(place.z, doubled=place.doubled)
        size = 2 if place.doubled else 1
        row, column = place.row * size, place.column * size
        if not zoom.contains(row, column, size):
            raise TileOutOfRangeError("there is no such tile in this dataset", ["row", "col"])
        crs, matrix = coverage.tile_matrix_set.crs, zoom.matrix
        window = Window(
            row * matrix.tile_height,
            (row + size) * matrix.tile_height,
            column * matrix.tile_width,
            (column + size) * matrix.tile_width,
        )
        tile = _Tile(self, dataset, crs, zoom, window, options, ENCODINGS[path[0]])
        return tile.respond(request, place.media_type)

    def _place(self, path: Sequence[str]) -> _TileAddress:
        """Return the tile that a path names.

        Raises:
            RequestError: a part of the path is invalid.
        """
        if len(path) not in (4, 5):
            raise UnknownPathError
        *above, z, column, file_name = path[1:]
        row, _, extension = file_name.rpartition(".")
        if extension not in self.context.formats:
            offered = ", ".join(self.context.formats)
            raise UnsupportedFormatError(f"the extension is not one of {offered}", "extension")
        doubled = row.endswith(DOUBLE)
        row = row.removesuffix(DOUBLE)
        return _TileAddress(
            above[0] if above else None,
            z,
            tile_index(row, "row"),
            tile_index(column, "column"),
            doubled,
            FORMATS[extension],
        )


class _Tile:
    """One tile, before it is drawn."""

    def __init__(
        self,
        resource: Resource,
        dataset: Dataset,
        crs: CRS,
        zoom: Zoom,
        window: Window,
        options: Options,
        encoding: Encoding,
    ) -> None:
        site, most = resource.context.site, resource.context.settings.tiles
        self._site, self._dataset, self._crs, self._matrix = site, dataset, crs, zoom.matrix
        self._options, self._encoding, self._window = options, encoding, window
        self._heights = Heights(site, dataset, crs, zoom, window, most)
        self._wider: Heights | None = None
        if options.fill == "edge":
            wider = Window(
                window.top - REACH,
                window.bottom + REACH,
                window.left - REACH,
                window.right + REACH,
            )
            self._wider = Heights(site, dataset, crs, zoom, wider, most)
        self._shift = (
            encoding.shift(_ground(dataset, crs, zoom)) if options.precision == "auto" else 0
        )

    def respond(self, request: Request, media_type: str) -> Response:
        """Return the tile, or 304.

        Raises:
            TileNotFoundError: there is no height in the tile, and that is an error.
            OverloadedError, SlabFormatError, StorageError: as in `drawn_response`.
        """
        shown = self._wider or self._heights
        height, width = self._window.shape
        dataset, options = self._dataset, self._options
        encoder = self._site.encoders[media_type]
        identity = (
            (dataset.id, dataset.valid_range, dataset.nodata_height, options.fill),
            [item.layer for item in dataset.layers],
            (self._encoding.name, self._shift, media_type, self._crs.code, self._matrix),
            self._window,
        )
        return drawn_response(
            request,
            self._site.renderer.admission,
            [shown],
            identity,
            shown.memory + height * width * _PER_PIXEL,
            lambda: self._encoded(encoder),
            always=caching(dataset),
            content=[
                ("Content-Type", media_type),
                ("Content-Disposition", content_disposition(media_type, None, encoder.extension)),
            ],
        )

    def _encoded(self, encoder: Encoder) -> bytes:
        values, valid = self._heights.draw()
        constant = self._dataset.nodata_height
        is_empty = valid is not None and not valid.any()
        if is_empty and self._options.missing == 404:
            raise TileNotFoundError("there is no height in this tile")
        if valid is not None and self._wider is not None:
            values, valid = self._wider.draw()
            inner = np.s_[REACH:-REACH, REACH:-REACH]
            if valid is None:
                heights = values[inner].astype(np.float64)
            else:
                heights = with_nearest(values, valid, constant)
        elif is_empty:
            return _constant(encoder, self._encoding, self._shift, constant, self._window.shape)
        else:
            heights = with_constant(values, valid, constant)
        return _written(encoder, self._encoding.colours(heights, self._shift))


def _written(encoder: Encoder, colours: Bytes) -> bytes:
    return encoder.encode(Raster(colours, _NOWHERE, WGS84), _LOSSLESS)


@lru_cache(maxsize=16)
def _constant(
    encoder: Encoder, encoding: Encoding, shift: int, height: float, shape: tuple[int, int]
) -> bytes:
    """Return a tile of one height; its place does not change it."""
    colours = encoding.colours(np.full(shape, height), shift)
    return _written(encoder, colours)


def _ground(dataset: Dataset, crs: CRS, zoom: Zoom) -> float:
    """Return the size of a pixel on the ground at the middle latitude of a dataset, metres."""
    box = dataset.box
    return zoom.matrix.cell_size * float(metres_per_unit(crs, (box.ymin + box.ymax) / 2))
