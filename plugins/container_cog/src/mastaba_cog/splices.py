"""A TIFF of one strip around the bytes of a stored tile; nothing is decoded."""

from __future__ import annotations

import struct
from typing import Final

_TYPES: Final = {"H": 3, "I": 4, "s": 7}


def tiff_header(
    width: int,
    height: int,
    bands: int,
    bits: int,
    kind: int,
    compression: int,
    photometric: int,
    length: int,
    further: tuple[tuple[int, str, tuple[int, ...] | bytes], ...] = (),
    order: str = "<",
) -> bytes:
    """Return what precedes the bytes of the strip.

    Args:
        length: of the strip, bytes.
        further: entries: tag, ``H``, ``I`` or ``s``, and values.
        order: ``<`` or ``>``, of the samples.
    """
    fields: list[tuple[int, str, tuple[int, ...] | bytes]] = [
        (256, "I", (width,)),
        (257, "I", (height,)),
        (258, "H", (bits,) * bands),
        (259, "H", (compression,)),
        (262, "H", (photometric,)),
        (273, "I", (0,)),
        (277, "H", (bands,)),
        (278, "I", (height,)),
        (279, "I", (length,)),
        (339, "H", (kind,) * bands),
        *further,
    ]
    fields.sort(key=lambda field: field[0])
    packed = {
        tag: values
        if isinstance(values, bytes)
        else struct.pack(f"{order}{len(values)}{code}", *values)
        for tag, code, values in fields
    }
    end = 8 + 2 + 12 * len(fields) + 4
    long = {tag: data + bytes(len(data) % 2) for tag, data in packed.items() if len(data) > 4}
    packed[273] = struct.pack(f"{order}I", end + sum(map(len, long.values())))
    entries = [struct.pack(f"{order}HIH", 42, 8, len(fields))]
    for tag, code, values in fields:
        entries.append(struct.pack(f"{order}HHI", tag, _TYPES[code], len(values)))
        if tag in long:
            entries.append(struct.pack(f"{order}I", end))
            end += len(long[tag])
        else:
            entries.append(packed[tag].ljust(4, b"\0"))
    start = b"II" if order == "<" else b"MM"
    return b"".join((start, *entries, bytes(4), *long.values()))
