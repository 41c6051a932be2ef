"""Generation of the demo pyramids in several processes, all or nothing."""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import asdict, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Self

from mastaba_demo.campaigns import plans_around_focus, write_campaigns
from mastaba_demo.features import Features, tables_of
from mastaba_demo.hydrology import drain
from mastaba_demo.noise import Window
from mastaba_demo.places import peaks, towns
from mastaba_demo.render import CHANNELS, FORMATS, Renderer, TileKey
from mastaba_demo.settings import BLOCK, GENERATOR_VERSION, Settings
from mastaba_demo.versions import write_versions
from mastaba_writer.pyramids import TileSource, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

Progress = Callable[[int, int], None]
"""Called with the number of finished blocks and the total."""

PLACES = "places.json"
"""Name of the list of peaks and towns in the directory of the pyramids, for search by name."""

_STAMP = "stamp.json"
_FIRST_WITH_RIVERS = 6  # the first level with river valleys and places


def generate(
    directory: Path, settings: Settings, progress: Progress, processes: int | None = None
) -> bool:
    """Generate the pyramids into a directory, unless it already contains them.

    The pyramids are written to a temporary directory beside it, which is renamed at the end. An
    interrupted run therefore leaves the previous content.

    Args:
        directory: the directory of the pyramids; its parent must exist.
        settings: what to generate.
        progress: called after each block.
        processes: number of processes, one per processor by default; with 1, everything runs
            in this process.

    Returns:
        whether anything was generated.

    Raises:
        OSError: the files cannot be written.
    """
    stamp = json.loads(json.dumps({"version": GENERATOR_VERSION, "settings": asdict(settings)}))
    if _read_stamp(directory) == stamp:
        return False
    temporary = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    try:
        tiles, features = _render(settings, progress, processes or _processors())
        _write(temporary / "new", settings, tiles, features)
        write_campaigns(temporary / "new", settings, tiles)
        write_versions(temporary / "new", plans_around_focus(settings), tiles)
        names = json.dumps(_named(features), indent=1, ensure_ascii=False)
        (temporary / "new" / PLACES).write_text(f"{names}\n", encoding="utf-8")
        (temporary / "new" / _STAMP).write_text(json.dumps(stamp) + "\n", encoding="utf-8")
        if directory.exists():
            directory.rename(temporary / "old")
        (temporary / "new").rename(directory)
    finally:
        shutil.rmtree(temporary)
    return True


def _read_stamp(directory: Path) -> object:
    try:
        return json.loads((directory / _STAMP).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None


def _processors() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every platform
        return os.cpu_count() or 1


def _named(features: Features) -> list[dict[str, str | float]]:
    """Return the names of towns and peaks, with longitude and latitude in degrees."""
    return [
        {
            "name": place.name,
            "longitude": round(360 * place.x - 180, 5),
            "latitude": round(math.degrees(math.atan(math.sinh(math.pi * (1 - 2 * place.y)))), 5),
        }
        for place in (*features.towns, *features.peaks)
    ]


def _render(
    settings: Settings, progress: Progress, processes: int
) -> tuple[dict[TileKey, bytes], Features]:
    blocks = settings.blocks()
    tiles: dict[TileKey, bytes] = {}
    done = 0

    def collect(parts: Iterable[dict[TileKey, bytes]]) -> None:
        nonlocal done
        for part in parts:
            tiles.update(part)
            done += 1
            progress(done, len(blocks))

    wide = [(level, window) for level, window in blocks if level < _FIRST_WITH_RIVERS]
    with _Pool(Renderer(settings.world, Features()), processes) as pool:
        pool.submit(wide)
        # Routing the rivers keeps one processor busy; the others render the coarse levels.
        drainage = drain(settings.drainage_window(), settings.world)
        features = Features(
            drainage.rivers, peaks(drainage, settings.seed), towns(drainage, settings.seed)
        )
        collect(pool.results())
    world = replace(settings.world, valleys=drainage.valleys)
    with _Pool(Renderer(world, features), processes) as pool:
        pool.submit(block for block in blocks if block[0] >= _FIRST_WITH_RIVERS)
        collect(pool.results())
    return tiles, features


class _Pool:
    """Renders blocks in other processes, or in this one if `processes` is 1."""

    def __init__(self, renderer: Renderer, processes: int) -> None:
        self._renderer = renderer
        self._blocks: list[tuple[int, Window]] = []
        self._futures: list[Future[dict[TileKey, bytes]]] = []
        self._executor: ProcessPoolExecutor | None = None
        if processes > 1:
            # Not fork: this process may already have threads.
            context = get_context("spawn")
            self._executor = ProcessPoolExecutor(processes, context, _initialise, (renderer,))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)

    def submit(self, blocks: Iterable[tuple[int, Window]]) -> None:
        if self._executor is None:
            self._blocks += blocks
        else:
            self._futures += [self._executor.submit(_block, *block) for block in blocks]

    def results(self) -> Iterator[dict[TileKey, bytes]]:
        for level, window in self._blocks:
            yield self._renderer.block(level, window)
        for future in as_completed(self._futures):
            yield future.result()


_renderer: Renderer | None = None  # of this worker process


def _initialise(renderer: Renderer) -> None:
    global _renderer
    _renderer = renderer


def _block(level: int, window: Window) -> dict[TileKey, bytes]:
    assert _renderer is not None
    return _renderer.block(level, window)


def _write(
    directory: Path, settings: Settings, tiles: dict[TileKey, bytes], features: Features
) -> None:
    plans = settings.plans()

    def source(layer: str) -> TileSource:
        return lambda level, row, col: tiles.get((layer, int(level), row, col))

    for layer, name in FORMATS.items():
        write_pyramid(
            directory,
            layer,
            tile_matrix_set=web_mercator(),
            format=name,
            channels=CHANNELS[layer],
            levels=plans,
            tile=source(layer),
            tiles_per_width=BLOCK,
            tiles_per_height=BLOCK,
            tables={plan.id: tables_of(int(plan.id), features) for plan in plans},
        )
