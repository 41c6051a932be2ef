"""Memory over many different maps: ``python -m benchmarks.leak --requests 20000``.

Every map has a layer, style, CRS, size, format and extent of its own, chosen at random. After every
so many of them the table tells what all processes of the server occupy.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.classes import load
from benchmarks.client import ask
from benchmarks.demo import demo_installation
from benchmarks.maps import box_around, get_map, units_of, with_map_layers
from benchmarks.processes import cpu_seconds, memory_of
from benchmarks.servers import Missing, Target, fastcgi_behind_nginx, require_programs
from mastaba.model.crs import CRS
from mastaba.model.layer import Layer
from mastaba.model.style import Style
from mastaba.render.styled_layer import is_bytes

_MIB = 1024**2
_PICTURES = ("image/jpeg", "image/png")
_DATA = ("image/tiff", "image/geotiff", "image/x-bil;bits=32")
_SMALL = (16, 400)
_LARGE = (400, 1100)
_LARGE_PART = 0.05
_STRETCH = (0.7, 2.0)
"""Ground size of a pixel of the map, in pixels of some level."""


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; 1 when an answer was wrong."""
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
    paths = _requests(installation.server_json, installation.root, random.Random(options.seed))
    target = fastcgi_behind_nginx(
        installation.server_json, folder, workers=options.workers, threads=options.threads
    )
    try:
        return _watch(target, paths, options)
    finally:
        target.stop()


def _watch(target: Target, paths: Iterator[str], options: argparse.Namespace) -> int:
    pid = target.pid
    assert pid is not None
    print(
        f"{'requests':>10}{'Pss MiB':>10}{'Rss MiB':>10}{'CPU ms':>10}{'p50 ms':>10}{'errors':>10}"
    )
    memory = memory_of(pid)
    sizes = [memory.divided / _MIB]
    print(f"{0:>10}{sizes[0]:>10.1f}{memory.resident / _MIB:>10.1f}", flush=True)
    errors = done = 0
    while done < options.requests:
        count = min(options.every, options.requests - done)
        before = cpu_seconds(pid)
        answers = ask(
            target.address, itertools.islice(paths, count), connections=options.connections
        )
        cpu = (cpu_seconds(pid) - before) / count * 1000
        done += count
        if answers.first_error and not errors:
            sys.stderr.write(f"{answers.first_error}\n")
        errors += answers.errors
        memory = memory_of(pid)
        sizes.append(memory.divided / _MIB)
        middle = answers.percentile(0.5) * 1000
        print(
            f"{done:>10}{sizes[-1]:>10.1f}{memory.resident / _MIB:>10.1f}"
            f"{cpu:>10.2f}{middle:>10.1f}{errors:>10}",
            flush=True,
        )
    half = sizes[len(sizes) // 2 :]
    print(
        f"\nsecond half: {min(half):.1f} to {max(half):.1f} MiB, "
        f"{half[-1] - half[0]:+.1f} MiB from its first to its last row"
    )
    return 1 if errors else 0


def _requests(server_json: Path, root: str, generator: random.Random) -> Iterator[str]:
    """Yield paths without end."""
    catalogue = load(server_json)
    layers = [layer for layer in catalogue.layers.values() if not layer.is_vector]
    everywhere = catalogue.settings.map.crs
    while True:
        layer = generator.choice(layers)
        query = _request(layer, everywhere, generator)
        if query is not None:
            yield f"{root}?{query}"


def _request(layer: Layer, everywhere: Sequence[str], generator: random.Random) -> str | None:
    """Return the query of a map; None when the place chosen has no position in the CRS chosen."""
    own = layer.pyramid.tile_matrix_set.crs
    codes = [own.code, *layer.extra_crs, *everywhere]
    crs = CRS.from_code(generator.choice(codes))
    style: Style = generator.choice(layer.styles)
    formats = _PICTURES if is_bytes(layer, style) else _DATA
    limits = _LARGE if generator.random() < _LARGE_PART else _SMALL
    width, height = generator.randint(*limits), generator.randint(*limits)
    level = generator.choice(list(layer.pyramid.levels.values()))
    size = level.matrix.cell_size * generator.uniform(*_STRETCH)
    size *= units_of(own, crs)
    area = level.matrix.bbox_of(level.limits)
    x = generator.uniform(area.xmin, area.xmax)
    y = generator.uniform(area.ymin, area.ymax)
    box = box_around(own, x, y, crs, width * size, height * size)
    if not box.is_finite:
        return None
    return get_map(layer.id, style.identifier, crs, box, width, height, generator.choice(formats))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.leak", description=__doc__)
    add = parser.add_argument
    add("--server-json", type=Path, metavar="FILE", help="installation (default: the demo's)")
    add("--requests", type=int, default=20000, help="in all")
    add("--every", type=int, default=1000, help="requests between two rows")
    add("--workers", type=int, default=2)
    add("--threads", type=int, default=2)
    add("--connections", type=int, default=8)
    add("--seed", type=int, default=1, help="of the choice of maps")
    return parser


if __name__ == "__main__":
    sys.exit(main())
