"""Encoders: their base classes, and the rasters that they encode."""

from mastaba.render.encoding.base import Encoder, Raster, StripEncoder, StripRaster

__all__ = [
    "Encoder",
    "Raster",
    "StripEncoder",
    "StripRaster",
]
