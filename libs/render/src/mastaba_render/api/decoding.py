"""Decoding of stored tiles (slab.md section 3)."""

from mastaba_render.codecs import Pixels, TileDecoder

__all__ = ["Pixels", "TileDecoder"]
