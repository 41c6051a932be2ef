"""Conditional requests (RFC 9110 section 13)."""

from __future__ import annotations

from datetime import UTC
from email.utils import formatdate, parsedate_to_datetime


def etag_matches(if_none_match: str | None, etag: str) -> bool:
    """Return whether an If-None-Match header contains an ETag (given in quotes)."""
    if not if_none_match:
        return False
    # Most clients send back exactly what they received.
    if if_none_match == etag:
        return True
    # Compared weakly. No ETag of this server contains a comma.
    known = {one.strip().removeprefix("W/") for one in if_none_match.split(",")}
    return not known.isdisjoint((etag, "*"))


def not_modified_since(if_modified_since: str | None, modified: float | None) -> bool:
    """Return whether a time in Unix seconds is not after an If-Modified-Since header."""
    if not if_modified_since or modified is None:
        return False
    try:
        since = parsedate_to_datetime(if_modified_since)
        return int(modified) <= since.replace(tzinfo=since.tzinfo or UTC).timestamp()
    except (ValueError, TypeError, OverflowError):  # not a date, or out of range
        return False


def last_modified(modified: float) -> str:
    """Return the header value for a time in Unix seconds."""
    return formatdate(modified, usegmt=True)
