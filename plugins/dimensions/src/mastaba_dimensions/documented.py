"""The values of dimensions as documents list them (time.md section 1.5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mastaba_dimensions.axes import Axis, NumberAxis, TextAxis, TimeAxis, Value
from mastaba_dimensions.runs import (
    number_runs,
    smallest_difference,
    smallest_step,
    time_runs,
    uniform_times,
)
from mastaba_documents.times import interval_of
from mastaba_ows.dimensions import Dimension, DimensionValues


def documented(
    dimension: Dimension, axis: Axis[Any], limit: int, default: str = ""
) -> DimensionValues:
    """Return the values of a dimension, without its default.

    Args:
        limit: entries of a list at most. Longer ones become ranges with a step; of texts, the first
            ones are shown.
        default: text of the default, which is always shown.
    """
    intervals: Sequence[tuple[str, str]] = ()
    if isinstance(axis, TimeAxis):
        values: Sequence[Value[Any]] = axis.values
        runs = time_runs(values)
        # Longer lists become runs, or a range.
        is_short = len(values) <= limit
        uniform = uniform_times(values, lambda text: axis.find(text).values) if is_short else []
        intervals = [interval_of(value.means) for value in values]
    else:
        values = sorted(axis.values, key=lambda value: value.number)
        is_number = isinstance(axis, NumberAxis)
        runs = number_runs(values) if is_number else [(one.text, "") for one in values]
        uniform = [value.text for value in values]
    texts = [value.text for value in values]
    if len(runs) > limit:
        shown = _shortened(axis, texts, limit, default)
    else:
        shown = [text for text, _ in runs]
    if len(values) > limit:
        uniform = shown
    step = runs[0][1] if len(runs) == 1 else ""
    extent, nearest = ",".join(shown), dimension.nearest
    return DimensionValues(dimension, "", texts, extent, uniform, step, intervals, nearest)


def is_irregular(axis: Axis[Any], limit: int) -> bool:
    """Return whether documents would show values that do not exist, in a range around all."""
    if len(axis.values) <= limit or isinstance(axis, TextAxis):
        return False
    if isinstance(axis, TimeAxis):
        return len(time_runs(axis.values)) > limit
    return len(number_runs(sorted(axis.values, key=lambda value: value.number))) > limit


def _shortened(axis: Axis[Any], texts: list[str], limit: int, default: str) -> list[str]:
    """Return a range around times or numbers, or the first texts and the default."""
    first, last = axis.values[0].text, axis.values[-1].text
    if isinstance(axis, TimeAxis):
        return [f"{first}/{last}/{smallest_step(axis.values)}"]
    if isinstance(axis, NumberAxis):
        return [f"{first}/{last}/{smallest_difference(axis.values)}"]
    shown = texts[:limit]
    return shown if default in ("", *shown) else [*shown[:-1], default]
