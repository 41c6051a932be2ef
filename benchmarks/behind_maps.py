"""Latency of a stored tile while clients request large maps: ``-m benchmarks.behind_maps``.

In each round, some connections request one large map after another, and one more connection
requests a stored tile every few milliseconds.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.client import Answers, ask
from benchmarks.servers import (
    Missing,
    Target,
    fastcgi_behind_nginx,
    plain_http,
    require_programs,
)
from mastaba_conformance.tiny_installation import tiny_installation

_TILE = "/tms/1.0.0/RGB_JPG/4/9/5.jpeg"
_MAPS = {
    "heavy": "EPSG:3857&BBOX=0,0,{},5000000&WIDTH=2000&HEIGHT=2000&FORMAT=image/png",
    "small": "EPSG:3857&BBOX=0,0,{},1000000&WIDTH=256&HEIGHT=256&FORMAT=image/png",
}
_WMS = "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=RGB_JPG&STYLES=&CRS="
_SERVERS = {"fastcgi": fastcgi_behind_nginx, "http": plain_http}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if a response was wrong."""
    options = _parser().parse_args(argv)
    try:
        require_programs()
        with tempfile.TemporaryDirectory(prefix="mastaba-behind-") as name:
            return _run(Path(name), options)
    except Missing as missing:
        sys.stderr.write(f"behind_maps: {missing}\n")
        return 1


def _run(folder: Path, options: argparse.Namespace) -> int:
    server_json = tiny_installation(folder / "installation", services=["tms", "wms"])
    print(f"{'server':<18}{'maps':>7}{'connections':>12}{'tiles':>7}", end="")
    print(f"{'p50 ms':>9}{'p95 ms':>9}{'max ms':>9}{'maps/s':>8}{'errors':>8}")
    errors = 0
    for name in options.servers:
        target = _SERVERS[name](
            server_json, folder, workers=options.workers, threads=options.threads
        )
        try:
            for connections in options.connections:
                errors += _round(target, connections, options)
        finally:
            target.stop()
    return 1 if errors else 0


def _round(target: Target, connections: int, options: argparse.Namespace) -> int:
    over = threading.Event()
    drawn = Answers()

    def draw() -> None:
        nonlocal drawn
        drawn = ask(
            target.address,
            _paths(options.maps),
            connections=connections,
            go_on=lambda: not over.is_set(),
            media_type="image/",
        )

    maps = threading.Thread(target=draw)
    if connections:
        maps.start()
        time.sleep(1.0)
    tiles = _tiles(target, options.seconds)
    over.set()
    if connections:
        maps.join()
    errors = tiles.errors + drawn.errors
    print(
        f"{target.name:<18}{options.maps:>7}{connections:>12}{len(tiles.latencies):>7}"
        f"{tiles.percentile(0.5) * 1e3:>9.1f}{tiles.percentile(0.95) * 1e3:>9.1f}"
        f"{max(tiles.latencies, default=0) * 1e3:>9.1f}"
        f"{len(drawn.latencies) / (drawn.elapsed or 1):>8.2f}{errors:>8}",
        flush=True,
    )
    if errors:
        print(tiles.first_error or drawn.first_error)
    return errors


def _paths(kind: str) -> Iterator[str]:
    # Each map has its own extent, so that no cache of another one helps.
    return (_WMS + _MAPS[kind].format(1_000_000 + number) for number in itertools.count())


def _tiles(target: Target, seconds: float) -> Answers:
    """Request a tile every 20 ms, on one keep-alive connection."""
    answers = Answers()
    connection = http.client.HTTPConnection(urlsplit(target.address).netloc, timeout=60)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        started = time.perf_counter()
        try:
            connection.request("GET", _TILE)
            response = connection.getresponse()
            right = response.status == 200 and len(response.read()) > 0
        except (OSError, http.client.HTTPException):
            right = False
        if right:
            answers.latencies.append(time.perf_counter() - started)
        else:
            answers.errors += 1
            connection.close()
        time.sleep(0.02)
    connection.close()
    return answers


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.behind_maps", description=__doc__)
    parser.add_argument("--servers", nargs="+", choices=_SERVERS, default=list(_SERVERS))
    parser.add_argument("--maps", choices=_MAPS, default="heavy", help="what is asked for")
    parser.add_argument("--connections", nargs="+", type=int, default=[0, 8, 32], help="of maps")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each round")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    return parser


if __name__ == "__main__":
    sys.exit(main())
