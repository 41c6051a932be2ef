"""Dates in options, names and tags (time.md section 1.3)."""

from __future__ import annotations

import datetime
import re

_WRITTEN = re.compile(r"(?P<year>\d{4})(?:-(?P<month>\d\d)(?:-(?P<day>\d\d)(?P<time>T.+)?)?)?")
_DIGITS = re.compile(r"(\d{4})(\d\d)(\d\d)")
_TAG = re.compile(r"(\d{4}):(\d\d):(\d\d) (\d\d:\d\d:\d\d)")


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
    found = _WRITTEN.fullmatch(text)
    if found is None:
        return None
    try:
        datetime.date(int(found["year"]), int(found["month"] or 1), int(found["day"] or 1))
        if found["time"]:
            datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return text
