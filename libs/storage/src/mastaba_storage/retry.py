"""Settings of repeated reads (storage.md section 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from mastaba_storage.environment import Environment

_TIMEOUT: Final = 30


def network_timeout(environment: Environment) -> int | None:
    """Return the timeout of connections and reads in seconds; None for no limit.

    NETWORK_TIMEOUT=0 means no limit. If the variable is unset, there is a default limit, because
    a store that hangs would otherwise block every thread that reads from it.
    """
    return max(0, environment.integer("NETWORK_TIMEOUT", _TIMEOUT)) or None


def read_timeout(environment: Environment) -> int | None:
    """Return the limit of a whole read in seconds, from OBJECT_READ_TIMEOUT; None for no limit.

    A store that sends a few bytes now and then never exceeds NETWORK_TIMEOUT.
    """
    return max(0, environment.integer("OBJECT_READ_TIMEOUT", _TIMEOUT)) or None


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How reads from remote storages are repeated.

    Attributes:
        attempts: total number of attempts, at least 1.
        wait: seconds between two attempts.
        failures: consecutive failures after which the circuit opens; 0 for never.
        pause: seconds until a trial read is sent to a container with an open circuit.
        places: reads of a container that run at a time in a process; 0 for any number.
    """

    attempts: int = 1
    wait: float = 5.0
    failures: int = 5
    pause: float = 10.0
    places: int = 64

    @classmethod
    def from_environment(cls, environment: Environment) -> Self:
        """Read the variables OBJECT_*; a value that is not an integer means the default."""
        default = cls()
        return cls(
            attempts=max(1, environment.integer("OBJECT_READ_ATTEMPTS", default.attempts)),
            wait=max(0, environment.integer("OBJECT_ATTEMPTS_WAIT", int(default.wait))),
            failures=max(0, environment.integer("OBJECT_BREAKER_FAILURES", default.failures)),
            pause=max(0, environment.integer("OBJECT_BREAKER_PAUSE", int(default.pause))),
            places=max(0, environment.integer("OBJECT_READS", default.places)),
        )
