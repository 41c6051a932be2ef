"""Maps that would take every tile of a pyramid without coarse levels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.render.ground import World, ramp

from mastaba.errors import InvalidParameterError
from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS
from mastaba.model.extent import bbox_in
from mastaba_render.map_request import MapImage, MapLayer, MapRequest
from mastaba_render.mosaic import LevelPixels
from mastaba_writer.pyramids import LevelPlan
from mastaba_writer.tile_matrix_sets import synthetic

COUNT = 80
"""Tiles on each side, of 64 by 48 pixels of 400 m."""

FINE = synthetic(
    "FINE",
    crs="EPSG:3857",
    origin=(-900000, 7000000),
    cell_sizes=[400],
    matrix_sizes=[(COUNT, COUNT)],
    tile_size=(64, 48),
)


@pytest.fixture(scope="module")
def fine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    limits = {"tile_x": 16, "tile_y": 16}
    world = World(tmp_path_factory.mktemp("fine"), limits=limits)
    levels = (LevelPlan("0", 0, COUNT - 1, 0, COUNT - 1),)
    world.add("ramp", ramp, document=FINE, levels=levels)
    world.add("row", ramp, document=FINE, levels=(LevelPlan("0", 40, 40, 0, COUNT - 1),))
    world.add("column", ramp, document=FINE, levels=(LevelPlan("0", 0, COUNT - 1, 7, 7),))
    world.add("one", ramp, document=FINE, levels=(LevelPlan("0", 40, 40, 7, 7),))
    for name, rows, columns in (("white", 40, COUNT), ("all", COUNT, COUNT), ("most", 79, 79)):
        world.add(
            name,
            lambda level, row, col: np.full((48, 64, 3), 255, np.uint8),
            format="TIFF_RAW_UINT8",
            channels=3,
            document=FINE,
            levels=(LevelPlan("0", 0, rows - 1, 0, columns - 1),),
            of_position=False,
        )
    yield world
    world.close()


@pytest.fixture
def tiles_read(fine: World, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many tiles are read at a time, from now on."""
    fine.site  # noqa: B018 - opened before anything is counted
    found: list[int] = []
    whole: Callable[..., Any] = LevelPixels.tiles

    def counted(self: LevelPixels, places: Any, *kept: Any, **options: Any) -> Any:
        found.append(len(places))
        return whole(self, places, *kept, **options)

    monkeypatch.setattr(LevelPixels, "tiles", counted)
    return found


def whole_map(world: World, name: str, code: str = "EPSG:3857", size: int = 100) -> MapRequest:
    layer, crs = world.layer(name), CRS.from_code(code)
    box = bbox_in(layer, crs)
    assert box is not None
    return MapRequest((MapLayer(layer, None),), box, crs, size, size)


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["ramp", "row", "column", "one", "white"])
@pytest.mark.parametrize("code", ["EPSG:3857", "CRS:84", "EPSG:4326", "EPSG:2154", "EPSG:3035"])
def test_maps_over_the_boxes_of_a_layer_are_drawn(
    fine: World, tiles_read: list[int], name: str, code: str
) -> None:
    image = fine.site.renderer.render(whole_map(fine, name, code))
    assert image.pixels.shape[:2] == (100, 100)
    share = 1.0 if image.valid is None else float(image.valid.mean())
    # A strip lies across its box in a CRS that is turned against its own.
    assert share > (0.4 if name in ("ramp", "white", "one") else 0.03)
    assert sum(tiles_read) <= 16 * 16
    assert max(tiles_read) <= 32


@pytest.mark.parametrize(("size", "group"), [(20, 32), (100, 8), (300, 8)])
def test_an_overview_shows_the_ground(fine: World, size: int, group: int) -> None:
    """A tile represents a group of tiles: a pixel may be off by the size of the group."""
    request = whole_map(fine, "ramp", size=size)
    image = fine.site.renderer.render(request)
    # Three quarters of the kernel lie outside at the corners.
    assert image.valid is None or (~image.valid).sum() <= 4
    inside = slice(1, -1), slice(1, -1)
    step = (request.bbox.xmax - request.bbox.xmin) / size
    down = (request.bbox.ymax - request.bbox.ymin) / size
    x = request.bbox.xmin + (np.arange(size) + 0.5) * step
    y = request.bbox.ymax - (np.arange(size) + 0.5) * down
    expected = ramp(*np.meshgrid(x, y))
    # From one tile to the next, 77 units across and 38 down.
    difference = np.abs(image.pixels[:, :, 0] - expected)[inside]
    assert difference.max() < group * 115
    assert np.median(difference) < group * 115 / 2


@pytest.mark.parametrize("kernel", ["nn", "lanczos_2"])
@pytest.mark.parametrize(("name", "size"), [("all", 8), ("all", 10), ("most", 10)])
def test_the_last_row_of_a_small_map_has_data(
    fine: World, name: str, size: int, kernel: str
) -> None:
    """The last pixel of the overview has less than half of its ground in the level."""
    request = whole_map(fine, name, size=size)
    layer = replace(fine.layer(name), resampling=kernel)
    image = fine.site.renderer.render(replace(request, layers=(MapLayer(layer, None),)))
    assert image.valid is None or image.valid.all()
    assert (image.pixels == 255).all()


def test_what_is_not_stored_stays_empty(fine: World) -> None:
    request = whole_map(fine, "ramp")
    request = replace(request, layers=(MapLayer(fine.layer("white"), None),))
    image = fine.site.renderer.render(request)
    assert image.valid is not None
    assert image.valid[:48].all()
    assert not image.valid[52:].any()
    assert (image.pixels[:48] == 255).all()


def test_far_beyond_the_layer(fine: World, tiles_read: list[int]) -> None:
    """The layer is less than a pixel; nothing is refused, and little is read."""
    world = BoundingBox(-1e9, -1e9, 1e9, 1e9)
    request = replace(whole_map(fine, "ramp"), bbox=world)
    image: MapImage = fine.site.renderer.render(request)
    assert image.valid is not None
    assert image.valid.mean() < 0.01
    assert sum(tiles_read) <= 16 * 16


def test_an_overview_needs_less_memory(tmp_path: Path, tiles_read: list[int]) -> None:
    """Within the limits of tiles, one row of the map would need a third of the level at once."""
    world = World(tmp_path, limits={"tile_x": 100, "tile_y": 100, "source_mebibytes": 4})
    world.add("ramp", ramp, document=FINE, levels=(LevelPlan("0", 0, COUNT - 1, 0, COUNT - 1),))
    request = whole_map(world, "ramp", size=20)
    image = world.site.renderer.render(request)
    assert image.valid is None or image.valid.mean() > 0.9
    assert 0 < sum(tiles_read) < COUNT * COUNT
    world.close()


def test_large_maps_are_refused_still(fine: World, tiles_read: list[int]) -> None:
    """Where an overview would be much coarser than the requested pixels."""
    with pytest.raises(InvalidParameterError, match="too big"):
        fine.site.renderer.prepare(whole_map(fine, "ramp", size=4000))
    assert not tiles_read


def test_versions_change_with_the_factor_only(fine: World) -> None:
    renderer = fine.site.renderer
    versions = {
        renderer.prepare(whole_map(fine, "ramp", size=size)).sources().version for size in (40, 90)
    }
    assert None not in versions
    assert len(versions) == 2
    same = {renderer.prepare(whole_map(fine, "ramp", size=90)).sources().version for _ in range(2)}
    assert same < versions


def test_the_cache_keeps_no_tile_of_an_overview(tmp_path: Path, fine: World) -> None:
    renderer = fine.site.renderer
    before = renderer.tiles.used
    renderer.render(whole_map(fine, "ramp", size=97))
    assert renderer.tiles.used == before
