"""Layers and levels that the address of a request names, without knowledge of protocols."""

from __future__ import annotations

from collections.abc import Container
from typing import Final
from urllib.parse import parse_qsl

UNKNOWN: Final = "unknown"
"""In place of a layer that does not exist."""

_LAYERS: Final = (
    *("layers", "layer", "query_layers", "coverageid", "coverage", "dataset", "collections"),
)
"""Parameters that name layers, in lower case."""
_LEVEL: Final = "tilematrix"
_MOST_LAYERS: Final = 64
_LONGEST_QUERY: Final = 8192


def named(path: str, query: str, layers: Container[str]) -> tuple[list[str], str]:
    """Return the layers that an address names, and the level.

    They are in parameters with the usual names, or else the first part of the path that is a layer.

    Args:
        path: decoded, one character per byte.
        query: still percent-encoded.
        layers: those that exist.
    """
    query = query[:_LONGEST_QUERY]
    names = {name.lower(): value for name, value in parse_qsl(query)} if query else {}
    for name in _LAYERS:
        if names.get(name):
            listed = dict.fromkeys(names[name].split(","))
            known = dict.fromkeys(one if one in layers else UNKNOWN for one in listed)
            level = "" if UNKNOWN in known else names.get(_LEVEL, "")
            return list(known)[:_MOST_LAYERS], level
    parts = path.encode("latin-1", "replace").decode(errors="replace")
    for part in parts.split("/"):
        if part in layers:
            return [part], ""
    return [], ""
