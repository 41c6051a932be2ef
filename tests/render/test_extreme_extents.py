"""Extents far larger than the data, and of extreme shapes, cost no more than others."""

from __future__ import annotations

import math
import random
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.render.ground import (
    KERNELS,
    MESH_CENTRE,
    WORLD,
    WORLD_LEVELS,
    World,
    around,
    transform,
    wave,
)
from tests.sizes import sized

from mastaba.errors import InvalidParameterError
from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS
from mastaba_render import layer_map
from mastaba_render.map_request import MapImage, MapLayer, MapRequest
from mastaba_render.mosaic import LevelPixels, Mosaic
from mastaba_render.native import Window
from mastaba_render.sampling import LARGEST_STENCIL
from mastaba_writer.pyramids import LevelPlan

CRSS = ("EPSG:3857", "EPSG:4326", "EPSG:3395", "EPSG:2154", "EPSG:3035", "EPSG:3832")
"""The same CRS, two with parallel axes, two others, and one with another antimeridian."""

NOISE = 1e6
"""Bytes that a process may need for other things while a map is drawn."""


@pytest.fixture(scope="module")
def region(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Return layers of a region of the world, without coarse levels."""
    world = World(tmp_path_factory.mktemp("region"))
    finest = [LevelPlan("2", 4, 7, 3, 6)]
    world.add("floats", wave, levels=finest)
    world.add(
        "bytes",
        lambda x, y: tuple(128 + wave(x * (1 + i), y) / 10 for i in range(3)),
        format="TIFF_RAW_UINT8",
        channels=3,
        nodata=(255, 255, 255),
        levels=finest,
    )
    world.add("around", wave, document=WORLD, levels=[replace(WORLD_LEVELS[1], min_row=1)])
    yield world
    world.close()


def both(
    region: World, monkeypatch: pytest.MonkeyPatch, *arguments: Any
) -> tuple[MapImage, MapImage]:
    """Return a map, and the same map drawn from all source pixels of its extent."""
    image = region.draw(*arguments)
    with monkeypatch.context() as patch:
        patch.setattr(layer_map, "holds", lambda area, window: True)
        patch.setattr(layer_map, "_PRODUCTS", math.inf)
        return image, region.draw(*arguments)


@pytest.mark.sampled(one_in=13)
@pytest.mark.parametrize("crs", CRSS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_map_is_the_one_drawn_from_all_pixels_of_its_extent(
    region: World, monkeypatch: pytest.MonkeyPatch, kernel: str, crs: str
) -> None:
    unit = 1e-5 if CRS.from_code(crs).is_geographic else 1.0
    shapes = ((3e5, 4e5, (37, 31)), (8e5, 4e4, (9, 5)), (3e4, 8e5, (3, 21)), (6e5, 6e5, (9, 7)))
    for width, height, size in shapes:
        # A corner of the data in the middle, so that kernels meet it from outside.
        bbox = around(crs, width * unit, height * unit, (176000.0, 5900000.0))
        for name in ("floats", "bytes"):
            layer = replace(region.layer(name), resampling=kernel)
            image, whole = both(region, monkeypatch, layer, bbox, crs, size)
            valid = np.ones(size[::-1], bool) if image.valid is None else image.valid
            expected = np.ones(size[::-1], bool) if whole.valid is None else whole.valid
            assert np.array_equal(valid, expected)
            tolerance = 0.02 if name == "floats" else 1
            difference = np.abs(image.pixels.astype(float) - whole.pixels.astype(float))
            assert difference.max() <= tolerance


def any_request(region: World, chosen: random.Random) -> MapRequest | None:
    """Return a map of an extreme extent; None if the place has no position in its CRS."""
    name = chosen.choice(["floats", "bytes", "around"])
    layer = replace(region.layer(name), resampling=chosen.choice(KERNELS))
    code = chosen.choice([*CRSS, "EPSG:3031", "EPSG:32631", "EPSG:5041", "CRS:84"])
    crs = CRS.from_code(code)
    unit = 1.0 if crs.is_geographic else 111320.0
    x, y = MESH_CENTRE
    place = x + chosen.uniform(-2e5, 2e5), y + chosen.uniform(-2e5, 2e5)
    x, y = (float(value) for value in transform("EPSG:3857", code, *place))
    if not math.isfinite(x + y):
        return None
    width, height = (10 ** chosen.uniform(-5, 2.5) * unit for _ in range(2))
    box = chosen.choice(
        [
            (x - width / 2, -90 * unit, x + width / 2, 90 * unit),
            (-180 * unit, y - height / 2, 180 * unit, y + height / 2),
            (170 * unit, y - height, 190 * unit, y + height),
            (x - width, y - height, x + width, y + height),
            (x - width, y - width, x + width, y + width),
            (-18000 * unit, -9000 * unit, 540 * unit, 270 * unit),
            (x + 1e4 * unit, y, x + 1e4 * unit + width, y + height),
        ]
    )
    size = [chosen.choice([1, 2, 16, 64, 300]) for _ in range(2)]
    return MapRequest((MapLayer(layer, None),), BoundingBox(*box), crs, size[0], size[1])


@pytest.mark.parametrize(
    ("first", "count"),
    [(0, 60), pytest.param(60, sized(800, 3000), marks=pytest.mark.thorough)],
)
def test_no_map_needs_more_than_it_says(
    region: World, monkeypatch: pytest.MonkeyPatch, first: int, count: int
) -> None:
    windows: list[tuple[LevelPixels, Window]] = []
    read = LevelPixels.read

    def noted(level: LevelPixels, window: Window, *rest: Any) -> Mosaic:
        windows.append((level, window))
        return read(level, window, *rest)

    monkeypatch.setattr(LevelPixels, "read", noted)
    drawn = 0
    for number in range(first, first + count):
        request = any_request(region, random.Random(number))
        if request is None:
            continue
        try:
            prepared = region.site.renderer.prepare(request)
        except InvalidParameterError:
            continue
        windows.clear()
        tracemalloc.start()
        for _ in prepared.strips():
            pass
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= prepared.memory + NOISE, number
        drawn += len(windows) > 0
        for level, window in windows:
            top, bottom, left, right = level.area
            assert window.top >= top - LARGEST_STENCIL, number
            assert window.bottom <= bottom + LARGEST_STENCIL, number
            # Columns of a layer of the whole world repeat.
            turns = 4 if request.layers[0].layer.id == "around" else 1
            assert window.right - window.left <= turns * (right - left) + 2 * LARGEST_STENCIL
    assert drawn > count / 8


@pytest.mark.parametrize("crs", CRSS)
def test_extent_that_misses_the_data_is_empty(region: World, crs: str) -> None:
    unit = 1e-5 if CRS.from_code(crs).is_geographic else 1.0
    for name in ("floats", "bytes"):
        bbox = around(crs, 2e6 * unit, 1e6 * unit, (-3e6, 3e6))
        image = region.draw(name, bbox, crs, (8, 8))
        assert image.valid is not None
        assert not image.valid.any()
        assert (image.pixels == np.array(image.nodata, image.pixels.dtype)).all()


def test_kernels_whose_products_would_take_minutes_are_refused(
    region: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer_map, "_PRODUCTS", 1 << 26)
    # Rows of 100 km, oblique to the source: the box of each kernel holds nearly all of the data.
    layer = replace(region.layer("floats"), resampling="lanczos_4")
    x, y = (float(value) for value in transform("EPSG:3857", "EPSG:3035", 250000.0, 5850000.0))
    box = BoundingBox(x - 10, y - 1e6, x + 10, y + 1e6)
    request = MapRequest((MapLayer(layer, None),), box, CRS.from_code("EPSG:3035"), 500, 20)
    settings = replace(region.site.catalogue.settings.map, overviews=False)
    with pytest.raises(InvalidParameterError) as caught:
        region.site.renderer.prepare(request, settings)
    assert caught.value.parameter == "BBOX"
