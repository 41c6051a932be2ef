"""Hillshade, slope and aspect on surfaces whose relief is known (style.md section 6)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.render.ground import (
    MESH_CENTRE,
    Floats,
    World,
    around,
    pixel_centres,
    transform,
)

from mastaba.model.bbox import BoundingBox
from mastaba.model.style import Palette, PaletteEntry, Style
from mastaba_render.styles import apply_palette

EAST, NORTH = 0.5, -0.3
STEEP = 2.0
SIZE = (90, 70)


def plane(x: Floats, y: Floats) -> Floats:
    return EAST * (x - MESH_CENTRE[0]) + NORTH * (y - MESH_CENTRE[1])


def cone(x: Floats, y: Floats) -> Floats:
    """Return a mountain of constant slope, its top in the centre."""
    return 1e5 - STEEP * np.hypot(x - MESH_CENTRE[0], y - MESH_CENTRE[1])


@pytest.fixture(scope="module")
def relief(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("relief"))
    world.add("plane", plane)
    world.add("cone", cone, resampling="bicubic")
    world.add("rough", rough, resampling="linear")
    yield world
    world.close()


def rough(x: Floats, y: Floats) -> Floats:
    return 800 * np.sin(x / 1300) * np.cos(y / 1700) + 300 * np.sin((x + 2 * y) / 900)


def styled(name: str, palette: Palette | None = None, **settings: Any) -> Style:
    return Style("s", "s", "", palette=palette, processing={name: settings})


def shade(east: Any, north: Any, zenith: float, azimuth: float, z_factor: float) -> Any:
    """Return the light on a slope: the product of its normal and the direction of the sun."""
    height, bearing = math.radians(zenith), math.radians(azimuth)
    sun = (
        math.cos(height) * math.sin(bearing),
        math.cos(height) * math.cos(bearing),
        math.sin(height),
    )
    east, north = z_factor * east, z_factor * north
    return 255 * (sun[2] - east * sun[0] - north * sun[1]) / np.sqrt(1 + east**2 + north**2)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"zenith": 45.0, "azimuth": 315.0},
        {"zenith": 20.0, "azimuth": 90.0},
        {"zenith": 20.0, "azimuth": 270.0},
        {"zenith": 80.0, "azimuth": 200.0, "z_factor": 3.0},
    ],
)
def test_hillshade_of_a_plane(relief: World, settings: Mapping[str, float]) -> None:
    bbox = around("EPSG:3857", 27000, 21000, MESH_CENTRE)
    image = relief.draw("plane", bbox, "EPSG:3857", SIZE, styled("estompage", **settings))
    sun = {"zenith": 45.0, "azimuth": 315.0, "z_factor": 1.0} | settings
    light = max(shade(EAST, NORTH, **sun), 0)
    assert image.pixels.shape == (*SIZE[::-1], 1)
    assert image.pixels.dtype == np.float32
    assert image.valid is None
    assert np.abs(image.pixels - light).max() < 0.5


def test_slope_towards_the_sun_is_light_and_the_other_dark(relief: World) -> None:
    """An azimuth of 315 is the north-west, as maps are lit."""
    bbox = around("EPSG:3857", 60000, 60000, MESH_CENTRE)
    image = relief.draw("cone", bbox, "EPSG:3857", (60, 60), styled("estompage")).pixels[:, :, 0]
    assert image[10, 10] > 235
    assert image[50, 50] == 0  # turned away from it: no light below 0
    assert image[10, 50] == pytest.approx(image[50, 10], abs=1.0)
    lit = styled("estompage", azimuth=90.0, estompage_nodata=7)
    image = relief.draw("cone", bbox, "EPSG:3857", (60, 60), lit).pixels[:, :, 0]
    assert image[30, 50] > 235
    assert image[30, 10] == 7


@pytest.mark.parametrize("algorithm", ["H", "Z"])
def test_slope_of_a_plane(relief: World, algorithm: str) -> None:
    bbox = around("EPSG:3857", 27000, 21000, MESH_CENTRE)
    steepness = math.hypot(EAST, NORTH)
    for settings, expected in (
        ({}, math.degrees(math.atan(steepness))),
        ({"unit": "degree", "slope_max": 20}, 20),
        ({"unit": "pourcent", "slope_max": 100}, 100 * steepness),
        ({"unit": "pourcent"}, min(90, 100 * steepness)),
    ):
        image = relief.draw(
            "plane", bbox, "EPSG:3857", SIZE, styled("pente", algo=algorithm, **settings)
        )
        assert np.abs(image.pixels - expected).max() < 0.2


def test_aspect_is_the_bearing_downhill(relief: World) -> None:
    bbox = around("EPSG:3857", 27000, 21000, MESH_CENTRE)
    image = relief.draw("plane", bbox, "EPSG:3857", SIZE, styled("exposition"))
    downhill = math.degrees(math.atan2(-EAST, -NORTH)) % 360
    assert np.abs(image.pixels - downhill).max() < 0.5
    flat = styled("exposition", min_slope=60, aspect_nodata=-5)
    image = relief.draw("plane", bbox, "EPSG:3857", SIZE, flat)
    assert (image.pixels == -5).all()


def test_cone_has_one_slope_and_every_aspect(relief: World) -> None:
    size = (121, 121)
    bbox = around("EPSG:3857", 121 * 400, 121 * 400, MESH_CENTRE)
    x, y = pixel_centres(bbox, size)
    x, y = x - MESH_CENTRE[0], y - MESH_CENTRE[1]
    # Near the top the surface is no plane over three pixels.
    away = np.hypot(x, y) > 12 * 400
    slope = relief.draw("cone", bbox, "EPSG:3857", size, styled("pente")).pixels[:, :, 0]
    assert np.abs(slope - math.degrees(math.atan(STEEP)))[away].max() < 0.3
    aspect = relief.draw("cone", bbox, "EPSG:3857", size, styled("exposition")).pixels[:, :, 0]
    turned = (aspect - np.degrees(np.arctan2(x, y)) + 180) % 360 - 180
    assert np.abs(turned)[away].max() < 1.0
    assert aspect.min() < 5 < 355 < aspect.max()


def test_degrees_are_measured_in_metres(relief: World) -> None:
    """A degree counts as many metres on both axes, as on the equator."""
    bbox = around("EPSG:4326", 0.3, 0.2, MESH_CENTRE)
    image = relief.draw("plane", bbox, "EPSG:4326", SIZE, styled("pente"))
    _, latitude = pixel_centres(bbox, SIZE)
    # A metre of Mercator is one of longitude on the equator; of latitude, cos(latitude).
    steepness = np.hypot(EAST, NORTH / np.cos(np.radians(latitude)))
    expected = np.degrees(np.arctan(steepness))
    assert np.abs(image.pixels[:, :, 0] - expected).max() < 0.3


def test_metres_of_the_map_count_not_those_of_the_pyramid(relief: World) -> None:
    bbox = around("EPSG:2154", 18000, 14000, MESH_CENTRE)
    image = relief.draw("plane", bbox, "EPSG:2154", SIZE, styled("pente"))
    x, y = pixel_centres(bbox, SIZE)
    heights = [
        plane(*transform("EPSG:2154", "EPSG:3857", x + dx, y + dy))
        for dx, dy in ((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0))
    ]
    steepness = np.hypot(heights[0] - heights[1], heights[2] - heights[3]) / 2
    assert np.abs(image.pixels[:, :, 0] - np.degrees(np.arctan(steepness))).max() < 0.3


@pytest.mark.parametrize("crs", ["EPSG:3857", "EPSG:2154", "EPSG:4326"])
@pytest.mark.parametrize("name", ["estompage", "pente", "exposition"])
def test_small_maps_stitched_equal_the_big_one(relief: World, name: str, crs: str) -> None:
    """Each map looks one pixel beyond its border."""
    cuts_x, cuts_y, size = [0, 31, 80, 111], [0, 47, 48, 90], (111, 90)
    side = (0.25, 0.2) if crs == "EPSG:4326" else (27750.0, 22500.0)
    bbox = around(crs, *side, MESH_CENTRE)
    cell_x, cell_y = (bbox.xmax - bbox.xmin) / size[0], (bbox.ymax - bbox.ymin) / size[1]
    style = styled(name, min_slope=0)
    whole = relief.draw("rough", bbox, crs, size, style).pixels[:, :, 0]
    parts = np.empty_like(whole)
    for top, bottom in pairwise(cuts_y):
        for left, right in pairwise(cuts_x):
            box = BoundingBox(
                bbox.xmin + left * cell_x,
                bbox.ymax - bottom * cell_y,
                bbox.xmin + right * cell_x,
                bbox.ymax - top * cell_y,
            )
            piece = relief.draw("rough", box, crs, (right - left, bottom - top), style)
            assert piece.valid is None
            parts[top:bottom, left:right] = piece.pixels[:, :, 0]
    turn = 360 if name == "exposition" else 1e9
    difference = np.abs((parts - whole + turn / 2) % turn - turn / 2)
    assert np.ptp(whole) > 20
    # Where the ground is level, a hair decides which way it falls.
    limit = 0.05 if crs == "EPSG:3857" else 1.5
    assert np.quantile(difference, 0.995) < limit
    # The seams are no worse than the rest.
    seam = [difference[:, 30:32], difference[:, 79:81], difference[46:49]]
    assert max(np.quantile(part, 0.98) for part in seam) < limit


@pytest.mark.parametrize("no_alpha", [False, True])
def test_palette_colours_the_computed_values(relief: World, no_alpha: bool) -> None:
    entries = [PaletteEntry(10.0 * i, 25 * i, 255 - 25 * i, 3 * i, 20 * i) for i in range(10)]
    palette = Palette(tuple(entries), rgb_continuous=True, no_alpha=no_alpha)
    bbox = around("EPSG:3857", 27000, 21000, MESH_CENTRE)
    slope = relief.draw("rough", bbox, "EPSG:3857", SIZE, styled("pente"))
    coloured = relief.draw("rough", bbox, "EPSG:3857", SIZE, styled("pente", palette))
    assert coloured.pixels.dtype == np.uint8
    assert coloured.pixels.shape[2] == (3 if no_alpha else 4)
    assert np.array_equal(coloured.pixels, apply_palette(palette, slope.pixels))
    assert len(np.unique(coloured.pixels[:, :, 0])) > 50


def test_neighbour_without_data_takes_the_result_away(world: World) -> None:
    def hole(level: str, row: int, col: int) -> np.ndarray:
        pixels = np.full((48, 64, 1), 50, np.float32)
        pixels[20, 30] = -99999
        return pixels

    world.add("hole", hole, of_position=False)
    matrix = world.layer("hole").pyramid.finest.matrix
    left, top = matrix.origin_x + 64 * 400, matrix.origin_y - 48 * 400
    bbox = BoundingBox(left, top - 48 * 400, left + 64 * 400, top)
    for name, key in (
        ("estompage", "estompage_nodata"),
        ("pente", "slope_nodata"),
        ("exposition", "aspect_nodata"),
    ):
        image = world.draw("hole", bbox, "EPSG:3857", (64, 48), styled(name, **{key: 33}))
        expected = np.ones((48, 64), np.bool_)
        expected[19:22, 29:32] = False
        assert image.valid is not None
        assert np.array_equal(image.valid, expected)
        assert (image.pixels[~expected] == 33).all()
        assert image.nodata == (33.0,)
    # Pixels at the border of the pyramid have no neighbour either.
    corner = BoundingBox(
        matrix.origin_x, matrix.origin_y - 10 * 400, matrix.origin_x + 10 * 400, matrix.origin_y
    )
    image = world.draw("hole", corner, "EPSG:3857", (10, 10), styled("pente"))
    assert image.valid is not None
    assert not image.valid[0].any()
    assert not image.valid[:, 0].any()
    assert image.valid[1:, 1:].all()
    # The style's own nodata value
    odd = styled("pente", image_nodata=50)
    image = world.draw("hole", bbox, "EPSG:3857", (64, 48), odd)
    assert image.valid is not None
    assert not image.valid.any()
