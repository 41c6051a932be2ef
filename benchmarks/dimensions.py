"""Cost of dimensions: tiles of many values, and starts (``python -m benchmarks.dimensions``)."""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mastaba.wsgi import create_application
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

_FIRST_YEAR = 1500
_REQUESTS = 4000
_TILE = (
    "SERVICE=WMTS&REQUEST=GetTile&VERSION=1.0.0&LAYER={layer}&STYLE=normal&FORMAT=image/png"
    "&TILEMATRIXSET=PM&TILEMATRIX={level}&TILEROW=0&TILECOL=0"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Print microseconds of processor time of each tile, and seconds of each start."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, default=200)
    parser.add_argument("--levels", type=int, default=20)
    parser.add_argument("--layers", type=int, default=100)
    parser.add_argument("--dates", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="mastaba-dimensions-") as name:
        _tiles(Path(name) / "tiles", options)
        _starts(Path(name) / "starts", options)
    return 0


def _tiles(folder: Path, options: argparse.Namespace) -> None:
    years = [str(_FIRST_YEAR + number) for number in range(options.values)]
    paths = [_pyramid(folder, f"one_{year}", options.levels) for year in years]
    plain = layer_document(paths[-1])
    document = {
        **plain,
        "dimensions": [{"name": "time"}],
        "variants": {"template": str(folder / "pyramids/one_{time}.json")},
    }
    overrides = {"cache": {"size": 10 * options.values * options.levels}}
    layers = {"PLAIN": plain, "ORTHO": document}
    server_json = write_installation(
        folder, layers=layers, services=("wmts",), server_overrides=overrides
    )
    application = create_application(str(server_json))
    levels = [str(number) for number in range(options.levels)]
    without = [_TILE.format(layer="PLAIN", level=level) for level in levels]
    of_one = [_TILE.format(layer="ORTHO", level=level) + "&TIME=" + years[0] for level in levels]
    of_all = [
        _TILE.format(layer="ORTHO", level=level) + "&TIME=" + year
        for year in years
        for level in levels
    ]
    choose = random.Random(1).choices
    ways = {
        "without a value": choose(without, k=_REQUESTS),
        "one value": choose(of_one, k=_REQUESTS),
        f"{options.values} values": choose(of_all, k=_REQUESTS),
    }
    begin = time.process_time()
    for query in of_all[:: options.levels]:
        _ask(application, query)
    first = (time.process_time() - begin) / options.values
    print(f"{'first tile of a value':<32}{first * 1e3:8.2f} ms")
    for query in (*without, *of_all):
        _ask(application, query)
    results: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, queries in ways.items():
            results[name].append(_seconds(partial(_all, application, queries)))
    for name, seconds in results.items():
        print(f"{name:<32}{statistics.median(seconds) / _REQUESTS * 1e6:8.2f} us")


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
    for _ in range(options.rounds):
        for name, server_json in made.items():
            path = str(server_json)
            results[name].append(_seconds(partial(create_application, path)))
    for name, seconds in results.items():
        print(f"{'start, ' + name:<32}{statistics.median(seconds):8.2f} s")


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
