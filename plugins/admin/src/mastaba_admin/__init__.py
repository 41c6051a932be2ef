"""Administration API plugin for Mastaba: changes layers and services while the server runs."""

from __future__ import annotations

from collections.abc import Iterable

from mastaba import LazyClass, hookimpl


@hookimpl
def register_services() -> Iterable[LazyClass]:
    return [LazyClass("mastaba_admin.service:AdminService", name="admin")]
