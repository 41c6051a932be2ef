"""Where the tiles of a file are, found piece by piece: large arrays are never read whole."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterable
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from mastaba.api.containers import TileIndex
from mastaba.api.storages import ByteRange, Storage
from mastaba.errors import SlabFormatError
from mastaba_cog.images import LARGEST_TILE, Found, GeoTiff, Image, Places, TileArray

Part = tuple[int, int]
"""Offset and size of stored bytes."""
Numbers = npt.NDArray[np.uint64]

_AT_ONCE: Final = 64 * 1024
"""Bytes of an array that is read whole."""
_CHUNK: Final = 512
"""Values read at a time of larger arrays."""
_TOGETHER: Final = 512 * 1024
"""Bytes of a read of both arrays."""
_MOST_CHUNKS: Final = 64
_CHUNK_BYTES: Final = _CHUNK * 16
_LEADER: Final = 4


class CogIndex(TileIndex):
    """The places of the tiles of all images in one version of a file.

    Tiles are numbered through all images, finest first, row by row.

    Args:
        geotiff: its images.
        found: what is known of this version.
        options: digest of everything that pixels depend on, beside the file.
    """

    word: ClassVar[str] = "file"
    __slots__ = ("_chunks", "_firsts", "_found", "_geotiff", "_lock", "_nbytes")

    def __init__(
        self,
        geotiff: GeoTiff,
        found: Found,
        storage: Storage,
        key: str,
        version: str | None,
        modified: float | None,
        options: str,
    ) -> None:
        super().__init__(storage, key, version, modified)
        # Other options make other pixels of the same bytes.
        self.identity = storage.full_name, f"{key}#{options}", version
        self._geotiff = geotiff
        self._found = found
        self._firsts = first_numbers(geotiff)
        self._chunks: dict[tuple[int, bool, int], tuple[Numbers, Numbers | None]] = {}
        self._lock = threading.Lock()
        self._nbytes = found.head.data.nbytes + _MOST_CHUNKS * _CHUNK_BYTES

    @property
    def nbytes(self) -> int:
        return self._nbytes

    def tile(self, number: int) -> Part | None:
        """Return the range around all parts of a tile, or None if it is not stored."""
        image, place = self.place(number)
        if self._has_sizes_in_data(image):
            return self._led(image, place)
        parts = self.parts(number)
        if parts is None:
            return None
        stored = [part for part in parts if part is not None]
        start = min(offset for offset, _ in stored)
        end = max(map(sum, stored))
        if len(stored) == 1 or self._geotiff.is_interleaved:
            return self._checked(image, place, start, end - start)
        return stored[0]

    def is_known(self, number: int) -> bool:
        """Return whether `tile` needs no read."""
        image, place = self.place(number)
        return all(
            self._peek(image, is_mask, tile) is not None
            for is_mask, tile in self._needed(image, place)
        )

    def parts(self, number: int) -> list[Part | None] | None:
        """Return the places of the bands of a tile and of its mask; None if it is not stored.

        Raises:
            SlabFormatError: a place is invalid.
            StorageError: a part of the arrays cannot be read.
        """
        image, place = self.place(number)
        found = [
            self._entry(image, tile, is_mask=is_mask)
            for is_mask, tile in self._needed(image, place)
        ]
        planes = self._geotiff.images[image].planes
        return None if all(part is None for part in found[:planes]) else found

    def split(self, number: int, data: bytes) -> list[bytes]:
        """Return the parts of a tile from the range that `tile` returned; empty if absent.

        Raises:
            SlabFormatError: the range does not contain what the writer promises.
        """
        image, _ = self.place(number)
        if self._has_sizes_in_data(image):
            (size,) = struct.unpack_from("<I", data)
            payload = data[_LEADER : _LEADER + size]
            # An edited file has other bytes here.
            if len(payload) != size or data[_LEADER + size :][:4] != payload[-4:]:
                raise SlabFormatError(f"{self.name}: tile {number} has not the size before it")
            return [payload]
        parts = self.parts(number)
        assert parts is not None
        start = min(part[0] for part in parts if part is not None)
        return [
            b"" if part is None else data[part[0] - start : sum(part) - start] for part in parts
        ]

    def place(self, number: int) -> tuple[int, int]:
        """Return the image of a tile, and its number there."""
        image = max(place for place, first in enumerate(self._firsts) if first <= number)
        return image, number - self._firsts[image]

    def tables(self, image: int) -> bytes:
        """Return the tables that all JPEG tiles of an image share."""
        return self._found.places[image].tables

    def _needed(self, image: int, place: int) -> list[tuple[bool, int]]:
        shape = self._geotiff.images[image]
        needed = [(False, place + plane * shape.tile_count) for plane in range(shape.planes)]
        if self._geotiff.masks[image] is not None:
            needed.append((True, place))
        return needed

    def _has_sizes_in_data(self, image: int) -> bool:
        """Return whether the sizes of the tiles of an image are read from the tiles."""
        shape, places = self._geotiff.images[image], self._found.places[image]
        return (
            self._found.has_leaders
            and not shape.is_planar
            and self._geotiff.masks[image] is None
            and places.offsets.count * places.offsets.size > _TOGETHER
        )

    def _led(self, image: int, place: int) -> Part | None:
        """Return the range from the size in front of a tile to the tile that follows."""
        offsets, _ = self._chunk(image, place, is_mask=False)
        inside = place % _CHUNK
        offset = int(offsets[inside])
        if not offset:
            return None
        following = next((int(other) for other in offsets[inside + 1 :] if other), 0)
        start = offset - _LEADER
        length = following - _LEADER - start
        if not 0 < length <= LARGEST_TILE:
            sizes = self._found.places[image].sizes
            (size,) = self._read([_values(sizes, place, 1)])
            length = int.from_bytes(size, "little" if self._geotiff.order == "<" else "big")
            length = self._checked(image, place, offset, length)[1] + 2 * _LEADER
        self._checked(image, place, offset, length)
        return start, length

    def _entry(self, image: int, place: int, *, is_mask: bool) -> Part | None:
        offsets, sizes = self._chunk(image, place, is_mask=is_mask)
        assert sizes is not None
        inside = place % self._values_of(image, is_mask=is_mask)
        offset, size = int(offsets[inside]), int(sizes[inside])
        return self._checked(image, place, offset, size) if offset and size else None

    def _checked(self, image: int, place: int, offset: int, size: int) -> Part:
        if offset < 8 or size > LARGEST_TILE or offset + size >= 2**63:
            raise SlabFormatError(
                f"{self.name}: tile {place} of image {image} has offset {offset} and size {size}"
            )
        return offset, size

    def _array(self, image: int, *, is_mask: bool) -> Places:
        places = (self._found.mask_places if is_mask else self._found.places)[image]
        assert places is not None
        return places

    def _values_of(self, image: int, *, is_mask: bool) -> int:
        """Return how many values are read at a time."""
        offsets = self._array(image, is_mask=is_mask).offsets
        return max(1, offsets.count) if offsets.count * offsets.size <= _AT_ONCE else _CHUNK

    def _peek(self, image: int, is_mask: bool, place: int) -> tuple[Numbers, Numbers | None] | None:
        chunk = place // self._values_of(image, is_mask=is_mask)
        return self._chunks.get((image, is_mask, chunk))

    def _chunk(self, image: int, place: int, *, is_mask: bool) -> tuple[Numbers, Numbers | None]:
        found = self._peek(image, is_mask, place)
        if found is not None:
            return found
        places = self._array(image, is_mask=is_mask)
        values = self._values_of(image, is_mask=is_mask)
        chunk = place // values
        if not is_mask and self._has_sizes_in_data(image):
            # With the first one of the next chunk, which bounds the last tile.
            (data,) = self._read([_values(places.offsets, chunk * values, values + 1)])
            found = self._numbers(data, places.offsets), None
        else:
            offsets, sizes = self._read(
                [_values(array, chunk * values, values) for array in (places.offsets, places.sizes)]
            )
            found = self._numbers(offsets, places.offsets), self._numbers(sizes, places.sizes)
        with self._lock:
            while len(self._chunks) >= _MOST_CHUNKS:
                del self._chunks[next(iter(self._chunks))]
            self._chunks[image, is_mask, chunk] = found
        return found

    def _numbers(self, data: bytes, array: TileArray) -> Numbers:
        return np.frombuffer(data, f"{self._geotiff.order}u{array.size}").astype(np.uint64)

    def _read(self, places: Iterable[Part]) -> list[bytes]:
        """Return parts of arrays: from the head, or with one read if they are close."""
        places = list(places)
        known = [self._found.head.data.known(*place) for place in places]
        if None not in known:
            return [data for data in known if data is not None]
        start, end = min(offset for offset, _ in places), max(map(sum, places))
        if end - start <= _TOGETHER:
            data = self.storage.read(self.key, ByteRange(start, end - start), self.version).data
            parts = [data[offset - start : offset - start + size] for offset, size in places]
        else:
            ranges = [ByteRange(*place) for place in places]
            read = self.storage.read_ranges(self.key, ranges, self.version)
            parts = [one.data for one in read]
        if any(len(part) != size for part, (_, size) in zip(parts, places, strict=True)):
            raise SlabFormatError(f"{self.name} ends before the places of its tiles")
        return parts


def first_numbers(geotiff: GeoTiff) -> list[int]:
    """Return the number of the first tile of each image."""
    firsts = [0]
    for image in geotiff.images[:-1]:
        firsts.append(firsts[-1] + image.tile_count)
    return firsts


def _values(array: TileArray, first: int, count: int) -> Part:
    count = min(count, array.count - first)
    return array.offset + first * array.size, count * array.size


def covers(image: Image, mask: Image | None) -> bool:
    """Return whether a mask has the tiles of its image."""
    return mask is None or (mask.tile_width, mask.tile_height) == (
        image.tile_width,
        image.tile_height,
    )
