"""The section ``plugins.usage`` of server.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from mastaba_usage.database import Database

_RETENTION = 800


@dataclass(frozen=True, slots=True)
class UsageSettings:
    """Where usage is kept.

    Attributes:
        directory: of the counters and the database.
        retention: days that are kept.
        node: name of this node.
        top: layers that metrics name.
        heat: whether blocks of tiles are counted too.
    """

    directory: Path
    retention: int = _RETENTION
    node: str = ""
    top: int = 0
    heat: bool = False

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self | None:
        """Return the settings of a section; None without a directory."""
        directory = settings.get("directory")
        if not directory:
            return None
        node, top = settings.get("node", ""), settings.get("top", 0)
        heat = settings.get("heat", False)
        return cls(Path(directory), settings.get("retention", _RETENTION), node, top, heat)

    @property
    def database(self) -> Database:
        """The database of the node."""
        return Database(self.directory, self.node)
