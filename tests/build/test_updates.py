"""Updates build what has changed, and versions are published by one descriptor."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import astuple
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.build.conftest import Build
from tests.build.ground import grid, read_tiles, write_raster
from tests.fork_server import ForkServer

from mastaba.api.catalogue import BoundingBox, TileLimits, TileMatrix, digest_of
from mastaba_build.errors import PlanError
from mastaba_build.output.destination import Destination
from mastaba_build.output.storage import OutputStore
from mastaba_build.plan.plan import Plan
from mastaba_build.pyramid.history import diff, log, rollback
from mastaba_build.pyramid.pruning import prune
from mastaba_build.pyramid.verification import verify
from mastaba_build.work.build import build
from mastaba_build.work.reports import Reports

LEVEL, CELL, SIDE = 12, 156543.03392804097 / 2**12, 6
"""Each source is in a tile of its own, and no kernel reaches from one tile to the next source."""
FIRST = 2048
TOP = 7
"""Further up, a sheet is so small that its change may not change a pixel."""
OPTIONS: dict[str, Any] = {
    "slab": [1, 1],
    "nodata": [0],
    "bottom": str(LEVEL),
    "top": str(TOP),
    "format": "png",
}
Slab = tuple[str, int, int]
PlanOf = Callable[..., Plan]


def write_sheet(folder: Path, number: int, seed: int = 0) -> Path:
    """Write a sheet of 200 x 200 pixels in the middle of a tile."""
    row, column = divmod(number, SIDE)
    pixels = np.random.default_rng(1000 * seed + number).integers(60, 200, (1, 25, 25), np.uint8)
    size = 256 * CELL
    x = -20037508.342789244 + (FIRST + column) * size + 28 * CELL
    y = 20037508.342789244 - (FIRST + row) * size - 28 * CELL
    path = folder / f"{number:03}.tif"
    write_raster(path, pixels.repeat(8, 1).repeat(8, 2), grid(x, y, CELL), "EPSG:3857")
    os.utime(path, (1e9 + seed, 1e9 + seed))
    return path


@pytest.fixture
def sheets(tmp_path: Path) -> Path:
    folder = tmp_path / "sheets"
    folder.mkdir()
    for number in range(SIDE * SIDE):
        write_sheet(folder, number)
    return folder


def ancestors(number: int) -> set[Slab]:
    """Return the slab of a sheet, and all slabs above it."""
    row, column = divmod(number, SIDE)
    return {
        (str(LEVEL - up), (FIRST + column) >> up, (FIRST + row) >> up)
        for up in range(LEVEL - TOP + 1)
    }


def tile_box(number: int) -> BoundingBox:
    """Return the box of the tile that contains a sheet."""
    row, column = divmod(number, SIDE)
    tile = TileLimits(FIRST + row, FIRST + row, FIRST + column, FIRST + column)
    origin = -20037508.342789244
    matrix = TileMatrix(str(LEVEL), CELL, origin, -origin, 256, 256, 2**LEVEL, 2**LEVEL)
    box = matrix.bbox_of(tile)
    return BoundingBox(*(round(value, 6) for value in astuple(box)))


def updated_box(folder: Path) -> BoundingBox:
    """Return the box of the last update, to a micrometre."""
    descriptor = json.loads((folder / "out/map.json").read_text())
    return BoundingBox(*(round(value, 6) for value in descriptor["update"]["bbox"]))


def run(plan: Plan, update: str | None = "new") -> tuple[set[Slab], dict[str, Any], str]:
    """Build; return the slabs that were computed, the totals and what was reported."""
    out, errors = StringIO(), StringIO()
    assert build(plan, Reports(out, errors, as_json=True), update=update), errors.getvalue()
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    slabs = {(one["level"], one["column"], one["row"]) for one in events if one["event"] == "slab"}
    return slabs, next(one for one in events if one["event"] == "built"), errors.getvalue()


def checksums_of(store: OutputStore, name: str) -> dict[Slab, str]:
    record = json.loads(store.read(f"{name}.build.json"))
    return {tuple(slab[:3]): slab[4] for slab in record["slabs"] if slab[4]}  # type: ignore[misc]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="lossless"),
        pytest.param(
            {"format": "jpg", "channels": 3, "nodata": [0, 0, 0], "keep_work": True},
            id="kept work",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_one_of_many_sources_rebuilds_its_slab_and_those_above(
    sheets: Path, tmp_path: Path, plan_of: PlanOf, build_of: Build, options: dict[str, Any]
) -> None:
    chosen = {**OPTIONS, **options}
    first = build_of(sheets, **chosen)
    before = files(tmp_path / "out/map")
    write_sheet(sheets, 21, seed=1)
    built, totals, warnings = run(plan_of(sheets, **chosen))
    assert built == ancestors(21)
    assert totals["unchanged"] == len(before) - len(built)
    assert warnings == ""
    # The version before is as it was, and the new one contains only what was built.
    assert files(tmp_path / "out/map") == before
    paths = list((tmp_path / "out/map_2").rglob("*.tif"))
    assert len(paths) == len(before)
    assert sum(not path.is_symlink() for path in paths) == len(built)
    # The result is that of a full build.
    whole = build_of(sheets, **{**chosen, "output": str(tmp_path / "whole")})
    store = OutputStore.of_directory(tmp_path / "out")
    assert checksums_of(store, "map") == checksums_of(OutputStore.of_directory(whole.parent), "map")
    since = json.loads(store.read("map.json"))["update"]["since"]
    assert since == digest_of(json.loads(store.read("map_1.json")))
    assert updated_box(tmp_path) == tile_box(21)
    assert verify(Destination.parse(str(tmp_path / "out")), "map", full=True) == len(paths)
    tiles, expected = read_tiles(first), read_tiles(whole)
    assert tiles.keys() == expected.keys()
    assert all((tiles[key] == expected[key]).all() for key in tiles)


@pytest.mark.thorough
def test_lossy_slabs_are_decoded_if_nothing_was_kept(
    sheets: Path, tmp_path: Path, plan_of: PlanOf, build_of: Build
) -> None:
    chosen = {**OPTIONS, "format": "jpg", "channels": 3, "nodata": [0, 0, 0]}
    descriptor = build_of(sheets, **chosen)
    write_sheet(sheets, 15, seed=1)
    built, totals, warnings = run(plan_of(sheets, **chosen))
    assert built == ancestors(15)
    assert totals["inexact"] > 0
    assert "--keep-work" in warnings
    whole = read_tiles(build_of(sheets, **{**chosen, "output": str(tmp_path / "whole")}))
    tiles = read_tiles(descriptor)
    assert tiles.keys() == whole.keys()
    for key, pixels in tiles.items():
        assert np.abs(pixels.astype(int) - whole[key]).mean() < 8


def test_sources_are_added_and_removed(
    sheets: Path, tmp_path: Path, plan_of: PlanOf, build_of: Build
) -> None:
    for number in (0, 28, 35):
        (sheets / f"{number:03}.tif").rename(tmp_path / f"{number:03}.tif")
    # Sources of one grid are one image; its corners must stay where they are.
    write_sheet(sheets, 0)
    write_sheet(sheets, 35)
    build_of(sheets, **OPTIONS)
    (tmp_path / "028.tif").rename(sheets / "028.tif")
    assert run(plan_of(sheets, **OPTIONS))[0] == ancestors(28)
    (sheets / "028.tif").unlink()
    (sheets / "033.tif").unlink()
    built = run(plan_of(sheets, **OPTIONS))[0]
    whole = build_of(sheets, **{**OPTIONS, "output": str(tmp_path / "whole")})
    sums = checksums_of(OutputStore.of_directory(tmp_path / "out"), "map")
    # The slabs without any source are left out.
    assert built == (ancestors(28) | ancestors(33)) & sums.keys()
    # Removed slabs count too.
    assert updated_box(tmp_path) == tile_box(28).union(tile_box(33))
    assert (str(LEVEL), FIRST + 4, FIRST + 4) not in sums
    assert sums == checksums_of(OutputStore.of_directory(whole.parent), "map")


@pytest.mark.thorough
def test_injected_slabs_replace_those_of_the_version(
    sheets: Path, tmp_path: Path, plan_of: PlanOf, build_of: Build
) -> None:
    build_of(sheets, **OPTIONS)
    write_sheet(sheets, 12, seed=3)
    (sheets / "013.tif").unlink()
    built = run(plan_of(sheets, **OPTIONS), "inject")[0]
    assert ancestors(12) <= built
    whole = build_of(sheets, **{**OPTIONS, "output": str(tmp_path / "whole")})
    out = OutputStore.of_directory(tmp_path / "out")
    assert checksums_of(out, "map") == checksums_of(OutputStore.of_directory(whole.parent), "map")
    paths = [path.relative_to(tmp_path / "out") for path in (tmp_path / "out").rglob("*.tif")]
    assert sorted(paths) == sorted(
        path.relative_to(whole.parent) for path in whole.parent.rglob("*.tif")
    )
    write_sheet(sheets, 14, seed=3)
    run(plan_of(sheets, **OPTIONS))
    write_sheet(sheets, 15, seed=3)
    with pytest.raises(PlanError, match="several versions"):
        build(plan_of(sheets, **OPTIONS), Reports(StringIO(), StringIO()), update="inject")


@pytest.mark.thorough
def test_versions_are_shown_published_and_removed(
    sheets: Path, tmp_path: Path, plan_of: PlanOf, build_of: Build
) -> None:
    descriptor = build_of(sheets, **OPTIONS)
    store = OutputStore.of_directory(tmp_path / "out")
    assert [entry.number for entry in log(store, "map")] == [1]
    with pytest.raises(PlanError, match="no version before"):
        rollback(store, "map")
    texts, tiles = [descriptor.read_bytes()], [read_tiles(descriptor)]
    for number in (20, 30):
        write_sheet(sheets, number, seed=2)
        run(plan_of(sheets, **OPTIONS))
        texts.append(descriptor.read_bytes())
        tiles.append(read_tiles(descriptor))
    entries = log(store, "map")
    assert [(entry.number, entry.published) for entry in entries] == [
        (1, False),
        (2, False),
        (3, True),
    ]
    assert entries[2].written == len(ancestors(30))
    found = diff(store, "map")
    assert [Path(path).name for path in found.changed] == ["030.tif"]
    assert found.added == found.removed == []
    assert found.slabs["12"] == {"changed": 1}
    assert list(found.slabs) == ["7", "8", "9", "10", "11", "12"]
    assert sum(sum(counts.values()) for counts in found.slabs.values()) == len(ancestors(30))
    assert len(diff(store, "map", 1, 3).changed) == 2

    assert rollback(store, "map") == 2
    assert descriptor.read_bytes() == texts[1]
    assert rollback(store, "map", 1) == 1
    assert descriptor.read_bytes() == texts[0]
    with pytest.raises(PlanError, match="no version 9; its versions are 1, 2, 3"):
        rollback(store, "map", 9)
    # The sources are those of version 3: it is published again, and nothing is built.
    out = StringIO()
    assert build(plan_of(sheets, **OPTIONS), Reports(out, StringIO()), update="new")
    assert "is complete" in out.getvalue()
    assert descriptor.read_bytes() == texts[2]

    assert prune(store, "map", 2).kept == {1: "published in the last 365 days"}
    assert prune(store, "map", 2, linked_days=0).versions == 1
    assert [entry.number for entry in log(store, "map")] == [2, 3]
    assert read_tiles(descriptor).keys() == tiles[2].keys()
    versions, objects, kept = prune(store, "map", 1, linked_days=0)
    assert (versions, kept) == (1, {})
    assert objects > 0
    assert verify(Destination.parse(str(tmp_path / "out")), "map", full=True) > 50
    restored = read_tiles(descriptor)
    assert restored.keys() == tiles[2].keys()
    assert all((restored[key] == tiles[2][key]).all() for key in restored)
    # What remains is exactly what the published version needs.
    stored = [path for path in (tmp_path / "out").rglob("*.tif") if not path.is_symlink()]
    assert len(stored) == len(checksums_of(store, "map"))


@pytest.mark.thorough
def test_the_commands_show_levels_in_their_order_and_prune(
    sheets: Path, tmp_path: Path, plan_of: PlanOf, build_of: Build, fork_server: ForkServer
) -> None:
    descriptor, out = build_of(sheets, **OPTIONS), tmp_path / "out"
    write_sheet(sheets, 20, seed=2)
    run(plan_of(sheets, **OPTIONS))
    before, tiles = slabs_and_links(out), read_tiles(descriptor)
    shown = fork_server.run("pyramid", "diff", "map", "--output", out).stdout
    levels = [line.split()[3].rstrip(":") for line in shown.splitlines() if "slabs of" in line]
    assert levels == ["7", "8", "9", "10", "11", "12"]
    as_json = fork_server.run("pyramid", "diff", "map", "--output", out, "--json").stdout
    assert list(json.loads(as_json)["slabs"]) == levels
    command = ("pyramid", "prune", "map", "--output", out, "--linked-days", "0")
    done = fork_server.run(*command)
    assert done.returncode == 0, done.stderr
    after = slabs_and_links(out)
    gone = before - after
    assert done.stdout == f"1 versions and {len(gone)} slabs and links removed\n"
    # The slabs that version 2 has replaced are gone; those to which it links are not.
    assert len(gone) == len(ancestors(20))
    assert after < before
    assert not (out / "map_1.json").exists()
    found = read_tiles(descriptor)
    assert found.keys() == tiles.keys()
    assert all((found[key] == tiles[key]).all() for key in found)
    again = fork_server.run(*command, "--keep", "1")
    assert again.stdout == "0 versions and 0 slabs and links removed\n"


def slabs_and_links(folder: Path) -> set[str]:
    """Return the names of all slabs and links in a directory."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*.tif")}


@pytest.mark.thorough
def test_an_interrupted_update_is_resumed(
    sheets: Path, tmp_path: Path, plan_of: PlanOf, build_of: Build
) -> None:
    descriptor = build_of(sheets, **OPTIONS)
    published = descriptor.read_bytes()
    for number in (5, 24, 35):
        write_sheet(sheets, number, seed=4)
    expected = ancestors(5) | ancestors(24) | ancestors(35)
    seen: list[object] = []

    class StoppedError(Exception):
        pass

    reports = Reports(StringIO(), StringIO())

    def stop(*result: object) -> None:
        seen.append(result)
        if len(seen) == 9:
            raise StoppedError

    reports.slab = stop  # type: ignore[method-assign]
    with pytest.raises(StoppedError):
        build(plan_of(sheets, **OPTIONS), reports, update="new")
    assert descriptor.read_bytes() == published
    built = run(plan_of(sheets, **OPTIONS))[0]
    assert len(built) == len(expected) - 9
    whole = build_of(sheets, **{**OPTIONS, "output": str(tmp_path / "whole")})
    sums = checksums_of(OutputStore.of_directory(tmp_path / "out"), "map")
    assert sums == checksums_of(OutputStore.of_directory(whole.parent), "map")
