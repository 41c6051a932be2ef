"""Administrative changes of what is published, as values passed between processes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self


class Action(StrEnum):
    """What a change does."""

    CREATE_LAYER = "create-layer"
    """Fails when the layer exists."""
    REPLACE_LAYER = "replace-layer"
    """Fails when the layer does not exist."""
    DELETE_LAYER = "delete-layer"
    """Fails when the layer does not exist."""
    ENABLE_SERVICES = "enable-services"
    DISABLE_SERVICES = "disable-services"


@dataclass(frozen=True, slots=True)
class Change:
    """One change.

    Attributes:
        layer: identifier, if the action concerns a layer.
        document: layer descriptor as read by `mastaba.config.documents.parse_document`, for a
            layer that is created or replaced.
    """

    action: Action
    layer: str = ""
    document: Any = None

    def to_json(self) -> dict[str, Any]:
        return {"action": self.action, "layer": self.layer, "document": self.document}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        return cls(Action(value["action"]), value["layer"], value["document"])
