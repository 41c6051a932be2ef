"""The directory of a little-endian TIFF file in strips (TIFF 6.0, sections 2 and 8)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

COMPRESSIONS: Final = {"raw": 1, "lzw": 5, "deflate": 8, "packbits": 32773}
"""Value of the tag Compression by name."""
ROWS_PER_STRIP, STRIP_OFFSETS, STRIP_SIZES = 278, 273, 279

_HEADER: Final = 8
_ENTRY: Final = 12
_INLINE: Final = 4
"""Bytes of values that fit into the directory entry itself."""
_UNASSOCIATED_ALPHA: Final = 2
_TYPES: Final = {"s": 2, "H": 3, "I": 4, "d": 12}
"""Number of the type by the letter of `Field`."""


@dataclass(frozen=True, slots=True)
class Field:
    """One entry of the directory.

    Attributes:
        tag: tag number.
        kind: letter as in `struct`: ``s`` text, ``H`` short, ``I`` long, ``d`` double.
        values: at least one.
    """

    tag: int
    kind: str
    values: tuple[int, ...] | tuple[float, ...] | bytes

    @property
    def packed(self) -> bytes:
        """Bytes of the values."""
        if isinstance(self.values, bytes):
            return self.values
        return struct.pack(f"<{len(self.values)}{self.kind}", *self.values)


def image_fields(
    shape: Sequence[int], compression: str, rows_per_strip: int, *, is_float: bool
) -> list[Field]:
    """Return the fields that describe an image."""
    rows, columns, channels = shape
    is_colour = channels in (3, 4)
    fields = [
        Field(256, "I", (columns,)),
        Field(257, "I", (rows,)),
        Field(258, "H", (32 if is_float else 8,) * channels),
        Field(259, "H", (COMPRESSIONS[compression],)),
        Field(262, "H", (2 if is_colour else 1,)),
        Field(277, "H", (channels,)),
        Field(ROWS_PER_STRIP, "I", (rows_per_strip,)),
        Field(339, "H", (3 if is_float else 1,) * channels),
    ]
    extra = channels - (3 if is_colour else 1)
    if extra:
        fields.append(Field(338, "H", (0 if is_float else _UNASSOCIATED_ALPHA,) * extra))
    return fields


def directory(fields: Sequence[Field], sizes: Sequence[int]) -> bytes:
    """Return everything before the strips: header, directory, values that do not fit into it.

    Args:
        fields: in any order, without the places of the strips.
        sizes: bytes of each strip.
    """
    return _written(fields, sizes, len(_written(fields, sizes, 0)))


def _written(fields: Sequence[Field], sizes: Sequence[int], start: int) -> bytes:
    strips = (
        Field(STRIP_OFFSETS, "I", tuple(accumulate(sizes[:-1], initial=start))),
        Field(STRIP_SIZES, "I", tuple(sizes)),
    )
    fields = sorted((*fields, *strips), key=lambda field: field.tag)
    entries = [struct.pack("<2sHIH", b"II", 42, _HEADER, len(fields))]
    values = []
    position = _HEADER + 2 + _ENTRY * len(fields) + 4
    for field in fields:
        packed = field.packed
        entries.append(struct.pack("<HHI", field.tag, _TYPES[field.kind], len(field.values)))
        if len(packed) <= _INLINE:
            entries.append(packed.ljust(_INLINE, b"\0"))
        else:
            entries.append(struct.pack("<I", position))
            packed += b"\0" * (len(packed) % 2)  # values start at even offsets
            values.append(packed)
            position += len(packed)
    return b"".join((*entries, struct.pack("<I", 0), *values))
