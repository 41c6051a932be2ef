"""The work of an estimate does not grow with the tiles that a sample stands for."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.export.ground import opened, planned
from tests.tiny import tiny_installation

from mastaba.api.services import Site
from mastaba.errors import ClientGoneError
from mastaba_export import sizes
from mastaba_export.plan import ExportPlan
from mastaba_export.run import run
from mastaba_export.sizes import PAGE, FilesSizer, PMTilesSizer, Sizer, SlabsSizer, SQLiteSizer
from mastaba_export.sources import Batch, StoredTiles
from mastaba_server import cancellation

BOX = [600050.0, 6797900.0, 602400.0, 6799500.0]
SIZERS = {
    "pmtiles": PMTilesSizer,
    "mbtiles": lambda: SQLiteSizer(rows=16),
    "gpkg": lambda: SQLiteSizer(rows=32),
    "dir": lambda: FilesSizer(head=100),
    "pyramid": lambda: SlabsSizer(head=4096),
}


def sampled(chance: random.Random, largest: int) -> list[int]:
    return [chance.randrange(1, largest) for _ in range(chance.randrange(1, 64))]


@pytest.mark.parametrize("largest", [50, 3000, 40_000, 300_000])
@pytest.mark.parametrize("form", SIZERS)
def test_tiles_that_stand_for_others_count_as_often(form: str, largest: int) -> None:
    chance = random.Random(largest)
    at_once: Sizer = SIZERS[form]()
    in_turn: Sizer = SIZERS[form]()
    for times in (1, 2, 700):
        found = sampled(chance, largest)
        at_once.add(found, times)
        for _ in range(times):
            in_turn.add(found)
    # Free bytes of pages depend on what precedes a tile.
    allowed = 0.02 if "SQLite" in type(at_once).__name__ else 0
    assert abs(at_once.total() / in_turn.total() - 1) <= allowed


@pytest.mark.parametrize("count", [1, 2, 4, 16])
@pytest.mark.parametrize("size", [9_000, 12_000, 17_000, 20_000, 33_000])
def test_few_tiles_stand_for_many(size: int, count: int) -> None:
    """What is free at the end of each page counts."""
    at_once, in_turn = SQLiteSizer(rows=16), SQLiteSizer(rows=16)
    at_once.add([size] * count, 6400 // count)
    in_turn.add([size] * 6400)
    assert at_once.total() == pytest.approx(in_turn.total(), rel=0.03)


SMALL = {"bbox": [24.0, 50.0, 30.0, 53.0]}


@pytest.mark.parametrize(
    ("form", "levels"),
    [
        # Where equal tiles are written once, more levels have fewer bytes.
        ("pmtiles", ["5"]),
        ("mbtiles", ["5"]),
        *[(form, levels) for form in ("gpkg", "dir") for levels in (["5"], ["8"], ["5", "8"])],
    ],
)
def test_small_archives_are_as_large_as_estimated(
    site: Site, tmp_path: Path, form: str, levels: list[str]
) -> None:
    made = planned(site, "IMAGES", form, levels=levels, **SMALL)
    check_estimate(made, tmp_path / f"a{made.extension}")


@pytest.mark.parametrize("levels", [["0"], ["2"]], ids="-".join)
def test_small_gridded_coverages_are_as_large_as_estimated(
    site: Site, tmp_path: Path, levels: list[str]
) -> None:
    made = planned(site, "HEIGHTS", "gpkg", levels=levels, bbox=BOX, crs="EPSG:2154")
    check_estimate(made, tmp_path / "a.gpkg")


def check_estimate(made: ExportPlan, path: Path) -> None:
    estimate, result = made.estimate(), run(made, path)
    assert estimate["tiles"] == result.tiles > 0
    if estimate["is_exact"]:
        assert estimate["payload_bytes"] == result.payload_bytes
    page = PAGE if path.suffix in (".mbtiles", ".gpkg") else 0
    assert abs(estimate["bytes"] - result.bytes) <= max(0.02 * result.bytes, page)


def test_nothing_is_sampled_for_a_client_that_has_gone(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tiles of a slab are converted to find out how much larger they become."""
    area = {"bbox": BOX, "crs": "EPSG:2154", "levels": ["2"]}
    made = planned(site, "HEIGHTS", "pyramid", clip=True, **area)
    read, slabs = StoredTiles.read, 0

    def noted(source: StoredTiles, row: int, column: int) -> Batch:
        nonlocal slabs
        slabs += 1
        return read(source, row, column)

    monkeypatch.setattr(StoredTiles, "read", noted)
    monkeypatch.setattr(sizes, "_SAMPLED_TILES", 10**6)
    made.estimate()
    assert slabs > 1
    slabs = 0
    client = SimpleNamespace(is_gone=lambda: slabs > 0)
    cancellation.begin(client, 300.0, SimpleNamespace(latest=0.0), {})
    try:
        with pytest.raises(ClientGoneError):
            made.estimate()
    finally:
        cancellation.end()
    assert slabs == 1


def test_drawn_tiles_are_added_once_for_each_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A layer that was drawn at the finest level of the world once kept a process for minutes."""
    made = planned(
        opened(tiny_installation(tmp_path / "tiny")), "FLOAT32_ZIP", "mbtiles", tile_format="png"
    )
    added: list[tuple[int, int]] = []

    def add(_sizer: SQLiteSizer, found: list[int], times: int = 1) -> None:
        added.append((len(found), times))

    monkeypatch.setattr(SQLiteSizer, "add", add)
    monkeypatch.setattr(sizes, "_SAMPLED_TILES", 2)
    made.estimate()
    assert len(added) == len(made.levels)
    assert max(times for _, times in added) > 1
