"""Areas across the antimeridian: one file, whose columns go on counting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.coverage.ground import whole

from mastaba.api.catalogue import CRS, BoundingBox, geographic_bbox
from mastaba.wsgi import create_application
from mastaba_coverage import (
    Coverage,
    CoverageLimits,
    CoverageRequest,
    Extractor,
    Interval,
    InvalidIntervalError,
    Scaling,
    TiffOptions,
    Trim,
    planning,
)
from mastaba_render.api.maps import MapLayer, MapRequest, box_on_ground
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import synthetic

rasterio = pytest.importorskip("rasterio")

TILE = 64
DEGREES = CRS.from_code("CRS:84")
HALF = 20037508.342789244
# CRS, cell, and whether 16 columns of tiles are a full turn.
SETS = {
    "degrees": ("EPSG:4326", (-180.0, 90.0), 360 / (16 * TILE)),
    "mercator": ("EPSG:3857", (-HALF, HALF), 2 * HALF / (16 * TILE)),
    "open": ("EPSG:4326", (-180.0, 90.0), 0.3),
}


def made(level: str, row: int, col: int) -> Any:
    rows, columns = np.mgrid[row * TILE : (row + 1) * TILE, col * TILE : (col + 1) * TILE]
    return (rows * 10_000 + columns).astype(np.float32)[:, :, None]


class World:
    def __init__(
        self,
        directory: Path,
        name: str,
        *,
        services: Mapping[str, Any] | None = None,
        public_url: str = "http://maps.example",
        **fields: Any,
    ) -> None:
        crs, origin, cell = SETS[name]
        self.cell, self.origin = cell, origin
        rows = 16 if name == "mercator" else 8
        grid = synthetic(
            "WORLD",
            crs=crs,
            origin=origin,
            cell_sizes=[cell],
            matrix_sizes=[(16, rows)],
            tile_size=(TILE, TILE),
        )
        write_pyramid(
            directory / "pyramids",
            "world",
            tile_matrix_set=grid,
            format="TIFF_ZIP_FLOAT32",
            channels=1,
            levels=[LevelPlan("0", 0, rows - 1, 0, 15)],
            tile=made,
            tiles_per_width=4,
            tiles_per_height=4,
        )
        layer = layer_document(
            directory / "pyramids/world.json",
            tile_matrix_sets={"WORLD": grid},
            resampling="nn",
            **fields,
        )
        self.server_json = write_installation(
            directory,
            layers={"world": layer},
            tile_matrix_sets={"WORLD": grid},
            services=list(services or {"wmts": {}}),
            public_url=public_url,
            services_overrides=services or {},
        )
        self.application = create_application(str(self.server_json))
        self.site = self.application.site
        self.layer = self.site.catalogue.layers["world"]
        self.extractor = Extractor(self.site, CoverageLimits())
        self.coverage: Coverage = self.extractor.coverage(self.layer)

    def file(self, request: CoverageRequest) -> tuple[Any, Any, Any]:
        """Return plan, values and transform."""
        plan = self.extractor.plan(self.coverage, request)
        with rasterio.MemoryFile(whole(self.extractor, plan)) as file, file.open() as source:
            return plan, source.read(1), source.transform


@pytest.fixture(params=["degrees", "mercator"])
def world(request: Any, tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path, request.param)
    yield found
    found.site.close_services()


ACROSS = Trim(DEGREES, Interval(157.5, -135.0), Interval(-10.0, 20.0))
"""One tile west of the antimeridian, and two east of it."""


@pytest.mark.parametrize("compression", ["none", "deflate", "stored"])
def test_columns_go_on_beyond_the_antimeridian(compression: str, world: World) -> None:
    request = CoverageRequest(ACROSS, tiff=TiffOptions(compression))
    plan, values, transform = world.file(request)
    assert values.shape[1] == 3 * TILE
    assert (values[:, :TILE] % 10_000 == np.arange(15 * TILE, 16 * TILE)).all()
    assert (values[:, TILE:] % 10_000 == np.arange(2 * TILE)).all()
    assert transform.c == pytest.approx(world.origin[0] + 15 * TILE * world.cell)
    bounds = plan.bounds
    assert bounds.xmin > bounds.xmax
    assert bounds.xmax == pytest.approx(world.origin[0] + 2 * TILE * world.cell)


@pytest.mark.parametrize("code", ["EPSG:3857", "EPSG:3395", "CRS:84"])
@pytest.mark.parametrize("ends", [(170.0, 200.0), (-200.0, -170.0), (-190.0, 190.0)], ids=str)
def test_areas_end_at_the_edge_of_the_world(
    code: str, ends: tuple[float, float], world: World
) -> None:
    """Longitudes beyond 180 degrees are clipped in every CRS, as they are in that of the layer."""
    west, east = ends
    planned = []
    for x in (ends, (max(west, -180.0), min(east, 180.0))):
        trim = Trim(DEGREES, Interval(*x), Interval(-10.0, 20.0))
        request = CoverageRequest(trim, crs=CRS.from_code(code), scaling=Scaling(width=64))
        planned.append(world.extractor.plan(world.coverage, request))
    assert planned[0].bounds == planned[1].bounds
    assert (planned[0].columns, planned[0].rows) == (planned[1].columns, planned[1].rows)


@pytest.mark.parametrize("scaling", [None, Scaling(width=90, height=40)], ids=["stored", "drawn"])
def test_sources_are_not_those_of_the_rest_of_the_world(
    scaling: Scaling | None, world: World
) -> None:
    """A box of longitudes cannot contain both sides alone."""
    asked: list[BoundingBox] = []
    extractor = Extractor(world.site, CoverageLimits(), lambda _layer, box: asked.append(box) or [])
    extractor.plan(world.coverage, CoverageRequest(ACROSS, scaling=scaling))
    assert asked == []
    inside = Trim(DEGREES, Interval(90.0, 135.0), Interval(-10.0, 20.0))
    extractor.plan(world.coverage, CoverageRequest(inside, scaling=scaling))
    assert len(asked) == 1


def test_cog_across_the_antimeridian(world: World) -> None:
    _, values, _ = world.file(CoverageRequest(ACROSS, is_cog=True))
    assert (values[:, TILE:] % 10_000 == np.arange(2 * TILE)).all()


def test_resampled_halves_are_those_of_two_maps(world: World) -> None:
    request = CoverageRequest(ACROSS, scaling=Scaling(width=90, height=40), crs=DEGREES)
    _, values, _ = world.file(request)
    renderer = world.site.renderer
    for west, east, columns in ((157.5, 180.0, slice(0, 30)), (-180.0, -135.0, slice(30, 90))):
        box = BoundingBox(west, -10.0, east, 20.0)
        width = columns.stop - columns.start
        drawn = MapRequest((MapLayer(world.layer, None),), box, DEGREES, width, 40)
        assert np.array_equal(values[:, columns], renderer.render(drawn).pixels[:, :, 0])


def test_almost_all_around(world: World) -> None:
    part = Trim(DEGREES, Interval(179.0, 170.0), Interval(0.0, 10.0))
    _, values, _ = world.file(CoverageRequest(part))
    # All around, but for nine degrees.
    assert values.shape[1] in range(16 * TILE - 27, 16 * TILE)


def test_grid_that_does_not_close_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path, "open")
    with pytest.raises(InvalidIntervalError, match="two areas"):
        world.extractor.plan(world.coverage, CoverageRequest(ACROSS))
    world.site.close_services()


PACIFIC, ARCTIC = CRS.from_code("EPSG:3832"), CRS.from_code("EPSG:3413")
DATE_LINE = Trim(PACIFIC, Interval(3.2e6, 3.5e6), Interval(0.0, 2e5))
"""In the CRS of the Pacific, whose antimeridian is inside."""
POLE = Trim(ARCTIC, Interval(-4e5, 4e5), Interval(-4e5, 4e5))


def test_a_projected_area_across_the_antimeridian_is_no_belt(world: World) -> None:
    plan, values, _ = world.file(CoverageRequest(DATE_LINE))
    assert plan.bounds.xmin > plan.bounds.xmax
    assert values.shape[1] < TILE


def test_a_projected_area_keeps_its_belt_where_the_grid_does_not_close(tmp_path: Path) -> None:
    world = World(tmp_path, "open")
    _, values, _ = world.file(CoverageRequest(DATE_LINE))
    assert values.shape[1] > 8 * TILE
    world.site.close_services()


@pytest.mark.parametrize("trim", [DATE_LINE, POLE], ids=["antimeridian", "pole"])
def test_default_size_in_another_crs(trim: Trim, world: World) -> None:
    plan, values, transform = world.file(CoverageRequest(trim, crs=trim.crs))
    assert plan.crs == trim.crs
    assert plan.columns == values.shape[1]
    assert trim.x.low is not None
    assert transform.c == pytest.approx(trim.x.low)


def test_an_area_around_a_pole_has_the_rows_of_the_pole(world: World) -> None:
    plan, values, _ = world.file(CoverageRequest(POLE))
    assert plan.bounds.ymax == pytest.approx(world.origin[1])
    assert values[0, 0] == 0.0
    assert values.shape[1] == 16 * TILE


def test_areas_of_clients_do_not_fill_the_cache_of_extents(world: World) -> None:
    world.extractor.plan(world.coverage, CoverageRequest(DATE_LINE, crs=PACIFIC))
    before = geographic_bbox.cache_info()
    for number in range(5):
        x = Interval(3.2e6 + number, 3.5e6)
        world.extractor.plan(world.coverage, CoverageRequest(replace(DATE_LINE, x=x), crs=PACIFIC))
    assert geographic_bbox.cache_info().misses == before.misses


def test_cells_of_a_request_with_a_size_of_its_own_are_not_looked_at(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any size of a fixed answer is allowed, so its area is transformed once."""
    moved = []

    def counted(box: BoundingBox, source: CRS, target: CRS) -> Any:
        moved.append(box)
        return box_on_ground(box, source, target)

    monkeypatch.setattr(planning, "box_on_ground", counted)
    scaling = Scaling(width=3000, height=2000)
    world.extractor.plan(
        world.coverage, CoverageRequest(DATE_LINE, crs=PACIFIC, scaling=scaling, is_fixed=True)
    )
    assert moved == []
