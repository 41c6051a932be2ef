"""Layers and levels that the address of a request names, without knowledge of protocols."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import parse_qsl

if TYPE_CHECKING:
    from mastaba.api.dimensions import VariantTable

UNKNOWN: Final = "unknown"
"""In place of a layer that does not exist."""

_LAYERS: Final = (
    *("layers", "layer", "query_layers", "coverageid", "coverage", "dataset", "collections"),
)
"""Parameters that name layers, in lower case."""
_LEVEL: Final = "tilematrix"
_MOST_LAYERS: Final = 64
"""Further names in a parameter do not count. Each may be looked up in many tables."""
_MOST_PARTS: Final = 16
"""Of a path: a layer is not further behind."""
_LONGEST_QUERY: Final = 8192
_OF_VARIANT: Final = re.compile("[;~]")
"""What begins the value or the version in ``ORTHO;time=1950`` and ``ORTHO~7``."""


_DOCUMENTS: Final = frozenset({"json", "geojson", "csv"})
"""Extensions of documents that have the name of a layer."""


class Known(NamedTuple):
    """Layers that exist for somebody.

    Attributes:
        layers: identifiers.
        tables: of their values, which may have names of their own, by identifier.
    """

    layers: Container[str]
    tables: Mapping[str, VariantTable]

    def layer_of(self, name: str) -> str:
        """Return the layer that a name means; empty for none."""
        if name in self.layers:
            return name
        identifier = _OF_VARIANT.split(name, maxsplit=1)[0]
        if identifier in self.layers:
            return identifier
        name = name.partition("~")[0]
        tables = self.tables.items() if name else ()
        return next((key for key, table in tables if table.named(name) is not None), "")


def named(path: str, query: str, known: Known) -> tuple[list[str], str]:
    """Return the layers that an address names, and the level.

    They are in parameters with the usual names, or else the first part of the path that is a layer,
    perhaps with the extension of a document. Values and versions count as their layer.

    Args:
        path: decoded, one character per byte.
        query: still percent-encoded.
        known: those that exist.
    """
    query = query[:_LONGEST_QUERY]
    names = {name.lower(): value for name, value in parse_qsl(query)} if query else {}
    for name in _LAYERS:
        if names.get(name):
            listed = islice(dict.fromkeys(names[name].split(",")), _MOST_LAYERS)
            found = dict.fromkeys(known.layer_of(one) or UNKNOWN for one in listed)
            level = "" if UNKNOWN in found else names.get(_LEVEL, "")
            return list(found), level
    parts = path.encode("latin-1", "replace").decode(errors="replace").split("/")
    name, _, extension = parts[-1].rpartition(".")
    for part in (*parts[:_MOST_PARTS], name if extension in _DOCUMENTS else ""):
        if layer := known.layer_of(part):
            return [layer], ""
    return [], ""
