"""Image encoders: arrays in, bytes of one media type out."""

from mastaba.render.encoding.base import Encoder, Raster, StripEncoder, StripRaster

__all__ = ["Encoder", "Raster", "StripEncoder", "StripRaster"]
