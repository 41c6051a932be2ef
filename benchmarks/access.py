"""What access rules, keys and virtual services take: ``python -m benchmarks.access``."""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from benchmarks.many_layers import installation_with_layers
from benchmarks.processes import memory_of
from benchmarks.servers import Missing, plain_http
from mastaba_access.keystore.form import new_id, new_key
from mastaba_access.keystore.opening import open_keys
from mastaba_access.keystore.record import record_from

_MIB: Final = 1024**2
_COLD: Final = 100
_TILE: Final = "/tms{}/1.0.0/LAYER_1/2/2/1.{}"
_CAPABILITIES: Final = (
    "/wms{}?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetCapabilities",
    "/wmts{}?SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetCapabilities",
    "/tms{}/1.0.0/",
)
Visit = Callable[[http.client.HTTPConnection], None]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    options = _parser().parse_args(argv)
    print(f"{'':<42}{'start s':>9}{'Pss MiB':>9}{'more MiB':>9}{'after MiB':>10}", flush=True)
    try:
        with tempfile.TemporaryDirectory(prefix="mastaba-access-") as name:
            _measure_all(Path(name), options)
    except Missing as missing:
        sys.stderr.write(f"access: {missing}\n")
        return 1
    return 0


def _measure_all(folder: Path, options: argparse.Namespace) -> None:
    file = installation_with_layers(folder / "plain", options.layers)
    base = _row(f"{options.layers} layers", file, folder, options.rounds, 0.0, _documents(("",)))
    keys = _written_keys(folder, options.keys)
    rules = folder / "rules.json"
    rules.write_text(json.dumps(_rules(options.rules)), "utf-8")
    access = {"rules": str(rules), "keys": str(folder / "keys.sqlite")}
    limited = _changed(file, folder / "access.json", plugins={"access": access})
    name = f"{options.keys} keys, {options.rules} rules"
    cold: list[tuple[float, float]] = []
    _row(
        name,
        limited,
        folder,
        options.rounds,
        base,
        lambda connection: _cold(connection, keys, cold),
    )
    for number, column in (("first tile with a key", 0), ("the next one", 1)):
        value = statistics.median(pair[column] for pair in cold)
        print(f"  {number:<40}{value:>9.2f} ms", flush=True)
    for count in (10, options.layers):
        layers = [f"LAYER_{number}" for number in range(count)]
        virtual = {
            f"v{number}": {"layers": layers, "services": {"wms": {}, "wmts": {}, "tms": {}}}
            for number in range(options.virtual)
        }
        many = _changed(file, folder / f"virtual-{count}.json", virtual=virtual)
        roots = tuple(f"/v/{name}" for name in virtual)
        name = f"{options.virtual} virtual services of {count} layers"
        _row(name, many, folder, options.rounds, base, _documents(roots))


def _row(name: str, file: Path, folder: Path, rounds: int, base: float, visit: Visit) -> float:
    """Measure some starts, print a line, and return the memory before the first request."""
    rows = [_measure(file, folder, visit) for _ in range(rounds)]
    start, before, after = (float(statistics.median(column)) for column in zip(*rows, strict=True))
    more = f"{before - base:>9.1f}" if base else f"{'':>9}"
    print(f"{name:<42}{start:>9.2f}{before:>9.1f}{more}{after:>10.1f}", flush=True)
    return before


def _measure(file: Path, folder: Path, visit: Visit) -> tuple[float, float, float]:
    """Return seconds to the first response, and MiB then and after some requests."""
    started = time.perf_counter()
    target = plain_http(file, folder, workers=1, threads=1)
    try:
        start = time.perf_counter() - started
        assert target.pid is not None
        before = memory_of(target.pid).divided / _MIB
        connection = http.client.HTTPConnection(urlsplit(target.address).netloc, timeout=120)
        visit(connection)
        connection.close()
        return start, before, memory_of(target.pid).divided / _MIB
    finally:
        target.stop()


def _documents(roots: Sequence[str]) -> Visit:
    def visit(connection: http.client.HTTPConnection) -> None:
        for root in roots:
            for path in _CAPABILITIES:
                _taken(connection, path.format(root))

    return visit


def _cold(
    connection: http.client.HTTPConnection, keys: list[str], found: list[tuple[float, float]]
) -> None:
    """Add milliseconds of the first and of the second tile that keys get."""
    ending = next(
        one
        for one in ("jpeg", "png", "tif")
        if _status(connection, _TILE.format(f"/~{keys[0]}", one)) == 200
    )
    for key in keys[1:]:
        address = _TILE.format(f"/~{key}", ending)
        found.append((_taken(connection, address), _taken(connection, address)))


def _status(connection: http.client.HTTPConnection, path: str) -> int:
    connection.request("GET", path)
    response = connection.getresponse()
    response.read()
    return response.status


def _taken(connection: http.client.HTTPConnection, path: str) -> float:
    started = time.perf_counter()
    status = _status(connection, path)
    if status != http.client.OK:
        raise Missing(f"{path} is answered with status {status}")
    return (time.perf_counter() - started) * 1000


def _written_keys(folder: Path, count: int) -> list[str]:
    """Write a store of keys; return some of them."""
    store = open_keys(str(folder / "keys.sqlite"), create=True)
    some: list[str] = []
    records = []
    for number in range(count):
        key = new_key(new_id())
        records.append(record_from({"key": key, "label": f"key {number}", "groups": ["partners"]}))
        if len(some) <= _COLD:
            some.append(key)
    store.save(records, "created")
    store.close()
    return some


def _rules(count: int) -> dict[str, Any]:
    rules: list[dict[str, Any]] = [
        {
            "name": f"rule {number}",
            "who": [f"group:group_{number}"],
            "what": {"layers": [f"LAYER_{number}*"], "services": ["wms", "wmts"]},
            "allow": {"pixels": 1_000_000 + number},
        }
        for number in range(count - 2)
    ]
    everything = {"name": "partners", "who": ["group:partners"], "allow": {}}
    public = {"name": "public", "what": {"layers": ["LAYER_*"]}, "allow": {}}
    return {"default": "deny", "rules": [*rules, everything, public]}


def _changed(file: Path, target: Path, **members: Any) -> Path:
    """Write a server.json with further members; ``virtual`` belongs to its services.json."""
    server = json.loads(file.read_text("utf-8"))
    if "virtual" in members:
        services = Path(server["configurations"]["services"])
        document = json.loads(services.read_text("utf-8"))
        document["virtual"] = members.pop("virtual")
        own = target.with_suffix(".services.json")
        own.write_text(json.dumps(document), "utf-8")
        server["configurations"]["services"] = str(own)
    target.write_text(json.dumps({**server, **members}), "utf-8")
    return target


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.access", description=__doc__)
    parser.add_argument("--layers", type=int, default=1000, help="how many")
    parser.add_argument("--keys", type=int, default=100_000, help="how many")
    parser.add_argument("--rules", type=int, default=300, help="how many")
    parser.add_argument("--virtual", type=int, default=100, help="how many virtual services")
    parser.add_argument("--rounds", type=int, default=3, help="starts, of which medians are shown")
    return parser


if __name__ == "__main__":
    sys.exit(main())
