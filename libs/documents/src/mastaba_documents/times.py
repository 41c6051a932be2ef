"""The grammar of times, periods and numbers (time.md section 1.3). All parsing is linear.

Instants are integers: microseconds since 1970-01-01T00:00:00Z in the proleptic Gregorian calendar,
for the years -9999 to 9999. Every time denotes an interval by its precision. All distributions
read times with these functions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import IntEnum
from functools import lru_cache
from typing import Final

SECOND: Final = 1_000_000
DAY: Final = 86_400 * SECOND

_ZONE: Final = r"(Z|[+-][0-9]{2}:[0-9]{2})?"
_CLOCK: Final = rf"T([0-9]{{2}})(?::([0-9]{{2}})(?::([0-9]{{2}})(?:\.([0-9]{{1,9}}))?)?)?{_ZONE}"
_TIME: Final = re.compile(rf"(-?[0-9]{{4}})(?:-([0-9]{{2}})(?:-([0-9]{{2}})(?:{_CLOCK})?)?)?")
_COMPACT: Final = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})")
_N: Final = "([0-9]{1,9})"
_PERIOD: Final = re.compile(
    rf"P(?:{_N}Y)?(?:{_N}M)?(?:{_N}W)?(?:{_N}D)?"
    rf"(?:T(?=[0-9])(?:{_N}H)?(?:{_N}M)?(?:{_N}(?:\.([0-9]{{1,6}}))?S)?)?"
)
_NUMBER: Final = re.compile(
    r"[+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,2})?"
)
_LONGEST: Final = 80
_UNIX_EPOCH: Final = date(1970, 1, 1).toordinal()
_MONTH_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class Precision(IntEnum):
    """How precisely a time is written, the coarsest first."""

    YEAR = 0
    MONTH = 1
    DAY = 2
    HOUR = 3
    MINUTE = 4
    SECOND = 5
    FRACTION = 6


@dataclass(frozen=True, slots=True)
class Time:
    """The interval that a time denotes.

    Attributes:
        start: first instant.
        end: first instant behind it.
        precision: with which it is written; None for a pair of times.
    """

    start: int
    end: int
    precision: Precision | None

    @property
    def is_point(self) -> bool:
        """Whether a request with this time means an instant."""
        return self.precision is not None and self.precision >= Precision.SECOND


@dataclass(frozen=True, slots=True)
class Period:
    """A calendar step: months first, then microseconds."""

    months: int
    microseconds: int

    def after(self, start: int, steps: int = 1) -> int:
        """Return the instant a number of steps after a start, counted from there."""
        if self.months:
            days, rest = divmod(start, DAY)
            year, month, day = civil(days)
            count = year * 12 + month - 1 + self.months * steps
            year, month = count // 12, count % 12 + 1
            start = days_of(year, month, min(day, _month_days(year, month))) * DAY + rest
        return start + self.microseconds * steps

    def __str__(self) -> str:
        days, rest = divmod(self.microseconds, DAY)
        years, months = divmod(self.months, 12)
        hours, rest = divmod(rest, 3600 * SECOND)
        minutes, rest = divmod(rest, 60 * SECOND)
        seconds = f"{Decimal(rest) / SECOND:f}" if rest % SECOND else str(rest // SECOND)
        if self.months and years and months:
            years, months = 0, self.months
        date = "".join(f"{n}{unit}" for n, unit in ((years, "Y"), (months, "M"), (days, "D")) if n)
        clock = "".join(f"{n}{unit}" for n, unit in ((hours, "H"), (minutes, "M")) if n)
        clock += f"{seconds}S" if rest else ""
        return f"P{date}" + (f"T{clock}" if clock else "")


def days_of(year: int, month: int, day: int) -> int:
    """Return the number of days since 1970-01-01."""
    year -= month <= 2
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


def civil(days: int) -> tuple[int, int, int]:
    """Return year, month and day of a number of days since 1970-01-01."""
    days += 719468
    era = days // 146097
    of_era = days - era * 146097
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year + era * 400 + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1


def _month_days(year: int, month: int) -> int:
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if month == 2 and is_leap else _MONTH_DAYS[month - 1]


def parse_time(text: str) -> Time | None:
    """Return the interval of a time; None if it is not one."""
    return _parsed_time(text) if len(text) <= _LONGEST else None


@lru_cache(maxsize=4096)
def _parsed_time(text: str) -> Time | None:
    compact = _COMPACT.fullmatch(text)
    found = compact or _TIME.fullmatch(text)
    if found is None:
        return None
    groups: list[str | None] = [*found.groups()[1:], *[None] * 5]
    month, day, *clock = groups[:6]
    zone = groups[6]
    fields = [int(field) if field is not None else None for field in (month, day, *clock[:3])]
    count = sum(field is not None for field in fields)
    m, d, hour, minute, second = (
        default if field is None else field
        for field, default in zip(fields, (1, 1, 0, 0, 0), strict=True)
    )
    y = int(found[1])
    if not (1 <= m <= 12 and 1 <= d <= _month_days(y, m)):
        return None
    if not (hour <= 23 and minute <= 59 and second <= 59):
        return None
    start = days_of(y, m, d) * DAY + (hour * 3600 + minute * 60 + second) * SECOND
    if zone not in (None, "Z"):
        hours, minutes = int(zone[1:3]), int(zone[4:6])
        if hours > 23 or minutes > 59:
            return None
        offset = (hours * 60 + minutes) * 60 * SECOND
        start += -offset if zone[0] == "+" else offset
    fraction = clock[3]
    if fraction is not None:
        start += int(fraction[:6].ljust(6, "0"))
        return Time(start, start + 10 ** max(0, 6 - len(fraction)), Precision.FRACTION)
    precision = Precision(count)
    return Time(start, _LENGTHS[precision].after(start), precision)


_LENGTHS: Final = {
    Precision.YEAR: Period(12, 0),
    Precision.MONTH: Period(1, 0),
    Precision.DAY: Period(0, DAY),
    Precision.HOUR: Period(0, 3600 * SECOND),
    Precision.MINUTE: Period(0, 60 * SECOND),
    Precision.SECOND: Period(0, SECOND),
}


def parse_instant(text: str) -> int | None:
    """Return the instant of a date with time and zone (RFC 3339, clause 5.6); None if it is none.

    Seconds may be absent. As the standard allows, ``t`` and ``z`` may be in lower case, and a space
    may replace the ``T``.
    """
    text = text.upper().replace(" ", "T", 1)
    found = parse_time(text)
    has_zone = text.endswith("Z") or text[-6:-5] in ("+", "-")
    if found is None or not has_zone or found.precision is None:
        return None
    return found.start if found.precision >= Precision.MINUTE else None


def parse_day(text: str) -> date | None:
    """Return a date of the form ``yyyy-mm-dd``, from the year 1; None if it is none."""
    found = parse_time(text)
    if found is None or found.precision is not Precision.DAY or len(text) != 10:
        return None
    days = found.start // DAY + _UNIX_EPOCH
    return date.fromordinal(days) if days > 0 else None


def parse_period(text: str) -> Period | None:
    """Return a period that is longer than nothing; None if it is not one."""
    found = _PERIOD.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        return None
    fraction = int((found[8] or "").ljust(6, "0"))
    years, months, weeks, days, hours, minutes, seconds = (
        int(one or 0) for one in found.groups()[:7]
    )
    clock = hours * 3600 + minutes * 60 + seconds
    rest = (7 * weeks + days) * DAY + clock * SECOND + fraction
    period = Period(12 * years + months, rest)
    return period if period.months or period.microseconds else None


def parse_number(text: str) -> Decimal | None:
    """Return a decimal number; None if it is not one."""
    return Decimal(text) if _NUMBER.fullmatch(text) else None


def time_text(instant: int, precision: Precision) -> str:
    """Return an instant as text; of months, the day."""
    days, rest = divmod(instant, DAY)
    year, month, day = civil(days)
    sign = "-" if year < 0 else ""
    text = f"{sign}{abs(year):04d}"
    if precision >= Precision.MONTH:
        text += f"-{month:02d}-{day:02d}"
    if precision >= Precision.HOUR:
        seconds, rest = divmod(rest, SECOND)
        text += f"T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        if precision is Precision.FRACTION:
            text += f".{rest:06d}"[: 4 if rest % 1000 == 0 else 7]
        text += "Z"
    return text


def interval_of(time: Time) -> tuple[str, str]:
    """Return the first and last instant of a time, ISO 8601."""
    second = Precision.SECOND
    if time.precision is Precision.FRACTION:
        text = time_text(time.start, Precision.FRACTION)
        return text, text
    return time_text(time.start, second), time_text(time.end - 1, second)
