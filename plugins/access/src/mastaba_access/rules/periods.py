"""Periods in which a rule applies: dates, days of the week and hours."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from mastaba_documents.times import SECOND, parse_instant

_DAYS: Final = ("mo", "tu", "we", "th", "fr", "sa", "su")
_HOURS: Final = re.compile(
    r"(?:(?P<days>[A-Za-z]{2}(?:[-,][A-Za-z]{2})*)\s+)?"
    r"(?P<start>\d\d:\d\d)-(?P<end>\d\d:\d\d)\s+(?P<zone>[A-Za-z0-9_+/-]+)"
)
_DAY: Final = 24 * 60


def moment(text: str) -> float:
    """Return a date and time of RFC 3339 in Unix seconds.

    Raises:
        ValueError: it is not one.
    """
    instant = parse_instant(text)
    if instant is None:
        raise ValueError("is not a date with time and offset, as 2026-11-01T00:00:00Z")
    return instant / SECOND


@dataclass(frozen=True, slots=True)
class Hours:
    """Hours of days of the week, by the clock of a time zone.

    Attributes:
        days: 0 for Monday; those on which the hours begin.
        start: minutes after midnight.
        end: likewise, excluded; not above ``start`` if the hours end on the next day.
        zone: of the clock.
    """

    days: frozenset[int]
    start: int
    end: int
    zone: ZoneInfo

    @classmethod
    def parse(cls, text: str) -> Hours:
        """Parse ``Mo-Fr 08:00-18:00 Europe/Paris``.

        Raises:
            ValueError: the text is invalid.
        """
        found = _HOURS.fullmatch(text.strip())
        if found is None:
            raise ValueError("is not in the form 'Mo-Fr 08:00-18:00 Europe/Paris'")
        start, end = _minutes(found["start"]), _minutes(found["end"])
        if start in (end, _DAY):
            raise ValueError("contains no time: the start is the end")
        try:
            zone = ZoneInfo(found["zone"])
        except (OSError, ValueError, LookupError) as error:
            raise ValueError(f"names the unknown time zone {found['zone']!r}") from error
        return cls(_days(found["days"]), start, end, zone)

    def holds(self, at: float) -> bool:
        """Return whether a moment, Unix seconds, is in these hours."""
        local = datetime.fromtimestamp(at, self.zone)
        minute, day = local.hour * 60 + local.minute, local.weekday()
        if self.start < self.end:
            return day in self.days and self.start <= minute < self.end
        return (day in self.days and minute >= self.start) or (
            (day - 1) % 7 in self.days and minute < self.end
        )

    def next_change(self, at: float) -> float:
        """Return a moment after ``at`` until which `holds` does not change."""
        local = datetime.fromtimestamp(at, self.zone)
        candidates = []
        for further in range(-1, 8):
            day = (local + timedelta(days=further)).replace(
                hour=0, minute=0, second=0, microsecond=0
            )
            for minutes in (self.start, self.end, _DAY):
                for fold in (0, 1):
                    edge = (day + timedelta(minutes=minutes)).replace(fold=fold)
                    candidates.append(edge.timestamp())
        # When the clock is set, it may skip or repeat the edges.
        candidates += _settings_of(self.zone, at, at + 8 * 86400)
        return min(edge for edge in candidates if edge > at)


def _settings_of(zone: ZoneInfo, start: float, end: float) -> list[float]:
    """Return the moments between two others at which the clock of a zone is set."""
    found = []
    step = 86400.0
    while start < end:
        low, high = start, start + step
        if _offset(zone, low) != _offset(zone, high):
            before = _offset(zone, low)
            while high - low > 0.5:
                middle = (low + high) / 2
                low, high = (middle, high) if _offset(zone, middle) == before else (low, middle)
            found.append(float(round(high)))
        start += step
    return found


def _offset(zone: ZoneInfo, at: float) -> timedelta | None:
    return datetime.fromtimestamp(at, zone).utcoffset()


def _minutes(text: str) -> int:
    hours, minutes = int(text[:2]), int(text[3:])
    if minutes > 59 or hours * 60 + minutes > _DAY:
        raise ValueError(f"contains {text}, which is not a time of day")
    return hours * 60 + minutes


def _days(text: str | None) -> frozenset[int]:
    if text is None:
        return frozenset(range(7))
    found: set[int] = set()
    for part in text.lower().split(","):
        names = part.split("-")
        unknown = [name for name in names if name not in _DAYS]
        if unknown or len(names) > 2:
            raise ValueError(f"contains {part!r}; days are Mo, Tu, We, Th, Fr, Sa, Su")
        first, last = _DAYS.index(names[0]), _DAYS.index(names[-1])
        found.update((first + step) % 7 for step in range((last - first) % 7 + 1))
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Period:
    """When a rule applies.

    Attributes:
        start: Unix seconds.
        end: likewise, excluded.
        hours: None for all hours.
    """

    start: float = -math.inf
    end: float = math.inf
    hours: Hours | None = None

    def holds(self, at: float) -> bool:
        """Return whether the rule applies at a moment."""
        return self.start <= at < self.end and (self.hours is None or self.hours.holds(at))

    def next_change(self, at: float) -> float:
        """Return a moment after ``at`` until which `holds` does not change; may be infinite."""
        if at < self.start:
            return self.start
        if at >= self.end:
            return math.inf
        return self.end if self.hours is None else min(self.end, self.hours.next_change(at))


ALWAYS: Final = Period()
