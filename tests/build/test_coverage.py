"""A build that loses source pixels says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pyproj
import pytest
from tests.build.conftest import Build
from tests.build.ground import grid, noise, read_tiles, write_raster

from mastaba_build.errors import PlanError
from mastaba_build.pixels.placement import Placement, Placer
from mastaba_build.plan.plan import Plan
from mastaba_build.sources import groups
from mastaba_build.sources.sets import proj_crs
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


GEOSTATIONARY = "+proj=geos +lon_0=20 +h=35785831 +ellps=WGS84 +units=m"


@pytest.mark.parametrize(
    ("set_name", "level", "size"),
    [("PM", "2", 90000), pytest.param("4326", "1", 10000, marks=pytest.mark.thorough)],
)
def test_the_limb_of_the_earth_is_not_lost(
    tmp_path: Path, plan_of: Plans, set_name: str, level: str, size: int
) -> None:
    source = write_raster(
        tmp_path / "disk.tif",
        np.full((1, int(11e6 / size), int(11e6 / size)), 9, np.uint8),
        grid(-5.5e6, 5.5e6, size),
        pyproj.CRS.from_proj4(GEOSTATIONARY).to_wkt(),
    )
    options = {"bottom": level, "top": level, "format": "png", "interpolation": "nn"}
    plan = plan_of(source, tile_matrix_set=set_name, **options)
    (note,) = plan.notes
    assert "disk.tif are off the earth" in note
    assert build(plan, Reports(StringIO(), StringIO()))
    matrix = plan.levels[0].matrix
    height, width = matrix.matrix_height * 256, matrix.matrix_width * 256
    found = np.zeros((height, width), bool)
    for (_, row, column), tile in read_tiles(tmp_path / "out/map.json").items():
        found[row * 256 : row * 256 + 256, column * 256 : column * 256 + 256] = tile[:, :, 0] == 9
    across, down = ((np.arange(size) + 0.5) * matrix.cell_size for size in (width, height))
    x, y = np.meshgrid(matrix.origin_x + across, matrix.origin_y - down)
    to_disk = pyproj.Transformer.from_crs(
        proj_crs(plan.crs.code).to_wkt(), GEOSTATIONARY, always_xy=True
    )
    on_disk = np.isfinite(to_disk.transform(x, y)).all(axis=0)
    assert np.array_equal(found, on_disk)


def test_a_corner_beside_the_limb_is_drawn(tmp_path: Path, plan_of: Plans) -> None:
    """Only the space between two rows of pixels meets it at some places."""
    source = write_raster(
        tmp_path / "corner.tif",
        np.full((1, 71, 35), 9, np.uint8),
        grid(5313597.2177741295, -665725.5211577226, 1041.8216487322084),
        pyproj.CRS.from_proj4(GEOSTATIONARY).to_wkt(),
    )
    errors = StringIO()
    plan = plan_of(source, bottom="3", top="3", interpolation="linear")
    assert build(plan, Reports(StringIO(), errors)), errors.getvalue()


def test_a_limb_that_is_cut_off_is_noticed(
    tmp_path: Path, plan_of: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_raster(
        tmp_path / "disk.tif",
        noise(1, 600, 600),
        grid(-5.55e6, 5.55e6, 18500),
        pyproj.CRS.from_proj4(GEOSTATIONARY).to_wkt(),
    )
    monkeypatch.setattr(groups, "limb_of", lambda places, *_: places[:, :0, 0])
    with pytest.raises(PlanError, match=r"disk\.tif: its extent .* is not known well enough"):
        plan_of(source, tile_matrix_set="4326")
