"""Former names of what `mastaba_render.api.encoders` contains (distribution mastaba-render)."""

from mastaba.api._deprecated import moved_names

_NAMES = "Encoder Raster Strip StripEncoder StripRaster"
__getattr__ = moved_names(__name__, {"mastaba_render.api.encoders": _NAMES})
