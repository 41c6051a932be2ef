"""The number of each pixel is that of the source that gave it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.build.conftest import built, plan_in
from tests.build.ground import read_payloads, read_tiles
from tests.build.mosaic import FIRST, LEVEL, Oracle, Sheet, centre, make_sheets, touch

from mastaba_build.config.configuration import configuration_of
from mastaba_build.output.destination import Destination
from mastaba_build.pyramid.history import prune, rollback
from mastaba_build.pyramid.verification import verify
from mastaba_build.work.build import build
from mastaba_build.work.derived import join
from mastaba_build.work.reports import Reports

OPTIONS: dict[str, Any] = {
    "bottom": str(LEVEL),
    "top": str(LEVEL - 1),
    "interpolation": "nn",
    "provenance": True,
}


class Mosaic:
    """The numbers of a pyramid, as a client reads them."""

    def __init__(self, folder: Path, name: str) -> None:
        self.table = json.loads((folder / f"{name}.sources.json").read_text())
        self.names = {row["number"]: row["id"] for row in self.table["sources"]} | {0: ""}
        tiles = read_tiles(folder / f"{name}_sources.json")
        self.tiles = {key[1:]: tile[:, :, 0].astype(int) for key, tile in tiles.items()}

    def number(self, row: int, column: int) -> int:
        """Return the number of a pixel."""
        tile = self.tiles.get((row // 256, column // 256))
        return 0 if tile is None else int(tile[row % 256, column % 256])


def points(mosaic: Mosaic, tiles: int, count: int, seed: int) -> list[tuple[int, int]]:
    """Return random pixels, and a quarter as many within two pixels of a seam."""
    generator = np.random.default_rng(seed)
    top, left = FIRST[1] * 256, FIRST[0] * 256
    chosen = generator.integers(0, tiles * 256, (count, 2)) + np.array([top, left])
    near: list[tuple[int, int]] = []
    for (row, column), tile in mosaic.tiles.items():
        seams = np.argwhere(tile[:-1, :-1] != tile[1:, 1:])
        if len(seams):
            some = seams[generator.integers(0, len(seams), count // 4)]
            some = some + generator.integers(-2, 3, some.shape)
            some = some + np.array([row * 256, column * 256])
            near += [(int(i), int(j)) for i, j in some]
    some = [near[i] for i in generator.integers(0, len(near), count // 4)]
    return [(int(i), int(j)) for i, j in chosen] + some


def compare(mosaic: Mosaic, oracle: Oracle, chosen: Sequence[tuple[int, int]]) -> None:
    """Compare the numbers of pixels with the oracle, which must be sure of most."""
    unsure = 0
    for row, column in chosen:
        answers = oracle.answers(*centre(row, column))
        found = mosaic.names[mosaic.number(row, column)]
        assert found in answers, (row, column, found, answers)
        unsure += len(answers) > 1
    assert unsure < len(chosen) / 8, unsure


def update(folder: Path, sheets: Sequence[Sheet], **options: Any) -> Path:
    """Publish a further version."""
    plan = plan_in(folder, *[sheet.entry() for sheet in sheets], **OPTIONS, **options)
    errors = StringIO()
    assert build(plan, Reports(StringIO(), errors), update="new"), errors.getvalue()
    return folder / "out/map.json"


def joined(folder: Path, *names: str) -> None:
    """Join pyramids."""
    values = {"name": "joined", "output": str(folder / "out"), "sources": ["-"], "workers": 1}
    configuration = configuration_of(values, "test")
    with closing(configuration.output.open()) as store:
        errors = StringIO()
        paths = [str(folder / f"out/{name}.json") for name in names]
        reports = Reports(StringIO(), errors)
        assert join(configuration, store, reports, paths), errors.getvalue()


@pytest.mark.parametrize(
    ("has_alpha", "count", "tiles", "size", "seed"),
    [
        pytest.param(False, 14, 2, 300, 1, id="valid"),
        pytest.param(True, 14, 2, 300, 2, id="alpha"),
        pytest.param(False, 500, 8, 10_000, 3, id="500 valid", marks=pytest.mark.thorough),
        pytest.param(True, 500, 8, 10_000, 4, id="500 alpha", marks=pytest.mark.thorough),
    ],
)
def test_each_pixel_has_the_number_of_its_source(
    tmp_path: Path, has_alpha: bool, count: int, tiles: int, size: int, seed: int
) -> None:
    sheets = make_sheets(tmp_path, count, tiles, seed)
    for sheet in sheets:
        sheet.write(has_alpha=has_alpha)
        touch(sheet.path, 10**9)
    options = {"format": "png", "channels": 2} if has_alpha else {"format": "zip"}

    def check(of: Sequence[Sheet]) -> Mosaic:
        mosaic = Mosaic(tmp_path / "out", "map")
        compare(mosaic, Oracle(of, has_alpha=has_alpha), points(mosaic, tiles, size, seed))
        return mosaic

    first = [sheet for sheet in sheets if sheet.value % 7]
    entries = [sheet.entry() for sheet in first]
    path = built(plan_in(tmp_path, *entries, **OPTIONS, **options))
    versions = [check(first)]
    assert json.loads(path.read_text())["provenance"] == "map.sources.json"
    without = built(
        plan_in(tmp_path, *entries, **OPTIONS | {"provenance": False}, **options, name="b")
    )
    assert read_payloads(path) == read_payloads(without)
    # Added and replaced ones, then removed ones.
    replaced = [sheet for sheet in sheets if sheet.value % 5 == 0]
    for sheet in replaced:
        sheet.alpha = np.roll(sheet.alpha, 17, 0)
        sheet.write(has_alpha=has_alpha)
        touch(sheet.path, 10**9 + 1)
    update(tmp_path, sheets, **options)
    versions.append(check(sheets))
    last = [sheet for sheet in sheets if sheet.value % 3]
    update(tmp_path, last, **options)
    versions.append(check(last))
    check_numbers(versions, {sheet.path.name for sheet in replaced})
    output = Destination.parse(str(tmp_path / "out"))
    verify(output, "map", full=True)
    # The upper one of two joined pyramids covers the lower one.
    upper = sheets[::2]
    built(plan_in(tmp_path, *[one.entry() for one in upper], **OPTIONS, **options, name="upper"))
    joined(tmp_path, "map", "upper")
    mosaic = Mosaic(tmp_path / "out", "joined")
    oracles = [Oracle(of, has_alpha=has_alpha) for of in (upper, last)]
    if not has_alpha:
        for row, column in points(mosaic, tiles, size // 2, seed):
            place = centre(row, column)
            answers, below = (oracle.answers(*place) for oracle in oracles)
            if "" in answers:
                answers = (answers - {""}) | below
            assert mosaic.names[mosaic.number(row, column)] in answers
    verify(output, "joined", full=True)
    with closing(output.open()) as store:
        assert rollback(store, "map", 1) == 1
        assert Mosaic(tmp_path / "out", "map").table == versions[0].table
        rollback(store, "map", 3)
        prune(store, "map", 1)
    verify(output, "map", full=True)
    assert (Mosaic(tmp_path / "out", "map").table) == versions[2].table


def check_numbers(versions: Sequence[Mosaic], replaced: set[str]) -> None:
    """Check that known sources keep their numbers, and that none is used for another one."""
    owners: dict[int, str] = {}
    for mosaic in versions:
        for number, name in mosaic.names.items():
            assert owners.setdefault(number, name) == name
        pixels = np.concatenate([tile.ravel() for tile in mosaic.tiles.values()])
        counts = dict(zip(*np.unique(pixels, return_counts=True), strict=True))
        assert {one["number"]: one["pixels"] for one in mosaic.table["sources"]} == {
            int(number): int(count) for number, count in counts.items() if number
        }
    first, second = ({name: n for n, name in one.names.items() if n} for one in versions[:2])
    for name in first.keys() & second.keys():
        assert (first[name] != second[name]) == (name.partition("#")[0] in replaced), name


@pytest.mark.parametrize("interpolation", ["nn", "bicubic"])
def test_the_number_is_the_stored_value_of_constant_sources(
    tmp_path: Path, interpolation: str
) -> None:
    sheets = [one for one in make_sheets(tmp_path, 24, 2, 5) if one.footprints is None]
    grids = [sheet.grid for sheet in sheets]
    sheets = [sheet for sheet in sheets if grids.count(sheet.grid) == 1]
    for sheet in sheets:
        sheet.write(has_alpha=False)
    options = {**OPTIONS, "interpolation": interpolation, "format": "zip"}
    path = built(plan_in(tmp_path, *[sheet.entry() for sheet in sheets], **options))
    mosaic = Mosaic(path.parent, "map")
    values = np.zeros(max(mosaic.names) + 1)
    for number, name in mosaic.names.items():
        values[number] = int(name.partition(".")[0]) if number else -99999
    stored = {key[1:]: one for key, one in read_tiles(path).items() if key[0] == str(LEVEL)}
    assert stored.keys() == mosaic.tiles.keys()
    for key, numbers in mosaic.tiles.items():
        np.testing.assert_allclose(values[numbers], stored[key][:, :, 0], rtol=1e-5)
