"""Quarter images: halved, unencoded pixels of a slab, from which its parent is made."""

from __future__ import annotations

import struct

import numpy as np
from isal import igzip_lib, isal_zlib

from mastaba_build.errors import BuildError
from mastaba_build.pixels import PixelType, Raster
from mastaba_build.plan import SlabKey
from mastaba_build.storage import WritableStorage

_HEADER = struct.Struct("<II")


def quarter_key(slab: SlabKey) -> str:
    """Return the name of the quarter image of a slab in the work directory."""
    return f"quarters/{slab.level}/{slab.column}_{slab.row}"


def write_quarter(storage: WritableStorage, slab: SlabKey, raster: Raster) -> None:
    """Store the quarter image of a slab.

    Raises:
        OSError: it cannot be written.
    """
    rows, columns = raster.valid.shape
    body = np.packbits(raster.valid).tobytes() + raster.samples.tobytes()
    packed = bytes(isal_zlib.compress(body, 1))
    storage.write(quarter_key(slab), _HEADER.pack(rows, columns) + packed)


def read_quarter(storage: WritableStorage, slab: SlabKey, pixel_type: PixelType) -> Raster:
    """Return the quarter image of a slab.

    Raises:
        BuildError: it is damaged.
        OSError: it cannot be read.
    """
    data = storage.read(quarter_key(slab))
    try:
        rows, columns = _HEADER.unpack_from(data)
        body = bytes(isal_zlib.decompress(data[_HEADER.size :]))
        bitmap = (rows * columns + 7) // 8
        bits = np.frombuffer(body, np.uint8, bitmap)
        valid = np.unpackbits(bits, count=rows * columns).astype(bool).reshape(rows, columns)
        samples = np.frombuffer(body, pixel_type.dtype, offset=bitmap)
        return Raster(samples.reshape(rows, columns, pixel_type.channels), valid)
    except (struct.error, ValueError, igzip_lib.IsalError) as error:  # type: ignore[misc]
        raise BuildError(
            f"the intermediate image {quarter_key(slab)} is damaged: {error}"
        ) from None
