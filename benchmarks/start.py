"""Start and first responses with many layers: ``python -m benchmarks.start --layers 40 1000``."""

from __future__ import annotations

import argparse
import http.client
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.many_layers import installation_with_layers
from benchmarks.processes import memory_of
from benchmarks.servers import Missing, plain_http

_CAPABILITIES = {
    "WMS": "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetCapabilities",
    "WMTS": "/wmts?SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetCapabilities",
    "TMS": "/tms/1.0.0/",
}
_AGAIN = 20
_MIB = 1024**2


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    options = _parser().parse_args(argv)
    names = "".join(f"{name + ' ms':>10}{'again':>8}" for name in _CAPABILITIES)
    print(f"{'layers':>8}{'start s':>10}{names}{'Pss MiB':>10}", flush=True)
    try:
        with tempfile.TemporaryDirectory(prefix="mastaba-start-") as name:
            folder = Path(name)
            for count in options.layers:
                server_json = installation_with_layers(folder / str(count), count)
                rows = [_measure(server_json, folder) for _ in range(options.rounds)]
                start, *rest, memory = (
                    statistics.median(column) for column in zip(*rows, strict=True)
                )
                times = "".join(f"{rest[i]:>10.1f}{rest[i + 1]:>8.1f}" for i in range(0, 6, 2))
                print(f"{count:>8}{start:>10.2f}{times}{memory:>10.1f}", flush=True)
    except Missing as missing:
        sys.stderr.write(f"start: {missing}\n")
        return 1
    return 0


def _measure(server_json: Path, folder: Path) -> list[float]:
    """Return seconds to the first response; milliseconds of documents, first and repeated; MiB."""
    started = time.perf_counter()
    target = plain_http(server_json, folder, workers=1, threads=1)
    try:
        row = [time.perf_counter() - started]
        connection = http.client.HTTPConnection(urlsplit(target.address).netloc, timeout=60)
        for path in _CAPABILITIES.values():
            first = _taken(connection, path)
            again = statistics.median(_taken(connection, path) for _ in range(_AGAIN))
            row += [first * 1000, again * 1000]
        connection.close()
        assert target.pid is not None
        return [*row, memory_of(target.pid).divided / _MIB]
    finally:
        target.stop()


def _taken(connection: http.client.HTTPConnection, path: str) -> float:
    started = time.perf_counter()
    connection.request("GET", path)
    response = connection.getresponse()
    response.read()
    if response.status != http.client.OK:
        raise Missing(f"{path} is answered with status {response.status}")
    return time.perf_counter() - started


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start", description=__doc__)
    parser.add_argument("--layers", type=int, nargs="+", default=[40, 1000], help="how many")
    parser.add_argument(
        "--rounds", type=int, default=3, help="starts, of which the medians are shown"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
