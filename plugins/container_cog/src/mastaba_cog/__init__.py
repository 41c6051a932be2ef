"""Cloud-Optimized GeoTIFFs as layers: single ones, and mosaics of many."""

from __future__ import annotations

from collections.abc import Iterable

from mastaba import LazyClass, hookimpl

__all__: list[str] = []


@hookimpl
def register_containers() -> Iterable[LazyClass]:
    return [
        LazyClass(
            "mastaba_cog.container:CogContainer", name="cog", suffixes=(".tif", ".tiff", ".gtiff")
        ),
        LazyClass("mastaba_cog.mosaic.container:MosaicContainer", name="mosaic", suffixes=()),
    ]
