"""A build that loses source pixels says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.build.conftest import Build
from tests.build.ground import grid, noise, read_tiles, write_raster

from mastaba_build.pixels.placement import Placement, Placer
from mastaba_build.plan.plan import Plan
from mastaba_build.work.build import build
from mastaba_build.work.reports import Reports

Plans = Callable[..., Plan]


@pytest.fixture
def careless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the builder forget the tiles of one column in three."""
    place = Placer.place

    def forgetful(self: Placer, row: int, columns: Sequence[int]) -> Iterator[Any]:
        found: list[tuple[int, Placement]] = list(place(self, row, columns))
        return iter([one for one in found if one[0] % 3])

    monkeypatch.setattr(Placer, "place", forgetful)


@pytest.mark.usefixtures("careless")
@pytest.mark.parametrize(
    ("crs", "corner", "size"),
    [("EPSG:2154", (900000, 6500000), 4.7), ("EPSG:3857", (650000, 5800000), 4.7773142671)],
)
def test_a_build_that_loses_pixels_is_not_published(
    tmp_path: Path, plan_of: Plans, crs: str, corner: tuple[float, float], size: float
) -> None:
    source = write_raster(tmp_path / "a.tif", noise(3, 700, 900), grid(*corner, size), crs)
    plan, errors = plan_of(source), StringIO()
    assert not build(plan, Reports(StringIO(), errors))
    assert "a.tif: " in errors.getvalue()
    assert "sampled pixels with data are missing in level" in errors.getvalue()
    assert not (tmp_path / "out/map.json").exists()


@pytest.mark.usefixtures("careless")
def test_losses_may_be_accepted(tmp_path: Path, plan_of: Plans) -> None:
    source = write_raster(
        tmp_path / "a.tif", noise(3, 700, 900), grid(900000, 6500000, 4.7), "EPSG:2154"
    )
    errors = StringIO()
    assert build(plan_of(source, accept_losses=True), Reports(StringIO(), errors))
    assert "sampled pixels with data are missing in level" in errors.getvalue()
    assert (tmp_path / "out/map.json").exists()


@pytest.mark.parametrize(
    "options",
    [
        {},
        *(
            pytest.param(options, marks=pytest.mark.thorough)
            for options in (
                {"bottom": "13"},
                {"bottom": "10"},
                {"interpolation": "lanczos_4"},
                {"interpolation": "nn", "bottom": "16"},
                {"tile_matrix_set": "4326", "decimation": "mode", "bottom": "11"},
                {"tile_matrix_set": "2154_10cm", "interpolation": "linear"},
            )
        ),
    ],
    ids=str,
)
def test_scattered_data_are_no_loss(
    tmp_path: Path, build_of: Build, options: dict[str, Any]
) -> None:
    """Isolated pixels and narrow strips have too little weight in coarse pixels."""
    generator = np.random.default_rng(3)
    values = np.full((1, 400, 500), -9999, np.float32)
    for _ in range(60):
        row, column = generator.integers(0, 400), generator.integers(0, 500)
        height, width = generator.integers(1, 30, 2)
        values[0, row : row + height, column : column + width] = generator.random() * 100
    source = write_raster(
        tmp_path / "a.tif", values, grid(900000, 6500000, 3.1), "EPSG:2154", nodata=-9999
    )
    assert read_tiles(build_of(source, top=options.get("bottom", "auto"), **options))


def test_parts_outside_the_set_are_noted(tmp_path: Path, plan_of: Plans) -> None:
    world = write_raster(tmp_path / "world.tif", noise(1, 90, 180), grid(-180, 90, 2), "EPSG:4326")
    (note,) = plan_of(world).notes
    assert "6 % of " in note
    assert "world.tif are outside the set PM" in note
    assert not plan_of(world, tile_matrix_set="4326").notes
