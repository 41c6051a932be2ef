"""What cannot be an identifier, because no request can contain it."""

from __future__ import annotations

from typing import Final

_LONGEST: Final = 250
"""Bytes. With an extension, longer ones are not file names, and in a path of a URL, or repeated in
a list of layers, they exceed the limits of servers and proxies."""


def problem_of(identifier: str) -> str | None:
    """Return why an identifier cannot be used in URLs and file names; None if it can."""
    if identifier in (".", ".."):
        return "browsers and proxies remove it from paths"
    length = len(identifier.encode("utf-8", "surrogatepass"))
    if length > _LONGEST:
        return f"it is too long: {length} bytes, at most {_LONGEST} are possible"
    return None


def shortened(identifier: str) -> str:
    """Return an identifier for a message."""
    return repr(identifier if len(identifier) <= 60 else f"{identifier[:60]}…")
