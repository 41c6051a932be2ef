"""Tiles in the formats of pyramids, as tile services send them (slab.md section 4.4)."""

from __future__ import annotations

from typing import Final

from mastaba.model.format import Codec, TileFormat
from mastaba.model.style import Palette
from mastaba.slab.delivery import TIFF_COMPRESSIONS, palette_delivery
from mastaba_render.encoder import Raster
from mastaba_render.encoding.bil import BilEncoder
from mastaba_render.encoding.jpeg import JpegEncoder
from mastaba_render.encoding.png import PngEncoder
from mastaba_render.encoding.tiff import TiffEncoder

_QUALITIES: Final = {"TIFF_JPG_UINT8": "75", "TIFF_JPG90_UINT8": "90"}


def encoded_tile(raster: Raster, tile_format: TileFormat, palette: Palette | None) -> bytes:
    """Return a tile in a raster format. The result needs no Content-Encoding.

    Args:
        palette: for one-channel PNG: the values become its indices, unchanged.
    """
    if tile_format.codec is Codec.PNG:
        png = PngEncoder().encode(raster, {})
        return png if palette is None else palette_delivery(palette)(png)
    if tile_format.codec is Codec.JPEG:
        return JpegEncoder().encode(raster, {"quality": _QUALITIES[tile_format.name]})
    if tile_format.needs_tiff_header:
        return TiffEncoder().encode(raster, {"compression": TIFF_COMPRESSIONS[tile_format.codec]})
    return BilEncoder().encode(raster, {})
