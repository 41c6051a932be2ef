"""Resampling of arrays with the kernels that draw maps (resampling.md)."""

from mastaba_render.native import DECIMATIONS, decimate, kernel_library

# Documented in mastaba_render.api.maps, which loads the whole renderer.
from mastaba_render.native import Window as Window
from mastaba_render.sampling import (
    BASE_RADIUS,
    MEAN,
    NEAREST,
    Axis,
    GridPositions,
    MapRows,
    Positions,
    Sampler,
    StraightPositions,
    bounded,
    radius_of,
    resampled,
    resampled_with_gaps,
)

__all__ = [
    "BASE_RADIUS",
    "DECIMATIONS",
    "MEAN",
    "NEAREST",
    "Axis",
    "GridPositions",
    "MapRows",
    "Positions",
    "Sampler",
    "StraightPositions",
    "bounded",
    "decimate",
    "kernel_library",
    "radius_of",
    "resampled",
    "resampled_with_gaps",
]
