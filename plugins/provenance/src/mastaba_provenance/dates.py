"""Dates of sources, with the precision that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mastaba_documents.times import DAY, Precision, days_of, parse_time, time_text

if TYPE_CHECKING:
    from mastaba_provenance.tables import Row

_YEAR_1: Final = days_of(1, 1, 1) * DAY
_FIRST, _LAST = "0000", "9999-99"
"""Texts before and after all instants."""

Span = tuple[str, str]
"""First and last instant, RFC 3339 in UTC with whole seconds; compared as text."""


def span_of(text: str) -> Span:
    """Return the instants of a date: ``yyyy``, ``yyyy-mm``, ``yyyy-mm-dd`` or RFC 3339.

    Raises:
        ValueError: it is none of these.
    """
    found = parse_time(text)
    # Texts of earlier years do not sort.
    if found is None or found.start < _YEAR_1:
        raise ValueError("is not a date, such as 2023, 2023-05-31 or 2023-05-31T10:00:00Z")
    second = Precision.SECOND
    return time_text(found.start, second), time_text(found.end - 1, second)


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
