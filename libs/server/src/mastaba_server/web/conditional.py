"""Conditional requests, and ranges (RFC 9110 sections 13 and 14)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from werkzeug.http import http_date, parse_date, parse_etags

# Several ranges, and ranges in other units, may be ignored (RFC 9110, 14.2).
_RANGE: Final = re.compile(r"bytes=[ \t]*(\d{0,18})-(\d{0,18})", re.IGNORECASE)


def etag_matches(if_none_match: str | None, etag: str) -> bool:
    """Return whether an If-None-Match header contains an ETag (given in quotes)."""
    if not if_none_match:
        return False
    # Most clients send back exactly what they received.
    if if_none_match == etag:
        return True
    return parse_etags(if_none_match).contains_weak(etag.strip('"'))


def is_known(sent: Mapping[str, Any], etag: str) -> bool:
    """Return whether a client has an answer with an ETag (given in quotes) already.

    Only GET and HEAD are answered with 304 then (RFC 9110, 13.1.2). A POST is a query in its body,
    so the ETag of its answer is not that of the address.

    Args:
        sent: WSGI environment of the request.
    """
    is_read = sent.get("REQUEST_METHOD", "GET") in ("GET", "HEAD")
    return is_read and etag_matches(sent.get("HTTP_IF_NONE_MATCH"), etag)


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


def byte_range(text: str, size: int) -> tuple[int, int] | None:
    """Return the part of a body that a Range header requests (RFC 9110, clause 14).

    Args:
        text: the header.
        size: bytes of the body.

    Returns:
        the first byte, and the one after the last; the first is not before the second if the body
        has no such bytes. None for several ranges, other units and invalid texts, which may all
        be ignored.
    """
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        return None
    first, last = found.groups()
    if not first:
        return (size - min(int(last), size), size) if last else None
    if last and int(last) < int(first):
        return None
    return int(first), min(int(last) + 1, size) if last else size
