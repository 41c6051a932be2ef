"""Dates in options, names and tags (time.md section 1.3)."""

from __future__ import annotations

import re

from mastaba_documents.times import DAY, days_of, parse_time

_DIGITS = re.compile(r"(\d{4})(\d\d)(\d\d)", re.ASCII)
_TAG = re.compile(r"(\d{4}):(\d\d):(\d\d) (\d\d:\d\d:\d\d)", re.ASCII)
_YEAR_1 = days_of(1, 1, 1) * DAY


def dates(text: str) -> dict[str, str]:
    """Return ``date`` with its precision, or ``start`` and ``end`` of START/END.

    Returns:
        nothing if the text is not a date.
    """
    start, separator, end = text.partition("/")
    found = {"start": _date(start), "end": _date(end)} if separator else {"date": _date(start)}
    return {key: value for key, value in found.items() if value} if all(found.values()) else {}


def _date(text: str) -> str | None:
    """Return a date as ``yyyy``, ``yyyy-mm``, ``yyyy-mm-dd`` or RFC 3339; None if it is none."""
    text = text.strip()
    digits, tag = _DIGITS.fullmatch(text), _TAG.fullmatch(text)
    if digits is not None:
        text = "-".join(digits.groups())
    elif tag is not None:
        text = f"{tag[1]}-{tag[2]}-{tag[3]}T{tag[4]}"
    found = parse_time(text)
    return None if found is None or found.start < _YEAR_1 else text
