"""Encoders for the tile formats of pyramids, as sent by tile services."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mastaba.model.format import Codec, TileFormat
from mastaba.render.encoding.base import Encoder
from mastaba.render.encoding.bil import BilEncoder
from mastaba.render.encoding.jpeg import JpegEncoder
from mastaba.render.encoding.png import PngEncoder
from mastaba.render.encoding.tiff import TiffEncoder
from mastaba.slab.delivery import TIFF_COMPRESSIONS

_QUALITIES: Final = {"TIFF_JPG_UINT8": "75", "TIFF_JPG90_UINT8": "90"}


def tile_encoder(tile_format: TileFormat) -> tuple[Encoder, Mapping[str, str]]:
    """Return the encoder for tiles of a raster format, and its options (slab.md section 4.4).

    The output needs no Content-Encoding.
    """
    if tile_format.codec is Codec.JPEG:
        return JpegEncoder(), MappingProxyType({"quality": _QUALITIES[tile_format.name]})
    if tile_format.codec is Codec.PNG:
        return PngEncoder(), MappingProxyType({})
    if tile_format.needs_tiff_header:
        compression = TIFF_COMPRESSIONS[tile_format.codec]
        return TiffEncoder(), MappingProxyType({"compression": compression})
    return BilEncoder(), MappingProxyType({})
