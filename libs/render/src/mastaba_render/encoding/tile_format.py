"""Tiles in the formats of pyramids, as tile services send them (slab.md section 4.4)."""

from __future__ import annotations

from io import BytesIO
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from isal import isal_zlib
from PIL import Image

from mastaba.errors import SlabFormatError
from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import WGS84
from mastaba.model.format import Codec, TileFormat
from mastaba.model.style import Palette
from mastaba.slab.delivery import TIFF_COMPRESSIONS, palette_delivery
from mastaba_render.encoder import Raster
from mastaba_render.encoding.bil import BilEncoder
from mastaba_render.encoding.jpeg import JpegEncoder, second_jpeg
from mastaba_render.encoding.png import PngEncoder
from mastaba_render.encoding.tiff import TiffEncoder, compressed_rows

_QUALITIES: Final = {"TIFF_JPG_UINT8": "75", "TIFF_JPG90_UINT8": "90"}
_DEFLATE_LEVEL: Final = 1
# Tile formats do not contain a location.
_NOWHERE: Final = BoundingBox(0.0, 0.0, 1.0, 1.0)


def encoded_tile(raster: Raster, tile_format: TileFormat, palette: Palette | None) -> bytes:
    """Return a tile in a raster format. The result needs no Content-Encoding.

    Args:
        palette: for one-channel PNG: the values become its indices, unchanged.
    """
    if tile_format.codec is Codec.PNG:
        png = PngEncoder().encode(raster, {})
        return png if palette is None else palette_delivery(palette)(png)
    if tile_format.codec is Codec.JPEG:
        return JpegEncoder().encode(raster, {"quality": _QUALITIES.get(tile_format.name, "75")})
    if tile_format.codec in (Codec.WEBP, Codec.AVIF):
        return _saved(raster.pixels, tile_format.codec)
    if tile_format.needs_tiff_header:
        return TiffEncoder().encode(raster, {"compression": TIFF_COMPRESSIONS[tile_format.codec]})
    return BilEncoder().encode(raster, {})


def stored_payload(pixels: npt.NDArray[Any], tile_format: TileFormat) -> bytes:
    """Return the bytes of a tile as slabs contain them.

    All formats but JPEG and AVIF keep the pixels exactly. JPEG changes them by 3 at most.

    Args:
        pixels: shape (rows, columns, channels), in the sample type of the format.
    """
    samples = np.ascontiguousarray(pixels, pixels.dtype.newbyteorder("<"))
    match tile_format.codec:
        case Codec.PNG:
            return PngEncoder().encode(Raster(samples, _NOWHERE, WGS84), {})
        case Codec.JPEG:
            if samples.shape[2] == 1:
                return JpegEncoder().encode(Raster(samples, _NOWHERE, WGS84), {"quality": "90"})
            return second_jpeg(samples)
        case Codec.WEBP | Codec.AVIF:
            return _saved(samples, tile_format.codec)
        case Codec.RAW:
            return samples.tobytes()
        case Codec.ZIP:
            return isal_zlib.compress(samples, _DEFLATE_LEVEL)
    rows = samples.view(np.uint8).reshape(len(samples), -1)
    (strip,) = compressed_rows(rows, TIFF_COMPRESSIONS[tile_format.codec], len(rows))
    return strip


def _saved(pixels: npt.NDArray[Any], codec: Codec) -> bytes:
    stream = BytesIO()
    options = {"lossless": True, "exact": True} if codec is Codec.WEBP else {}
    try:
        Image.fromarray(pixels).save(stream, codec.upper(), **options)
    except (KeyError, OSError) as error:
        raise SlabFormatError(f"the installed Pillow cannot write {codec.upper()}") from error
    return stream.getvalue()
