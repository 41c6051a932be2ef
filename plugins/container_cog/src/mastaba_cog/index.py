"""Where the tiles of a file are, found piece by piece: large arrays are never read whole."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterable
from functools import partial
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from mastaba.api.containers import TileIndex
from mastaba.api.storages import ByteRange, Storage
from mastaba.errors import ObjectChangedError, ObjectNotFoundError, SlabFormatError
from mastaba_cog.images import LARGEST_TILE, Found, GeoTiff, Image, Places, TileArray
from mastaba_server.threads.per_process import ThreadPool

ByteSpan = tuple[int, int]
"""Offset and size of stored bytes."""
Numbers = npt.NDArray[np.uint64]
_Chunk = tuple[Numbers, Numbers | None]
"""Offsets and sizes of adjacent tiles; no sizes if these are read from the tiles."""
_ChunkKey = tuple[int, bool, int]
"""Number of the image, whether it is the mask of that image, number of the chunk."""

_AT_ONCE: Final = 64 * 1024
"""Bytes of an array that is read whole."""
_CHUNK: Final = 512
"""Values read at a time of larger arrays."""
_TOGETHER: Final = 512 * 1024
"""Bytes of a read of both arrays."""
_MOST_CHUNKS: Final = 64
_ENTRY: Final = 16
"""Bytes of a place in memory."""
_LEADER: Final = 4
_READS: Final = ThreadPool(16, "cog-read")
"""The threads that read the parts of one request in parallel."""


class CogIndex(TileIndex):
    """The places of the tiles of all images in one version of a file.

    Tiles are numbered through all images, finest first, row by row.

    Args:
        geotiff: its images.
        found: what is known of this version.
        options: digest of everything that pixels depend on, beside the file.
    """

    word: ClassVar[str] = "file"
    __slots__ = ("_chunks", "_firsts", "_found", "_geotiff", "_lock", "_nbytes", "_plain")

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
        self._chunks: dict[_ChunkKey, _Chunk] = {}
        self._lock = threading.Lock()
        # How many values of an image are read at a time; 0 if its tiles have several parts.
        self._plain = tuple(
            0
            if image.is_planar or geotiff.masks[number] is not None or self._is_led(number)
            else self._values_of(number, is_mask=False)
            for number, image in enumerate(geotiff.images)
        )
        tiles = sum(image.tile_count * (image.planes + 1) for image in geotiff.images)
        self._nbytes = found.head.data.nbytes + min(_MOST_CHUNKS * _CHUNK, tiles) * _ENTRY

    @property
    def nbytes(self) -> int:
        return self._nbytes

    def tile(self, number: int) -> ByteSpan | None:
        """Return the range around all parts of a tile, or None if it is not stored."""
        image, place = self.place(number)
        if self._is_led(image):
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

    def plain(self, image: int, place: int) -> ByteSpan | None:
        """Return the range of a tile of one part whose place is known; None leads to `tile`.

        Faster than `tile`, for the usual case.

        Args:
            image: number of the image.
            place: number of the tile in it.
        """
        values = self._plain[image]
        chunk = self._chunks.get((image, False, place // values)) if values else None
        if chunk is None or chunk[1] is None:
            return None
        offset, size = int(chunk[0][place % values]), int(chunk[1][place % values])
        return (offset, size) if offset >= 8 and 0 < size <= LARGEST_TILE else None

    def is_plain(self, number: int) -> bool:
        """Return whether a tile is the whole range that `tile` returns."""
        return bool(self._plain[self.place(number)[0]])

    def tiles(self, numbers: Iterable[int]) -> list[ByteSpan | None]:
        numbers, found = list(numbers), []
        # No more at once than are kept.
        most = max(len(self._keys(number)) for number in numbers) if numbers else 1
        step = max(1, _MOST_CHUNKS // most)
        for start in range(0, len(numbers), step):
            some = numbers[start : start + step]
            self._get([key for number in some for key in self._keys(number)])
            found += [self.tile(number) for number in some]
        return found

    def is_known(self, number: int) -> bool:
        """Return whether `tile` needs no read."""
        return all(key in self._chunks for key in self._keys(number))

    def parts(self, number: int) -> list[ByteSpan | None] | None:
        """Return the places of the bands of a tile and of its mask; None if it is not stored.

        Raises:
            SlabFormatError: a place is invalid.
            StorageError: a part of the arrays cannot be read.
        """
        image, place = self.place(number)
        needed, chunks = self._needed(image, place), self._get(self._keys(number))
        found = [
            self._entry(image, tile, chunk, is_mask=is_mask)
            for (is_mask, tile), chunk in zip(needed, chunks, strict=True)
        ]
        planes = self._geotiff.images[image].planes
        return None if all(part is None for part in found[:planes]) else found

    def split(self, number: int, data: bytes) -> list[bytes]:
        """Return the parts of a tile from the range that `tile` returned; empty if absent.

        Raises:
            SlabFormatError: the range does not contain what the writer promises.
        """
        image, _ = self.place(number)
        if self._is_led(image):
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

    def _is_led(self, image: int) -> bool:
        """Return whether the sizes of the tiles of an image are read from the tiles."""
        shape, places = self._geotiff.images[image], self._found.places[image]
        return (
            self._found.has_leaders
            and not shape.is_planar
            and self._geotiff.masks[image] is None
            and places.offsets.count * places.offsets.size > _TOGETHER
        )

    def _led(self, image: int, place: int) -> ByteSpan | None:
        """Return the range from the size in front of a tile to the tile that follows."""
        ((offsets, _),) = self._get([self._key(image, place, is_mask=False)])
        inside = place % _CHUNK
        offset = int(offsets[inside])
        if not offset:
            return None
        following = next((int(other) for other in offsets[inside + 1 :] if other), 0)
        start = offset - _LEADER
        length = following - _LEADER - start
        if not 0 < length <= LARGEST_TILE:
            sizes = self._found.places[image].sizes
            ((size,),) = self._read([[_values(sizes, place, 1)]])
            length = int.from_bytes(size, "little" if self._geotiff.order == "<" else "big")
            length = self._checked(image, place, offset, length)[1] + 2 * _LEADER
        self._checked(image, place, offset, length)
        return start, length

    def _entry(self, image: int, place: int, chunk: _Chunk, *, is_mask: bool) -> ByteSpan | None:
        offsets, sizes = chunk
        assert sizes is not None
        inside = place % self._values_of(image, is_mask=is_mask)
        offset, size = int(offsets[inside]), int(sizes[inside])
        return self._checked(image, place, offset, size) if offset and size else None

    def _checked(self, image: int, place: int, offset: int, size: int) -> ByteSpan:
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

    def _keys(self, number: int) -> list[_ChunkKey]:
        image, place = self.place(number)
        needed = self._needed(image, place)
        return [self._key(image, tile, is_mask=is_mask) for is_mask, tile in needed]

    def _key(self, image: int, place: int, *, is_mask: bool) -> _ChunkKey:
        return image, is_mask, place // self._values_of(image, is_mask=is_mask)

    def _get(self, keys: list[_ChunkKey]) -> list[_Chunk]:
        """Return parts of the arrays; those that are unknown are read together."""
        found = {key: self._chunks.get(key) for key in keys}
        unknown = [key for key, chunk in found.items() if chunk is None]
        if unknown:
            read = self._read([self._places(key) for key in unknown])
            loaded = {
                key: self._decoded(key, data) for key, data in zip(unknown, read, strict=True)
            }
            with self._lock:
                self._chunks |= loaded
                while len(self._chunks) > _MOST_CHUNKS:
                    del self._chunks[next(iter(self._chunks))]
            return [found[key] or loaded[key] for key in keys]
        return [chunk for key in keys if (chunk := found[key]) is not None]

    def _places(self, key: _ChunkKey) -> list[ByteSpan]:
        image, is_mask, chunk = key
        places = self._array(image, is_mask=is_mask)
        values = self._values_of(image, is_mask=is_mask)
        if not is_mask and self._is_led(image):
            # With the first one of the next chunk, which bounds the last tile.
            return [_values(places.offsets, chunk * values, values + 1)]
        return [_values(array, chunk * values, values) for array in (places.offsets, places.sizes)]

    def _decoded(self, key: _ChunkKey, data: list[bytes]) -> _Chunk:
        image, is_mask, _ = key
        places = self._array(image, is_mask=is_mask)
        offsets = self._numbers(data[0], places.offsets)
        return offsets, self._numbers(data[1], places.sizes) if len(data) > 1 else None

    def _numbers(self, data: bytes, array: TileArray) -> Numbers:
        return np.frombuffer(data, f"{self._geotiff.order}u{array.size}").astype(np.uint64)

    def _read(self, groups: list[list[ByteSpan]]) -> list[list[bytes]]:
        """Return parts of arrays: from the head, or all with one call, in parallel.

        The parts of a group that are close are one range.
        """
        held: list[tuple[int, bytes]] = []
        ranges: list[ByteRange] = []
        for group in groups:
            known = [self._found.head.data.known(*place) for place in group]
            if None in known:
                ranges += _ranges(group)
            held += [(place[0], one) for place, one in zip(group, known, strict=True) if one]
        if ranges:
            try:
                read = read_parts(self, ranges)
            except ObjectNotFoundError as error:
                # Its tiles are unknown, not absent: reading its head says so.
                raise ObjectChangedError(f"{self.name} is gone", key=self.key) from error
            held += [(place.offset, data) for place, data in zip(ranges, read, strict=True)]
        return [[self._part(held, *place) for place in group] for group in groups]

    def _part(self, held: list[tuple[int, bytes]], offset: int, size: int) -> bytes:
        for start, data in held:
            if start <= offset and offset + size <= start + len(data):
                return data[offset - start : offset - start + size]
        raise SlabFormatError(f"{self.name} ends before the places of its tiles")


def _ranges(places: list[ByteSpan]) -> list[ByteRange]:
    """Return one range around places that are close, or else one for each."""
    start, end = min(offset for offset, _ in places), max(map(sum, places))
    if end - start <= _TOGETHER:
        return [ByteRange(start, end - start)]
    return [ByteRange(*place) for place in places]


def read_parts(index: TileIndex, ranges: list[ByteRange]) -> list[bytes]:
    """Return parts of a file in one version, shorter at its end; in parallel if it is remote.

    Raises:
        StorageError: they cannot be read, or the file was replaced.
    """
    if index.storage.is_remote and len(ranges) > 1:
        return list(_READS.map(partial(_read_part, index), ranges))
    read = index.storage.read_ranges(index.key, ranges, index.version)
    return [one.data for one in read]


def _read_part(index: TileIndex, place: ByteRange) -> bytes:
    return index.storage.read(index.key, place, index.version).data


def first_numbers(geotiff: GeoTiff) -> list[int]:
    """Return the number of the first tile of each image."""
    firsts = [0]
    for image in geotiff.images[:-1]:
        firsts.append(firsts[-1] + image.tile_count)
    return firsts


def _values(array: TileArray, first: int, count: int) -> ByteSpan:
    count = min(count, array.count - first)
    return array.offset + first * array.size, count * array.size


def covers(image: Image, mask: Image | None) -> bool:
    """Return whether a mask has the tiles of its image."""
    return mask is None or (mask.tile_width, mask.tile_height) == (
        image.tile_width,
        image.tile_height,
    )
