"""What requests mean by a collection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer


@dataclass(frozen=True, slots=True)
class Shown:
    """What the values in a request mean.

    Attributes:
        layers: newest first.
        ranges: pixel values that a map shows; empty for all.
        cached: the layers, with the Cache-Control of the request.
    """

    layers: tuple[Layer, ...]
    ranges: tuple[tuple[float, float], ...] = ()
    cached: tuple[Layer, ...] = ()
