"""The bytes of a TIFF file: head first, then tiles, in the order of a COG.

All directories precede the tiles, which lie from the coarsest image to the finest, row by row. Each
tile is between its size and a repetition of its last four bytes, as GDAL writes them. Strips are
tiles as wide as the image.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from mastaba.api.web import LARGEST_PIECE
from mastaba.errors import SlabFormatError
from mastaba_coverage.sources import TileSource
from mastaba_render.api.geotiff import Field, image_directory

LARGEST_CLASSIC: Final = 4_000_000_000
"""Bytes; a larger file is a BigTIFF."""

_TILE_PLACES: Final = 324, 325
_STRIP_PLACES: Final = 273, 279
_BIG: Final = 43
"""Third byte of a BigTIFF."""
_LEADER: Final = 4
_TRAILER: Final = 4
_PIECE: Final = 512 * 1024
"""Bytes; small tiles are sent together."""

_METADATA: Final = (
    b"LAYOUT=IFDS_BEFORE_DATA\nBLOCK_ORDER=ROW_MAJOR\nBLOCK_LEADER=SIZE_AS_UINT4\n"
    b"BLOCK_TRAILER=LAST_4_BYTES_REPEATED\nKNOWN_INCOMPATIBLE_EDITION=NO\n "
)
# The blank at the end leaves room for YES.
_GHOST: Final = b"GDAL_STRUCTURAL_METADATA_SIZE=%06d bytes\n" % len(_METADATA) + _METADATA


@dataclass(frozen=True, slots=True, eq=False)
class TiffImage:
    """One image of the file.

    Attributes:
        fields: its tags, without the places of its tiles.
        source: its tiles.
        is_tiled: whether they are tiles; strips otherwise.
    """

    fields: Sequence[Field]
    source: TileSource
    is_tiled: bool = True


@dataclass(slots=True, eq=False)
class _Tiles:
    """The tiles of one image in the file, and where each begins; int64."""

    source: TileSource
    starts: npt.NDArray[np.int64] = field(init=False)
    ends: npt.NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        sizes = self.source.sizes
        lengths = np.where(sizes > 0, sizes + _LEADER + _TRAILER, 0)
        self.ends = np.cumsum(lengths)
        self.starts = self.ends - lengths

    @property
    def length(self) -> int:
        return int(self.ends[-1])

    def move(self, position: int) -> None:
        self.starts += position
        self.ends += position

    def offsets(self) -> npt.NDArray[np.int64]:
        return np.where(self.source.sizes > 0, self.starts + _LEADER, 0)


class TiffLayout:
    """Where everything is in a file, known before any tile is read.

    Args:
        images: full resolution first, then overviews from fine to coarse.
        head: the bytes before the first tile, if they have been kept; otherwise they are made.
        is_big: whether the file is a BigTIFF; None for one that is too large for others.

    Attributes:
        head: all bytes before the first tile.
        size: bytes of the file.
        is_big: whether it is a BigTIFF.
    """

    def __init__(
        self,
        images: Sequence[TiffImage],
        head: memoryview | None = None,
        *,
        is_big: bool | None = None,
    ) -> None:
        self.head: bytes | memoryview
        tiles = [_Tiles(image.source) for image in images]
        self._tiles = tiles[::-1]
        if head is not None:
            self.head, self.is_big = head, head[2] == _BIG
            self.size = self._place(len(head))
        else:
            self._make_head(images, tiles, is_big)

    def _place(self, position: int) -> int:
        """Place the tiles from a position on; return the size of the file."""
        for one in self._tiles:
            length = one.length
            one.move(position)
            position += length
        return position

    def _make_head(
        self, images: Sequence[TiffImage], tiles: Sequence[_Tiles], is_big: bool | None
    ) -> None:
        data = sum(one.length for one in tiles)
        # The head is short beside what the limit leaves.
        head = len(_head(images, [_no_offsets(one) for one in tiles], is_big=False))
        self.is_big = head + data > LARGEST_CLASSIC if is_big is None else is_big
        if self.is_big:
            head = len(_head(images, [_no_offsets(one) for one in tiles], is_big=True))
        self.size = self._place(head)
        self.head = _head(images, [one.offsets() for one in tiles], is_big=self.is_big)

    def pieces(self, start: int, end: int) -> Iterator[bytes]:
        """Yield bytes of the file in pieces of at most `LARGEST_PIECE`.

        Only tiles that the range touches are read.

        Raises:
            ObjectChangedError, SlabFormatError, StorageError: as `TileSource.tiles`.
        """
        waiting: list[bytes | memoryview] = []
        size = 0
        for part in self._parts(start, end):
            for first in range(0, len(part), LARGEST_PIECE):
                data = part
                if len(part) > LARGEST_PIECE:
                    data = memoryview(part)[first : first + LARGEST_PIECE]
                if waiting and (size >= _PIECE or size + len(data) > LARGEST_PIECE):
                    yield b"".join(waiting)
                    waiting, size = [], 0
                waiting.append(data)
                size += len(data)
        if waiting:
            yield b"".join(waiting)

    def _parts(self, start: int, end: int) -> Iterator[bytes | memoryview]:
        """Yield the bytes of a range as they are found: they are copied once, into a piece."""
        if start < len(self.head):
            yield memoryview(self.head)[start:end]
        for tiles in self._tiles:
            first = int(np.searchsorted(tiles.ends, start, side="right"))
            stop = int(np.searchsorted(tiles.starts, end, side="left"))
            if first >= stop:
                continue
            places = tiles.starts[first:stop].tolist(), tiles.source.sizes[first:stop].tolist()
            for begin, size, data in zip(*places, tiles.source.tiles(first, stop), strict=True):
                if len(data) != size:
                    raise SlabFormatError("a tile has not the size that its index says")
                if not data:
                    continue
                if start <= begin and begin + size + _LEADER + _TRAILER <= end:
                    yield from _framed(data)
                else:
                    yield memoryview(framed(data))[max(0, start - begin) : end - begin]


def framed(data: bytes) -> bytes:
    """Return a tile between its size and the repetition of its last bytes."""
    return b"".join(_framed(data))


def _framed(data: bytes) -> tuple[bytes, bytes, bytes]:
    return struct.pack("<I", len(data)), data, data[-_TRAILER:]


def _no_offsets(tiles: _Tiles) -> npt.NDArray[np.int64]:
    return np.zeros(len(tiles.starts), np.int64)


def _head(
    images: Sequence[TiffImage], offsets: Sequence[npt.NDArray[np.int64]], *, is_big: bool
) -> bytes:
    header = 16 if is_big else 8
    # What it promises is about tiles.
    ghost = _GHOST if images[0].is_tiled else b""
    first = header + len(ghost)
    first += first % 2
    if is_big:
        parts = [struct.pack("<2sHHHQ", b"II", _BIG, 8, 0, first), ghost]
    else:
        parts = [struct.pack("<2sHI", b"II", 42, first), ghost]
    parts.append(bytes(first - header - len(ghost)))
    position = first
    for number, (image, places) in enumerate(zip(images, offsets, strict=True)):
        last = number == len(images) - 1
        found = _directory(image, places, position, is_big=is_big, is_last=last)
        parts.append(found)
        position += len(found)
    return b"".join(parts)


def _directory(
    image: TiffImage,
    places: npt.NDArray[np.int64],
    position: int,
    *,
    is_big: bool,
    is_last: bool,
) -> bytes:
    """Return a directory and its values, the places of its tiles last."""
    kind = "Q" if is_big else "I"
    tags = _TILE_PLACES if image.is_tiled else _STRIP_PLACES
    tiles = places.astype(f"<u{8 if is_big else 4}"), image.source.sizes.astype("<u4")
    fields = [
        *image.fields,
        Field(tags[0], kind, tiles[0].tobytes()),
        Field(tags[1], "I", tiles[1].tobytes()),
    ]
    return image_directory(fields, position, is_big=is_big, is_last=is_last, places=tags)
