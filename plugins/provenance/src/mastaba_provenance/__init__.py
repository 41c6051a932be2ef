"""Sources of pixels: where a pixel of a layer comes from, and what a view consists of."""

from __future__ import annotations

from collections.abc import Iterable

from mastaba import LazyClass, hookimpl


@hookimpl
def register_services() -> Iterable[LazyClass]:
    return [LazyClass("mastaba_provenance.service:ProvenanceService", name="provenance")]
