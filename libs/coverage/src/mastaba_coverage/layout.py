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
_INTERLEAVED: Final = b"MASK_INTERLEAVED_WITH_IMAGERY=YES\n"


@dataclass(frozen=True, slots=True, eq=False)
class TiffImage:
    """One image of the file.

    Attributes:
        fields: its tags, without the places of its tiles.
        source: its tiles.
        is_tiled: whether they are tiles; strips otherwise.
        mask: image that says which of its pixels have data, with tiles of the same shape; each of
            them lies directly behind that of the image. All images of a file have one, or none.
    """

    fields: Sequence[Field]
    source: TileSource
    is_tiled: bool = True
    mask: TiffImage | None = None


@dataclass(slots=True, eq=False)
class _Tiles:
    """The tiles of one image in the file, each with that of its mask, and where they begin; int64.

    Attributes:
        middles: where the tiles of the mask begin.
    """

    source: TileSource
    mask: TileSource | None = None
    starts: npt.NDArray[np.int64] = field(init=False)
    middles: npt.NDArray[np.int64] = field(init=False)
    ends: npt.NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        lengths = _lengths(self.source)
        behind = np.zeros_like(lengths) if self.mask is None else _lengths(self.mask)
        self.ends = np.cumsum(lengths + behind)
        self.middles = self.ends - behind
        self.starts = self.middles - lengths

    @property
    def length(self) -> int:
        return int(self.ends[-1])

    def move(self, position: int) -> None:
        self.starts += position
        self.middles += position
        self.ends += position

    def offsets(self) -> list[npt.NDArray[np.int64]]:
        """Return the places of the tiles of the image, and of those of its mask."""
        found = [(self.source, self.starts), *([(self.mask, self.middles)] if self.mask else ())]
        return [np.where(source.sizes > 0, at + _LEADER, 0) for source, at in found]

    def read(self, first: int, stop: int) -> Iterator[tuple[int, int, bytes]]:
        """Yield tiles in the order of the file: where each begins, its size and its bytes."""
        part = slice(first, stop)
        found = [zip(self.starts[part].tolist(), *_sized(self.source, first, stop), strict=True)]
        if self.mask is not None:
            places = self.middles[part].tolist()
            found.append(zip(places, *_sized(self.mask, first, stop), strict=True))
        for tiles in zip(*found, strict=True):
            yield from tiles


def _lengths(source: TileSource) -> npt.NDArray[np.int64]:
    """Return the bytes of tiles between their sizes and repetitions."""
    return np.where(source.sizes > 0, source.sizes + _LEADER + _TRAILER, 0)


def _sized(source: TileSource, first: int, stop: int) -> tuple[list[int], Iterator[bytes]]:
    return source.sizes[first:stop].tolist(), source.tiles(first, stop)


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
        tiles = [
            _Tiles(image.source, None if image.mask is None else image.mask.source)
            for image in images
        ]
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
        head = len(_head(images, [one.offsets() for one in tiles], is_big=False))
        self.is_big = head + data > LARGEST_CLASSIC if is_big is None else is_big
        if self.is_big:
            head = len(_head(images, [one.offsets() for one in tiles], is_big=True))
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
            for begin, size, data in tiles.read(first, stop):
                if len(data) != size:
                    raise SlabFormatError("a tile has not the size that its index says")
                # Of a tile and its mask, only one may be in the range.
                if not data or begin >= end or begin + size + _LEADER + _TRAILER <= start:
                    continue
                if start <= begin and begin + size + _LEADER + _TRAILER <= end:
                    yield from _framed(data)
                else:
                    yield memoryview(framed(data))[max(0, start - begin) : end - begin]


def framed(data: bytes) -> bytes:
    """Return a tile between its size and the repetition of its last bytes."""
    return b"".join(_framed(data))


def _framed(data: bytes) -> tuple[bytes, bytes, bytes]:
    # A strip may be shorter.
    return struct.pack("<I", len(data)), data, data[-_TRAILER:].rjust(_TRAILER, b"\0")


def _ghost(image: TiffImage) -> bytes:
    """Return what GDAL reads of the structure of a file; nothing for strips: it is about tiles."""
    if not image.is_tiled:
        return b""
    metadata = _METADATA + (_INTERLEAVED if image.mask else b"")
    return b"GDAL_STRUCTURAL_METADATA_SIZE=%06d bytes\n" % len(metadata) + metadata


def _head(
    images: Sequence[TiffImage], offsets: Sequence[list[npt.NDArray[np.int64]]], *, is_big: bool
) -> bytes:
    header = 16 if is_big else 8
    ghost = _ghost(images[0])
    first = header + len(ghost)
    first += first % 2
    if is_big:
        parts = [struct.pack("<2sHHHQ", b"II", _BIG, 8, 0, first), ghost]
    else:
        parts = [struct.pack("<2sHI", b"II", 42, first), ghost]
    parts.append(bytes(first - header - len(ghost)))
    position = first
    of_images = [(image, found[0]) for image, found in zip(images, offsets, strict=True)]
    of_masks = [
        (image.mask, found[1]) for image, found in zip(images, offsets, strict=True) if image.mask
    ]
    # As GDAL orders them: the full resolution and its mask, overviews, and their masks.
    ordered = of_images[:1] + of_masks[:1] + of_images[1:] + of_masks[1:]
    for number, (image, places) in enumerate(ordered):
        last = number == len(ordered) - 1
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
