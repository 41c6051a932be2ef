"""Faults in the section ``plugins.access`` of server.json."""

from __future__ import annotations

from typing import NoReturn

from mastaba.api.documents import Fault, Severity
from mastaba.errors import ConfigurationError


def refuse(path: str, reason: str, remedy: str) -> NoReturn:
    """Stop the start because of a setting.

    Args:
        path: of the setting in ``plugins.access``.
        reason: what is wrong.
        remedy: what to do.

    Raises:
        ConfigurationError: always.
    """
    place = f"$.plugins.access.{path}"
    raise ConfigurationError([Fault(Severity.ERROR, "server.json", place, reason, remedy)])
