"""No map shows a value that nobody measured (resampling.md 5 and 10)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
from tests.render.ground import KERNELS, MESH_CENTRE, MESH_LEVELS, World, around

from mastaba_render.sampling import BASE_RADIUS, radius_of, weights_at

LOW, HIGH = 100.0, 200.0
CRSS = ("EPSG:3857", "EPSG:4326", "EPSG:2154", "EPSG:3035")
"""The same CRS, one with parallel axes, and two oblique ones."""
SCALES = (0.31, 1.0, 1.37, 2.6, 9.0)
SIDE = 100
ROUNDING = 1e-2


def islands(level: str, row: int, col: int) -> npt.NDArray[np.float32] | None:
    """Return a tile of the values 100 and 200 among nodata and values that are no numbers."""
    random = np.random.default_rng([int(level), row, col])
    kind = (row + 2 * col) % 5
    if kind == 4 and row % 4 == 0:
        return None
    pixels = random.choice(np.array([LOW, HIGH], np.float32), (48, 64, 1))
    for value in (-99999, np.nan, np.inf, -np.inf):
        # Single pixels, and larger holes.
        pixels[random.random((48, 64)) < 0.03] = value
        top, left = random.integers(0, 40, 2)
        pixels[top : top + kind * 3, left : left + kind * 2] = value
    if kind == 3:
        # Islands of data, also at the borders of the tile.
        islands = random.random((48, 64)) < 0.05
        islands[[0, -1]] |= random.random((2, 64)) < 0.3
        pixels[~islands] = -99999
    return pixels


@cache
def overshoot(kernel: str) -> float:
    """Return how far a complete kernel leaves the range of its pixels, in parts of that range."""
    most = 1.0
    for ratio in np.linspace(1, 4, 31):
        weights = weights_at(kernel, np.linspace(0, 1, 257), radius_of(kernel, float(ratio)))
        most = max(most, float(np.abs(weights.weights).sum(axis=1).max()))
    # In two dimensions, the weights are products.
    return (most**2 - 1) / 2


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("spoilt"))
    world.add("spoilt", islands, of_position=False, levels=MESH_LEVELS)
    yield world
    world.close()


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("scales", "side"),
    [((1.37,), SIDE), pytest.param(SCALES, 3 * SIDE, marks=pytest.mark.thorough)],
)
@pytest.mark.parametrize("crs", CRSS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_values_stay_in_the_range_of_the_data(
    spoilt: World, kernel: str, crs: str, scales: tuple[float, ...], side: int
) -> None:
    layer = replace(spoilt.layer("spoilt"), resampling=kernel)
    allowed = 0.0 if BASE_RADIUS[kernel] <= 1 else overshoot(kernel) * (HIGH - LOW)
    drawn = 0
    for scale in scales:
        size = 280.0 * side * scale
        box = (size / 77000, size / 111000) if crs == "EPSG:4326" else (size, size)
        image = spoilt.draw(layer, around(crs, *box, MESH_CENTRE), crs, (side, side))
        assert image.valid is not None
        values = image.pixels[image.valid]
        assert np.isfinite(values).all()
        assert values.min() >= LOW - allowed - ROUNDING
        assert values.max() <= HIGH + allowed + ROUNDING
        assert (image.pixels[~image.valid] == -99999).all()
        drawn += len(values)
    assert drawn > side * side * len(scales) / 4


@pytest.mark.sampled
@pytest.mark.parametrize("crs", CRSS)
@pytest.mark.parametrize("kernel", [name for name in KERNELS if BASE_RADIUS[name] > 1])
def test_sharpening_kernels_do_not_overshoot_next_to_gaps(
    world: World, kernel: str, crs: str
) -> None:
    """Nearly each kernel meets a gap, so nearly no pixel leaves the range at all."""

    def lattice(level: str, row: int, col: int) -> npt.NDArray[np.float32]:
        random = np.random.default_rng([int(level), row, col])
        pixels = random.choice(np.array([LOW, HIGH], np.float32), (48, 64, 1))
        pixels[::4, ::4] = -99999
        return pixels

    world.add("lattice", lattice, of_position=False)
    layer = replace(world.layer("lattice"), resampling=kernel)
    size = 40000.0
    box = (size / 77000, size / 111000) if crs == "EPSG:4326" else (size, size)
    # No pixel is in the middle of a source pixel.
    centre = MESH_CENTRE[0] + 13, MESH_CENTRE[1] + 17
    image = world.draw(layer, around(crs, *box, centre), crs, (160, 160))
    assert image.valid is not None
    values = image.pixels[image.valid]
    assert image.valid.mean() > 0.9
    assert ((values < LOW) | (values > HIGH)).mean() < 0.01
