"""Colours of values, by a palette."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import boolean, float32, float64, uint8

from mastaba.render.compiled.compiler import compiled, given

Bytes = npt.NDArray[np.uint8]
Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]


@compiled(uint8[:, ::1](given(float32, 1), given(float64, 1), given(float64, 2), boolean, boolean))  # type: ignore[untyped-decorator]
def colours(values: Float32, steps: Float64, entries: Float64, rgb: bool, alpha: bool) -> Bytes:
    """Do what `mastaba.render.styles.colours_in_numpy` does."""
    result = np.empty((len(values), 4), np.uint8)
    last = len(steps) - 1
    below = 0
    for i in range(len(values)):
        value = values[i]
        # Neighbours mostly lie between the same two steps.
        if not (steps[below] <= value and (below == last or value < steps[below + 1])):
            below = max(np.searchsorted(steps, value, side="right") - 1, 0)
        part = 0.0
        if below < last and value > steps[below]:
            part = (value - steps[below]) / (steps[below + 1] - steps[below])
        for channel in range(4):
            colour = entries[below, channel]
            if (alpha if channel == 3 else rgb) and part > 0.0:
                colour += (entries[below + 1, channel] - colour) * part
            result[i, channel] = int(colour + 1e-9)
    return result
