"""Values as documents show them: runs of equal steps, and one precision for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Final, TypeVar

from mastaba_dimensions.axes import Value
from mastaba_documents.times import DAY, Period, Precision, Time, civil, time_text

_SHORTEST: Final = 4
"""Values of a run."""

S = TypeVar("S")


def time_runs(values: Sequence[Value[Time]]) -> list[tuple[str, str]]:
    """Return the texts of times in order, runs as ``first/last/step``.

    Returns:
        each text, and the step of a run or an empty text.
    """
    return _runs(values, _time_steps, _follows)


def number_runs(values: Sequence[Value[Decimal]]) -> list[tuple[str, str]]:
    """Return the texts of numbers in their order, as `time_runs` does."""

    def steps(one: Value[Decimal], other: Value[Decimal]) -> Iterator[Decimal]:
        if other.means > one.means:
            yield other.means - one.means

    def follows(first: Value[Decimal], other: Value[Decimal], step: Decimal, count: int) -> bool:
        return first.means + step * count == other.means

    return _runs(values, steps, follows)


def _runs(
    values: Sequence[Value[S]],
    steps: Callable[[Value[S], Value[S]], Iterator[object]],
    follows: Callable[..., bool],
) -> list[tuple[str, str]]:
    found, position = [], 0
    while position < len(values):
        first, best, best_step = values[position], 1, ""
        for step in steps(first, values[position + 1]) if position + 1 < len(values) else ():
            count = 1
            while position + count < len(values) and follows(
                first, values[position + count], step, count
            ):
                count += 1
            if count > best:
                best, best_step = count, f"{step:f}" if isinstance(step, Decimal) else str(step)
        if best >= _SHORTEST:
            last = values[position + best - 1]
            found.append((f"{first.text}/{last.text}/{best_step}", best_step))
            position += best
        else:
            found.append((first.text, ""))
            position += 1
    return found


def _time_steps(one: Value[Time], other: Value[Time]) -> Iterator[Period]:
    if one.means.precision is None or one.means.precision is not other.means.precision:
        return
    (year, month, _), (later_year, later_month, _) = (
        civil(value.means.start // DAY) for value in (one, other)
    )
    months = (later_year - year) * 12 + later_month - month
    if months > 0 and Period(months, 0).after(one.means.start) == other.means.start:
        yield Period(months, 0)
    if one.means.precision >= Precision.DAY and other.means.start > one.means.start:
        yield Period(0, other.means.start - one.means.start)


def _follows(first: Value[Time], other: Value[Time], step: Period, count: int) -> bool:
    is_alike = first.means.precision is other.means.precision
    return is_alike and step.after(first.means.start, count) == other.means.start


def smallest_step(values: Sequence[Value[Time]]) -> str:
    """Return the smallest distance between two times as a period."""
    starts = [value.means.start for value in values]
    steps = (later - one for one, later in pairwise(starts) if later > one)
    return str(Period(0, min(steps, default=DAY)))


def smallest_difference(values: Sequence[Value[Decimal]]) -> str:
    """Return the smallest distance between two of ascending numbers."""
    steps = (later.means - one.means for one, later in pairwise(values) if later.means > one.means)
    return f"{min(steps, default=Decimal(1)):f}"


def uniform_times(values: Sequence[Value[Time]], find: Callable[[str], Sequence[int]]) -> list[str]:
    """Return times in the finest precision that occurs; of months, the first days.

    A time that would then mean another value, such as that of an interval with an equal start, is
    written as documents show it elsewhere.

    Args:
        find: returns the numbers of the values that a text means.
    """
    precisions = {value.means.precision for value in values}
    known = [one for one in precisions if one is not None]
    finest = max(known, default=Precision.DAY)
    if len(precisions) == len(known) == 1 and finest is not Precision.MONTH:
        return [value.text for value in values]
    found = []
    for value in values:
        text = time_text(value.means.start, finest)
        found.append(text if tuple(find(text)) == (value.number,) else value.text)
    return found
