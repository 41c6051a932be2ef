"""Maps whose scale varies: kernels are as wide as each place needs, on every map."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from tests.render import in_numpy
from tests.render.ground import World, pixel_centres, transform

from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS
from mastaba_render import layer_map
from mastaba_render.map_request import MapImage, MapLayer, MapRequest
from mastaba_render.sampling import evaluate
from mastaba_writer.pyramids import LevelPlan
from mastaba_writer.tile_matrix_sets import synthetic, web_mercator

MERCATOR = web_mercator(4)
DEGREES = synthetic(
    "DEGREES",
    crs="EPSG:4326",
    origin=(-180, 90),
    cell_sizes=[360 / 1024],
    matrix_sizes=[(8, 4)],
    tile_size=(128, 128),
)
SOURCES = {
    "mercator": ("EPSG:3857", 20037508.342789244, 20037508.342789244, 40075016.68557849 / 1024),
    "degrees": ("EPSG:4326", 180.0, 90.0, 360 / 1024),
}
STEP = 4
"""Pixels from one to the next that is compared with a loop in Python."""
BASE = {"linear": 1.0, "bicubic": 2.0, "lanczos_2": 2.0, "lanczos_3": 3.0}
# Of each: source, CRS, extent and size. All of them cover from a third of the pixels of the source
# to one for each of some hundreds.
MAPS = {
    "south pole, mercator": ("mercator", "EPSG:3031", (-2.9e6, -2.4e6, 2.3e6, 2.6e6), (104, 100)),
    "north pole, mercator": ("mercator", "EPSG:3413", (-2.1e6, -2.4e6, 2.9e6, 2.6e6), (100, 100)),
    "north pole, degrees": ("degrees", "EPSG:3413", (-4.5e6, -4e6, 4.5e6, 5e6), (120, 120)),
    "south pole, degrees": ("degrees", "EPSG:3031", (-3e6, -4e6, 4e6, 3e6), (140, 140)),
    "turned": ("degrees", "EPSG:3413", (1.5e6, 1e6, 3.5e6, 3e6), (60, 60)),
    "antimeridian": ("mercator", "EPSG:3413", (-3e6, 1e6, 0.5e6, 4e6), (70, 60)),
    "degrees on mercator": ("mercator", "EPSG:4326", (-60, 40, 60, 84), (110, 40)),
    "mercator on degrees": ("degrees", "EPSG:3857", (-8e6, 1e6, 8e6, 19.5e6), (60, 70)),
}
SLOWEST = "south pole, mercator"
"""The map at the north pole differs only in its size."""


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Layers of 1024 pixels around the world: ``floats`` and ``bytes`` of either source."""
    world = World(tmp_path_factory.mktemp("noisy"))
    for name, document, level in (("mercator", MERCATOR, "2"), ("degrees", DEGREES, "0")):
        matrix = next(m for m in document["tileMatrices"] if m["id"] == level)
        shape = (matrix["tileHeight"], matrix["tileWidth"])
        plan = LevelPlan(level, 0, matrix["matrixHeight"] - 1, 0, matrix["matrixWidth"] - 1)

        def floats(level: str, row: int, col: int, shape: tuple[int, int] = shape) -> np.ndarray:
            random = np.random.default_rng([row, col])
            return random.normal(0, 300, (*shape, 1)).astype(np.float32)

        def colours(level: str, row: int, col: int, shape: tuple[int, int] = shape) -> np.ndarray:
            random = np.random.default_rng([row, col])
            return random.integers(0, 256, (*shape, 3), np.uint8)

        common = {"document": document, "levels": [plan], "of_position": False}
        world.add(f"{name} floats", floats, resampling="lanczos_2", **common)
        world.add(
            f"{name} bytes", colours, format="TIFF_RAW_UINT8", channels=3, resampling="bicubic",
            **common,
        )  # fmt: skip
    yield world
    world.close()


def draw(
    world: World,
    name: str,
    kind: str = "floats",
    kernel: str = "lanczos_2",
    part: tuple[int, int, int, int] | None = None,
) -> MapImage:
    """Return a map, or the part of it from and to these rows and columns."""
    source, crs, corners, size = MAPS[name]
    layer = replace(world.layer(f"{source} {kind}"), resampling=kernel)
    if part is None:
        return world.draw(layer, BoundingBox(*corners), crs, size)
    top, bottom, left, right = part
    cell_x, cell_y = (corners[2] - corners[0]) / size[0], (corners[3] - corners[1]) / size[1]
    bbox = BoundingBox(
        corners[0] + left * cell_x,
        corners[3] - bottom * cell_y,
        corners[0] + right * cell_x,
        corners[3] - top * cell_y,
    )
    return world.draw(layer, bbox, crs, (right - left, bottom - top))


def reference(world: World, name: str, kernel: str) -> tuple[np.ndarray, np.ndarray]:
    """Return what pixels should be by their own gradients, and where that is known.

    These are pixels in few rows and columns: each is a loop over its kernel in Python.
    """
    source, crs, corners, size = MAPS[name]
    code, west, north, cell = SOURCES[source]
    width, height = 1024, 1024 if source == "mercator" else 512
    native = BoundingBox(-west, north - height * cell, width * cell - west, north)
    layer = world.layer(f"{source} floats")
    pixels = world.draw(layer, native, code, (width, height)).pixels[:, :, 0].astype(np.float64)
    x, y = pixel_centres(BoundingBox(*corners), size)
    cell_x, cell_y = (corners[2] - corners[0]) / size[0], (corners[3] - corners[1]) / size[1]

    def place(dx: float, dy: float) -> tuple[np.ndarray, np.ndarray]:
        there = transform(crs, code, x + dx * cell_x, y + dy * cell_y)
        return (there[0] + west) / cell - 0.5, (north - there[1]) / cell - 0.5

    columns, rows = place(0, 0)
    halves = [place(dx, dy) for dx, dy in ((0.5, 0), (-0.5, 0), (0, 0.5), (0, -0.5))]
    across = [(half[0] - columns + width / 2) % width - width / 2 for half in halves]
    down = [half[1] - rows for half in halves]
    ratios = [
        np.hypot(abs(steps[0] - steps[1]), abs(steps[2] - steps[3])) for steps in (across, down)
    ]
    result = np.zeros(size[::-1])
    known = np.zeros(size[::-1], np.bool_)
    for i, j in product(range(0, size[1], STEP), range(0, size[0], STEP)):
        if not np.isfinite(ratios[0][i, j] + ratios[1][i, j]) or ratios[0][i, j] > width / 8:
            continue
        weights, taken = [], []
        for position, ratio in ((columns[i, j], ratios[0][i, j]), (rows[i, j], ratios[1][i, j])):
            radius = BASE[kernel] * max(1.0, ratio)
            taps = np.arange(np.ceil(position - radius), np.floor(position + radius) + 1)
            values = evaluate(kernel, np.abs(taps - position) * (BASE[kernel] / radius))
            weights.append(values / values.sum())
            taken.append(taps.astype(int))
        if taken[1][0] < 0 or taken[1][-1] >= height:
            continue
        result[i, j] = weights[1] @ pixels[np.ix_(taken[1], taken[0] % width)] @ weights[0]
        known[i, j] = True
    return result, known


@pytest.mark.sampled(one_in=9)
@pytest.mark.parametrize("kernel", BASE)
@pytest.mark.parametrize("name", MAPS)
def test_kernels_are_as_wide_as_each_place_needs(noisy: World, name: str, kernel: str) -> None:
    """Noise averages out under a kernel, by as much as it is wide."""
    image = draw(noisy, name, kernel=kernel)
    expected, known = reference(noisy, name, kernel)
    known &= valid_of(image)
    assert known[::STEP, ::STEP].mean() > 0.5
    difference = (image.pixels[:, :, 0] - expected)[known]
    # An eighth of a pixel, which a position may be off, is some percent of noise. Along an axis
    # where the ratio hardly varies, kernels end at a whole number of taps.
    assert np.sqrt(np.mean(difference**2)) < 0.13 * np.sqrt(np.mean(expected[known] ** 2))


def test_one_pixel_is_as_wide_as_it_is(noisy: World) -> None:
    """A map of one pixel has no end to take a ratio to."""
    matrix = noisy.layer("degrees floats").pyramid.finest.matrix
    image = noisy.draw("degrees floats", BoundingBox(-4e6, -4e6, 4e6, 4e6), "EPSG:3857", (1, 1))
    assert matrix.cell_size == 360 / 1024
    # Noise of 300 under some ten thousand pixels
    assert abs(image.pixels[0, 0, 0]) < 15


def valid_of(image: MapImage) -> np.ndarray:
    return np.ones(image.pixels.shape[:2], np.bool_) if image.valid is None else image.valid


PARTS = (
    (20, 43, 20, 57),
    (20, 43, 57, 91),
    (43, 83, 20, 57),
    (43, 83, 57, 91),
    (25, 75, 33, 80),
)


@pytest.mark.sampled
@pytest.mark.parametrize("kernel", ["nn", *BASE])
@pytest.mark.parametrize("name", [name for name in MAPS if "pole" in name])
def test_neighbouring_maps_show_the_same(noisy: World, name: str, kernel: str) -> None:
    """Cuts lie at no multiple of any block, and one piece overlaps the others."""
    whole = draw(noisy, name, kernel=kernel)
    for top, bottom, left, right in PARTS:
        piece = draw(noisy, name, kernel=kernel, part=(top, bottom, left, right))
        rows, columns = slice(top, bottom), slice(left, right)
        expected = whole.pixels[rows, columns]
        assert np.array_equal(valid_of(piece), valid_of(whole)[rows, columns])
        assert valid_of(piece).any()
        difference = np.abs(piece.pixels - expected)[valid_of(piece)]
        # Rounding may cut a position to another 1/1024 of a pixel.
        assert (difference > 0.01).mean() < 0.01
        assert np.quantile(difference, 0.99) < 0.01


@pytest.mark.sampled(one_in=5)
@pytest.mark.parametrize("kind", ["floats", "bytes"])
@pytest.mark.parametrize("name", MAPS)
def test_strips_and_single_pixels_are_those_of_the_whole_map(
    noisy: World, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    whole = draw(noisy, name, kind)
    source, crs, corners, size = MAPS[name]
    for rows in (1, 19):
        with monkeypatch.context() as patch:
            patch.setattr(layer_map, "_STRIP_PIXELS", rows * size[0])
            strips = draw(noisy, name, kind)
        difference = np.abs(strips.pixels.astype(np.float64) - whole.pixels)
        assert difference.max() <= (0.01 if kind == "floats" else 1)
        assert (difference > 0.01).mean() < 0.001
        assert np.array_equal(valid_of(strips), valid_of(whole))
    layer = replace(noisy.layer(f"{source} {kind}"), resampling="lanczos_2")
    request = MapRequest((MapLayer(layer, None),), BoundingBox(*corners), CRS.from_code(crs), *size)
    for row, column in ((0, 0), (17, 33), (39, 59)):
        value = noisy.site.renderer.pixel_value(request, layer, row, column)
        assert np.abs(value.astype(np.float64) - whole.pixels[row, column]).max() <= 0.01


@pytest.mark.sampled
@pytest.mark.parametrize("kernel", ["nn", "bicubic", "lanczos_3"])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(SLOWEST, marks=pytest.mark.thorough),
        *(name for name in MAPS if name != SLOWEST),
    ],
)
def test_compiled_and_plain_maps_agree(
    noisy: World, monkeypatch: pytest.MonkeyPatch, name: str, kernel: str
) -> None:
    # Both types share the code of the kernels; only reading and rounding differ.
    for kind in {"nn": ("bytes",), "bicubic": ("floats", "bytes")}.get(kernel, ("floats",)):
        quick = draw(noisy, name, kind, kernel)
        with monkeypatch.context() as patch:
            in_numpy.use(patch)
            plain = draw(noisy, name, kind, kernel)
        difference = np.abs(quick.pixels.astype(np.float64) - plain.pixels)
        assert difference.max() <= (0.01 if kind == "floats" else 1)
        assert (difference > 0.01).mean() < 0.01
