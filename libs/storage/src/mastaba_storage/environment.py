"""Environment variables: ``MASTABA_X``, or ``ROK4_X`` from an existing installation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

_OFF = frozenset(("", "0", "false", "no"))


class Environment:
    """Read-only view of the process environment (storage.md section 2).

    Args:
        variables: variables for tests; None for the process environment.
        settings: settings in server.json of the plugin that the environment is given to.
    """

    def __init__(
        self,
        variables: Mapping[str, str] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._variables = os.environ if variables is None else variables
        self.settings: Mapping[str, Any] = {} if settings is None else settings

    def with_settings(self, settings: Mapping[str, Any]) -> Environment:
        """Return the same environment for a plugin with these settings."""
        return Environment(self._variables, settings)

    def text(self, name: str, default: str | None = None) -> str | None:
        """Return the value of ``MASTABA_<name>``, or of ``ROK4_<name>``, or the default."""
        older = self._variables.get(f"ROK4_{name}", default)
        return self._variables.get(f"MASTABA_{name}", older)

    def integer(self, name: str, default: int) -> int:
        """Return an integer, or the default if the variable is unset or not an integer."""
        try:
            return int(self.text(name) or "")
        except ValueError:
            return default

    def flag(self, name: str) -> bool:
        """Return whether a switch is on; empty, ``0``, ``false`` and ``no`` mean off."""
        return (self.text(name) or "").strip().lower() not in _OFF

    def items(self, name: str) -> list[str]:
        """Return the elements of a comma-separated list, stripped of spaces."""
        return [item.strip() for item in (self.text(name) or "").split(",") if item.strip()]
