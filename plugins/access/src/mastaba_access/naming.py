"""Layers that the address of a request names, without knowledge of protocols."""

from __future__ import annotations

from collections.abc import Iterator
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
_MOST_LOOKUPS: Final = 64
"""An address that needs more names all layers. Each may look in the tables of many layers."""
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
    bits = lookups = 0
    for name in {*_in_path(path), *_in_query(query)}:
        for text in _without_extensions(name):
            lookups += 1
            if lookups > _MOST_LOOKUPS:
                return layers.all
            if found := layers.named(text):
                bits |= found
                break
    return bits


def _in_path(path: str) -> Iterator[str]:
    for part in path.split("/"):
        yield part
        yield from part.split(",")


def _in_query(query: str) -> Iterator[str]:
    for parameter, value in parse_query(query).items():
        if parameter in _OF_LAYERS:
            # The identifier of a layer may contain commas.
            yield value
            for name in map(str.strip, value.split(",")):
                yield name
                # OGC API also takes the addresses of collections.
                yield unquote(name.partition("?")[0].rstrip("/").rpartition("/")[2])


def _without_extensions(name: str) -> Iterator[str]:
    yield name
    for _ in range(_MOST_EXTENSIONS):
        name, dot, _ = name.rpartition(".")
        if not dot:
            break
        yield name
