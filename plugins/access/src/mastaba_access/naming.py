"""Layers that the address of a request names, without knowledge of protocols."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Final
from urllib.parse import unquote

from mastaba.api.web import parse_query
from mastaba_access.rules.what import Layers

_OF_LAYERS: Final = frozenset(
    (
        *("layer", "layers", "query_layers", "coverageid", "coverage", "collections"),
        *("dataset", "resource"),
    )
)
"""Parameters that name layers."""
_MOST_NAMES: Final = 64
"""An address with more parts names all layers. Each may be looked up in many tables."""
_MOST_EXTENSIONS: Final = 3
"""Behind the name of a layer in a path, such as ``.json``."""


def named_layers(path: str, query: str, layers: Layers) -> int:
    """Return the bits of the layers that an address names.

    Values of dimensions and versions count as their layer, stacks as all of theirs.

    Args:
        path: decoded.
        query: still percent-encoded.
        layers: those that exist.
    """
    names = {*_in_path(path), *_in_query(query)}
    if len(names) > _MOST_NAMES:
        return layers.all
    return reduce(or_, (_named(name, layers) for name in names), 0)


def _in_path(path: str) -> Iterator[str]:
    for part in path.split("/"):
        yield part
        yield from part.split(",")


def _in_query(query: str) -> Iterator[str]:
    for parameter, value in parse_query(query).items():
        if parameter in _OF_LAYERS:
            for name in map(str.strip, value.split(",")):
                yield name
                # OGC API also takes the addresses of collections.
                yield unquote(name.partition("?")[0].rstrip("/").rpartition("/")[2])


def _named(name: str, layers: Layers) -> int:
    for _ in range(_MOST_EXTENSIONS + 1):
        found = layers.named(name)
        name, dot, _ = name.rpartition(".")
        if found or not dot:
            return found
    return 0
