"""Directories of little-endian TIFF files (TIFF 6.0, sections 2 and 8; BigTIFF)."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

COMPRESSIONS: Final = {"raw": 1, "lzw": 5, "deflate": 8, "packbits": 32773}
"""Value of the tag Compression by name."""
ROWS_PER_STRIP, STRIP_OFFSETS, STRIP_SIZES = 278, 273, 279

_HEADER: Final = 8
_UNASSOCIATED_ALPHA: Final = 2
_TYPES: Final = {"s": (2, 1), "H": (3, 2), "I": (4, 4), "d": (12, 8), "Q": (16, 8)}
"""Number of the type and bytes of a value, by the letter of `Field`."""


@dataclass(frozen=True, slots=True)
class Field:
    """One entry of a directory.

    Attributes:
        tag: tag number.
        kind: letter as in `struct`: ``s`` text, ``H`` short, ``I`` long, ``d`` double, ``Q`` long
            of 8 bytes (BigTIFF).
        packed: the values, at least one, little-endian.
    """

    tag: int
    kind: str
    packed: bytes

    @classmethod
    def of(cls, tag: int, kind: str, *values: float) -> Field:
        """Return an entry of numbers."""
        return cls(tag, kind, struct.pack(f"<{len(values)}{kind}", *values))

    @classmethod
    def text(cls, tag: int, text: str) -> Field:
        """Return an entry of text, as UTF-8 and without its zeros."""
        return cls(tag, "s", text.replace("\0", "").encode() + b"\0")


def image_fields(
    shape: Sequence[int], compression: str, rows_per_strip: int, *, is_float: bool
) -> list[Field]:
    """Return the fields that describe an image."""
    rows, columns, channels = shape
    is_colour = channels in (3, 4)
    fields = [
        Field.of(256, "I", columns),
        Field.of(257, "I", rows),
        Field.of(258, "H", *(32 if is_float else 8,) * channels),
        Field.of(259, "H", COMPRESSIONS[compression]),
        Field.of(262, "H", 2 if is_colour else 1),
        Field.of(277, "H", channels),
        Field.of(ROWS_PER_STRIP, "I", rows_per_strip),
        Field.of(339, "H", *(3 if is_float else 1,) * channels),
    ]
    extra = channels - (3 if is_colour else 1)
    if extra:
        fields.append(Field.of(338, "H", *(0 if is_float else _UNASSOCIATED_ALPHA,) * extra))
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
        Field.of(STRIP_OFFSETS, "I", *accumulate(sizes[:-1], initial=start)),
        Field.of(STRIP_SIZES, "I", *sizes),
    )
    header = struct.pack("<2sHI", b"II", 42, _HEADER)
    return header + image_directory((*fields, *strips), _HEADER)


def image_directory(
    fields: Iterable[Field],
    position: int,
    *,
    is_big: bool = False,
    is_last: bool = True,
    places: Collection[int] = (),
) -> bytes:
    """Return a directory, followed by the values that do not fit into it.

    Args:
        fields: in any order.
        position: of the directory in the file; even.
        is_big: whether the file is a BigTIFF.
        is_last: False if another directory follows the values.
        places: tags whose values come last.
    """
    count, entry, pointer = ("<Q", "<HHQ", "<Q") if is_big else ("<H", "<HHI", "<I")
    inline = struct.calcsize(pointer)
    fields = sorted(fields, key=lambda one: one.tag)
    size = struct.calcsize(count) + len(fields) * (struct.calcsize(entry) + inline) + inline
    end = position + size
    where: dict[int, int] = {}
    values: list[bytes] = []
    for one in sorted(fields, key=lambda one: one.tag in places):
        if len(one.packed) > inline:
            where[one.tag] = end
            # Values start at even offsets.
            values.append(one.packed + bytes(len(one.packed) % 2))
            end += len(values[-1])
    parts = [struct.pack(count, len(fields))]
    for one in fields:
        number, width = _TYPES[one.kind]
        parts.append(struct.pack(entry, one.tag, number, len(one.packed) // width))
        at = where.get(one.tag)
        parts.append(one.packed.ljust(inline, b"\0") if at is None else struct.pack(pointer, at))
    return b"".join((*parts, struct.pack(pointer, 0 if is_last else end), *values))
