"""Ranges of HTTP answers, checked once for all drivers that speak HTTP (RFC 9110 section 14)."""

from __future__ import annotations

import re
from typing import Final

from mastaba.storage.base import ByteRange

_CONTENT_RANGE: Final = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


def range_header(byte_range: ByteRange) -> str:
    """Return the value of the header ``Range`` for a range of at least one byte."""
    return f"bytes={byte_range.offset}-{byte_range.offset + byte_range.length - 1}"


def wanted_part(
    data: bytes, byte_range: ByteRange, content_range: str | None, *, partial: bool
) -> bytes:
    """Return the bytes of a range from the body of an answer.

    Args:
        data: the body.
        byte_range: what was asked for.
        content_range: header of the answer.
        partial: whether the status is 206; else the body is the whole object, since servers may
            ignore a range.

    Raises:
        ValueError: the answer is of another range, or shorter than it says: it is of no use.
    """
    if not partial:
        return data[byte_range.offset : byte_range.offset + byte_range.length]
    match = _CONTENT_RANGE.fullmatch((content_range or "").strip())
    if match is None:
        raise ValueError(f"partial answer with Content-Range {content_range!r}")
    first, last, total = match.groups()
    end = byte_range.offset + byte_range.length
    if total != "*":
        end = min(end, int(total))
    if int(first) != byte_range.offset or int(last) >= byte_range.offset + byte_range.length:
        raise ValueError(f"asked for {range_header(byte_range)}, got {content_range}")
    if len(data) != int(last) + 1 - int(first) or (total != "*" and int(last) + 1 != end):
        raise ValueError(f"cut short: {len(data)} bytes of {content_range}")
    return data
