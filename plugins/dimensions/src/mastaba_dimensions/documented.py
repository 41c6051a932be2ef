"""The values of dimensions as documents list them (time.md section 1.5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mastaba_dimensions.axes import Axis, NumberAxis, TimeAxis, Value
from mastaba_dimensions.runs import (
    interval_of,
    number_runs,
    smallest_step,
    time_runs,
    uniform_times,
)
from mastaba_ows.dimensions import Dimension, DimensionValues


def documented(dimension: Dimension, axis: Axis[Any], limit: int) -> DimensionValues:
    """Return the values of a dimension, without its default.

    Args:
        limit: entries of a list at most; longer ones become ranges with a step.
    """
    intervals: Sequence[tuple[str, str]] = ()
    if isinstance(axis, TimeAxis):
        values: Sequence[Value[Any]] = axis.values
        runs = time_runs(values)
        uniform = uniform_times(values)
        intervals = [interval_of(value.means) for value in values]
    else:
        values = sorted(axis.values, key=lambda value: value.number)
        is_number = isinstance(axis, NumberAxis)
        runs = number_runs(values) if is_number else [(one.text, "") for one in values]
        uniform = [value.text for value in values]
    texts = [value.text for value in values]
    extent, nearest = ",".join(text for text, _ in runs), dimension.nearest
    if len(runs) > limit and isinstance(axis, TimeAxis):
        extent, nearest = f"{texts[0]}/{texts[-1]}/{smallest_step(values)}", True
    if len(uniform) > limit:
        uniform = [text for text, _ in runs] if len(runs) <= limit else [extent]
    step = runs[0][1] if len(runs) == 1 else ""
    return DimensionValues(dimension, "", texts, extent, uniform, step, intervals, nearest)
