"""How fast a process refuses wrong credentials."""

from __future__ import annotations

import math
import threading
from time import monotonic
from typing import Final

_RATE: Final = 200.0
"""Refusals a second: 3 % of a processor."""
_BURST: Final = 400.0
"""Refusals without a delay: a front server's first requests after a key was revoked."""
_LONGEST: Final = 1.0
"""Seconds. Clients with a key that was revoked a moment ago wait no longer."""


class Pace:
    """Tells each refusal how long to wait: as if 200 a second were answered, but at most a second.

    Each process has its own: it is the time of a process that wrong credentials would take, and
    more processes have more of it. What waits is limited, so that nobody waits for long.
    """

    def __init__(self) -> None:
        self._next = -math.inf
        self._lock = threading.Lock()

    def wait(self) -> float:
        """Note a refusal; return the seconds for which it waits."""
        now = monotonic()
        with self._lock:
            moment = min(max(self._next, now - _BURST / _RATE), now + _LONGEST)
            self._next = moment + 1 / _RATE
        return max(0.0, moment - now)
