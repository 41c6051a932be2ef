"""Variables that several storage drivers read in the same way (storage.md section 2)."""

from __future__ import annotations

from typing import Final

from mastaba.environment import Environment
from mastaba.errors import AccessDeniedError

_DEFAULT_TIMEOUT: Final = 30


def required(environment: Environment, name: str, storage: str) -> str:
    """Return the value of a variable without which a storage cannot be used.

    Raises:
        AccessDeniedError: it is unset or empty; the message names it.
    """
    value = (environment.text(name) or "").strip()
    if not value:
        raise AccessDeniedError(f"the variable MASTABA_{name} is not set", storage=storage)
    return value


def network_timeout(environment: Environment) -> int | None:
    """Return the seconds to wait for a connection or for the next bytes, None for no limit.

    An explicit 0 of NETWORK_TIMEOUT means no limit. When it is unset a limit holds all the
    same: without one, a store that hangs would hang every thread that asks it.
    """
    timeout = environment.integer("NETWORK_TIMEOUT", _DEFAULT_TIMEOUT)
    return timeout if timeout > 0 else None
