"""The header of a slab, read without its descriptor (slab.md section 2).

The server does not use the header, because the descriptor contains the same information.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mastaba.api.slabs import HEADER_SIZE
from mastaba.errors import SlabFormatError

_TAGS: Final = {
    "width": 256,
    "height": 257,
    "bits": 258,
    "compression": 259,
    "photometric": 262,
    "channels": 277,
    "tile_width": 322,
    "tile_height": 323,
    "sample_format": 339,
}
"""Tags of TIFF by the attribute of `SlabHeader`."""
_TILE_OFFSETS: Final = 324

_SHORT: Final = 3
_ENTRY: Final = struct.Struct("<HHII")
_MAX_ENTRIES: Final = (HEADER_SIZE - 2) // _ENTRY.size

_ORDINARY: Final = (
    "it is an ordinary TIFF or GeoTIFF file, not a slab (convert it to a pyramid first)"
)

COMPRESSIONS: Final = {1: "none", 5: "LZW", 7: "JPEG", 8: "deflate", 32773: "PackBits"}
"""Names of the compressions in slabs, by their TIFF code."""
PHOTOMETRICS: Final = {1: "grey", 2: "RGB", 6: "YCbCr"}
"""Names of the photometric interpretations in slabs, by their TIFF code."""


@dataclass(frozen=True, slots=True)
class SlabHeader:
    """Fields of a slab header; None for missing fields, which is normal in vector slabs.

    Attributes:
        tile_count: entries of the index.
        width: width of the slab in pixels.
        height: height of the slab in pixels.
        tile_width: pixels.
        tile_height: pixels.
        channels: number of channels.
        bits: bits of the first channel.
        compression: code as in TIFF 6.
        photometric: code as in TIFF 6.
        sample_format: 1 for unsigned integers, 3 for floating point.
    """

    tile_count: int
    width: int | None = None
    height: int | None = None
    tile_width: int | None = None
    tile_height: int | None = None
    channels: int | None = None
    bits: int | None = None
    compression: int | None = None
    photometric: int | None = None
    sample_format: int | None = None

    @classmethod
    def parse(cls, data: bytes) -> SlabHeader:
        """Read a header from the first bytes of a slab.

        Raises:
            SlabFormatError: the bytes are not a slab header; the message says why.
        """
        if len(data) < HEADER_SIZE:
            raise SlabFormatError(f"it has {len(data)} bytes, a header alone has {HEADER_SIZE}")
        if data.startswith((b"MM\0*", b"MM\0+", b"II+\0")):
            raise SlabFormatError(f"{_ORDINARY}: slabs are classic little-endian TIFF")
        if not data.startswith(b"II*\0"):
            raise SlabFormatError(f"it begins with {data[:4].hex(' ')} instead of 49 49 2a 00")
        values = _values(data)
        count = values.get(_TILE_OFFSETS)
        if not count:
            raise SlabFormatError(f"{_ORDINARY}: it has no tile offsets (tag 324)")
        return cls(count, **{name: values.get(tag) for name, tag in _TAGS.items()})

    @property
    def is_vector(self) -> bool:
        """Whether the header is that of a slab of vector tiles."""
        return self.compression is None and self.tile_width is None

    @property
    def tiles_per_width(self) -> int | None:
        """Number of tiles per row; None if the header does not contain it."""
        if not self.width or not self.tile_width:
            return None
        return self.width // self.tile_width

    @property
    def tiles_per_height(self) -> int | None:
        """Number of tiles per column; None if the header does not contain it."""
        if not self.height or not self.tile_height:
            return None
        return self.height // self.tile_height

    @property
    def tile_bytes(self) -> int | None:
        """Size of one decoded tile in bytes; None if the header does not contain it."""
        sides = self.tile_width, self.tile_height, self.channels, self.bits
        if None in sides or not all(sides):
            return None
        width, height, channels, bits = (int(side or 0) for side in sides)
        return width * height * channels * bits // 8

    def contradictions(self) -> list[str]:
        """Return the inconsistencies of the header."""
        found = []
        if self.compression is not None and self.compression not in COMPRESSIONS:
            found.append(f"the compression {self.compression} is not used in slabs")
        sides = self.width, self.height, self.tile_width, self.tile_height
        if not self.is_vector and all(sides):
            width, height, tile_width, tile_height = (int(side or 0) for side in sides)
            if width % tile_width or height % tile_height:
                found.append(
                    f"{width} × {height} pixels are not whole tiles of {tile_width} × {tile_height}"
                )
            elif width // tile_width * (height // tile_height) != self.tile_count:
                found.append(
                    f"{width} × {height} pixels are not {self.tile_count} tiles of "
                    f"{tile_width} × {tile_height}"
                )
        elif not self.is_vector:
            found.append("the size of the slab or of its tiles is missing")
        return found


def _values(data: bytes) -> Mapping[int, int]:
    """Return the first value of each entry, by tag; for tile offsets, the number of values."""
    (start,) = struct.unpack_from("<I", data, 4)
    if start > HEADER_SIZE - 2:
        raise SlabFormatError(f"{_ORDINARY}: its directory is at {start}, outside the header")
    (count,) = struct.unpack_from("<H", data, start)
    if count > _MAX_ENTRIES or start + 2 + count * _ENTRY.size > HEADER_SIZE:
        raise SlabFormatError(f"its directory has {count} entries, too many for the header")
    values: dict[int, int] = {}
    for position in range(start + 2, start + 2 + count * _ENTRY.size, _ENTRY.size):
        tag, kind, number, value = _ENTRY.unpack_from(data, position)
        if tag == _TILE_OFFSETS:
            if number > 1 and value != HEADER_SIZE:
                raise SlabFormatError(
                    f"{_ORDINARY}: its tile offsets are at {value}, not at {HEADER_SIZE}"
                )
            value = number
        elif kind == _SHORT and number > 2:
            # More than two short values do not fit into the entry, which contains their offset.
            if value > HEADER_SIZE - 2:
                raise SlabFormatError(f"the values of tag {tag} are at {value}, outside the header")
            (value,) = struct.unpack_from("<H", data, value)
        elif kind == _SHORT:
            value &= 0xFFFF
        values[tag] = value
    return values
