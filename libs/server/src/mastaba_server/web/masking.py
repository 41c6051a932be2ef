"""Paths and queries for logs: secrets in them are masked."""

from __future__ import annotations

import re
from typing import Final

from mastaba_server.web.text import decode

_SECRET_NAMES: Final = ("secret", "token", "password", "key", "sig")
_MASK: Final = "***"
_has_encoded_name: Final = re.compile("(?:^|&)[^&=%]*%[^&=]*=").search


def masked(query: str) -> str:
    """Return a query string with the values of secret parameters masked.

    A parameter is secret if its name contains one of the words, such as ``access_token``.
    """
    # Fast path: nearly all queries have nothing to mask, and no name to decode.
    lowered = query.lower()
    if (
        "key" in lowered
        or "sig" in lowered
        or "secret" in lowered
        or "token" in lowered
        or "password" in lowered
        or ("%" in query and _has_encoded_name(query))
    ):
        return "&".join(_masked_item(item) for item in query.split("&"))
    return query


def masked_path(path: str) -> str:
    """Return a path with its segments that begin with ``~`` masked: they are credentials."""
    if "/~" not in path:
        return path
    return "/".join(f"~{_MASK}" if one.startswith("~") else one for one in path.split("/"))


def _masked_item(item: str) -> str:
    name, equals, _ = item.partition("=")
    lowered = decode(name).lower()
    if equals and any(secret in lowered for secret in _SECRET_NAMES):
        return f"{name}={_MASK}"
    return item
