"""Command line of the benchmarks."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from benchmarks.classes import CLASSES, RequestClass, from_file, from_installation
from benchmarks.demo import demo_installation
from benchmarks.many_layers import installation_with_layers
from benchmarks.maps import MAP_CLASSES, MapInstallation, map_classes, with_map_layers
from benchmarks.mapserver import mapserver
from benchmarks.measure import Result, measure
from benchmarks.processes import memory_of
from benchmarks.report import machine, table
from benchmarks.servers import (
    Missing,
    Target,
    fastcgi_behind_nginx,
    nginx_cache,
    peer,
    plain_http,
    require_programs,
    static_files,
)

_GROUPS = {"tiles": CLASSES, "maps": MAP_CLASSES}
_SERVERS: dict[str, Callable[..., Target]] = {
    "fastcgi": fastcgi_behind_nginx,
    "http": plain_http,
    "cache": nginx_cache,
    "fastcgi-plain": partial(fastcgi_behind_nginx, observed=False),
    "http-plain": partial(plain_http, observed=False),
}
_USUAL = ("fastcgi", "http", "cache")
_FILE = "file"
_REST = 3.0


def main() -> int:
    """Measure and print; return 1 if nothing could be measured or a response was wrong."""
    arguments = _parser().parse_args()
    try:
        require_programs()
        names = [part for name in arguments.classes for part in _GROUPS.get(name, (name,))]
        with tempfile.TemporaryDirectory(prefix="mastaba-bench-") as name:
            folder = Path(name)
            server_json = _installation(arguments, folder)
            maps = None
            if not arguments.requests and any(name in MAP_CLASSES for name in names):
                maps = with_map_layers(server_json, folder / "maps")
                server_json = maps.server_json
            classes = _classes(arguments, server_json, names, maps)
            results = _run(arguments, server_json, classes, maps, folder)
    except Missing as missing:
        sys.stderr.write(f"benchmarks: {missing}\n")
        return 1
    print(table(results))
    print()
    print(machine(arguments.workers, arguments.connections, arguments.seconds, arguments.rounds))
    if arguments.json:
        text = json.dumps([asdict(result) for result in results], indent=1)
        arguments.json.write_text(text, encoding="utf-8")
    return 1 if any(result.errors for result in results) else 0


def _installation(arguments: argparse.Namespace, folder: Path) -> Path:
    if arguments.layers:
        return installation_with_layers(folder / "layers", arguments.layers)
    server_json: Path = arguments.server_json or demo_installation()
    return server_json


def _classes(
    arguments: argparse.Namespace,
    server_json: Path,
    names: Sequence[str],
    maps: MapInstallation | None,
) -> list[RequestClass]:
    if arguments.requests:
        return [from_file(arguments.requests)]
    classes: list[RequestClass] = []
    tile_names = [name for name in names if name in CLASSES]
    if tile_names:
        classes += from_installation(
            server_json,
            names=tile_names,
            media_type=arguments.format,
            count=arguments.count,
            seed=arguments.seed,
        )
    if maps is not None:
        map_names = [name for name in names if name in MAP_CLASSES]
        classes += map_classes(
            maps, names=map_names, count=arguments.map_count, seed=arguments.seed
        )
    return classes


def _run(
    arguments: argparse.Namespace,
    server_json: Path,
    classes: list[RequestClass],
    maps: MapInstallation | None,
    folder: Path,
) -> list[Result]:
    targets: list[Target] = []
    pids = dict(_pair(text) for text in arguments.peer_pid)
    try:
        for name in arguments.servers:
            if name == _FILE:
                continue
            start = _SERVERS[name]
            targets.append(
                start(server_json, folder, workers=arguments.workers, threads=arguments.threads)
            )
        tiles = next((item for item in classes if item.tiles and not item.conditional), None)
        if _FILE in arguments.servers and targets and tiles is not None:
            targets.append(static_files(targets[0], tiles, folder))
        if arguments.with_mapserver:
            if maps is None:
                raise Missing("--with-mapserver compares maps only: add --classes maps")
            targets.append(mapserver(maps, folder / "mapserver", workers=arguments.workers))
        for name, template in map(_pair, arguments.peer):
            targets.append(peer(name, template, int(pids[name]) if name in pids else None))
        results = measure(
            targets,
            classes,
            connections=arguments.connections,
            seconds=arguments.seconds,
            rounds=arguments.rounds,
            folder=folder,
        )
        _print_memory(targets)
        return results
    finally:
        for target in targets:
            target.stop()


def _print_memory(targets: Iterable[Target]) -> None:
    """Print the memory of all servers once they have returned what they have freed."""
    time.sleep(_REST)
    sizes = [
        f"{target.name} {memory_of(target.pid).divided / 1e6:.0f} MB"
        for target in targets
        if target.pid is not None
    ]
    print(f"{_REST:g} s after the last request: {', '.join(sizes)}")


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise Missing(f"{text!r} is not of the form NAME=VALUE")
    return name, value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("--server-json", type=Path, metavar="FILE", help="installation (default: the demo's)")
    add("--layers", type=int, metavar="COUNT", help="generate an installation with many layers")
    add("--requests", type=Path, metavar="FILE", help="one path a line, instead of the classes")
    choices = [*_GROUPS, *CLASSES, *MAP_CLASSES]
    add(
        "--classes",
        nargs="+",
        choices=choices,
        default=["tiles"],
        metavar="CLASS",
        help=f"of {', '.join(choices)} (default: tiles)",
    )
    add(
        "--servers",
        nargs="+",
        choices=[*_SERVERS, _FILE],
        default=[*_USUAL, _FILE],
        metavar="SERVER",
        help="of fastcgi, http, cache: nginx sending what it has cached, and file: nginx sending "
        "the same tiles from files (default: these); fastcgi-plain, http-plain: without access "
        "lines and metrics",
    )
    add("--with-mapserver", action="store_true", help="measure maps of MapServer as well")
    add("--format", default="image/jpeg", help="media type of the tiles asked for")
    add("--count", type=int, default=2000, help="different tiles in each class")
    add("--map-count", type=int, default=300, help="different maps in each class")
    add("--seed", type=int, default=1, help="of the choice of tiles")
    add("--workers", type=int, default=2, help="worker processes of the server")
    add("--threads", type=int, default=1, help="threads of each worker process")
    add("--connections", type=int, default=8)
    add("--seconds", type=float, default=5, help="of one run")
    add("--rounds", type=int, default=3, help="runs of each server and class, interleaved")
    add(
        "--peer",
        action="append",
        default=[],
        metavar="NAME=URL",
        help="another server, running; its address, or with {layer} {style} {format} {set} "
        "{level} {row} {col} {ext} the form of its tile requests",
    )
    add("--peer-pid", action="append", default=[], metavar="NAME=PID", help="for its CPU time")
    add("--json", type=Path, metavar="FILE", help="write the figures there as well")
    return parser


if __name__ == "__main__":
    sys.exit(main())
