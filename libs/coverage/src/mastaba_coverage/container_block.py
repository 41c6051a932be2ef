"""A block of tiles of a container: found tile by tile, because it has no slabs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mastaba.api.web import check_wanted
from mastaba_coverage.block import (
    SlabRange,
    TileBlock,
    TileIndices,
    changed,
    digest_of,
    places_in,
    text_of,
)
from mastaba_coverage.stored_values import located
from mastaba_render.api.decoding import read_located

if TYPE_CHECKING:
    from mastaba.api.catalogue import TileLimits
    from mastaba.api.containers import BlockKey, TileIndex, TileReader

_SIDE: Final = 16
"""Tiles along the side of what counts as a slab."""


class ContainerBlock(TileBlock):
    """The stored tiles of a container in a range of rows and columns.

    Its `sizes` only say which tiles are stored: payloads may have other lengths.
    """

    def __init__(self, reader: TileReader, tiles: TileLimits, around: int) -> None:
        super().__init__(reader, tiles, around)
        self._versions: dict[str, tuple[BlockKey, TileIndex]] = {}

    @staticmethod
    def shape_of(reader: TileReader) -> tuple[int, int]:
        return _SIDE, _SIDE

    def read(self, places: Sequence[TileIndices]) -> list[bytes]:
        """Return the stored payloads of tiles; see `TileBlock.read`.

        Of a masked reader, they contain what is outside of the area too.
        """
        around = self._around
        found = located(
            self._reader, [(row, col - around if 0 < around <= col else col) for row, col in places]
        )
        payloads: list[bytes] = []
        for tile, payload in zip(found, read_located(found), strict=True):
            if tile is None or payload is None or text_of(tile.index) not in self._versions:
                name = self._reader.level.matrix.id if tile is None else tile.index.name
                raise changed(name, "" if tile is None else tile.index.key)
            payloads.append(payload)
        return payloads

    def forget(self) -> None:
        for slab, index in self._versions.values():
            self._reader.forget(slab, index)

    def _look_up(self, part: SlabRange) -> None:
        slabs = [(row, col) for row in part.rows for col in part.columns]
        for number, (row, col) in enumerate(slabs, part.first):
            check_wanted()
            self._add(self._limits_in(part, row, col), part.shift, number)

    def _add(self, limits: TileLimits, shift: int, number: int) -> None:
        sizes, versions = [], set()
        for tile in located(self._reader, list(places_in(limits))):
            sizes.append(0 if tile is None else max(tile.length, 1))
            if tile is None or text_of(tile.index) in versions:
                continue
            index = tile.index
            versions.add(text_of(index))
            self._versions[text_of(index)] = tile.slab, index
            self.has_versions = self.has_versions and index.version is not None
            self._note_time(index.modified)
        self.digests[number] = digest_of("\n".join(sorted(versions)))
        self._set_sizes(limits, shift, sizes)
