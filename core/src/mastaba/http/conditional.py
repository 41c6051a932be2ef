"""Conditional requests (RFC 9110 section 13)."""

from __future__ import annotations

from werkzeug.http import http_date, parse_date, parse_etags


def etag_matches(if_none_match: str | None, etag: str) -> bool:
    """Tell whether an If-None-Match header names an ETag (given in its quotes)."""
    if not if_none_match:
        return False
    # The usual client sends back exactly what it got.
    if if_none_match == etag:
        return True
    return parse_etags(if_none_match).contains_weak(etag.strip('"'))


def not_modified_since(if_modified_since: str | None, modified: float | None) -> bool:
    """Tell whether an If-Modified-Since header is met by a time in Unix seconds."""
    if not if_modified_since or modified is None:
        return False
    try:
        since = parse_date(if_modified_since)
    except OverflowError:  # a year, or an offset, beyond all calendars
        return False
    return since is not None and int(modified) <= since.timestamp()


def last_modified(modified: float) -> str:
    """Return the header value for a time in Unix seconds."""
    return http_date(modified)
