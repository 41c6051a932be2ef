"""Layers and levels that the address of a request names, without knowledge of protocols."""

from __future__ import annotations

import re
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
_OF_VARIANT: Final = re.compile("[;~]")
"""What begins the value or the version in ``ORTHO;time=1950`` and ``ORTHO~7``."""


_DOCUMENTS: Final = frozenset({"json", "geojson", "csv"})
"""Extensions of documents that have the name of a layer."""


def named(path: str, query: str, layers: Container[str]) -> tuple[list[str], str]:
    """Return the layers that an address names, and the level.

    They are in parameters with the usual names, or else the first part of the path that is a layer,
    perhaps with the extension of a document. Values of dimensions and versions are of their layer.

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
            known = dict.fromkeys(_layer_of(one, layers) or UNKNOWN for one in listed)
            level = "" if UNKNOWN in known else names.get(_LEVEL, "")
            return list(known)[:_MOST_LAYERS], level
    parts = path.encode("latin-1", "replace").decode(errors="replace").split("/")
    name, _, extension = parts[-1].rpartition(".")
    for part in (*parts, name if extension in _DOCUMENTS else ""):
        if found := _layer_of(part, layers):
            return [found], ""
    return [], ""


def _layer_of(name: str, layers: Container[str]) -> str:
    """Return the layer that a name means; empty for none."""
    if name in layers:
        return name
    name = _OF_VARIANT.split(name, maxsplit=1)[0]
    return name if name in layers else ""
