"""Prometheus metrics as a plugin of Mastaba, counted in memory shared by all workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from mastaba import LazyClass, hookimpl

if TYPE_CHECKING:
    from mastaba.api.services import Site


@hookimpl
def register_services() -> Iterable[LazyClass]:
    return [LazyClass("mastaba_metrics.service:MetricsService", name="metrics")]


@hookimpl
def wsgi_middleware(site: Site) -> Callable[[Any], Any] | None:
    if "metrics" not in site.services:
        return None
    from mastaba_metrics.middleware import counting

    return counting(site)
