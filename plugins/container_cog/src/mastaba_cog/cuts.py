"""Tiles cut from an overview whose own tiles have other corners than those of the set.

Of a file whose full image fits a set, overviews often do not: their first tile begins within a tile
of the set. Each tile of the set is then made of at most four tiles of the overview.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

import numpy as np

from mastaba.api.containers import (
    BlockKey,
    IndexCache,
    Level,
    StoredTile,
    TileIndex,
    TileLimits,
    TileMatrix,
)
from mastaba.api.storages import Storage
from mastaba_cog.conversion import TileConverter, framed, unframed
from mastaba_cog.images import Image
from mastaba_cog.index import CogIndex
from mastaba_cog.reader import CogReader, CogTile, File, Grid
from mastaba_server.threads.per_process import ThreadPool

_PLACE: Final = 0.01
"""Pixels by which an origin may differ from whole pixels."""
_DRIFT: Final = 0.1
"""Pixels by which an edge may differ because cells have other sizes."""
_READS: Final = ThreadPool(16, "cog-cut")
"""The threads that read the parts of one tile in parallel."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Where an overview is in a matrix.

    Attributes:
        matrix: of the published set.
        right, down: pixels from the corner of the matrix to that of the overview.
    """

    matrix: TileMatrix
    right: int
    down: int

    def limits(self, image: Image) -> TileLimits:
        """Return the tiles that meet the overview."""
        width, height = self.matrix.tile_width, self.matrix.tile_height
        return TileLimits(
            self.down // height,
            (self.down + image.height - 1) // height,
            self.right // width,
            (self.right + image.width - 1) // width,
        )


def cut_of(matrices: Iterable[TileMatrix], own: TileMatrix, image: Image) -> Cut | None:
    """Return where an overview is in the matrices of a set; None if in none, or between pixels.

    Args:
        own: the grid of the overview.
    """
    for matrix in matrices:
        if (matrix.tile_width, matrix.tile_height) != (own.tile_width, own.tile_height):
            continue
        cell = matrix.cell_size
        if abs(own.cell_size - cell) * max(image.width, image.height) > _DRIFT * cell:
            continue
        right = (own.origin_x - matrix.origin_x) / cell
        down = (matrix.origin_y - own.origin_y) / cell
        found = Cut(matrix, round(right), round(down))
        is_aligned = abs(right - found.right) <= _PLACE and abs(down - found.down) <= _PLACE
        limits = found.limits(image)
        if is_aligned and limits.intersection(matrix.all_tiles) == limits:
            return found
    return None


class CutTile(StoredTile):
    """A tile made of the tiles of an overview that it meets."""

    is_addressable: ClassVar[bool] = False
    __slots__ = ()
    reader: CutReader
    index: CogIndex

    @property
    def version(self) -> str | None:
        version = self.index.version
        return None if version is None else f"{version}-{self.reader.image:x}-{self.number:x}"

    @property
    def identity(self) -> Any:
        return self.index.identity, "cut", self.reader.image, self.number

    def move_to(self, index: TileIndex) -> bool:
        assert isinstance(index, CogIndex)
        self.index = index
        return any(self.reader.parts(index, self.number))

    def _read(self) -> bytes:
        parts = self.reader.parts(self.index, self.number)
        stored = [part for part in parts if part is not None]
        read = _READS.map if self.index.storage.is_remote else map
        data = iter(read(self.reader.part_class._read, stored))
        return framed([b"" if part is None else next(data) for part in parts], 0, 0)


class CutReader(CogReader):
    """Finds and reads the tiles of a matrix that an overview has with other corners.

    Args:
        cut: where the overview is.
        part_class: class of the tiles of the overview.

    Attributes:
        image: number of the overview.
        part_class: as given.
    """

    tile_class = CutTile

    def __init__(
        self,
        level: Level,
        storage: Storage,
        indices: IndexCache,
        *,
        file: File,
        grid: Grid,
        cut: Cut,
        part_class: type[CogTile] = CogTile,
    ) -> None:
        super().__init__(level, storage, indices, file=file, grid=grid)
        self.image = grid.image
        self._cut = cut
        self.part_class = part_class

    def moved(self, storage: Storage, indices: IndexCache) -> Self:
        found = type(self)(
            *(self.level, storage, indices),
            file=self._file,
            grid=self._grid,
            cut=self._cut,
            part_class=self.part_class,
        )
        found.deliver, found.decoder = self.deliver, self.decoder
        found.etag_suffix = self.etag_suffix
        return found

    def place_of(self, tile_row: int, tile_col: int) -> tuple[BlockKey, int]:
        return self._block, tile_row * self._cut.matrix.matrix_width + tile_col

    def locate(self, tile_row: int, tile_col: int) -> StoredTile | None:
        return self.locate_all([(tile_row, tile_col)])[0]

    def known(self, tile_row: int, tile_col: int) -> StoredTile | None:
        block, number = self.place_of(tile_row, tile_col)
        index = self._indices.peek(block)
        if not isinstance(index, CogIndex):
            return None
        needed = (part for part in self._numbers(number) if part is not None)
        if not all(map(index.is_known, needed)):
            return None
        return self.stored_tile(block, index, number)

    def stored_tile(self, slab: BlockKey, index: TileIndex, number: int) -> StoredTile | None:
        assert isinstance(index, CogIndex)
        tile = CutTile(self, slab, index, number, (0, 0))
        return tile if any(self.parts(index, number)) else None

    def locate_all(self, tiles: Sequence[tuple[int, int]]) -> list[StoredTile | None]:
        return self._in_one_version(lambda: self._located(tiles))

    def _located(self, tiles: Sequence[tuple[int, int]]) -> list[StoredTile | None]:
        index = self._indices.peek(self._block) or self.index(self._block)
        assert index is not None
        numbers = [self.place_of(*tile)[1] for tile in tiles]
        # The places of all parts are read together.
        index.tiles({part for one in numbers for part in self._numbers(one) if part is not None})
        return [self.stored_tile(self._block, index, number) for number in numbers]

    def parts(self, index: CogIndex, number: int) -> list[CogTile | None]:
        """Return the tiles of the overview that a tile consists of, in the order of `_numbers`.

        Raises:
            SlabFormatError, StorageError: as `CogIndex.tile`.
        """
        found: list[CogTile | None] = []
        for part in self._numbers(number):
            place = None if part is None else index.tile(part)
            if part is None or place is None:
                found.append(None)
            else:
                found.append(self.part_class(self, self._block, index, part, place))
        return found

    def _numbers(self, number: int) -> Iterator[int | None]:
        """Yield the numbers of the tiles that a tile meets, row by row; None outside the image."""
        image, cut = self._image, self._cut
        row, col = divmod(number, cut.matrix.matrix_width)
        top = (row * image.tile_height - cut.down) // image.tile_height
        left = (col * image.tile_width - cut.right) // image.tile_width
        for down in (top, top + 1):
            for right in (left, left + 1):
                inside = 0 <= down < image.down and 0 <= right < image.across
                yield self._grid.first + down * image.across + right if inside else None


class CutDecoder:
    """Decodes the parts of a tile, and puts them together.

    Args:
        converter: of the tiles of the overview.
        fill: value of each channel where there is no part.
    """

    def __init__(self, image: Image, cut: Cut, converter: TileConverter, fill: float) -> None:
        self._converter = converter
        self._shape = image.tile_height, image.tile_width, converter.channels
        self._dtype = np.float32 if converter.is_float else np.uint8
        self._fill = fill
        self._down, self._right = -cut.down % image.tile_height, -cut.right % image.tile_width
        self.nbytes = converter.nbytes

    def decode(self, payload: bytes) -> Any:
        """Return pixels as `TileConverter.decode`. Raises `SlabFormatError`."""
        height, width, _ = self._shape
        found = np.full(self._shape, self._fill, self._dtype)
        parts, _, _ = unframed(payload)
        for number, part in enumerate(parts):
            if not part:
                continue
            top, left = number // 2 * height - self._down, number % 2 * width - self._right
            pixels = self._converter.decode(part)
            found[max(0, top) : top + height, max(0, left) : left + width] = pixels[
                max(0, -top) : height - max(0, top), max(0, -left) : width - max(0, left)
            ]
        found.flags.writeable = False
        return found
