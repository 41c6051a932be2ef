"""Tiles of containers in exports: as they are delivered, or decoded and encoded again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from mastaba.errors import ObjectChangedError
from mastaba_coverage import StoredValues, located
from mastaba_export.clipping import WITH_ALPHA, CellClip
from mastaba_export.sources import ABSENT, ATTEMPTS, Batch, StoredTiles, Tile, text_of
from mastaba_render.api.decoding import read_located
from mastaba_writer.tile_encoder import encode_tile

if TYPE_CHECKING:
    from mastaba.api.catalogue import Pyramid
    from mastaba.api.containers import StoredTile, TileReader
    from mastaba_export.payloads import Convert
    from mastaba_export.request import ExportRequest
    from mastaba_export.selection import Area, Selection

_SIDE: Final = 16
"""Tiles along the side of a block: a unit of work."""


@dataclass(frozen=True, slots=True, eq=False)
class ContainerTiles(StoredTiles):
    """Tiles of a container; a block is a square of 16 by 16 tiles.

    Attributes:
        pyramid: of the layer.
        values: decodes tiles that are encoded again in the format of the pyramid; None for bodies.
        is_kept: whether tiles that nothing cuts are bodies also if there are values.
        cell_clip: what is outside of the area gets no data; needs values.
    """

    pyramid: Pyramid | None = None
    values: StoredValues | None = None
    is_kept: bool = True
    cell_clip: CellClip | None = None

    @classmethod
    def of(
        cls,
        request: ExportRequest,
        pyramid: Pyramid,
        reader: TileReader,
        selection: Selection,
        order: int,
        convert: Convert | None,
    ) -> ContainerTiles:
        """Return the tiles of a level for an export."""
        stored = pyramid.format
        has_own = reader.deliver is not None or reader.is_masked
        is_raw = request.format == "pyramid" or (
            request.format == "gpkg" and stored.sample == "float32"
        )
        is_kept = stored.is_picture or not (is_raw and has_own)
        needs_values = pyramid.raster is not None and (
            request.clip or not is_kept or (is_raw and reader.level.window is not None)
        )
        values = StoredValues(pyramid, reader) if needs_values else None
        return cls(
            reader, selection, order, convert, pyramid=pyramid, values=values, is_kept=is_kept
        )

    @property
    def height(self) -> int:
        return _SIDE

    @property
    def width(self) -> int:
        return _SIDE

    def clipped(self, area: Area, pyramid: Pyramid) -> ContainerTiles:
        raster = pyramid.raster
        assert raster is not None
        clip = CellClip(area, raster.nodata, has_alpha=raster.channels in WITH_ALPHA)
        return replace(self, cell_clip=clip)

    def read(self, row: int, column: int) -> Batch:
        for _ in range(ATTEMPTS - 1):
            try:
                return self._read(row, column)
            except ObjectChangedError:
                self.forget(row, column)
        return self._read(row, column)

    def version(self, row: int, column: int) -> str:
        found = self._first(row, column)
        return ABSENT if found is None else text_of(found.index)

    def current_version(self, row: int, column: int) -> str:
        self.forget(row, column)
        return self.version(row, column)

    def forget(self, row: int, column: int) -> None:
        found = self._first(row, column)
        if found is not None:
            self.reader.forget(found.slab, found.index)

    def sizes(self, row: int, column: int) -> list[int]:
        """Return the stored bytes of the selected tiles of a block; payloads have about as many."""
        found = self._located(self.places(row, column))
        return [tile.length for tile in found if tile is not None]

    def is_whole(self, row: int, column: int) -> bool:
        """Return False: there are no slabs."""
        return False

    def _read(self, row: int, column: int) -> Batch:
        places = self.places(row, column)
        found = self._located(places)
        tiles = []
        size = 0
        for place, tile, payload in zip(places, found, read_located(found), strict=True):
            if tile is not None and payload is not None:
                size += len(payload)
                tiles.append(Tile(*place, self._made(place, tile, payload)))
        first = next((tile for tile in found if tile is not None), None)
        return Batch.of(tiles, ABSENT if first is None else text_of(first.index), size)

    def _located(self, places: list[tuple[int, int]]) -> list[StoredTile | None]:
        if self.values is None:
            return self.reader.locate_all(places)
        return located(self.reader, places)

    def _first(self, row: int, column: int) -> StoredTile | None:
        """Return the first stored tile of a block."""
        found = (self.reader.locate(*place) for place in self.places(row, column))
        return next((tile for tile in found if tile is not None), None)

    def _made(self, place: tuple[int, int], tile: StoredTile, payload: bytes) -> bytes:
        assert self.pyramid is not None
        changed = self._encoded(place, payload)
        if changed is not None:
            return changed if self.convert is None else self.convert(changed)
        deliver = self.reader.deliver
        is_body = tile.is_delivered or deliver is not None
        if deliver is not None and not tile.is_delivered:
            payload = deliver(payload)
        # Bodies of rasters have the header of their format already.
        if self.convert is None or (is_body and not self.pyramid.format.is_vector):
            return payload
        return self.convert(payload)

    def _encoded(self, place: tuple[int, int], payload: bytes) -> bytes | None:
        """Return a tile in the format of the pyramid if its values are changed, otherwise None."""
        if self.values is None or self.pyramid is None:
            return None
        is_cut = self.values.is_cut(place)
        if self.is_kept and self.cell_clip is None and not is_cut:
            return None
        pixels = self.values.decode(place, payload)
        if self.cell_clip is not None:
            matrix = self.reader.level.matrix
            top, left = place[0] * matrix.tile_height, place[1] * matrix.tile_width
            found = self.cell_clip(matrix, top, left, pixels)
            is_cut = is_cut or found is not pixels
            pixels = found
        if self.is_kept and not is_cut:
            return None
        return encode_tile(self.pyramid.format.name, np.ascontiguousarray(pixels))
