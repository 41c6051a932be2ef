"""Environment variables shared by several storage drivers (storage.md section 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mastaba.environment import Environment
from mastaba.errors import AccessDeniedError

_DEFAULT_TIMEOUT: Final = 30


def require_set(environment: Environment, names: Sequence[str], storage: str) -> None:
    """Check that all variables that a storage needs are set.

    Raises:
        AccessDeniedError: some are unset or empty; the message names all of them.
    """
    unset = [f"MASTABA_{name}" for name in names if not (environment.text(name) or "").strip()]
    if unset:
        words = (
            f"the variable {unset[0]} is"
            if len(unset) == 1
            else (f"the variables {', '.join(unset[:-1])} and {unset[-1]} are")
        )
        raise AccessDeniedError(
            f"{words} not set in the environment of the server",
            storage=storage,
        )


def network_timeout(environment: Environment) -> int | None:
    """Return the timeout of connections and reads in seconds; None for no limit.

    NETWORK_TIMEOUT=0 means no limit. If the variable is unset, there is a default limit, because
    a store that hangs would otherwise block every thread that reads from it.
    """
    timeout = environment.integer("NETWORK_TIMEOUT", _DEFAULT_TIMEOUT)
    return timeout if timeout > 0 else None
