"""Settings of coverages: the section of the service, and the switch of layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from mastaba_coverage import LIMITS_SCHEMA, CoverageLimits, coverage_limits

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer

SWITCH: Final = "coverages"
"""Key of the service's section and of layer descriptors."""

SETTINGS_SCHEMA: Final[Mapping[str, Any]] = {
    "type": ["boolean", "object"],
    "description": "Whether stored values are offered for download, false by default; or limits. "
    'Only layers with "coverages": true are.',
    "additionalProperties": False,
    "properties": {"limits": LIMITS_SCHEMA},
}
LAYER_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "boolean",
    "default": False,
    "description": "Whether the stored values of the layer are offered for download.",
}


def coverage_settings(own: Mapping[str, Any]) -> CoverageLimits | None:
    """Return the limits from the section of the service; None if coverages are off."""
    section = own.get(SWITCH, False)
    if section is False:
        return None
    return coverage_limits(section if isinstance(section, dict) else {})


def is_offered(layer: Layer) -> bool:
    """Return whether a layer is offered for download where coverages are on."""
    return layer.own.get(SWITCH, False) is True and not layer.is_vector
