"""Layers with times, elevations and other dimensions."""

from __future__ import annotations

from collections.abc import Iterable

from mastaba import LazyClass, hookimpl

__all__: list[str] = []


@hookimpl
def register_dimensions() -> Iterable[LazyClass]:
    return [LazyClass("mastaba_dimensions.series:Series", name="series")]
