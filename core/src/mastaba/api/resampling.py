"""Resampling of arrays with the kernels that draw maps (resampling.md)."""

from mastaba.render.kernels import BASE_RADIUS, NEAREST, Axis, radius_of
from mastaba.render.native import DECIMATIONS, decimate, kernel_library
from mastaba.render.sampling import GridPositions, Positions, Sampler, StraightPositions

__all__ = [
    "BASE_RADIUS",
    "DECIMATIONS",
    "NEAREST",
    "Axis",
    "GridPositions",
    "Positions",
    "Sampler",
    "StraightPositions",
    "decimate",
    "kernel_library",
    "radius_of",
]
