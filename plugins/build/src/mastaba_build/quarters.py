"""Quarter images: halved, unencoded pixels of a slab, from which its parent is made."""

from __future__ import annotations

import hashlib
import struct

import numpy as np
from isal import igzip_lib, isal_zlib

from mastaba_build.errors import BuildError
from mastaba_build.pixels import PixelType, Raster
from mastaba_build.plan import SlabKey
from mastaba_build.storage import Place

_HEADER = struct.Struct("<II")


def quarter_key(slab: SlabKey) -> str:
    """Return the name of the quarter image of a slab in the work directory."""
    return f"quarters/{slab.level}/{slab.column}_{slab.row}"


def write_quarter(storage: Place, slab: SlabKey, raster: Raster) -> str:
    """Store the quarter image of a slab, and return the hash of its pixels.

    Raises:
        OutputError: it cannot be written.
    """
    rows, columns = raster.valid.shape
    body = np.packbits(raster.valid).tobytes() + raster.samples.tobytes()
    packed = bytes(isal_zlib.compress(body, 1))
    storage.write(quarter_key(slab), _HEADER.pack(rows, columns) + packed)
    return _hash(body)


def read_quarter(storage: Place, slab: SlabKey, pixel_type: PixelType) -> Raster:
    """Return the quarter image of a slab.

    Raises:
        BuildError: it is missing or damaged.
    """
    rows, columns, body = _unpacked(storage, slab)
    try:
        bitmap = (rows * columns + 7) // 8
        bits = np.frombuffer(body, np.uint8, bitmap)
        valid = np.unpackbits(bits, count=rows * columns).astype(bool).reshape(rows, columns)
        samples = np.frombuffer(body, pixel_type.dtype, offset=bitmap)
        return Raster(samples.reshape(rows, columns, pixel_type.channels), valid)
    except ValueError as error:
        raise _damaged(slab, error) from None


def has_quarter(storage: Place, slab: SlabKey, expected: str) -> bool:
    """Return whether the quarter image of a slab is there and has this hash."""
    try:
        return _hash(_unpacked(storage, slab)[2]) == expected
    except BuildError:
        return False


def _unpacked(storage: Place, slab: SlabKey) -> tuple[int, int, bytes]:
    try:
        data = storage.read(quarter_key(slab))
        rows, columns = _HEADER.unpack_from(data)
        return rows, columns, bytes(isal_zlib.decompress(data[_HEADER.size :]))
    except FileNotFoundError:
        raise BuildError(f"the intermediate image {quarter_key(slab)} is missing") from None
    except (struct.error, ValueError, igzip_lib.IsalError) as error:  # type: ignore[misc]
        raise _damaged(slab, error) from None


def _damaged(slab: SlabKey, error: Exception) -> BuildError:
    return BuildError(f"the intermediate image {quarter_key(slab)} is damaged: {error}")


def _hash(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=8).hexdigest()
