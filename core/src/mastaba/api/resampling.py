"""Former names of what `mastaba_render.api.resampling` contains (distribution mastaba-render)."""

from mastaba.api._deprecated import former_names

__all__: list[str] = []

_NAMES = """
BASE_RADIUS DECIMATIONS NEAREST Axis GridPositions Positions Sampler StraightPositions bounded
decimate kernel_library radius_of
"""

__getattr__ = former_names(
    __name__, {name: (f"mastaba_render.api.resampling.{name}", "2.0") for name in _NAMES.split()}
)
