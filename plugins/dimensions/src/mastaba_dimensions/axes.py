"""The values of one dimension in order, and which of them the text of a request means."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Generic, NamedTuple, TypeVar

from mastaba.api.dimensions import InvalidDimensionError, NoSuchValueError
from mastaba.api.web import printable
from mastaba_documents.times import SECOND, Period, Time, parse_number, parse_period, parse_time
from mastaba_ows.dimensions import Dimension

LONGEST: Final = 10_000
"""Characters of the values of one dimension in a request."""
MOST_ITEMS: Final = 500
"""Items of a list in a request."""
_WALKED: Final = 10_000
"""Values of a range that are compared with its steps, the newest first, and of all items of a
list together."""
_OPEN: Final = ("", "..", "*")
_MONTH: Final = 2_629_746 * SECOND
"""A mean month: the 4,800th part of the 146,097 days of 400 years."""

S = TypeVar("S")


class Found(NamedTuple):
    """Values that a text means.

    Attributes:
        values: their numbers, newest first; at least one.
        is_list: whether the text is a list, whose items must all be shown.
        is_nearest: whether a nearest value was taken.
        is_named: whether the text names the value, so that others do not change what it means.
        walked: number of values that were looked at.
    """

    values: Sequence[int]
    is_list: bool = False
    is_nearest: bool = False
    is_named: bool = True
    walked: int = 1


@dataclass(frozen=True, slots=True)
class Value(Generic[S]):
    """One value.

    Attributes:
        number: among the values of the dimension, in the order of the descriptor.
        text: as documents and names show it.
        spelt: as the descriptor has it.
        means: what it denotes.
    """

    number: int
    text: str
    spelt: str
    means: S


class Axis(ABC, Generic[S]):
    """Some values of a dimension, oldest first.

    Args:
        dimension: whose values these are.
        values: at least one, in any order.
        tolerance: how far a nearest value may be; None for any distance.
    """

    def __init__(
        self, dimension: Dimension, values: Sequence[Value[S]], tolerance: object = None
    ) -> None:
        self.dimension = dimension
        self.tolerance = tolerance
        self.values = sorted(values, key=self._key)
        self._texts: dict[str, Value[S]] = {}
        for value in self.values:
            self._texts.setdefault(value.spelt, value)
        for value in self.values:
            self._texts[value.text] = value

    @abstractmethod
    def _key(self, value: Value[S]) -> tuple[object, ...]:
        """Return what orders the values."""

    def among(self, numbers: set[int]) -> Axis[S]:
        """Return an axis of some of the values."""
        some = [value for value in self.values if value.number in numbers]
        return type(self)(self.dimension, some, self.tolerance)

    @property
    def newest(self) -> Value[S]:
        """The last value."""
        return self.values[-1]

    def find(self, text: str) -> Found:
        """Return the values that a text means.

        Raises:
            InvalidDimensionError: it is malformed.
            NoSuchValueError: it means none.
        """
        known = self._texts.get(text)
        if known is not None:
            return Found((known.number,))
        if len(text) > LONGEST:
            raise self._invalid("a text that is too long")
        items = text.split(",", MOST_ITEMS)
        if len(items) == 1:
            return self._item(text)
        if len(items) > MOST_ITEMS:
            raise self._too_many(f"at most {MOST_ITEMS} items")
        found: dict[int, None] = {}
        is_nearest, is_named, walked = False, True, 0
        for item in dict.fromkeys(items):
            one = self._item(item)
            walked += one.walked
            if walked > _WALKED:
                raise self._too_many(f"ranges of at most {_WALKED:,} values together")
            is_named = is_named and one.is_named
            found.update(dict.fromkeys(one.values))
            is_nearest = is_nearest or one.is_nearest
        ranks = {
            value.number: rank for rank, value in enumerate(self.values) if value.number in found
        }
        return Found(sorted(found, key=lambda number: -ranks[number]), True, is_nearest, is_named)

    def _item(self, text: str) -> Found:
        known = self._texts.get(text)
        if known is not None:
            return Found((known.number,))
        if text == "current" and self.dimension.kind == "time":
            return Found((self.newest.number,), is_named=False)
        if "/" not in text:
            return self._one(text)
        first, last, *step = text.split("/")
        if len(step) > 1:
            raise self._invalid(text)
        return self._range(first, last, step[0] if step else "", text)

    @abstractmethod
    def _one(self, text: str) -> Found:
        """Return what an item without a slash means."""

    @abstractmethod
    def _range(self, first: str, last: str, step: str, text: str) -> Found:
        """Return what a range means."""

    @abstractmethod
    def nearest(self, means: S) -> Value[S]:
        """Return the value that is nearest to another one."""

    def _found(self, start: int, end: int, text: str) -> Found:
        """Return the values from a position to another one, newest first."""
        if start >= end:
            raise self._none(text)
        numbers = [value.number for value in reversed(self.values[start:end])]
        return Found(numbers, is_named=False, walked=len(numbers))

    def _invalid(self, text: str) -> InvalidDimensionError:
        name = self.dimension.name
        return InvalidDimensionError(f"{printable(text)} is not a value of {name}", name)

    def _too_many(self, limit: str) -> InvalidDimensionError:
        name = self.dimension.name
        return InvalidDimensionError(f"a list of {name} may have {limit}", name)

    def _none(self, text: str) -> NoSuchValueError:
        name = self.dimension.name
        return NoSuchValueError(f"the layer has no {name} {printable(text)}", name)


class TimeAxis(Axis[Time]):
    """Times: intervals, perhaps of different lengths, that may meet each other."""

    def __init__(
        self, dimension: Dimension, values: Sequence[Value[Time]], tolerance: object = None
    ) -> None:
        super().__init__(dimension, values, tolerance)
        self._starts = [value.means.start for value in self.values]
        # Position of the value with the latest end among the first ones; the later of equal ones.
        self._latest: list[int] = []
        for position, value in enumerate(self.values):
            last = self._latest[-1] if self._latest else position
            ends_later = value.means.end >= self.values[last].means.end
            self._latest.append(position if ends_later else last)

    def _key(self, value: Value[Time]) -> tuple[object, ...]:
        return value.means.start, value.means.end, value.number

    def not_after(self, instant: int) -> Value[Time]:
        """Return the newest value that has begun, or else the oldest one."""
        return self.values[max(0, bisect_right(self._starts, instant) - 1)]

    def _one(self, text: str) -> Found:
        time = parse_time(text)
        if time is None:
            raise self._invalid(text)
        start = time.start
        end = start + 1 if time.is_point else time.end
        within = self._shortest_around(start, end)
        if within is not None:
            return Found((within.number,))
        inside, in_part = self._met(start, end)
        if inside:
            numbers = [value.number for value in reversed(inside)]
            return Found(numbers, is_named=False, walked=len(numbers))
        if in_part:
            most = max(in_part, key=lambda one: _overlap(one, start, end))
            return Found((most.number,), is_named=False)
        if self.dimension.nearest:
            found = self.nearest(time)
            if self._is_tolerated(found.means, start, end):
                return Found((found.number,), is_nearest=True, is_named=False)
        raise self._none(text)

    def _shortest_around(self, start: int, end: int) -> Value[Time] | None:
        """Return the shortest value that contains an interval, the later of equally long ones."""
        best: Value[Time] | None = None
        for position in range(bisect_right(self._starts, start) - 1, -1, -1):
            value = self.values[position]
            if self.values[self._latest[position]].means.end < end:
                break
            if best is not None and end - value.means.start > best.means.end - best.means.start:
                break
            if value.means.end >= end and (best is None or _length(value) < _length(best)):
                best = value
        return best

    def _met(self, start: int, end: int) -> tuple[list[Value[Time]], list[Value[Time]]]:
        """Return the values inside an interval, oldest first, and those partly in it."""
        inside: list[Value[Time]] = []
        in_part: list[Value[Time]] = []
        for value in self.values[self._first_meeting(start) : bisect_left(self._starts, end)]:
            if value.means.start >= start and value.means.end <= end:
                inside.append(value)
            elif value.means.end > start:
                in_part.append(value)
        return inside, in_part

    def _first_meeting(self, start: int) -> int:
        """Return the first position at which a value may end behind an instant."""
        latest, values = self._latest, self.values
        # The latest ends ascend.
        return bisect_right(latest, start, key=lambda position: values[position].means.end)

    def nearest(self, means: Time) -> Value[Time]:
        start = means.start
        end = start + 1 if means.is_point else means.end
        before = bisect_left(self._starts, end)
        candidates = self.values[before : before + 1]
        if before:
            candidates.append(self.values[self._latest[before - 1]])
        return min(candidates, key=lambda one: (_distance(one.means, start, end), -one.means.start))

    def _is_tolerated(self, found: Time, start: int, end: int) -> bool:
        tolerance = self.tolerance
        if not isinstance(tolerance, Period):
            return True
        end -= 1 if end == start + 1 else 0
        if found.end <= start:
            return tolerance.after(found.end) >= start
        return tolerance.after(end) >= found.start

    def _range(self, first: str, last: str, step: str, text: str) -> Found:
        begin, finish = self._end_of(first, text), self._end_of(last, text)
        period = parse_period(step) if step else None
        if step and period is None:
            raise self._invalid(text)
        start = None if begin is None else begin.start
        end = None if finish is None else finish.end
        if start is not None and end is not None and end <= start:
            raise self._invalid(text)
        low = 0 if start is None else self._first_meeting(start)
        high = len(self.values) if end is None else bisect_left(self._starts, end)
        met = [
            value
            for value in reversed(self.values[low:high])
            if start is None or value.means.end > start
        ]
        walked = len(met)
        if period is not None and met:
            origin = self.values[0].means.start if start is None else start
            last_step = None if end is None else end - 1
            met = [
                one for one in met[:_WALKED] if _is_on_step(one.means, origin, last_step, period)
            ]
        if not met:
            raise self._none(text)
        return Found([value.number for value in met], is_named=False, walked=walked)

    def _end_of(self, text: str, whole: str) -> Time | None:
        if text in _OPEN:
            return None
        if text == "current":
            return self.newest.means
        time = parse_time(text)
        if time is None:
            raise self._invalid(whole)
        return time


def _length(value: Value[Time]) -> int:
    return value.means.end - value.means.start


def _overlap(value: Value[Time], start: int, end: int) -> tuple[int, int]:
    """Return how much of an interval a value covers, and its start."""
    return min(value.means.end, end) - max(value.means.start, start), value.means.start


def _distance(one: Time, start: int, end: int) -> int:
    if one.end <= start:
        return start - one.end
    return max(0, one.start - (end - 1 if end == start + 1 else end))


def _is_on_step(one: Time, origin: int, last: int | None, period: Period) -> bool:
    """Return whether a step is inside an interval, and not behind the last instant."""
    length = max(1, period.months * _MONTH + period.microseconds)
    steps = max(0, (one.start - origin) // length)
    step = period.after(origin, steps)
    # The lengths of months differ: corrected from the estimate, by halves of what remains.
    while step < one.start:
        steps += max(1, (one.start - step) // (2 * length))
        step = period.after(origin, steps)
    while steps and (earlier := period.after(origin, steps - 1)) >= one.start:
        steps -= 1
        step = earlier
    return one.start <= step < one.end and (last is None or step <= last)


class NumberAxis(Axis[Decimal]):
    """Numbers."""

    def __init__(
        self, dimension: Dimension, values: Sequence[Value[Decimal]], tolerance: object = None
    ) -> None:
        super().__init__(dimension, values, tolerance)
        self._numbers = [value.means for value in self.values]

    def _key(self, value: Value[Decimal]) -> tuple[object, ...]:
        return value.means, value.number

    def _one(self, text: str) -> Found:
        number = parse_number(text)
        if number is None:
            raise self._invalid(text)
        position = bisect_left(self._numbers, number)
        if position < len(self._numbers) and self._numbers[position] == number:
            return Found((self.values[position].number,))
        if self.dimension.nearest:
            found = self.nearest(number)
            tolerance = self.tolerance
            if not isinstance(tolerance, Decimal) or abs(found.means - number) <= tolerance:
                return Found((found.number,), is_nearest=True, is_named=False)
        raise self._none(text)

    def nearest(self, means: Decimal) -> Value[Decimal]:
        position = bisect_left(self._numbers, means)
        candidates = self.values[max(0, position - 1) : position + 1]
        return min(candidates, key=lambda one: (abs(one.means - means), -one.means))

    def _range(self, first: str, last: str, step: str, text: str) -> Found:
        ends = [None if one in _OPEN else parse_number(one) for one in (first, last)]
        if any(
            end is None and one not in _OPEN for end, one in zip(ends, (first, last), strict=True)
        ):
            raise self._invalid(text)
        low, high = ends
        by = parse_number(step) if step else None
        if (step and (by is None or by <= 0)) or (
            low is not None and high is not None and high < low
        ):
            raise self._invalid(text)
        start = 0 if low is None else bisect_left(self._numbers, low)
        end = len(self.values) if high is None else bisect_right(self._numbers, high)
        if by is None:
            return self._found(start, end, text)
        origin = self._numbers[0] if low is None else low
        met = [
            value.number
            for value in reversed(self.values[start:end][-_WALKED:])
            if _is_multiple(value.means - origin, by)
        ]
        if not met:
            raise self._none(text)
        return Found(met, is_named=False, walked=end - start)


def _is_multiple(distance: Decimal, step: Decimal) -> bool:
    # Not by the remainder: it fails if the quotient has more digits than the context.
    ratio = distance / step
    return ratio == ratio.to_integral_value()


class TextAxis(Axis[str]):
    """Texts, in the order of the descriptor; only equal ones are the same."""

    def _key(self, value: Value[str]) -> tuple[object, ...]:
        return (value.number,)

    def _item(self, text: str) -> Found:
        return self._one(text)

    def _one(self, text: str) -> Found:
        known = self._texts.get(text)
        if known is None:
            raise self._none(text)
        return Found((known.number,))

    def nearest(self, means: str) -> Value[str]:
        return self._texts.get(means, self.newest)

    def _range(self, first: str, last: str, step: str, text: str) -> Found:
        raise self._none(text)
