"""Reading of compressed tiles of a GeoTIFF, to compare their values with those of a layer."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
from PIL import Image

from mastaba.api.catalogue import TILE_FORMATS
from mastaba.errors import MastabaError
from mastaba_export.errors import DamagedArchiveError
from mastaba_render.api.decoding import TileDecoder

if TYPE_CHECKING:
    from mastaba_coverage import TileCodec

_BYTES: Final = {"none": "RAW", "deflate": "ZIP", "lzw": "LZW", "packbits": "PKB"}
"""Codecs of stored tiles that decode compressed bytes."""
_DAMAGE: Final = (
    *(MastabaError, OSError, RuntimeError, SyntaxError, ValueError),
    Image.DecompressionBombError,
)
"""Errors that the libraries raise for invalid data."""
_LOSS: Final = 1.0
"""Levels of grey by which the mean error of a lossy tile may exceed that of another one."""


def check_tile(tile: bytes, pixels: npt.NDArray[Any], codec: TileCodec) -> None:
    """Check that a compressed tile contains some pixels.

    The same pixels may be compressed into other bytes, so values are compared. Those of JPEG are
    as near as those of another compression.

    Args:
        tile: as it is in the file.
        pixels: shape (rows, columns, channels), uint8 or little-endian float32.
        codec: of the file.

    Raises:
        DamagedArchiveError: it cannot be decoded, or contains other pixels.
    """
    found = _decoded(tile, pixels, codec)
    if codec.name == "jpeg":
        expected = _decoded(codec.encode(pixels), pixels, codec)
        is_equal = _error(found, pixels) <= _error(expected, pixels) + _LOSS
    else:
        is_equal = found.tobytes() == pixels.tobytes()
    if not is_equal:
        raise DamagedArchiveError("a tile differs from the layer")


def _decoded(tile: bytes, like: npt.NDArray[Any], codec: TileCodec) -> npt.NDArray[Any]:
    """Return the pixels of a tile, of the shape and dtype of others."""
    try:
        if codec.name in ("jpeg", "webp", "lerc"):
            found = _decoded_image(tile, like, codec)
        else:
            found = _unpredicted(_decompressed(tile, like, codec), like, codec.predictor)
    except _DAMAGE as error:
        raise DamagedArchiveError(f"a tile cannot be decoded: {error}") from None
    return found


def _decoded_image(tile: bytes, like: npt.NDArray[Any], codec: TileCodec) -> npt.NDArray[Any]:
    found: npt.NDArray[Any]
    if codec.name == "jpeg":
        with Image.open(io.BytesIO(tile), formats=("JPEG",)) as image:
            # Checked first, because a small JPEG can declare gigabytes of pixels.
            if image.size != (like.shape[1], like.shape[0]):
                raise ValueError(f"it has {image.size} pixels")
            found = np.asarray(image)
        return found.reshape(like.shape)
    import imagecodecs

    if codec.name == "webp":
        found = np.asarray(imagecodecs.webp_decode(tile))
    else:
        # LERC has NaN in a mask.
        found, mask = imagecodecs.lerc_decode(tile, masks=True)
        if mask is not None and found.dtype.kind == "f":
            found[~mask.astype(bool)] = np.nan
    return found.astype(like.dtype, copy=False).reshape(like.shape)


def _decompressed(tile: bytes, like: npt.NDArray[Any], codec: TileCodec) -> npt.NDArray[np.uint8]:
    """Return the bytes of a tile, one row for each row of pixels."""
    rows = len(like)
    columns = like.nbytes // rows
    if codec.name == "zstd":
        import imagecodecs

        data = imagecodecs.zstd_decode(tile, out=like.nbytes)
        return np.frombuffer(data, np.uint8).reshape(rows, columns)
    # A row of bytes is decoded as one of grey pixels.
    form = TILE_FORMATS[f"TIFF_{_BYTES[codec.name]}_UINT8"]
    found: npt.NDArray[np.uint8] = TileDecoder(form, 1, columns, rows).decode(tile)
    return found.reshape(rows, columns)


def _unpredicted(
    data: npt.NDArray[np.uint8], like: npt.NDArray[Any], predictor: int
) -> npt.NDArray[Any]:
    rows, columns, channels = like.shape
    if predictor == 1:
        return np.ascontiguousarray(data).view(like.dtype).reshape(like.shape)
    steps = data.reshape(rows, -1, channels)
    values = np.cumsum(steps, axis=1, dtype=np.uint8)
    if predictor == 2:
        return values.reshape(like.shape)
    planes = values.reshape(rows, like.itemsize, columns * channels)
    big = np.ascontiguousarray(planes.transpose(0, 2, 1)).view(like.dtype.newbyteorder(">"))
    return big.reshape(like.shape).astype(like.dtype)


def _error(found: npt.NDArray[Any], pixels: npt.NDArray[Any]) -> float:
    return float(np.abs(found.astype(np.int16) - pixels.astype(np.int16)).mean())
