"""The texts in tokens, which have one spelling and one meaning: unpadded base64url, and JSON."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any


def coded(data: bytes) -> str:
    """Return bytes as base64url without padding (RFC 7515, section 2)."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def decoded(text: str) -> bytes:
    """Return the bytes that `coded` writes as a text.

    Raises:
        ValueError: it is not base64url, or has bits at its end that mean nothing.
    """
    data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if coded(data) != text:
        raise ValueError("not in its shortest form")
    return data


def parsed(data: bytes) -> Any:
    """Return a value of JSON: two readers of one token must not read two users.

    Raises:
        ValueError: it is not JSON in UTF-8, has a member twice, or is nested too deeply.
    """
    try:
        return json.loads(
            data.decode("utf-8"), object_pairs_hook=_members, parse_constant=_not_a_number
        )
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a member is there twice")
    return found


def _not_a_number(text: str) -> float:
    raise ValueError(f"{text} is not a number")
