"""PMTiles archives as layers: the container ``pmtiles``."""

from __future__ import annotations

from collections.abc import Iterable

from mastaba import LazyClass, hookimpl


@hookimpl
def register_containers() -> Iterable[LazyClass]:
    return [LazyClass("mastaba_pmtiles.container:PMTiles", name="pmtiles", suffixes=(".pmtiles",))]
