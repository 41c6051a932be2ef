"""Memory over many different maps: ``python -m benchmarks.leak --requests 20000``.

1. Every map has its own layers, styles, CRS, format, extent and size, chosen at random: from 1 to
   10,000 pixels on a side. At regular intervals, the table shows the memory of all processes of the
   server, and its peak since the previous row.
2. Five maps of 5000 by 5000 pixels and three layers at once.
3. Maps of 16 by 16 pixels from pole to pole, a tenth of a degree wide: one whose axes are parallel
   to those of the pyramid, and one that is oblique. A server needs as much for them as for others:
   more processor time or memory is an error.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.classes import load
from benchmarks.client import Answers, ask
from benchmarks.demo import demo_installation
from benchmarks.maps import box_around, get_map, units_of, with_map_layers
from benchmarks.processes import Memory, cpu_seconds, memory_of
from benchmarks.servers import Missing, Target, fastcgi_behind_nginx, require_programs
from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS
from mastaba.model.layer import Layer
from mastaba.model.style import Style
from mastaba_render.styles import is_bytes
from mastaba_writer.documents import write_document

_MIB = 1024**2
_PICTURES = ("image/jpeg", "image/png")
_DATA = ("image/tiff", "image/geotiff", "image/x-bil;bits=32")
_GRID = "text/asc"
_SMALL = 400
_LARGE = 10_000
"""Maximum pixels on a side; sides are distributed evenly on a logarithmic scale."""
_LARGE_PART = 0.05
_LIMITS = {
    "layers_count": 3,
    "width": _LARGE,
    "height": _LARGE,
    "tile_x": 160,
    "tile_y": 160,
}
_HEAVY = 5
_HEAVY_SIDE = 5000
_FROM_POLE_TO_POLE = ("EPSG:4326", "EPSG:3035")
_NARROW = 8
"""Maps from pole to pole at once."""
_NARROW_CPU = 75.0
"""Most processor time of such a map, milliseconds: about three times what was measured."""
_NARROW_MEMORY = 500
"""Most MiB that such maps add while they are drawn: twice what was measured."""
_INTERVAL = 0.1
"""Seconds between two measurements of the memory."""
_STRETCH = (0.7, 2.0)
"""Ground size of a pixel of the map, in pixels of a level."""


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if a response was wrong, or narrow maps needed too much."""
    options = _parser().parse_args(argv)
    try:
        require_programs()
        with tempfile.TemporaryDirectory(prefix="mastaba-leak-") as name:
            return _run(Path(name), options)
    except Missing as missing:
        sys.stderr.write(f"leak: {missing}\n")
        return 1


def _run(folder: Path, options: argparse.Namespace) -> int:
    installation = with_map_layers(options.server_json or demo_installation(), folder / "maps")
    server_json = _without_limits(installation.server_json, folder)
    paths = _requests(server_json, installation.root, random.Random(options.seed))
    target = fastcgi_behind_nginx(
        server_json, folder, workers=options.workers, threads=options.threads
    )
    try:
        errors = _watch(target, paths, options)
        errors += _heavy_maps(target, server_json, installation.root)
        errors += _narrow_maps(target, server_json, installation.root)
        return 1 if errors else 0
    finally:
        target.stop()


def _watch(target: Target, paths: Iterator[str], options: argparse.Namespace) -> int:
    pid = target.pid
    assert pid is not None
    print(
        f"{'requests':>10}{'Pss MiB':>10}{'Rss MiB':>10}{'workers':>10}{'peak MiB':>10}"
        f"{'CPU ms':>10}{'p50 ms':>10}{'errors':>10}"
    )
    memory = memory_of(pid)
    sizes = [memory.divided / _MIB]
    print(f"{0:>10}{sizes[0]:>10.1f}{_resident(memory)}", flush=True)
    errors = done = 0
    while done < options.requests:
        count = min(options.every, options.requests - done)
        before = cpu_seconds(pid)
        with _watched(pid) as peak:
            answers = ask(
                target.address, itertools.islice(paths, count), connections=options.connections
            )
        cpu = (cpu_seconds(pid) - before) / count * 1000
        done += count
        errors += _told(answers)
        memory = memory_of(pid)
        sizes.append(memory.divided / _MIB)
        middle = answers.percentile(0.5) * 1000
        print(
            f"{done:>10}{sizes[-1]:>10.1f}{_resident(memory)}"
            f"{peak.divided / _MIB:>10.1f}{cpu:>10.2f}{middle:>10.1f}{errors:>10}",
            flush=True,
        )
    half = sizes[len(sizes) // 2 :]
    print(
        f"\nsecond half: {min(half):.1f} to {max(half):.1f} MiB, "
        f"{half[-1] - half[0]:+.1f} MiB from its first to its last row"
    )
    return errors


def _resident(memory: Memory) -> str:
    return f"{memory.resident / _MIB:>10.1f}{memory.workers / _MIB:>10.1f}"


def _heavy_maps(target: Target, server_json: Path, root: str) -> int:
    """Request several large maps at once; return the number of wrong responses."""
    pid = target.pid
    assert pid is not None
    errors = 0
    print(
        f"\n{_HEAVY} maps of {_HEAVY_SIDE} x {_HEAVY_SIDE} pixels and three layers at once, "
        f"from {memory_of(pid).divided / _MIB:.1f} MiB"
    )
    for media_type in _PICTURES:
        paths = _heavy_requests(server_json, root, media_type)
        with _watched(pid) as peak:
            answers = ask(target.address, paths, connections=_HEAVY)
        errors += _told(answers)
        print(
            f"{media_type:>12}: peak {peak.divided / _MIB:.1f} MiB Pss, "
            f"{peak.resident / _MIB:.1f} MiB Rss, {answers.elapsed:.0f} s",
            flush=True,
        )
    return errors


def _narrow_maps(target: Target, server_json: Path, root: str) -> int:
    """Request maps from pole to pole of all layers.

    Returns:
        the number of wrong responses, and of maps that needed too much.
    """
    pid = target.pid
    assert pid is not None
    errors = 0
    print("\nmaps from pole to pole")
    for code in _FROM_POLE_TO_POLE:
        paths = list(_narrow_requests(server_json, root, code))
        at_rest = memory_of(pid).divided / _MIB
        before = cpu_seconds(pid)
        with _watched(pid) as peak:
            answers = ask(target.address, iter(paths), connections=_NARROW)
        cpu = (cpu_seconds(pid) - before) / len(paths) * 1000
        errors += _told(answers)
        print(
            f"{code:>12}: {len(paths)} maps, {cpu:.1f} ms CPU each, from {at_rest:.1f} MiB, peak "
            f"{peak.divided / _MIB:.1f} MiB Pss, {peak.resident / _MIB:.1f} MiB Rss",
            flush=True,
        )
        errors += _beyond(f"{code}: ms of a map from pole to pole", cpu, _NARROW_CPU)
        added = peak.divided / _MIB - at_rest
        errors += _beyond(f"{code}: MiB of maps from pole to pole", added, _NARROW_MEMORY)
    return errors


def _beyond(name: str, found: float, most: float) -> int:
    """Return 1, with a message, if a measurement is larger than it may be."""
    if found <= most:
        return 0
    sys.stderr.write(f"{name}: {found:.1f}, at most {most:g} expected\n")
    return 1


def _told(answers: Answers) -> int:
    if answers.first_error:
        sys.stderr.write(f"{answers.first_error}\n")
    return answers.errors


@dataclass
class _Peak:
    """The highest memory measured."""

    divided: int = 0
    resident: int = 0

    def see(self, memory: Memory) -> None:
        self.divided = max(self.divided, memory.divided)
        self.resident = max(self.resident, memory.resident)


@contextmanager
def _watched(pid: int) -> Iterator[_Peak]:
    """Measure the memory of a process and its descendants repeatedly."""
    peak, over = _Peak(), threading.Event()

    def look() -> None:
        while not over.wait(_INTERVAL):
            peak.see(memory_of(pid))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield peak
    finally:
        over.set()
        watcher.join()
        peak.see(memory_of(pid))


def _without_limits(server_json: Path, folder: Path) -> Path:
    """Return an installation that allows all sizes and formats of this benchmark."""
    server = json.loads(server_json.read_text(encoding="utf-8"))
    places = server["configurations"]
    services = json.loads(Path(places["services"]).read_text(encoding="utf-8"))
    settings = services.setdefault("global", {}).setdefault("map", {})
    settings["limits"] = _LIMITS
    settings["formats"] = [*_PICTURES, *_DATA, _GRID]
    settings["crs"] = list(dict.fromkeys([*settings.get("crs", []), *_FROM_POLE_TO_POLE]))
    places["services"] = str(write_document(folder / "services.json", services))
    return write_document(folder / "server.json", server)


def _requests(server_json: Path, root: str, generator: random.Random) -> Iterator[str]:
    """Yield paths endlessly."""
    catalogue = load(server_json)
    layers = [layer for layer in catalogue.layers.values() if not layer.is_vector]
    everywhere = catalogue.settings.map.crs
    while True:
        query = _request(layers, everywhere, generator)
        if query is not None:
            yield f"{root}?{query}"


def _request(
    layers: Sequence[Layer], everywhere: Sequence[str], generator: random.Random
) -> str | None:
    """Return the query of a map; None if the chosen place has no position in the chosen CRS."""
    layer = generator.choice(layers)
    own = layer.pyramid.tile_matrix_set.crs
    codes = [own.code, *layer.extra_crs, *everywhere]
    crs = CRS.from_code(generator.choice(codes))
    style: Style = generator.choice(layer.styles)
    names, styles = [layer.id], [style.identifier]
    formats: Sequence[str] = _DATA
    if is_bytes(layer, style):
        formats = (*_PICTURES, "image/tiff")
        for other in generator.sample(layers, generator.randint(0, 2)):
            added = generator.choice(other.styles)
            if is_bytes(other, added) and crs.code in (*everywhere, *other.extra_crs):
                names.append(other.id)
                styles.append(added.identifier)
    elif layer.pyramid.raster is not None and layer.pyramid.raster.channels == 1:
        formats = (*_DATA, _GRID)
    largest = _LARGE if generator.random() < _LARGE_PART else _SMALL
    width, height = (round(math.exp(generator.uniform(0, math.log(largest)))) for _ in range(2))
    level = generator.choice(list(layer.pyramid.levels.values()))
    size = level.matrix.cell_size * generator.uniform(*_STRETCH)
    size *= units_of(own, crs)
    area = level.matrix.bbox_of(level.limits)
    x = generator.uniform(area.xmin, area.xmax)
    y = generator.uniform(area.ymin, area.ymax)
    box = box_around(own, x, y, crs, width * size, height * size)
    if not box.is_finite:
        return None
    format = generator.choice(formats)
    return get_map(",".join(names), ",".join(styles), crs, box, width, height, format)


def _heavy_requests(server_json: Path, root: str, media_type: str) -> Iterator[str]:
    """Yield the paths of the large maps that are requested at once, each with its own extent."""
    layers = [
        layer
        for layer in load(server_json).layers.values()
        if not layer.is_vector and is_bytes(layer, None)
    ]
    layers = (layers * 3)[:3]
    matrix = layers[0].pyramid.finest.matrix
    box = layers[0].native_bbox
    middle = (box.xmin + box.xmax) / 2, (box.ymin + box.ymax) / 2
    crs = layers[0].pyramid.tile_matrix_set.crs
    side = _HEAVY_SIDE * matrix.cell_size * 1.1
    for number in range(_HEAVY):
        x = middle[0] + number * matrix.cell_size * 100
        area = box_around(crs, x, middle[1], crs, side, side)
        names = ",".join(layer.id for layer in layers)
        query = get_map(names, ",,", crs, area, _HEAVY_SIDE, _HEAVY_SIDE, media_type)
        yield f"{root}?{query}"


def _narrow_requests(server_json: Path, root: str, code: str) -> Iterator[str]:
    """Yield the paths of maps from pole to pole through the middle of each layer."""
    crs = CRS.from_code(code)
    catalogue = load(server_json)
    unit = 1.0 if crs.is_geographic else 111_320.0
    for layer in catalogue.layers.values():
        offered = (*catalogue.settings.map.crs, *layer.extra_crs)
        if layer.is_vector or not is_bytes(layer, None) or code not in offered:
            continue
        own = layer.pyramid.tile_matrix_set.crs
        box = layer.native_bbox
        middle = (box.xmin + box.xmax) / 2, (box.ymin + box.ymax) / 2
        x = box_around(own, *middle, crs, unit, unit).xmin + unit / 2
        for number in range(_NARROW):
            left = x + (number / 100 - 0.05) * unit
            area = BoundingBox(left, -90 * unit, left + unit / 10, 90 * unit)
            style = layer.styles[0].identifier
            yield f"{root}?{get_map(layer.id, style, crs, area, 16, 16, _PICTURES[1])}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.leak", description=__doc__)
    add = parser.add_argument
    add("--server-json", type=Path, metavar="FILE", help="installation (default: the demo's)")
    add("--requests", type=int, default=20000, help="in all")
    add("--every", type=int, default=1000, help="requests between two rows")
    add("--workers", type=int, default=2)
    add("--threads", type=int, default=3)
    add("--connections", type=int, default=8)
    add("--seed", type=int, default=1, help="of the choice of maps")
    return parser


if __name__ == "__main__":
    sys.exit(main())
