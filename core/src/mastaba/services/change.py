"""Administrative changes of what is published, as values passed between processes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self


class Action(StrEnum):
    """What a change does.

    Attributes:
        CREATE_LAYER: fails if the layer exists.
        REPLACE_LAYER: fails if the layer does not exist.
        DELETE_LAYER: fails if the layer does not exist.
        ENABLE_SERVICES: turns all services on.
        DISABLE_SERVICES: turns all services off, except those that are always on.
        RELOAD: reads the whole configuration again. Only begun when it is submitted.
    """

    CREATE_LAYER = "create-layer"
    REPLACE_LAYER = "replace-layer"
    DELETE_LAYER = "delete-layer"
    ENABLE_SERVICES = "enable-services"
    DISABLE_SERVICES = "disable-services"
    RELOAD = "reload"


@dataclass(frozen=True, slots=True)
class Change:
    """One change.

    Attributes:
        action: what to do.
        layer: identifier, if the action concerns a layer.
        document: layer descriptor as read by `mastaba.api.documents.parse_document`, for a layer
            that is created or replaced.
    """

    action: Action
    layer: str = ""
    document: Any = None

    def to_json(self) -> dict[str, Any]:
        """Return the change as a JSON object."""
        return {"action": self.action, "layer": self.layer, "document": self.document}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Return the change in a JSON object that `to_json` has created."""
        return cls(Action(value["action"]), value["layer"], value["document"])
