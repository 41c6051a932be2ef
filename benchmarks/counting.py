"""Cost of counting one request (``python -m benchmarks.counting``)."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Callable

from mastaba.plugins.manager import Plugins
from mastaba_metrics.table import BOUNDS, BUCKETS, BYTES, SECONDS, Table
from mastaba_server.processes.scoreboard import Scoreboard

_REQUESTS = 50_000
_ROUNDS = 5
_STATUS, _DURATION, _SIZE = 1, 0.0007, 20_000


def main() -> int:
    """Print microseconds of processor time per request."""
    with tempfile.TemporaryDirectory(prefix="mastaba-counting-") as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        ways = {"shared table": _table(), "prometheus_client, several processes": _client()}
        for name, count in ways.items():
            seconds = min(_measure(count) for _ in range(_ROUNDS))
            print(f"{name:<40}{seconds * 1e6:6.2f} us")
    return 0


def _measure(count: Callable[[], None]) -> float:
    begin = time.process_time()
    for _ in range(_REQUESTS):
        count()
    return (time.process_time() - begin) / _REQUESTS


def _table() -> Callable[[], None]:
    """Return what the middleware of mastaba-metrics does for one request."""
    table = Table(Scoreboard(1, 1), {"tms": Plugins().services["tms"]}, ["file"])
    table.free.append(table.take_row())
    free = table.free

    def count() -> None:
        cells = free.pop()
        integers, floats = cells
        integers[_STATUS] += 1
        integers[bisect_left(BOUNDS, _DURATION) + BUCKETS] += 1
        floats[SECONDS] += _DURATION
        integers[BYTES] += _SIZE
        free.append(cells)

    return count


def _client() -> Callable[[], None]:
    """Return the same with metrics in files, which is how several processes share them."""
    from prometheus_client import CollectorRegistry, Counter, Histogram

    registry, pair = CollectorRegistry(), ("service", "operation")
    requests = Counter("requests", "-", (*pair, "status"), registry=registry)
    durations = Histogram("durations", "-", pair, buckets=BOUNDS, registry=registry)
    sizes = Counter("sizes", "-", pair, registry=registry)
    # The cheapest use: labels are looked up once, not for each request.
    request = requests.labels("tms", "gettile", "200")
    duration, size = durations.labels("tms", "gettile"), sizes.labels("tms", "gettile")

    def count() -> None:
        request.inc()
        duration.observe(_DURATION)
        size.inc(_SIZE)

    return count


if __name__ == "__main__":
    sys.exit(main())
