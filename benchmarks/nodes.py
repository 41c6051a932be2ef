"""Several nodes behind HAProxy over a distant object store: ``python -m benchmarks.nodes``.

Each node is a real server in its own network namespace (Linux, as root). All read their layers and
pyramids from one bucket of a real S3, which answers after 20 ms. HAProxy runs with the sample from
deploy/haproxy.

1. CPU time of the nodes per tile, with 1, 2 and 4 of them; the load grows with their number.
2. Nodes are killed (SIGKILL, all processes of a node at once) and started again. No request may
   fail, except those of which a part was already answered.
3. Nodes are stopped gracefully and started again, one after the other. No request may fail.
4. Generations: pyramids and layers in the bucket are replaced. Each answer must be what its headers
   say, and all nodes must follow within 5 s.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.changes import Changes
from benchmarks.classes import Tile, from_installation
from benchmarks.cluster import Balancer, Network, Node
from benchmarks.demo import demo_installation
from benchmarks.distant_store import BUCKET, Store, distant_store
from benchmarks.measure import run_wrk
from benchmarks.processes import cpu_seconds
from benchmarks.servers import Missing, find_program

_PREFIX = "/maps"
_TOLERANCE = 0.10
_LIMIT = 5.0
_PATIENCE = 100.0
_PAUSE = 0.05
"""Seconds between two requests of a client while generations change."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the phases and print the results; return 1 if a phase did not pass."""
    options = _parser().parse_args(argv)
    try:
        missing = [name for name in ("haproxy", "ip", "wrk") if find_program(name) is None]
        if missing:
            raise Missing(f"install {', '.join(missing)} (scripts/install-debian-packages)")
        with tempfile.TemporaryDirectory(prefix="mastaba-nodes-") as name, ExitStack() as stack:
            return _run(Path(name), stack, options)
    except Missing as error:
        sys.stderr.write(f"nodes: {error}\n")
        return 1


def _run(folder: Path, stack: ExitStack, options: argparse.Namespace) -> int:
    network = stack.enter_context(Network(max(options.nodes)).up())
    address = f"{network.gateway}:9000"
    store, url = stack.enter_context(distant_store(folder / "store", address, options.latency))
    demo = demo_installation()
    tiles, changes = _fill(store, demo, options)
    server_json = _configuration(folder, demo, options)
    # The addresses of machines are not in the variables of the script, but in the network.
    environment = {**store.variables, "MASTABA_S3_URL": url, "MASTABA_OBJECT_ATTEMPTS_WAIT": "0"}
    nodes = [
        Node(name, host, server_json, folder / f"{name}.log", environment)
        for name, host in network.namespaces.items()
    ]
    for node in nodes:
        stack.callback(node.stop)
        node.start()
    balancer = Balancer(nodes, folder, options.balance)
    stack.callback(balancer.target.stop)
    balancer.use(len(nodes))
    cluster = _Cluster(nodes, balancer, [_path(tile) for tile in tiles], folder)
    phases: dict[str, Callable[[_Cluster, argparse.Namespace], bool]] = {
        "cpu": _processor_time,
        "kills": _kills,
        "restarts": _restarts,
        "generations": lambda cluster, options: _generations(cluster, changes, options),
    }
    passed = [phases[name](cluster, options) for name in options.phases]
    print(f"\n{'passed' if all(passed) else 'failed'}")
    return 0 if all(passed) else 1


def _fill(store: Store, demo: Path, options: argparse.Namespace) -> tuple[Sequence[Tile], Changes]:
    """Copy a pyramid of the demo; return some of its tiles, and what will change."""
    folder = demo.parent
    store.copy_pyramid(folder / "pyramids" / "imagery.json", "imagery")
    layer = json.loads((folder / "layers" / "imagery.json").read_text("utf-8"))
    layer["pyramids"][0]["path"] = f"s3://{BUCKET}/imagery.json"
    store.put("layers/imagery.json", layer)
    changes = Changes(store)
    changes.write(0)
    names = ["imagery", *changes.layers]
    store.put("layers.txt", "".join(f"s3://{BUCKET}/layers/{n}.json\n" for n in names).encode())
    (stored,) = from_installation(
        demo, names=["tms"], media_type="image/jpeg", count=10 * options.tiles, seed=options.seed
    )
    return [tile for tile in stored.tiles if tile.layer == "imagery"][: options.tiles], changes


def _configuration(folder: Path, demo: Path, options: argparse.Namespace) -> Path:
    services = {
        "global": {"generation_headers": True},
        "health": {"enabled": True},
        "metrics": {"enabled": True, "root_path": "/metrics"},
        "tms": {"enabled": True, "root_path": "/tms", "endpoint_uri": "http://localhost/maps/tms"},
    }
    (folder / "services.json").write_text(json.dumps(services), "utf-8")
    server = {
        "port": "127.0.0.1:9000",
        "workers": options.workers,
        "threads": options.threads,
        "logger": {"output": "standard_output", "level": "warn"},
        "drain": 3,
        "follow": {"period": 1},
        "cache": {"size": options.cache, "validity": 60},
        "configurations": {
            "services": str(folder / "services.json"),
            "layers": f"s3://{BUCKET}/layers.txt",
            "styles": str(demo.parent / "styles"),
            "tile_matrix_sets": str(demo.parent / "tilematrixsets"),
        },
    }
    path = folder / "server.json"
    path.write_text(json.dumps(server), "utf-8")
    return path


def _path(tile: Tile) -> str:
    return f"{_PREFIX}/tms/1.0.0/{tile.layer}/{tile.level}/{tile.col}/{tile.row}.{tile.ext}"


@dataclass
class _Cluster:
    """Running nodes behind a balancer, and paths of tiles."""

    nodes: list[Node]
    balancer: Balancer
    paths: list[str]
    folder: Path

    def get(self, path: str) -> bytes:
        return _get(self.balancer.target.address, path)[2]


# ---------------------------------------------------------------- CPU time


def _processor_time(cluster: _Cluster, options: argparse.Namespace) -> bool:
    """Measure 1, 2, 4 nodes in turns, so that a change of the machine's speed affects all."""
    file = cluster.folder / "paths.txt"
    file.write_text("".join(f"{path}\t\n" for path in cluster.paths), "ascii")
    address = cluster.balancer.target.address
    costs: dict[int, list[float]] = {count: [] for count in options.nodes}
    rates: dict[int, list[float]] = {count: [] for count in options.nodes}
    errors = 0
    for turn in range(options.rounds + 1):
        for count in options.nodes:
            cluster.balancer.use(count)
            nodes = cluster.nodes[:count]
            before = sum(cpu_seconds(node.pid) for node in nodes)
            done = run_wrk(address, file, options.connections * count, options.seconds)
            cpu = sum(cpu_seconds(node.pid) for node in nodes) - before
            # The first turn fills the caches.
            if turn:
                costs[count].append(cpu / done["requests"] * 1e6)
                rates[count].append(done["requests"] / done["microseconds"] * 1e6)
                errors += done["errors"]
    cluster.balancer.use(len(cluster.nodes))
    print(
        f"\nCPU time of the nodes for a tile, {options.latency:g} ms to the store; median of "
        f"{options.rounds} rounds\n{'nodes':>8}{'tiles/s':>10}{'CPU us':>10}{'ratio':>8}"
    )
    medians = {count: statistics.median(cost) for count, cost in costs.items()}
    one = medians[min(medians)]
    for count, cost in medians.items():
        rate = statistics.median(rates[count])
        print(f"{count:>8}{rate:>10.0f}{cost:>10.0f}{cost / one:>8.2f}", flush=True)
    hits, misses = _lookups(cluster)
    print(f"  errors {errors}; index caches: {hits} hits, {misses} misses")
    return not errors and all(abs(cost / one - 1) <= _TOLERANCE for cost in medians.values())


def _lookups(cluster: _Cluster) -> tuple[int, int]:
    """Return hits and misses of the index caches of all nodes."""
    counts = Counter[str]()
    for node in cluster.nodes:
        for line in _get(node.url, "/metrics")[2].decode().splitlines():
            if line.startswith("mastaba_index_cache_requests_total"):
                counts["hit" if '"hit"' in line else "miss"] += int(float(line.split()[-1]))
    return counts["hit"], counts["miss"]


# ---------------------------------------------------------------- kills and restarts


@dataclass
class _Tally:
    """Results of clients.

    Attributes:
        partial: answers that broke off: no balancer can repeat them.
        lost: other requests without a correct answer, by reason.
    """

    right: int = 0
    partial: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)


def _kills(cluster: _Cluster, options: argparse.Namespace) -> bool:
    repeated = cluster.balancer.repeated()
    with _load(cluster, options.clients) as tally:
        for number in range(options.kills):
            node = cluster.nodes[number % len(cluster.nodes)]
            _after(tally, 200)
            node.kill()
            cluster.balancer.wait_for(lambda: not cluster.balancer.is_up(node.name))  # noqa: B023
            node.start()
            cluster.balancer.wait_for(lambda: cluster.balancer.is_up(node.name))  # noqa: B023
    repeated = cluster.balancer.repeated() - repeated
    return _print_tally(f"{options.kills} nodes killed", tally, repeated) and repeated > 0


def _restarts(cluster: _Cluster, options: argparse.Namespace) -> bool:
    repeated = cluster.balancer.repeated()
    with _load(cluster, options.clients) as tally:
        for node in cluster.nodes:
            _after(tally, 200)
            node.stop()
            node.start()
            cluster.balancer.wait_for(lambda: cluster.balancer.is_up(node.name))  # noqa: B023
    repeated = cluster.balancer.repeated() - repeated
    title = f"rolling restart of {len(cluster.nodes)} nodes"
    return _print_tally(title, tally, repeated) and not tally.partial


def _after(tally: _Tally, count: int) -> None:
    """Wait for more correct answers."""
    wanted = tally.right + count
    _wait(lambda: tally.right >= wanted, "the nodes do not answer")


@contextmanager
def _load(cluster: _Cluster, clients: int) -> Iterator[_Tally]:
    """Request tiles from the balancer while the block runs, and compare them."""
    expected = {path: cluster.get(path) for path in cluster.paths}
    tally, over = _Tally(), threading.Event()

    def work(seed: int) -> None:
        chance = random.Random(seed)
        host = urlsplit(cluster.balancer.target.address).netloc
        connection = http.client.HTTPConnection(host, timeout=_PATIENCE)
        while not over.is_set():
            path = chance.choice(cluster.paths)
            try:
                connection.request("GET", path)
                response = connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                with tally.lock:
                    tally.lost[type(error).__name__] += 1
                continue
            try:
                body = response.read()
            except (OSError, http.client.HTTPException):
                connection.close()
                with tally.lock:
                    tally.partial += 1
                continue
            with tally.lock:
                if response.status != 200:
                    tally.lost[f"status {response.status}"] += 1
                elif body != expected[path]:
                    tally.lost["another tile"] += 1
                else:
                    tally.right += 1
        connection.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield tally
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _print_tally(title: str, tally: _Tally, repeated: int) -> bool:
    print(f"\n{title}")
    for name, value in (
        ("correct answers", tally.right),
        ("repeated by HAProxy", repeated),
        ("lost", dict(tally.lost) or 0),
        ("broken off within the answer", tally.partial),
    ):
        print(f"  {name:<32}{value}", flush=True)
    return not tally.lost


# ---------------------------------------------------------------- generations


@dataclass
class _Seen:
    """What clients and observers saw of the generations.

    Attributes:
        contents: the content that each generation stands for, by the name of the resource.
        mixed: answers whose content is not that of their generation, or of two generations.
        failed: answers with another status than 200.
        answers: number of all.
    """

    contents: dict[tuple[str, str], int] = field(default_factory=dict)
    mixed: int = 0
    failed: int = 0
    answers: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, name: str, status: int, generation: str, numbers: set[int]) -> None:
        with self.lock:
            self.answers += 1
            if status != 200:
                self.failed += 1
            elif len(numbers) != 1 or not generation:
                self.mixed += 1
            else:
                (number,) = numbers
                self.mixed += self.contents.setdefault((name, generation), number) != number


def _generations(cluster: _Cluster, changes: Changes, options: argparse.Namespace) -> bool:
    seen, over = _Seen(), threading.Event()
    address = cluster.balancer.target.address
    clients = [
        threading.Thread(target=_check_answers, args=(address, name, changes, seen, over))
        for name in (*changes.resources, *changes.resources)
    ]
    for thread in clients:
        thread.start()
    times: list[float] = []
    cpu = -sum(cpu_seconds(node.pid) for node in cluster.nodes)
    try:
        for number in range(1, options.changes + 1):
            changes.write(number)
            started = time.monotonic()
            times.append(_followed(cluster.nodes, changes, number) - started)
    finally:
        over.set()
        for thread in clients:
            thread.join()
    cpu += sum(cpu_seconds(node.pid) for node in cluster.nodes)
    # Two generations with the same content: the nodes do not agree how to name it.
    named = Counter((name, number) for (name, _), number in seen.contents.items())
    seen.mixed += sum(count - 1 for count in named.values())
    print(f"\n{options.changes} changes of generation")
    for name, value in (
        ("checked answers", seen.answers),
        ("mixed answers", seen.mixed),
        ("other statuses than 200", seen.failed),
        ("CPU s of a node for a change", f"{cpu / options.changes / len(cluster.nodes):.2f}"),
        ("all nodes follow, median s", f"{statistics.median(times):.1f}"),
        ("all nodes follow, longest s", f"{max(times):.1f}"),
    ):
        print(f"  {name:<32}{value}", flush=True)
    return not seen.mixed and not seen.failed and max(times) <= _LIMIT


def _check_answers(
    address: str, name: str, changes: Changes, seen: _Seen, over: threading.Event
) -> None:
    resource = changes.resources[name]
    while not over.is_set():
        status, headers, body = _get(address, _PREFIX + resource.path)
        seen.add(name, status, headers[resource.header] or "", resource.numbers(body))
        # Not limited by the machine: reloads are measured, not how they share it with clients.
        time.sleep(_PAUSE)


def _followed(nodes: Sequence[Node], changes: Changes, number: int) -> float:
    """Wait until each node answers everything in a version; return when the last of them did."""
    latest = 0.0
    waiting = {node.url: list(changes.resources.values()) for node in nodes}
    deadline = time.monotonic() + _PATIENCE
    while waiting:
        for url, resources in list(waiting.items()):
            while resources and resources[-1].numbers(_get(url, resources[-1].path)[2]) == {number}:
                resources.pop()
            if not resources:
                latest = time.monotonic()
                del waiting[url]
        if time.monotonic() > deadline:
            raise Missing(f"change {number} does not reach {', '.join(waiting)}")
        time.sleep(_PAUSE)
    return latest


def _get(address: str, path: str) -> tuple[int, http.client.HTTPMessage, bytes]:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=_PATIENCE)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


def _wait(condition: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise Missing(otherwise)
        time.sleep(0.02)


_PHASES = ("cpu", "kills", "restarts", "generations")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.nodes",
        description=__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--phases", nargs="+", choices=_PHASES, default=_PHASES, help="to run")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 2, 4], help="for CPU time")
    parser.add_argument("--latency", type=float, default=20, help="of the store, milliseconds")
    parser.add_argument("--workers", type=int, default=1, help="of each node")
    parser.add_argument("--threads", type=int, default=8, help="of each worker")
    parser.add_argument("--cache", type=int, default=1000, help="slab indices of each worker")
    parser.add_argument("--balance", default="leastconn", help="algorithm of HAProxy")
    parser.add_argument("--tiles", type=int, default=400, help="different tiles")
    parser.add_argument("--connections", type=int, default=4, help="for each node")
    parser.add_argument("--seconds", type=float, default=6, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=5, help="of measurements")
    parser.add_argument("--clients", type=int, default=8, help="while nodes are killed")
    parser.add_argument("--kills", type=int, default=8, help="of nodes")
    parser.add_argument("--changes", type=int, default=100, help="of generation")
    parser.add_argument("--seed", type=int, default=1, help="of the choice of tiles")
    return parser


if __name__ == "__main__":
    sys.exit(main())
