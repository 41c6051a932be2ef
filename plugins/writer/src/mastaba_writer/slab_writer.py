"""Writing of slabs (header, index and tiles), byte for byte like the reference tools."""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from mastaba_writer.tile_encoder import TILE_FORMATS, encode_tile, tile_format

__all__ = [
    "HEADER_SIZE",
    "TILE_FORMATS",
    "SlabAssembler",
    "build_slab",
    "encode_tile",
]

HEADER_SIZE = 2048
"""Bytes of the header of a slab, before its index."""
_ALIGNMENT = 16
_SHORT, _LONG = 3, 4
_REMEMBERED = 64
"""Payloads that later tiles of a slab may share."""


def build_slab(
    tiles: Sequence[bytes | None],
    *,
    format: str,
    channels: int = 3,
    tile_width: int = 256,
    tile_height: int = 256,
    tiles_per_width: int = 2,
    tiles_per_height: int = 2,
) -> bytes:
    """Return the bytes of one slab.

    Args:
        tiles: encoded tiles in row-major order; None (or empty bytes) gets size 0 in the index,
            which means that the tile is absent.
        format: pyramid format, one of `TILE_FORMATS`.
        channels: samples per pixel, 1 to 4; ignored for vector slabs.
        tile_width: width of a tile in pixels; ignored for vector slabs, like `tile_height`.
        tile_height: height of a tile in pixels.
        tiles_per_width: width of the slab in tiles.
        tiles_per_height: height of the slab in tiles.

    Raises:
        ValueError: the format is unknown, it does not allow the number of channels, or the number
            of tiles is not tiles_per_width x tiles_per_height.
    """
    count = tiles_per_width * tiles_per_height
    if len(tiles) != count:
        raise ValueError(f"{len(tiles)} tiles given for a slab of {count}")
    slab = SlabAssembler(
        format=format,
        channels=channels,
        tile_width=tile_width,
        tile_height=tile_height,
        tiles_per_width=tiles_per_width,
        tiles_per_height=tiles_per_height,
    )
    for tile in tiles:
        slab.add(tile)
    return bytes(slab.finish())


class SlabAssembler:
    """One slab, tile by tile, in row-major order; arguments as in `build_slab`.

    It keeps the bytes once, so it needs no more memory than the slab.

    Args:
        shared: equal tiles share their bytes, if no more than 64 other ones are between them.
    """

    def __init__(
        self,
        *,
        format: str,
        channels: int = 3,
        tile_width: int = 256,
        tile_height: int = 256,
        tiles_per_width: int = 2,
        tiles_per_height: int = 2,
        shared: bool = False,
    ) -> None:
        if not tile_format(format).is_vector and channels not in tile_format(format).channels:
            raise ValueError(f"{format} cannot store {channels} channels")
        self._format = format
        self._channels = channels
        self._tile_size = tile_width, tile_height
        self._slab_size = tile_width * tiles_per_width, tile_height * tiles_per_height
        self._count = tiles_per_width * tiles_per_height
        self._offsets: list[int] = []
        self._sizes: list[int] = []
        self._data = bytearray(HEADER_SIZE + 8 * self._count)
        self._position = len(self._data)
        self._shared: OrderedDict[bytes, int] | None = OrderedDict() if shared else None

    def add(self, tile: bytes | None) -> None:
        """Append a tile; None, or empty bytes, for an absent one."""
        payload = tile or b""
        if payload and self._shared is not None:
            offset = self._shared.get(payload)
            if offset is not None:
                self._shared.move_to_end(payload)
                self._offsets.append(offset)
                self._sizes.append(len(payload))
                return
            self._shared[payload] = self._position
            if len(self._shared) > _REMEMBERED:
                self._shared.popitem(last=False)
        self._offsets.append(self._position)
        self._sizes.append(len(payload))
        if payload:  # absent tiles get no padding, so there is none after the last payload
            self._data += bytes(self._position - len(self._data))
            self._data += payload
        self._position = -(-(self._position + len(payload)) // _ALIGNMENT) * _ALIGNMENT

    def finish(self) -> bytearray:
        """Return the bytes of the slab; tiles that were not added are absent."""
        for _ in range(self._count - len(self._sizes)):
            self.add(None)
        sizes = self._sizes
        if tile_format(self._format).is_vector:
            header = _vector_header(sizes)
        else:
            header = _raster_header(
                self._format, self._channels, self._tile_size, self._slab_size, sizes
            )
        index = struct.pack(f"<{2 * self._count}I", *self._offsets, *sizes)
        self._data[: len(header) + len(index)] = header + index
        return self._data


def _raster_header(
    format: str,
    channels: int,
    tile_size: tuple[int, int],
    slab_size: tuple[int, int],
    sizes: Sequence[int],
) -> bytes:
    properties = tile_format(format)
    is_float = properties.dtype == np.float32
    bits = 32 if is_float else 8
    # Up to two 16-bit values fit into the entry; more are stored at byte 8.
    bits_value = {1: bits, 2: bits << 16 | bits}.get(channels, 8)
    is_jpeg = properties.compression == 7
    photometric = 6 if is_jpeg else 1 if channels <= 2 else 2
    offsets_value, sizes_value = _index_values(sizes)
    entries = [
        (256, _LONG, 1, slab_size[0]),
        (257, _LONG, 1, slab_size[1]),
        (258, _SHORT, channels, bits_value),
        (259, _SHORT, 1, properties.compression),
        (262, _SHORT, 1, photometric),
        (277, _SHORT, 1, channels),
        (322, _LONG, 1, tile_size[0]),
        (323, _LONG, 1, tile_size[1]),
        (324, _LONG, len(sizes), offsets_value),
        (325, _LONG, len(sizes), sizes_value),
    ]
    if channels in (2, 4):
        entries.append((338, _SHORT, 1, 2))
    entries.append((339, _SHORT, 1, 3 if is_float else 1))
    if is_jpeg:
        entries.append((530, _SHORT, 2, 2 << 16 | 2))
    return _header(bits, entries)


def _vector_header(sizes: Sequence[int]) -> bytes:
    count = len(sizes)
    offsets_value, _ = _index_values(sizes)
    # Even for one tile, the entry contains a pointer. The reference tool writes the size of the
    # tile at byte 134, outside the directory.
    header = _header(
        0,
        [
            (256, _LONG, 1, 1),
            (257, _LONG, 1, 1),
            (324, _LONG, count, offsets_value),
            (325, _LONG, count, HEADER_SIZE + 4 * count),
        ],
    )
    if count == 1:
        header = header[:134] + struct.pack("<I", sizes[0]) + header[138:]
    return header


def _index_values(sizes: Sequence[int]) -> tuple[int, int]:
    """Return the values of tags 324 and 325: offset and size of a single tile, or pointers."""
    if len(sizes) == 1:
        return HEADER_SIZE + 8, sizes[0]
    return HEADER_SIZE, HEADER_SIZE + 4 * len(sizes)


def _header(bits: int, entries: Sequence[tuple[int, int, int, int]]) -> bytes:
    header = struct.pack("<4sI4HH", b"II*\0", 16, bits, bits, bits, bits, len(entries))
    header += b"".join(struct.pack("<HHII", *entry) for entry in entries)
    return header.ljust(HEADER_SIZE, b"\0")
