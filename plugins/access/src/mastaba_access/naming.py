"""Layers that the address of a request names, without knowledge of protocols."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mastaba.api.web import parse_query

_OF_LAYERS: Final = frozenset(
    ("layer", "layers", "query_layers", "coverageid", "coverage", "collections", "resource")
)
"""Parameters that name layers."""


def named_layers(path: str, query: str, layers: Iterable[str]) -> tuple[str, ...]:
    """Return the layers that an address names.

    Args:
        path: decoded.
        query: still percent-encoded.
        layers: all identifiers, in the order of the result.
    """
    words = set(path.split("/"))
    words |= {word.partition(".")[0] for word in words}
    for name, value in parse_query(query).items():
        if name in _OF_LAYERS:
            words.update(value.split(","))
    return tuple(name for name in layers if name in words)
