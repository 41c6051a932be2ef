"""Former names of what `mastaba_render.api.resampling` contains (distribution mastaba-render)."""

from mastaba.api._deprecated import moved_names

_NAMES = """
BASE_RADIUS DECIMATIONS NEAREST Axis GridPositions Positions Sampler StraightPositions bounded
decimate kernel_library radius_of
"""
__getattr__ = moved_names(__name__, {"mastaba_render.api.resampling": _NAMES})
