"""Paths and queries for logs: secrets in them are masked."""

from __future__ import annotations

from typing import Final

from mastaba_server.web.text import decode

_SECRET_NAMES: Final = ("secret", "token", "password", "key", "sig")
_MASK: Final = "***"


def masked(query: str) -> str:
    """Return a query string with the values of secret parameters masked.

    A parameter is secret if its name contains one of the words, such as ``access_token``.
    """
    # Fast path: nearly all queries have nothing to mask and nothing to decode.
    if "%" not in query:
        lowered = query.lower()
        for name in _SECRET_NAMES:
            if name in lowered:
                break
        else:
            return query
    return "&".join(_masked_item(item) for item in query.split("&"))


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
