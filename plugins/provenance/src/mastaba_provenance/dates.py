"""Dates of sources, with the precision that is known."""

from __future__ import annotations

import calendar
import re
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mastaba_provenance.tables import Row

_DATE: Final = re.compile(r"(\d{4})(?:-(\d\d)(?:-(\d\d))?)?", re.ASCII)
_LONGEST: Final = 40
_FIRST, _LAST = "0000", "9999-99"
"""Texts before and after all instants."""

Span = tuple[str, str]
"""First and last instant, RFC 3339 in UTC with whole seconds; compared as text."""


def span_of(text: str) -> Span:
    """Return the instants of a date: ``yyyy``, ``yyyy-mm``, ``yyyy-mm-dd`` or RFC 3339.

    Raises:
        ValueError: it is none of these.
    """
    match = _DATE.fullmatch(text)
    if match is None:
        if "T" not in text or len(text) > _LONGEST:
            raise ValueError("is not a date, such as 2023, 2023-05-31 or 2023-05-31T10:00:00Z")
        instant = datetime.fromisoformat(text)
        instant = instant.replace(tzinfo=instant.tzinfo or UTC).astimezone(UTC)
        found = instant.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")
        return found, found
    year, month, day = (None if one is None else int(one) for one in match.groups())
    first = date(year or 0, month or 1, day or 1)
    last = first.replace(month=month or 12)
    last = last.replace(day=day or calendar.monthrange(last.year, last.month)[1])
    return f"{first}T00:00:00Z", f"{last}T23:59:59Z"


def span_of_row(row: Row) -> Span | None:
    """Return the instants of a source; None without a usable date."""
    try:
        if "date" in row:
            return span_of(row["date"])
        return span_of(row["start"])[0], span_of(row["end"])[1]
    except (KeyError, ValueError, TypeError, OverflowError):
        return None


def requested(text: str) -> Span:
    """Return the instants of ``datetime``: a date, or two with ``/``, of which one may be ``..``.

    Raises:
        ValueError: it is malformed.
    """
    begin, slash, end = text.partition("/")
    if not slash:
        return span_of(begin)
    first = _FIRST if begin in ("", "..") else span_of(begin)[0]
    last = _LAST if end in ("", "..") else span_of(end)[1]
    if first > last:
        raise ValueError("ends before it begins")
    return first, last


def label(row: Row) -> str:
    """Return the year or the years of a source; empty if unknown."""
    span = span_of_row(row)
    if span is None:
        return ""
    first, last = span[0][:4], span[1][:4]
    return first if first == last else f"{first}–{last}"
