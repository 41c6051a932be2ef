"""Encoders: their base classes, and the rasters that they encode."""

from mastaba_render.encoder import Encoder, Raster, Strip, StripEncoder, StripRaster

__all__ = ["Encoder", "Raster", "Strip", "StripEncoder", "StripRaster"]
