"""Reloads, failures and memory, through nginx under load: ``python -m benchmarks.soak``.

1. Reloads: each configuration writes its number in several places of a document. Every response
   must be complete and from one configuration; clients must not notice an invalid configuration.
2. Killed workers: only requests that the killed worker was handling may fail.
3. Stopped workers (SIGSTOP), while clients request large maps and disconnect: the workers are
   replaced, and again only requests that they were handling may fail.
4. Memory of all processes (Rss): many reloads and requests must not change it. Also shown: pages
   written by the processes themselves (own), and memory with each shared page counted once (Pss).
   Both depend on how many pages the supervisor and its newest workers still share, and Pss on
   other programs that use the same libraries.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import re
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.client import ask
from benchmarks.processes import memory_of
from benchmarks.servers import Missing, Target, fastcgi_behind_nginx, require_programs
from mastaba_conformance.tiny_installation import tiny_installation

_TILE = "/tms/1.0.0/RGB_JPG/4/9/5.jpeg"
_DOCUMENT = "/tms/1.0.0/"
_MAP = (
    "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=RGB_JPG&STYLES=&CRS=EPSG:3857"
    "&BBOX={},0,5000000,5000000&WIDTH=256&HEIGHT=256&FORMAT=image/png"
)
_LARGE_MAP = (
    "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=RGB_JPG&STYLES=&CRS=EPSG:3857"
    "&BBOX={},0,5000000,5000000&WIDTH=2000&HEIGHT=2000&FORMAT=image/png"
)
_WORKER_TIMEOUT = 3
_MARK = re.compile(rb"Configuration (\d+)\b")
# Seconds. A worker that is stopped before it is ready is given the time of a start, 60.
_PATIENCE = 100.0
_MIB = 1024**2

_STEPS = 5
_FLAT = 0.05
"""Fraction by which memory may differ from the middle between its minimum and maximum."""


class Stuck(Exception):  # noqa: N818 - a finding, not an error of the program
    """Something did not happen in time."""


@dataclass
class Tally:
    """Results of the clients."""

    statuses: Counter[int] = field(default_factory=Counter)
    broken: int = 0
    mixed: int = 0
    wrong: int = 0
    seconds: float = 0.0
    generations: set[int] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def requests(self) -> int:
        return self.statuses.total() + self.broken

    @property
    def failures(self) -> int:
        return self.requests - self.statuses[200] + self.mixed + self.wrong


class Installation:
    """Files of a server, rewritten for each reload."""

    def __init__(self, folder: Path) -> None:
        self.server_json = tiny_installation(
            folder,
            services=["health", "tms", "wms"],
            server_overrides={"worker_timeout": _WORKER_TIMEOUT},
        )
        self._services = folder / "services.json"
        self._layers = folder / "layers.txt"
        self._listed = self._layers.read_text("utf-8")
        self._document = json.loads(self._services.read_text("utf-8"))

    def write(self, number: int) -> None:
        """Write a configuration that shows its number in several places."""
        self._document["tms"].update(
            title=f"Configuration {number}", abstract=f"Configuration {number}"
        )
        self._document["global"]["provider"] = f"Configuration {number}"
        self._layers.write_text(self._listed, "utf-8")
        self._services.write_text(json.dumps(self._document), "utf-8")

    def spoil(self, number: int) -> None:
        """Write an invalid configuration, of one of several kinds."""
        kinds: tuple[Callable[[], object], ...] = (
            lambda: self._services.write_text("{", "utf-8"),
            lambda: self._services.write_text('{"enabled": "perhaps"}', "utf-8"),
            self._services.unlink,
            self._layers.unlink,
        )
        kinds[number % len(kinds)]()


class Clients:
    """Clients that send requests without pause, on keep-alive connections."""

    def __init__(self, address: str, count: int, tile: bytes) -> None:
        self.tally = Tally()
        self._host = urlsplit(address).netloc
        self._tile = tile
        self._done = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(n,)) for n in range(count)]

    @contextmanager
    def asking(self) -> Iterator[Tally]:
        for thread in self._threads:
            thread.start()
        started = time.monotonic()
        try:
            yield self.tally
        finally:
            self.tally.seconds = time.monotonic() - started
            self._done.set()
            for thread in self._threads:
                thread.join()

    def _work(self, number: int) -> None:
        connection = http.client.HTTPConnection(self._host, timeout=_PATIENCE)
        while not self._done.is_set():
            path = _DOCUMENT if number % 2 else _TILE
            try:
                connection.request("GET", path)
                response = connection.getresponse()
                self._look(path, response.status, response.read())
            except (OSError, http.client.HTTPException):
                with self.tally.lock:
                    self.tally.broken += 1
                connection.close()
        connection.close()

    def _look(self, path: str, status: int, body: bytes) -> None:
        tally = self.tally
        numbers = [int(mark) for mark in _MARK.findall(body)]
        with tally.lock:
            tally.statuses[status] += 1
            if status != 200:
                return
            if path == _TILE:
                tally.wrong += body != self._tile
            else:
                tally.wrong += len(numbers) < 2
                tally.mixed += len(set(numbers)) > 1
                tally.generations.update(numbers)


@dataclass
class Server:
    """The server under test, behind nginx."""

    target: Target
    log: Path
    installation: Installation

    @property
    def pid(self) -> int:
        assert self.target.pid is not None
        return self.target.pid

    def get(self, path: str) -> bytes:
        connection = http.client.HTTPConnection(urlsplit(self.target.address).netloc, timeout=60)
        try:
            connection.request("GET", path)
            return connection.getresponse().read()
        finally:
            connection.close()

    def children(self) -> set[int]:
        path = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        return {int(word) for word in path.read_text("ascii").split()}

    def reload(self, number: int) -> None:
        """Reload a valid configuration, and wait until all old workers are gone."""
        before = self.children()
        self.installation.write(number)
        os.kill(self.pid, signal.SIGHUP)
        wait_until(lambda: not before & self.children(), f"reload {number} does not end")

    def reload_faulty(self, number: int) -> None:
        """Reload an invalid configuration, and wait until it is refused."""
        refused = self._refusals()
        self.installation.spoil(number)
        os.kill(self.pid, signal.SIGHUP)
        wait_until(lambda: self._refusals() > refused, f"reload {number} is not refused")

    def _refusals(self) -> int:
        return self.log.read_bytes().count(b"reload failed")


def wait_until(condition: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise Stuck(otherwise)
        time.sleep(0.02)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the phases and print the results; return 1 if a phase did not pass."""
    options = _parser().parse_args(argv)
    try:
        require_programs()
        with tempfile.TemporaryDirectory(prefix="mastaba-soak-") as name:
            return _run(Path(name), options)
    except (Missing, Stuck) as error:
        sys.stderr.write(f"soak: {error}\n")
        return 1


def _run(folder: Path, options: argparse.Namespace) -> int:
    installation = Installation(folder / "installation")
    installation.write(0)
    target = fastcgi_behind_nginx(
        installation.server_json, folder, workers=options.workers, threads=options.threads
    )
    try:
        server = Server(target, folder / "fastcgi.log", installation)
        reloads = _reloads(server, options)
        _print_tally(f"{options.reloads} reloads, every third of them faulty", reloads)
        kills = _kills(server, options)
        _print_tally(f"{options.kills} workers killed", kills)
        hangs = _hangs(server, options)
        _print_tally(f"{options.hangs} workers stopped, with clients that hang up", hangs)
        is_flat = _memory(server, options)
    finally:
        target.stop()
    # nginx answers requests of a killed or stopped worker with 502.
    lost = sum(tally.failures - tally.statuses[502] for tally in (kills, hangs))
    passed = is_flat and not reloads.failures and not lost
    print(f"\n{'passed' if passed else 'failed'}")
    return 0 if passed else 1


def _reloads(server: Server, options: argparse.Namespace) -> Tally:
    clients = Clients(server.target.address, options.clients, server.get(_TILE))
    with clients.asking() as tally:
        for number in range(1, options.reloads + 1):
            if number % 3 == 0:
                server.reload_faulty(number)
            else:
                server.reload(number)
    good = {number for number in range(options.reloads + 1) if number % 3 or not number}
    tally.wrong += len(tally.generations - good)
    return tally


def _kills(server: Server, options: argparse.Namespace) -> Tally:
    server.reload(options.reloads + 1)
    chance = random.Random(options.seed)
    clients = Clients(server.target.address, options.clients, server.get(_TILE))
    with clients.asking() as tally:
        for number in range(options.kills):
            victim = chance.choice(sorted(server.children()))
            os.kill(victim, signal.SIGKILL)
            wait_until(
                lambda: (
                    victim not in server.children()  # noqa: B023
                    and len(server.children()) == options.workers
                ),
                f"kill {number}: the worker is not replaced",
            )
    return tally


def _hangs(server: Server, options: argparse.Namespace) -> Tally:
    """Stop workers; with each, as many requests may fail as there are clients."""
    chance = random.Random(options.seed)
    clients = Clients(server.target.address, options.clients, server.get(_TILE))
    over = threading.Event()
    leavers = [
        threading.Thread(target=_leave, args=(server.target.address, number, over))
        for number in range(4)
    ]
    with clients.asking() as tally:
        for thread in leavers:
            thread.start()
        try:
            for number in range(options.hangs):
                victim = chance.choice(sorted(server.children()))
                os.kill(victim, signal.SIGSTOP)
                wait_until(
                    lambda: (
                        victim not in server.children()  # noqa: B023
                        and len(server.children()) == options.workers
                    ),
                    f"stop {number}: the worker is not replaced",
                )
        finally:
            over.set()
            for thread in leavers:
                thread.join()
    if tally.statuses[502] > options.hangs * options.clients:
        tally.wrong += 1
    return tally


def _leave(address: str, number: int, over: threading.Event) -> None:
    """Request one large map after another, and disconnect before any of them is ready."""
    parts = urlsplit(address)
    chance = random.Random(number)
    while not over.is_set():
        with socket.create_connection((parts.hostname, parts.port), _PATIENCE) as sock:
            path = _LARGE_MAP.format(chance.randrange(1_000_000))
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
            time.sleep(chance.random() * 0.2)


def _memory(server: Server, options: argparse.Namespace) -> bool:
    """Print the memory after each step; return whether it was flat and all responses correct."""
    server.reload(options.reloads + 2)
    print(f"\nMemory over {options.memory_reloads} reloads and {options.requests} requests")
    print(f"{'reloads':>10}{'requests':>10}{'own MiB':>10}{'Pss MiB':>10}{'Rss MiB':>10}")
    sizes: list[float] = []
    errors = 0
    for step in range(_STEPS):
        if step:
            for number in range(options.memory_reloads // (_STEPS - 1)):
                server.reload(1000 * step + number)
        count = options.requests // _STEPS
        paths = (_MAP.format(n) if n % 10 == 0 else _TILE for n in range(count))
        answers = ask(
            server.target.address, paths, connections=options.clients, media_type="image/"
        )
        errors += answers.errors
        memory = memory_of(server.pid)
        sizes.append(memory.resident / _MIB)
        print(
            f"{options.memory_reloads // (_STEPS - 1) * step:>10}{count * (step + 1):>10}"
            f"{memory.own / _MIB:>10.1f}{memory.divided / _MIB:>10.1f}{sizes[-1]:>10.1f}",
            flush=True,
        )
    middle = (min(sizes) + max(sizes)) / 2
    deviation = (max(sizes) - middle) / middle
    print(f"  wrong answers {errors}; Rss {middle:.1f} MiB ± {deviation:.1%}")
    return not errors and deviation <= _FLAT


def _print_tally(title: str, tally: Tally) -> None:
    statuses = ", ".join(f"{status}: {count}" for status, count in sorted(tally.statuses.items()))
    print(f"\n{title}", flush=True)
    for name, value in (
        ("requests", tally.requests),
        ("requests per second", round(tally.requests / tally.seconds)),
        ("by status", statuses),
        ("connections broken", tally.broken),
        ("answers of two configurations", tally.mixed),
        ("wrong answers", tally.wrong),
        ("configurations seen", len(tally.generations)),
    ):
        print(f"  {name:<32}{value}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--reloads", type=int, default=100, help="while requests run")
    parser.add_argument("--kills", type=int, default=30, help="workers killed")
    parser.add_argument("--hangs", type=int, default=10, help="workers stopped")
    parser.add_argument(
        "--memory-reloads", type=int, default=200, help="over which memory is reported"
    )
    parser.add_argument("--requests", type=int, default=5000, help="during those")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1, help="of the choice of victims")
    return parser


if __name__ == "__main__":
    sys.exit(main())
