"""Which workers hang, and must be replaced or killed."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Iterable

from mastaba_server.processes.control import Worker
from mastaba_server.processes.scoreboard import Scoreboard

logger = logging.getLogger(__name__)

# Seconds between two checks of the workers.
WATCH_PERIOD = 1.0
# Seconds. A retired worker gets less time to respond until it has left: its successors wait.
_RETIRED_TIMEOUT = 5.0
# Seconds added to the time that a worker gives its running requests.
_RETIRED_GRACE = 5.0


class Watcher:
    """Replaces workers that hang, and kills retired ones that do not exit.

    Args:
        watch: signs of life from the workers.
        worker_timeout: seconds without any until a worker is killed.
        start_timeout: the same for a worker that is not ready yet, if it is longer.
        stop_timeout: seconds in which a retired worker may finish its requests.
    """

    def __init__(
        self, watch: Scoreboard, worker_timeout: float, start_timeout: float, stop_timeout: float
    ) -> None:
        self._watch = watch
        self._timeout = worker_timeout
        self._start_timeout = max(start_timeout, worker_timeout)
        self._stop_timeout = stop_timeout
        self._watched = time.monotonic()

    def look_after(self, workers: Iterable[Worker]) -> None:
        """Check the workers, unless that was done just before."""
        now = time.monotonic()
        elapsed = now - self._watched
        if elapsed < WATCH_PERIOD:
            return
        self._watched = now
        # If this process was suspended, the workers may have been as well.
        elapsed = min(elapsed, 2 * WATCH_PERIOD)
        for child in workers:
            reason = self._hangs(child, elapsed)
            if child.retired_at and now - child.retired_at > self._stop_timeout + _RETIRED_GRACE:
                reason = reason or "it does not exit"
            if reason:
                logger.error("worker %d, process %d, is killed: %s", child.index, child.pid, reason)
                child.still = 0.0
                child.signal(signal.SIGKILL)
            elif child.ready and self._watch.silence(child.index) > self._timeout:
                child.replace("a request in it makes no progress")

    def _hangs(self, child: Worker, elapsed: float) -> str:
        """Return why a worker must be killed; empty if it responds."""
        ticks = self._watch.ticks(child.index)
        child.still = child.still + elapsed if ticks == child.ticks else 0.0
        child.ticks = ticks
        limit = self._timeout if child.ready else self._start_timeout
        if child.retired_at and not child.left:
            limit = min(limit, _RETIRED_TIMEOUT)
        return f"it has not responded for {limit:g} seconds" if child.still > limit else ""
