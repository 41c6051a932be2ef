"""Stored tiles: reading of many with few reads, and decoding (slab.md section 3)."""

from mastaba_render.codecs import Pixels, TileDecoder
from mastaba_render.plan import read_located, read_tiles

__all__ = ["Pixels", "TileDecoder", "read_located", "read_tiles"]
