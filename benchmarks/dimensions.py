"""Cost of dimensions: tiles of many values, and starts (``python -m benchmarks.dimensions``).

Tiles are measured in this process, which shows what the look-up of a tile costs, and with
``--served`` over HTTP, which shows the rate of a server. Both compare random tiles of all values
with random tiles of one value, and with those of a layer without values that has as many slabs as
all values together, once every slab has been read.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import run_wrk
from benchmarks.processes import cpu_seconds, memory_of
from benchmarks.servers import Missing, Target, plain_http
from mastaba.wsgi import create_application
from mastaba_conformance.object_server import S3_KEYS, Faults, ObjectServer
from mastaba_server.descriptors import DESCRIPTORS
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.slab_names import slab_path
from mastaba_writer.tile_matrix_sets import synthetic, web_mercator

_FIRST_YEAR = 1500
_REQUESTS = 20_000
_SLAB = 16
_TILE_BYTES = 64
_TILE = (
    "SERVICE=WMTS&REQUEST=GetTile&VERSION=1.0.0&LAYER={layer}&STYLE=normal&FORMAT=image/png"
    "&TILEMATRIXSET={set}&TILEMATRIX={level}&TILEROW={row}&TILECOL={column}"
)
_WIDE = "WIDE"
"""Layer and tile matrix set with as many slabs on a level as there are values."""
Slabs = Sequence[tuple[int, int]]
"""Columns and rows."""


def main(argv: Sequence[str] | None = None) -> int:
    """Print microseconds of processor time of each tile, and seconds of each start."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, default=500)
    parser.add_argument("--levels", type=int, default=40)
    parser.add_argument("--served", action="store_true", help="also measure tiles over HTTP")
    parser.add_argument("--observed", action="store_true", help="serve with lines and metrics")
    parser.add_argument("--no-starts", action="store_true", help="measure tiles only")
    parser.add_argument("--workers", type=int, default=1, help="of the server (default: 1)")
    parser.add_argument("--layers", type=int, default=100)
    parser.add_argument("--dates", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="mastaba-dimensions-") as name:
        _tiles(Path(name) / "tiles", options)
        if not options.no_starts:
            _starts(Path(name) / "starts", options)
    return 0


def _tiles(folder: Path, options: argparse.Namespace) -> None:
    years = [str(_FIRST_YEAR + number) for number in range(options.values)]
    server_json = _series(folder, years, options.levels)
    if options.served:
        _served(server_json, folder, years, options)
    DESCRIPTORS.raise_limit()
    application = create_application(str(server_json))
    without = _queries("PLAIN", [""], options.levels)
    of_one = _queries("ORTHO", years[:1], options.levels)
    of_all = _queries("ORTHO", years, options.levels)
    of_wide = _queries(_WIDE, [""], options.levels, _slabs_of(options.values))
    begin = time.process_time()
    for year in years:
        _ask(application, _tile("ORTHO", 0, 0, 0, year))
    first = (time.process_time() - begin) / options.values
    print(f"{'first tile of a value':<32}{first * 1e3:8.2f} ms")
    for query in (*_all_slabs("PLAIN", [""], options.levels), *without, *of_one):
        _ask(application, query)
    before = memory_of(os.getpid()).resident
    for query in (*_all_slabs("ORTHO", years, options.levels), *of_all):
        _ask(application, query)
    grown = memory_of(os.getpid()).resident - before
    print(f"{'slabs and levels of all values':<32}{grown / 2**20:+8.1f} MiB")
    for query in _all_slabs(_WIDE, [""], options.levels, _slabs_of(options.values)):
        _ask(application, query)
    ways = {
        "without a value": without,
        "one value": of_one,
        f"{options.values} values": of_all,
        "as many slabs, no values": of_wide,
    }
    results: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, queries in ways.items():
            results[name].append(_seconds(partial(_all, application, queries)))
    for name, seconds in results.items():
        print(f"{name:<32}{statistics.median(seconds) / _REQUESTS * 1e6:8.2f} us")


def _served(
    server_json: Path, folder: Path, years: Sequence[str], options: argparse.Namespace
) -> None:
    """Print microseconds of processor time of a tile over HTTP, and memory of each worker."""
    target = plain_http(
        server_json, folder, workers=options.workers, threads=1, observed=options.observed
    )
    wide = _slabs_of(options.values)
    ways = {
        "one value": _queries("ORTHO", years[:1], options.levels),
        f"{options.values} values": _queries("ORTHO", years, options.levels),
        "as many slabs, no values": _queries(_WIDE, [""], options.levels, wide),
    }
    files = {name: _paths(folder, name, queries) for name, queries in ways.items()}
    every = {
        "values": _all_slabs("ORTHO", years, options.levels),
        "wide": _all_slabs(_WIDE, [""], options.levels, wide),
    }

    def read_all(name: str) -> None:
        chooser, done = random.Random(2), 0
        while done < 6 * len(every[name]) * options.workers:
            # A run may be too short for all of them, and begins with the first.
            chooser.shuffle(every[name])
            file = _paths(folder, name, every[name])
            done += run_wrk(target.address, file, 8, 5.0)["requests"]

    try:
        _cost_of(target, files["one value"], 2.0)
        before = memory_of(target.pid or 0).workers
        read_all("values")
        grown = (memory_of(target.pid or 0).workers - before) / options.workers
        read_all("wide")
        results: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(options.rounds):
            for name, file in files.items():
                results[name].append(_cost_of(target, file, 4.0))
    finally:
        target.stop()
    for name, costs in results.items():
        print(f"{'HTTP, ' + name:<32}{statistics.median(costs):8.2f} us")
    print(f"{'HTTP, memory of all values':<32}{grown / 2**20:+8.1f} MiB")


def _cost_of(target: Target, file: Path, seconds: float) -> float:
    """Return the microseconds of processor time that the server takes for a request."""
    pid = target.pid or 0
    before = cpu_seconds(pid)
    result = run_wrk(target.address, file, 8, seconds)
    if result["errors"]:
        raise Missing(f"{result['errors']} requests failed")
    return (cpu_seconds(pid) - before) / result["requests"] * 1e6


def _paths(folder: Path, name: str, queries: Sequence[str]) -> Path:
    """Write paths for requests.lua."""
    file = folder / f"{name}.txt"
    file.write_text("".join(f"/wmts?{query}\t\n" for query in queries), "ascii")
    return file


def _value(year: str) -> str:
    return f"&TIME={year}" if year else ""


def _tile(layer: str, level: int, row: int, column: int, year: str) -> str:
    """Return the request for a tile."""
    name = _WIDE if layer == _WIDE else "DEEP"
    return _TILE.format(layer=layer, set=name, level=level, row=row, column=column) + _value(year)


def _slabs_of(count: int) -> Slabs:
    """Return the places of some slabs, in a square."""
    side = math.ceil(math.sqrt(count))
    return [(number % side, number // side) for number in range(count)]


def _queries(layer: str, years: Sequence[str], levels: int, slabs: Slabs = ((0, 0),)) -> list[str]:
    """Return requests for random tiles."""
    chooser = random.Random(1)
    found = []
    for _ in range(_REQUESTS):
        column, row = (_SLAB * place + chooser.randrange(_SLAB) for place in chooser.choice(slabs))
        found.append(_tile(layer, chooser.randrange(levels), row, column, chooser.choice(years)))
    return found


def _all_slabs(
    layer: str, years: Sequence[str], levels: int, slabs: Slabs = ((0, 0),)
) -> list[str]:
    """Return a request for a tile of each slab."""
    return [
        _tile(layer, level, _SLAB * row + 1, _SLAB * column + 1, year)
        for year in years
        for level in range(levels)
        for column, row in slabs
    ]


def _series(folder: Path, years: Sequence[str], levels: int) -> Path:
    """Write a layer of many values, with a whole slab on each level; return its server.json.

    Tiles are only some bytes, because the server sends them without looking at them.
    """
    pyramids = folder / "pyramids"
    pyramids.mkdir(parents=True)
    deep, wide = (_set(name, side, levels) for name, side in (("DEEP", 1), (_WIDE, _side(years))))
    _model(pyramids, deep, "model", levels)
    text = (pyramids / "model.json").read_text("utf-8")
    (pyramids / "model.json").unlink()
    for year in years:
        shutil.copytree(pyramids / "model", pyramids / f"one_{year}")
        (pyramids / f"one_{year}.json").write_text(text.replace("model", f"one_{year}"), "utf-8")
    _widen(pyramids, wide, _slabs_of(len(years)), levels)
    sets = {"DEEP": deep, _WIDE: wide}
    plain = layer_document(pyramids / f"one_{years[-1]}.json", tile_matrix_sets=sets)
    document = {
        **plain,
        "dimensions": [{"name": "time"}],
        "variants": {"template": str(pyramids / "one_{time}.json")},
    }
    return write_installation(
        folder,
        layers={
            "PLAIN": plain,
            "ORTHO": document,
            _WIDE: layer_document(pyramids / "wide.json", tile_matrix_sets=sets),
        },
        services=("wmts",),
        tile_matrix_sets=sets,
        server_overrides={"cache": {"size": 3 * len(years) * levels, "validity": 3600}},
    )


def _side(years: Sequence[str]) -> int:
    return 1 + max(column for column, _ in _slabs_of(len(years)))


def _set(name: str, side: int, levels: int) -> dict[str, Any]:
    """Return a tile matrix set whose levels have room for some slabs on a side."""
    return synthetic(
        name,
        crs="EPSG:3857",
        origin=(0, 4_000_000),
        cell_sizes=[1000 / side * 0.9**level for level in range(levels)],
        matrix_sizes=[(side * _SLAB, side * _SLAB)] * levels,
    )


def _model(pyramids: Path, tile_matrix_set: dict[str, Any], name: str, levels: int) -> None:
    """Write a pyramid with one slab on each level."""
    write_pyramid(
        pyramids,
        name,
        tile_matrix_set=tile_matrix_set,
        format="TIFF_PNG_UINT8",
        channels=3,
        levels=[
            LevelPlan(str(level), 0, _SLAB - 1, 0, _SLAB - 1) for level in reversed(range(levels))
        ],
        tile=lambda level, row, column: f"{level} {row} {column}".encode().ljust(_TILE_BYTES),
        tiles_per_width=_SLAB,
        tiles_per_height=_SLAB,
        tables=(),
    )


def _widen(pyramids: Path, tile_matrix_set: dict[str, Any], slabs: Slabs, levels: int) -> None:
    """Write the pyramid of many slabs: copies of one on each level."""
    _model(pyramids, tile_matrix_set, "wide", levels)
    path = pyramids / "wide.json"
    document = json.loads(path.read_text("utf-8"))
    last = _SLAB * (1 + max(max(place) for place in slabs)) - 1
    for level in document["levels"]:
        level["tile_limits"] |= {"max_row": last, "max_col": last}
        folder = pyramids / level["storage"]["image_directory"]
        depth = level["storage"]["path_depth"]
        first = folder / slab_path(0, 0, depth)
        for place in slabs[1:]:
            target = folder / slab_path(*place, depth)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(first, target)
    path.write_text(json.dumps(document), "utf-8")


def _all(application: Any, queries: Sequence[str]) -> None:
    for query in queries:
        application.stored_tile("/wmts", query, {})


def _ask(application: Any, query: str) -> None:
    response = application.stored_tile("/wmts", query, {})
    assert response is not None, query
    assert response.status == 200, query


def _starts(folder: Path, options: argparse.Namespace) -> None:
    years = [str(_FIRST_YEAR + number) for number in range(options.dates)]
    for year in years:
        _pyramid(folder, f"one_{year}", 3)
    plain = layer_document(folder / f"pyramids/one_{years[-1]}.json")
    limits = {str(level): [0, 0, 0, 0] for level in range(3)}
    rows = [
        {
            "at": {"time": one},
            "path": f"one_{one}.json",
            "generation": "0123456789ab",
            "levels": limits,
        }
        for one in years
    ]
    stack = folder / "pyramids/one.stack.json"
    stack.write_text(json.dumps({"variants": rows}), "utf-8")
    dimensions = {"dimensions": [{"name": "time"}]}
    template = str(folder / "pyramids/one_{time}.json")
    ways: dict[str, Mapping[str, Any]] = {
        "without dimensions": plain,
        "template": {**plain, **dimensions, "variants": {"template": template}},
        "stack": {**plain, **dimensions, "variants": {"stack": str(stack)}},
    }
    results: dict[str, list[float]] = {name: [] for name in ways}
    made = {}
    for name, document in ways.items():
        layers = {f"LAYER_{number}": document for number in range(options.layers)}
        made[name] = write_installation(folder / name, layers=layers, services=("wmts",))
    _distant_starts(folder, stack.read_bytes(), plain, options)
    for _ in range(options.rounds):
        for name, server_json in made.items():
            path = str(server_json)
            # As the command: it collects no garbage until the configuration is loaded.
            gc.collect()
            gc.disable()
            results[name].append(_seconds(partial(create_application, path)))
            gc.enable()
    for name, seconds in results.items():
        print(f"{'start, ' + name:<32}{statistics.median(seconds):8.2f} s")


def _distant_starts(
    folder: Path, stack: bytes, plain: Mapping[str, Any], options: argparse.Namespace
) -> None:
    """Print how long a start takes if each layer has a stack in a bucket, at two distances.

    The store is in this process, so only the difference is what a distance costs.
    """
    with ObjectServer() as server:
        layers = {}
        for number in range(options.layers):
            server.put("maps", f"{number}.stack.json", stack)
            variants = {"stack": f"s3://maps/{number}.stack.json"}
            dimensions = [{"name": "time", "default": "current"}]
            layers[f"LAYER_{number}"] = {**plain, "dimensions": dimensions, "variants": variants}
        distant = write_installation(folder / "distant", layers=layers, services=("wmts",))
        ((key, secret),) = S3_KEYS.items()
        for name, text in (("URL", server.url), ("KEY", key), ("SECRETKEY", secret)):
            os.environ[f"MASTABA_S3_{name}"] = text
        results: dict[int, list[float]] = {0: [], 20: []}
        for _ in range(options.rounds):
            for milliseconds, seconds in results.items():
                server.faults = Faults(latency=milliseconds / 1000)
                begin = time.perf_counter()
                create_application(str(distant))
                seconds.append(time.perf_counter() - begin)
    for milliseconds, seconds in results.items():
        name = f"start, bucket {milliseconds} ms away (wall)"
        print(f"{name:<32}{statistics.median(seconds):8.2f} s")


def _pyramid(folder: Path, name: str, levels: int) -> Path:
    """Write a pyramid of one tile on each level, and return its descriptor."""
    pyramids = folder / "pyramids"
    pyramids.mkdir(parents=True, exist_ok=True)
    colour = np.array([len(name), sum(map(ord, name)) % 256, 90], np.uint8)
    pixels = np.broadcast_to(colour, (256, 256, 3))
    write_pyramid(
        pyramids,
        name,
        tile_matrix_set=web_mercator(),
        format="TIFF_PNG_UINT8",
        channels=3,
        levels=[LevelPlan(str(level), 0, 0, 0, 0) for level in reversed(range(levels))],
        tile=lambda _level, _row, _col: pixels,
        tables=(),
    )
    return pyramids / f"{name}.json"


def _seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


if __name__ == "__main__":
    sys.exit(main())
