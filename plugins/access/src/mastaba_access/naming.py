"""Layers that the address of a request names, without knowledge of protocols."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from mastaba.api.web import parse_query

_OF_LAYERS: Final = frozenset(
    (
        *("layer", "layers", "query_layers", "coverageid", "coverage", "collections"),
        *("dataset", "resource"),
    )
)
"""Parameters that name layers."""
_OF_VARIANT: Final = re.compile("[;~]")
"""What begins the value or the version in ``ORTHO;time=1950`` and ``ORTHO~7``."""


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
    # Values of dimensions and versions belong to the layer.
    words |= {_OF_VARIANT.split(word, maxsplit=1)[0] for word in words}
    return tuple(name for name in layers if name in words)
