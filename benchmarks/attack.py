"""The latency of tiles while others show wrong keys: ``python -m benchmarks.attack``.

A client with a key requests tiles at a steady rate: in turns alone, beside wrong keys from one
address, and beside wrong keys from many. ``wrk`` shows these, and takes a processor itself. So
another turn shows them to a second server on the same machine: what tiles take longer beside that
one is the machine's, not the server's. The memory of a worker is counted from the first tiles of
the client, before any wrong key.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.client import Answers, ask_steadily
from benchmarks.processes import memory_of
from benchmarks.servers import Missing, plain_http
from mastaba_access.keystore.form import new_id, new_key
from mastaba_access.keystore.opening import open_keys
from mastaba_access.keystore.record import record_from
from mastaba_conformance.tiny_installation import tiny_installation

WORKERS: Final = 2
TILE: Final = "/tms/~{}/1.0.0/RGB_JPG/4/9/6.jpg"
CONNECTIONS: Final = 16
"""Connections of the attack."""
_KEYS: Final = 20_000
_SCRIPT: Final = Path(__file__).with_name("attack.lua")
_MANY: Final = 10_000
_ELSEWHERE: Final = "the same, elsewhere"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attack", description=__doc__)
    parser.add_argument(
        "--rate", type=int, default=10_000, help="wrong keys a second (%(default)d)"
    )
    parser.add_argument("--tiles", type=int, default=100, help="tiles a second (%(default)d)")
    parser.add_argument("--rounds", type=int, default=8, help="turns of each (%(default)d)")
    parser.add_argument("--seconds", type=int, default=3, help="of a turn (%(default)d)")
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.stderr.write("attack: install wrk\n")
        return 1
    try:
        with tempfile.TemporaryDirectory(prefix="mastaba-attack-") as name:
            _measure(Path(name), options)
    except Missing as missing:
        sys.stderr.write(f"attack: {missing}\n")
        return 1
    return 0


def _measure(folder: Path, options: argparse.Namespace) -> None:
    key = _written_key(folder)
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
    paths = folder / "paths"
    paths.write_text("".join(f"{TILE.format(new_key(new_id()))}\n" for _ in range(_KEYS)), "utf-8")
    target = plain_http(installation, folder, workers=WORKERS, threads=4)
    (folder / "other").mkdir()
    other = plain_http(installation, folder / "other", workers=WORKERS, threads=4)
    try:
        assert target.pid is not None
        _tiles(target.address, key, 1, options.tiles)
        before = memory_of(target.pid).own
        attacks = {"alone": 0, "one address": 1, f"{_MANY:,} addresses": _MANY, _ELSEWHERE: _MANY}
        tiles = {name: Answers() for name in attacks}
        shown = dict.fromkeys(attacks, 0.0)
        for _ in range(options.rounds):
            for name, addresses in attacks.items():
                attacked = other if name == _ELSEWHERE else target
                with _attack(attacked.address, paths, addresses, options) as rate:
                    tiles[name].latencies += _tiles(
                        target.address, key, options.seconds, options.tiles
                    )
                shown[name] += rate[0] / options.rounds
        grown = (memory_of(target.pid).own - before) / WORKERS / 1024
    finally:
        target.stop()
        other.stop()
    print(f"{'':<21}{'wrong/s':>9}{'p50 ms':>9}{'p95 ms':>9}{'p99 ms':>9}{'p95 ratio':>11}")
    for name, found in tiles.items():
        figures = "".join(f"{1000 * found.percentile(part):>9.2f}" for part in (0.5, 0.95, 0.99))
        ratio = found.percentile(0.95) / tiles["alone"].percentile(0.95)
        print(f"{name:<21}{shown[name]:>9,.0f}{figures}{ratio:>11.2f}")
    print(f"memory of a worker: {grown:,.0f} KiB more than before the first wrong key")


def _written_key(folder: Path) -> str:
    store = open_keys(str(folder / "keys.sqlite"), create=True)
    key = new_key(new_id())
    store.save([record_from({"key": key, "label": "partner", "groups": ["partners"]})], "created")
    store.close()
    return key


@contextmanager
def _attack(
    address: str, paths: Path, addresses: int, options: argparse.Namespace
) -> Iterator[list[float]]:
    """Show wrong keys from some addresses, or from none; the list gets how many a second."""
    rate = [0.0]
    if not addresses:
        yield rate
        return
    pause = max(1, round(1000 * CONNECTIONS / options.rate))
    connections = max(1, round(options.rate * pause / 1000))
    command = ["wrk", "-t1", f"-c{connections}", f"-d{options.seconds + 1}", "-s", str(_SCRIPT)]
    command += [address, "--", str(paths), str(addresses), str(pause)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        time.sleep(0.7)
        yield rate
        output = running.communicate()[0]
    rate[0] = next(
        float(line.split()[1]) for line in output.splitlines() if line.startswith("Requests/sec")
    )


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
