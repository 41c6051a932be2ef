"""Settings of coverages: the section of the service, and the switch of layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer

SWITCH: Final = "coverages"
"""Key of the service's section and of layer descriptors."""


@dataclass(frozen=True, slots=True)
class CoverageSettings:
    """Limits of coverages.

    Attributes:
        stream_bytes: bytes of one answer.
        tiles: tiles of one answer.
        indices: slabs that one answer looks up.
        streams: answers of more than 1 MiB that a process sends at a time.
    """

    stream_bytes: int = 16 * 1024**3
    tiles: int = 1_048_576
    indices: int = 8192
    streams: int = 2


def _limit(default: int, description: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1, "default": default, "description": description}


_DEFAULTS: Final = CoverageSettings()
SETTINGS_SCHEMA: Final[Mapping[str, Any]] = {
    "type": ["boolean", "object"],
    "description": "Whether stored values are offered for download, false by default; or limits. "
    'Only layers with "coverages": true are.',
    "additionalProperties": False,
    "properties": {
        "limits": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "stream_bytes": _limit(_DEFAULTS.stream_bytes, "Bytes of one answer."),
                "tiles": _limit(_DEFAULTS.tiles, "Tiles of one answer."),
                "indices": _limit(_DEFAULTS.indices, "Slabs that one answer looks up."),
                "streams": _limit(
                    _DEFAULTS.streams, "Answers of more than 1 MiB that a process sends at a time."
                ),
            },
        }
    },
}
LAYER_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "boolean",
    "default": False,
    "description": "Whether the stored values of the layer are offered for download.",
}


def coverage_settings(own: Mapping[str, Any]) -> CoverageSettings | None:
    """Return the settings from the section of the service; None if coverages are off."""
    section = own.get(SWITCH, False)
    if section is False:
        return None
    return CoverageSettings(**(section.get("limits", {}) if isinstance(section, dict) else {}))


def is_offered(layer: Layer) -> bool:
    """Return whether a layer is offered for download where coverages are on."""
    return layer.own.get(SWITCH, False) is True and not layer.is_vector
