"""What values of a request mean, by the definitions of time.md sections 1.3 to 1.5.

Written for these tests alone: every value is compared with every request, with the calendar of the
standard library, so it knows the years 1 to 9999 only.
"""

from __future__ import annotations

import calendar
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

TICK = timedelta(microseconds=1)
FORMATS = {4: "%Y", 7: "%Y-%m", 10: "%Y-%m-%d", 13: "%Y-%m-%dT%H", 16: "%Y-%m-%dT%H:%M"}


class Span(NamedTuple):
    start: datetime
    end: datetime
    is_point: bool


@dataclass(frozen=True)
class Value:
    text: str
    spelt: str
    span: Span


class Answer(NamedTuple):
    """Texts, newest first; kind of note; or an error: ``invalid`` or ``none``."""

    texts: tuple[str, ...] = ()
    note: str = ""
    error: str = ""


def moved(start: datetime, months: int, rest: timedelta) -> datetime:
    count = start.year * 12 + start.month - 1 + months
    year, month = divmod(count, 12)
    day = min(start.day, calendar.monthrange(year, month + 1)[1])
    return start.replace(year=year, month=month + 1, day=day) + rest


def span_of(text: str) -> Span | None:
    """Return the interval of a time, None if it is malformed."""
    zone, plain = timedelta(), text
    if not text.isascii():
        return None
    if len(text) == 8 and text.isdigit():
        plain = f"{text[:4]}-{text[4:6]}-{text[6:]}"
    elif "T" in text:
        if text.endswith("Z"):
            plain = text[:-1]
        elif len(text) > 6 and text[-6] in "+-" and text[-3] == ":":
            hours, minutes = text[-5:-3], text[-2:]
            if not (hours + minutes).isdigit() or int(hours) > 23 or int(minutes) > 59:
                return None
            zone = timedelta(hours=int(hours), minutes=int(minutes))
            zone, plain = (zone if text[-6] == "+" else -zone), text[:-6]
    whole, dot, fraction = plain.partition(".")
    if dot and not (fraction.isdigit() and 1 <= len(fraction) <= 9 and len(whole) == 19):
        return None
    if any(not (c.isdigit() or c in "-:T") for c in whole):
        return None
    try:
        if len(whole) == 19:
            start = datetime.strptime(whole, "%Y-%m-%dT%H:%M:%S")
        else:
            start = datetime.strptime(whole, FORMATS[len(whole)])
    except (ValueError, KeyError):
        return None
    start = start - zone
    if dot:
        start += timedelta(microseconds=int(fraction[:6].ljust(6, "0")))
        width = 10 ** max(0, 6 - len(fraction))
        return Span(start, start + timedelta(microseconds=width), True)
    lengths = {
        4: (12, timedelta()),
        7: (1, timedelta()),
        10: (0, timedelta(days=1)),
        13: (0, timedelta(hours=1)),
        16: (0, timedelta(minutes=1)),
        19: (0, timedelta(seconds=1)),
    }
    end = moved(start, *lengths[len(whole)])
    return Span(start, end, len(whole) == 19)


def values_of(texts: Sequence[str]) -> list[Value]:
    """Return the values of a layer, oldest first."""
    plain = {text for text in texts if "/" not in text}
    found = []
    for text in texts:
        first, slash, last = text.partition("/")
        one = span_of(first)
        assert one is not None
        if slash:
            other = span_of(last)
            assert other is not None
            shown = text if first in plain else first
            found.append(Value(shown, text, Span(one.start, other.end, False)))
        else:
            found.append(Value(text, text, one))
    return sorted(found, key=lambda value: value.span[:2])


@dataclass(frozen=True)
class Oracle:
    """The answers of one layer with a dimension of time."""

    texts: tuple[str, ...]
    nearest: bool = False
    tolerance: tuple[int, timedelta] | None = None
    multiple: bool = True

    def answer(self, text: str, most: int) -> Answer:
        values = values_of(self.texts)
        for value in values:
            if text == value.text:
                return Answer((value.text,))
        for value in values:
            if text == value.spelt:
                return Answer((value.text,))
        if text.lower() in ("", "default", "undefined", "null"):
            return Answer(("",), "default")
        if "," in text:
            found: list[Value] = []
            note = ""
            for item in text.split(","):
                one = self.item(item, values)
                if one.error:
                    return one
                note = note or one.note
                found += [value for value in values if value.text in one.texts]
            texts = self.newest_first(found)
            if len(texts) > 1 and (not self.multiple or len(texts) > most > 1):
                return Answer(error="invalid")
        else:
            one = self.item(text, values)
            if one.error:
                return one
            texts, note = one.texts, one.note
            if len(texts) > 1 and not self.multiple:
                texts, note = texts[:1], "nearest"
        if len(texts) > most:
            texts, note = texts[:most], "nearest"
        return Answer(tuple(texts), note)

    @staticmethod
    def newest_first(values: Sequence[Value]) -> tuple[str, ...]:
        ordered = sorted(set(values), key=lambda value: value.span[:2], reverse=True)
        return tuple(value.text for value in ordered)

    def item(self, text: str, values: Sequence[Value]) -> Answer:
        for value in values:
            if text in (value.text, value.spelt):
                return Answer((value.text,))
        if text == "current":
            return Answer((values[-1].text,))
        return self.interval(text, values) if "/" in text else self.one(text, values)

    def one(self, text: str, values: Sequence[Value]) -> Answer:
        span = span_of(text)
        if span is None:
            return Answer(error="invalid")
        start, end = span.start, (span.start + TICK if span.is_point else span.end)
        around = [v for v in values if v.span.start <= start and v.span.end >= end]
        if around:
            shortest = min(v.span.end - v.span.start for v in around)
            equal = [v for v in around if v.span.end - v.span.start == shortest]
            return Answer((max(equal, key=lambda v: v.span.start).text,))
        inside = [v for v in values if start <= v.span.start and v.span.end <= end]
        if inside:
            return Answer(self.newest_first(inside))
        partly = [v for v in values if v.span.start < end and v.span.end > start]
        if partly:
            best = max(
                partly,
                key=lambda v: (min(v.span.end, end) - max(v.span.start, start), v.span.start),
            )
            return Answer((best.text,))
        if self.nearest:
            last = span.start if span.is_point else span.end

            def distance(value: Value) -> timedelta:
                if value.span.end <= start:
                    return start - value.span.end
                return value.span.start - last

            best = min(values, key=lambda v: (distance(v), -(v.span.start - datetime.min)))
            if self.is_near(best.span, start, last):
                return Answer((best.text,), "nearest")
        return Answer(error="none")

    def is_near(self, found: Span, start: datetime, last: datetime) -> bool:
        if self.tolerance is None:
            return True
        if found.end <= start:
            return moved(found.end, *self.tolerance) >= start
        return moved(last, *self.tolerance) >= found.start

    def interval(self, text: str, values: Sequence[Value]) -> Answer:
        parts = text.split("/")
        if len(parts) > 3:
            return Answer(error="invalid")
        ends: list[Span | None] = []
        for part in parts[:2]:
            if part in ("", "..", "*"):
                ends.append(None)
            elif part == "current":
                ends.append(values[-1].span)
            else:
                span = span_of(part)
                if span is None:
                    return Answer(error="invalid")
                ends.append(span)
        first, last = ends
        step = None
        if len(parts) == 3 and parts[2]:
            step = period_of(parts[2])
            if step is None:
                return Answer(error="invalid")
        if first is not None and last is not None and last.end <= first.start:
            return Answer(error="invalid")
        met = [
            v
            for v in values
            if (first is None or v.span.end > first.start)
            and (last is None or v.span.start < last.end)
        ]
        if step is not None:
            origin = first.start if first is not None else values[0].span.start
            end = None if last is None else last.end
            met = [v for v in met if on_step(v.span, origin, end, step)]
        return Answer(self.newest_first(met)) if met else Answer(error="none")


def period_of(text: str) -> tuple[int, timedelta] | None:
    """Return months and the rest of a period; only those that the tests write."""
    months, rest, digits, is_clock = 0, timedelta(), "", False
    if text[:1] != "P" or len(text) < 3 or text.endswith("T"):
        return None
    seen = ""
    for letter in text[1:]:
        if letter.isdigit():
            digits += letter
        elif letter == "T" and not digits and not is_clock:
            is_clock = True
        elif digits:
            number, digits = int(digits), ""
            key = letter.lower() if is_clock else letter
            if (
                key in seen
                or key not in "YMWDhms"
                or any("YMWDhms".index(other) > "YMWDhms".index(key) for other in seen)
            ):
                return None
            seen += key
            months += number * {"Y": 12, "M": 1}.get(key, 0)
            days = number * {"W": 7, "D": 1}.get(key, 0)
            rest += timedelta(days=days, seconds=number * {"h": 3600, "m": 60, "s": 1}.get(key, 0))
        else:
            return None
    return (months, rest) if not digits and (months or rest) else None


def on_step(
    span: Span, origin: datetime, end: datetime | None, step: tuple[int, timedelta]
) -> bool:
    count = 0
    while True:
        at = moved(origin, step[0] * count, step[1] * count)
        if at >= span.end or (end is not None and at >= end):
            return False
        if at >= span.start:
            return True
        count += 1
