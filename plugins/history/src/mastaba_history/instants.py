"""Instants in requests and documents: RFC 3339 and the date format of HTTP."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from typing import Final

from mastaba_documents.times import parse_time

_ISO: Final = re.compile(r"\d{4}-\d\d-\d\d(?:T.+)?", re.ASCII)
_LONGEST: Final = 40
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def is_instant(text: str) -> bool:
    """Return whether a text may be a date, and is not a generation."""
    return len(text) <= _LONGEST and _ISO.fullmatch(text) is not None


def parse_instant(text: str) -> datetime:
    """Return an instant: RFC 3339 or a date, which means its first moment; UTC by default.

    Raises:
        ValueError: it is none.
    """
    found = parse_time(text) if is_instant(text) else None
    if found is None:
        raise ValueError(f"{text[:40]!r} is not an instant, such as 2026-03-01T12:00:00Z")
    try:
        return _EPOCH + timedelta(microseconds=found.start)
    except OverflowError as error:
        raise ValueError(f"{text!r} is before the year 1 or after the year 9999") from error


def parse_http_date(text: str) -> datetime:
    """Return an instant in the format of HTTP, as RFC 7089 requires it for Accept-Datetime.

    Raises:
        ValueError: it is none.
    """
    written = text.strip()
    with suppress(ValueError, IndexError, TypeError, OverflowError):
        found = parsedate_to_datetime(written) if len(written) <= _LONGEST else None
        if found is not None and http_date(found) == written:
            return found
    raise ValueError(f"{text[:40]!r} is not a date such as Sun, 01 Mar 2026 12:00:00 GMT")


def http_date(instant: datetime) -> str:
    """Return an instant in the format of HTTP."""
    return format_datetime(instant.astimezone(UTC), usegmt=True)


def rfc3339(instant: datetime) -> str:
    """Return an instant as JSON documents and feeds write it."""
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")
