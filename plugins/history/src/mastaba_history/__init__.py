"""Versions of layers: what was published when, how versions differ, feeds and webhooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from mastaba import LazyClass, hookimpl

if TYPE_CHECKING:
    from mastaba.api.services import LayerChange, Site

settings_schema: Final[Mapping[str, Any]] = {
    "webhooks": {
        "type": "array",
        "description": "Addresses that get each publication by POST.",
        "items": {
            "type": "object",
            "additionalProperties": False,
            "required": ["url", "secret_file"],
            "properties": {
                "url": {"type": "string", "pattern": r"^https?://[^/@\s]+(/[!-~]*)?$"},
                "secret_file": {
                    "type": "string",
                    "minLength": 1,
                    "description": "File with the secret that signs the bodies.",
                },
                "layers": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Identifiers of layers (default: all).",
                },
            },
        },
    },
}


@hookimpl
def register_services() -> Iterable[LazyClass]:
    return [LazyClass("mastaba_history.service:HistoryService", name="history")]


@hookimpl
def generation_changed(site: Site, changes: Sequence[LayerChange]) -> None:
    from mastaba_history.webhooks import announce

    announce(site, changes)
