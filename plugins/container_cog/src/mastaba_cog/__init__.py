"""Cloud-Optimized GeoTIFFs as layers."""

from __future__ import annotations

from collections.abc import Iterable

from mastaba import LazyClass, hookimpl

__all__: list[str] = []


@hookimpl
def register_containers() -> Iterable[LazyClass]:
    return [
        LazyClass(
            "mastaba_cog.container:CogContainer", name="cog", suffixes=(".tif", ".tiff", ".gtiff")
        )
    ]
