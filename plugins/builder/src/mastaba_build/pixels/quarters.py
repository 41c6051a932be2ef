"""Quarter images: decimated, unencoded pixels of a slab, from which its parent is made."""

from __future__ import annotations

import hashlib
import struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from mastaba_build.errors import BuildError
from mastaba_build.output.storage import OutputStore
from mastaba_build.plan.plan import SlabKey
from mastaba_build.samples import PixelType, Raster

_HEADER = struct.Struct("<5I")
"""First row and column, number of rows and columns, checksum of what follows."""


class Quarter(NamedTuple):
    """The part with data of a quarter image, and its first row and column; it may be empty."""

    raster: Raster
    row: int
    column: int


def quarter_key(slab: SlabKey) -> str:
    """Return the name of the quarter image of a slab in the work directory."""
    return f"quarters/{slab.level}/{slab.column}_{slab.row}"


def write_quarter(storage: OutputStore, slab: SlabKey, raster: Raster) -> str:
    """Store the quarter image of a slab, and return its hash.

    It may have no data although the slab has some: ``nn`` takes one of several pixels.
    It lives until its parent is built, so compression would cost more than it saves.

    Args:
        raster: samples may have any value where they are not valid.

    Raises:
        OutputError: it cannot be written.
    """
    data = _pack(raster)
    storage.write_temporary(quarter_key(slab), data)
    return _hash(data)


def _pack(raster: Raster) -> bytes:
    down, across = (np.flatnonzero(raster.valid.any(axis=axis)) for axis in (1, 0))
    top, left = (int(found[0]) if found.size else 0 for found in (down, across))
    part = np.s_[top : top + _length(down), left : left + _length(across)]
    valid = raster.valid[part]
    samples = np.ascontiguousarray(raster.samples[part])
    if not valid.all():
        samples = np.where(valid[:, :, np.newaxis], samples, samples.dtype.type(0))
    bits = np.packbits(valid)
    body = b"".join([bits.data, bytes(-len(bits) % 4), samples.data])
    header = _HEADER.pack(top, left, *valid.shape, isal_zlib.crc32(body))
    return header + body


def _length(found: npt.NDArray[np.intp]) -> int:
    """Return the number of rows or columns from the first one with data to the last one."""
    return int(found[-1] - found[0]) + 1 if found.size else 0


def read_quarter(storage: OutputStore, slab: SlabKey, pixel_type: PixelType) -> Quarter:
    """Return the quarter image of a slab.

    Raises:
        BuildError: it is missing or damaged. It is deleted, so that the next run builds it again.
        OutputError: it cannot be read.
    """
    try:
        data = storage.read(quarter_key(slab))
        top, left, rows, columns, checksum = _HEADER.unpack_from(data)
        if isal_zlib.crc32(memoryview(data)[_HEADER.size :]) != checksum:
            raise ValueError
        count = rows * columns
        bitmap = (count + 7) // 8
        bits = np.frombuffer(data, np.uint8, bitmap, _HEADER.size)
        valid = np.unpackbits(bits, count=count).view(bool).reshape(rows, columns)
        offset = _HEADER.size + bitmap + -bitmap % 4
        samples = np.frombuffer(data, pixel_type.dtype, offset=offset)
        raster = Raster(samples.reshape(rows, columns, pixel_type.channels), valid)
    except (struct.error, ValueError, FileNotFoundError):
        storage.delete(quarter_key(slab))
        raise BuildError(
            f"the intermediate image {quarter_key(slab)} is damaged or missing; "
            "run the same command again"
        ) from None
    return Quarter(raster, top, left)


def has_quarter(storage: OutputStore, slab: SlabKey, expected: str) -> bool:
    """Return whether the quarter image of a slab is there and has this hash."""
    data = storage.read_if_exists(quarter_key(slab))
    return data is not None and _hash(data) == expected


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()
