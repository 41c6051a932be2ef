"""The latency of tiles while others show wrong keys: ``python -m benchmarks.attack``.

A client with a key requests tiles at a steady rate: in turns alone, beside wrong keys from one
address, and beside wrong keys from many (`benchmarks.flood`). Flood and servers share the
processors. So another turn shows the wrong keys to a second server on the same machine: what tiles
take longer beside that one is the machine's, not the server's. What is answered of the wrong keys
is in the table: the server lets answers wait when they are many. The memory of a worker is counted
from a flood of tiles, before any wrong key.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from benchmarks.client import Answers, ask_steadily
from benchmarks.processes import cpu_seconds, memory_of
from benchmarks.servers import Missing, Target, plain_http
from mastaba_access.keystore.form import new_id, new_key
from mastaba_access.keystore.opening import open_keys
from mastaba_access.keystore.record import record_from
from mastaba_conformance.tiny_installation import tiny_installation

WORKERS: Final = 2
TILE: Final = "/tms/~{}/1.0.0/RGB_JPG/4/9/6.jpg"
_KEYS: Final = 20_000
_MANY: Final = 10_000
_ELSEWHERE: Final = "the same, elsewhere"

Shares = dict[str, float]
"""``rate``: wrong keys answered a second; ``flood``, ``server``: processors that each took."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attack", description=__doc__)
    parser.add_argument(
        "--rate", type=int, default=10_000, help="wrong keys a second (%(default)d)"
    )
    parser.add_argument(
        "--connections", type=int, default=64, help="of the wrong keys (%(default)d)"
    )
    parser.add_argument("--tiles", type=int, default=100, help="tiles a second (%(default)d)")
    parser.add_argument("--rounds", type=int, default=8, help="turns of each (%(default)d)")
    parser.add_argument("--seconds", type=int, default=3, help="of a turn (%(default)d)")
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="mastaba-attack-") as name:
            _measure(Path(name), options)
    except Missing as missing:
        sys.stderr.write(f"attack: {missing}\n")
        return 1
    return 0


def _measure(folder: Path, options: argparse.Namespace) -> None:
    key = written_key(folder)
    rules = folder / "rules.json"
    rules.write_text(json.dumps({"default": "allow", "rules": []}), "utf-8")
    access = {
        "rules": str(rules),
        "keys": str(folder / "keys.sqlite"),
        "trusted_fronts": ["127.0.0.1"],
    }
    overrides = {
        "plugins": {"access": access},
        "logger": {"output": "standard_output", "level": "warn"},
    }
    installation = tiny_installation(folder / "tiny", server_overrides=overrides)
    right = _written(folder / "right", [_request(key, 0)])
    one, many = (
        _written(folder / f"wrong-{addresses}", _wrong_requests(addresses))
        for addresses in (1, _MANY)
    )
    attacks = {"alone": None, "one address": one, f"{_MANY:,} addresses": many, _ELSEWHERE: many}
    target = plain_http(installation, folder, workers=WORKERS, threads=4)
    (folder / "other").mkdir()
    other = plain_http(installation, folder / "other", workers=WORKERS, threads=4)
    try:
        assert target.pid is not None
        with _flood(target, right, options):
            _tiles(target.address, key, 1, options.tiles)
        before = memory_of(target.pid).own
        tiles = {name: Answers() for name in attacks}
        shares: dict[str, list[Shares]] = {name: [] for name in attacks}
        for _ in range(options.rounds):
            for name, requests in attacks.items():
                attacked = other if name == _ELSEWHERE else target
                with _flood(attacked, requests, options) as share:
                    tiles[name].latencies += _tiles(
                        target.address, key, options.seconds, options.tiles
                    )
                shares[name].append(share)
        grown = (memory_of(target.pid).own - before) / WORKERS / 1024
    finally:
        target.stop()
        other.stop()
    print(f"{options.rate:,} a second, over {options.connections:,} connections")
    titles = ("wrong/s", "flood CPU", "server CPU", "p50 ms", "p95 ms", "p99 ms", "p95 ratio")
    print(f"{'':<21}" + "".join(f"{title:>11}" for title in titles))
    for name, found in tiles.items():
        rate, *used = (
            sum(share.get(what, 0.0) for share in shares[name]) / options.rounds
            for what in ("rate", "flood", "server")
        )
        line = f"{name:<21}{rate:>11,.0f}" + "".join(f"{share:>11.0%}" for share in used)
        line += "".join(f"{1000 * found.percentile(part):>11.2f}" for part in (0.5, 0.95, 0.99))
        print(f"{line}{found.percentile(0.95) / tiles['alone'].percentile(0.95):>11.2f}")
    print(f"memory of a worker: {grown:,.0f} KiB more than before the first wrong key")


def written_key(folder: Path) -> str:
    """Return the only key of a new store in a folder."""
    store = open_keys(str(folder / "keys.sqlite"), create=True)
    key = new_key(new_id())
    store.save([record_from({"key": key, "label": "partner", "groups": ["partners"]})], "created")
    store.close()
    return key


def _written(file: Path, requests: list[str]) -> Path:
    file.write_text(json.dumps(requests), "utf-8")
    return file


def _wrong_requests(addresses: int) -> list[str]:
    """Return requests with a different key each, from addresses in turn."""
    return [_request(new_key(new_id()), number % addresses) for number in range(_KEYS)]


def _request(key: str, address: int) -> str:
    return (
        f"GET {TILE.format(key)} HTTP/1.1\r\nHost: localhost\r\n"
        f"X-Forwarded-For: 10.1.{address // 256}.{address % 256}\r\n\r\n"
    )


@contextmanager
def _flood(
    attacked: Target, requests: Path | None, options: argparse.Namespace
) -> Iterator[Shares]:
    """Send requests at the rate of the attack, or none; the shares are known afterwards."""
    found: Shares = {}
    assert attacked.pid is not None
    if requests is None:
        begun, before = time.monotonic(), cpu_seconds(attacked.pid)
        yield found
        found["server"] = (cpu_seconds(attacked.pid) - before) / (time.monotonic() - begun)
        return
    command = [sys.executable, "-m", "benchmarks.flood", str(urlsplit(attacked.address).port)]
    command += [str(requests), f"--rate={options.rate}", f"--seconds={options.seconds + 1}"]
    command += [f"--connections={options.connections}"]
    before = cpu_seconds(attacked.pid)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        time.sleep(0.7)
        yield found
        output = json.loads(running.communicate()[0])
    server = (cpu_seconds(attacked.pid) - before) / (options.seconds + 1)
    found.update(rate=output["rate"], flood=output["processor"], server=server)


def _tiles(address: str, key: str, seconds: float, rate: int) -> list[float]:
    """Request a tile at a steady rate over two connections for each worker."""
    answers = ask_steadily(
        address,
        [TILE.format(key)] * int(seconds * rate),
        rate=rate,
        connections=2 * WORKERS,
        headers={"X-Forwarded-For": "192.0.2.1"},
        # Not in step with the attack.
        spread=0.5,
    )
    if answers.errors:
        raise Missing(answers.first_error)
    return answers.latencies


if __name__ == "__main__":
    raise SystemExit(main())
