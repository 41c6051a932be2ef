"""Conditional requests (RFC 9110 section 13)."""

from __future__ import annotations

from functools import lru_cache

from werkzeug.http import http_date, parse_date, parse_etags


def etag_matches(if_none_match: str | None, etag: str) -> bool:
    """Return whether an If-None-Match header contains an ETag (given in quotes)."""
    if not if_none_match:
        return False
    # Most clients send back exactly what they received.
    if if_none_match == etag:
        return True
    return parse_etags(if_none_match).contains_weak(etag.strip('"'))


def not_modified_since(if_modified_since: str | None, modified: float | None) -> bool:
    """Return whether a time in Unix seconds is not after an If-Modified-Since header."""
    if not if_modified_since or modified is None:
        return False
    try:
        since = parse_date(if_modified_since)
    except OverflowError:  # a year or an offset out of range
        return False
    return since is not None and int(modified) <= since.timestamp()


@lru_cache(maxsize=4096)
def last_modified(modified: float) -> str:
    """Return the header value for a time in Unix seconds."""
    return http_date(modified)
