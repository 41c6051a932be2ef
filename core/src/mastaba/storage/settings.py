"""Environment variables shared by several storage drivers (storage.md section 2)."""

from __future__ import annotations

from typing import Final

from mastaba.environment import Environment
from mastaba.errors import AccessDeniedError

_DEFAULT_TIMEOUT: Final = 30


def required(environment: Environment, name: str, storage: str) -> str:
    """Return the value of a required variable.

    Raises:
        AccessDeniedError: the variable is unset or empty; the message names it.
    """
    value = (environment.text(name) or "").strip()
    if not value:
        raise AccessDeniedError(f"the variable MASTABA_{name} is not set", storage=storage)
    return value


def network_timeout(environment: Environment) -> int | None:
    """Return the timeout of connections and reads in seconds; None for no limit.

    NETWORK_TIMEOUT=0 means no limit. If the variable is unset, there is a default limit, because
    a store that hangs would otherwise block every thread that reads from it.
    """
    timeout = environment.integer("NETWORK_TIMEOUT", _DEFAULT_TIMEOUT)
    return timeout if timeout > 0 else None
