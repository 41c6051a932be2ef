"""Sampling against a sampler in plain Python (elevation.md 1.1 to 1.4)."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from tests.elevation.world import ALPS, GROUNDS, MERC, WORLD, Ground, plain_sample

from mastaba.api.catalogue import CRS
from mastaba_elevation.errors import TooMuchError
from mastaba_elevation.queries.levels import Budget
from mastaba_elevation.queries.sampling import SamplingOptions, resolutions, sample
from mastaba_elevation.queries.taps import METHODS, heights_of

TOLERANCE = 1e-6
EXTENTS = {
    "world": (-180.0, -90.0, 180.0, 90.0),
    "alps": (899900.0, 6598620.0, 901380.0, 6600100.0),
    "merc": (-2600000.0, 5900000.0, 5100000.0, 12600000.0),
}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("method", sorted(METHODS))
def test_no_height_next_to_a_hole_leaves_the_range_of_its_pixels(method: str, strict: bool) -> None:
    random = np.random.default_rng(3)
    taps = METHODS[method](random.uniform(0, 9, 50_000), random.uniform(0, 9, 50_000))
    shape = taps.weights.shape
    valid = random.random(shape) < random.choice([0.6, 0.9, 1.0], (shape[0], 1))
    values = np.where(valid, random.choice([100.0, 200.0], shape), 0.0)
    heights = heights_of(taps, values, valid, strict=strict)
    some = ~valid.all(axis=1) & ~np.isnan(heights)
    counts = valid & (taps.weights != 0)
    low = np.where(counts, values, np.inf).min(axis=1)
    high = np.where(counts, values, -np.inf).max(axis=1)
    if not strict and method != "nearest":
        assert some.any()
    assert (heights[some] >= low[some] - 1e-9).all()
    assert (heights[some] <= high[some] + 1e-9).all()


def positions(ground: Ground, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return random positions around a ground, many near edges of pixels and tiles."""
    dice = random.Random(ground.name)
    west, south, east, north = EXTENTS[ground.name]
    cell, left, top, _ = ground.matrix(ground.names[0])
    x, y = [], []
    for number in range(count):
        px, py = dice.uniform(west, east), dice.uniform(south, north)
        if number % 3 == 1:  # close to the edge of a pixel
            px = left + round((px - left) / cell) * cell + dice.choice((0, 1e-7, -1e-7)) * cell
        if number % 3 == 2:  # close to the centre of a pixel
            py = top - (math.floor((top - py) / cell) + 0.5) * cell
        x.append(px)
        y.append(py)
    return np.array(x), np.array(y)


def sampled(client: Any, name: str, x: Any, y: Any, code: str, options: SamplingOptions) -> Any:
    site = client.application.site
    dataset = site.services["elevation"]._datasets[name]
    equivalences = site.catalogue.settings.equivalences
    budget = Budget(10**6, 10**12)
    return sample(
        dataset,
        np.asarray(x, float),
        np.asarray(y, float),
        CRS.from_code(code),
        options,
        budget,
        equivalences,
    )


@pytest.mark.parametrize("ground", GROUNDS, ids=lambda ground: ground.name)
@pytest.mark.parametrize(
    ("method", "strict"), [("nearest", False), ("bilinear", False), ("bilinear", True)]
)
def test_heights_are_those_of_a_plain_sampler(
    client: Any, ground: Ground, method: str, strict: bool
) -> None:
    x, y = positions(ground, 600)
    found = sampled(
        client,
        ground.name,
        x,
        y,
        str(ground.document["crs"]),
        SamplingOptions(method, strict=strict),
    )
    heights = 0
    for number in range(len(x)):
        wanted, level = plain_sample(ground, x[number], y[number], method, strict=strict)
        height = found.heights[number]
        assert math.isnan(height) == (wanted is None), (x[number], y[number])
        if wanted is not None:
            heights += 1
            error = abs(height - wanted)
            assert error <= (0 if method == "nearest" else TOLERANCE), (x[number], y[number])
            assert ground.names[found.levels[number]] == level
    assert heights > 100


def test_pixel_centres_are_the_stored_numbers(client: Any) -> None:
    cell, left, top, _ = ALPS.matrix("2")
    i, j = np.meshgrid(np.arange(0, 40), np.arange(0, 40))
    x, y = left + (i.ravel() + 0.5) * cell, top - (j.ravel() + 0.5) * cell
    for method in ("nearest", "bilinear", "cubic"):
        found = sampled(
            client, "alps", x, y, "EPSG:2154", SamplingOptions(method, strict=True)
        ).heights
        for number, height in enumerate(found):
            wanted = ALPS.pixel("2", int(i.ravel()[number]), int(j.ravel()[number]))
            assert math.isnan(height) if wanted is None else height == wanted


def test_other_crs_gives_the_same_heights(client: Any) -> None:
    x, y = positions(ALPS, 200)
    native = CRS.from_code("EPSG:2154")
    from mastaba.api.catalogue import WGS84, transform_points

    lon, lat = transform_points(native, WGS84, x, y)
    here = sampled(client, "alps", x, y, "EPSG:2154", SamplingOptions("bilinear")).heights
    there = sampled(client, "alps", lon, lat, "CRS:84", SamplingOptions("bilinear")).heights
    both = ~np.isnan(here) & ~np.isnan(there)
    assert both.sum() > 100
    # A degree of PROJ is exact to about a tenth of a millimetre; slopes here reach one.
    assert np.abs(here[both] - there[both]).max() < 1e-2


def test_both_sides_of_the_antimeridian_agree(client: Any) -> None:
    y = np.linspace(-80, 80, 50)
    for method in ("nearest", "bilinear"):
        east = sampled(
            client, "world", np.full(50, 180.0), y, "CRS:84", SamplingOptions(method)
        ).heights
        west = sampled(
            client, "world", np.full(50, -180.0), y, "CRS:84", SamplingOptions(method)
        ).heights
        beyond = sampled(
            client, "world", np.full(50, 540.0), y, "CRS:84", SamplingOptions(method)
        ).heights
        assert np.array_equal(east, west, equal_nan=True)
        assert np.array_equal(east, beyond, equal_nan=True)
        assert (~np.isnan(east)).sum() > 40


def test_seam_is_interpolated_across(client: Any) -> None:
    cell = WORLD.matrix("3")[0]
    x = 180 - cell / 4
    y = 90 - 40.5 * cell
    last, first = WORLD.pixel("3", 16 * 16 - 1, 40), WORLD.pixel("3", 0, 40)
    assert last is not None
    assert first is not None
    found = sampled(client, "world", [x], [y], "CRS:84", SamplingOptions("bilinear")).heights[0]
    assert found == pytest.approx(0.75 * last + 0.25 * first, abs=TOLERANCE)


def test_right_and_lower_edge_belong_to_the_last_pixel(client: Any) -> None:
    found = sampled(
        client,
        "alps",
        [901280.0, 900005.0],
        [6599995.0, 6598720.0],
        "EPSG:2154",
        SamplingOptions("nearest"),
    ).heights
    assert found[0] == ALPS.pixel("2", 127, 0)
    assert found[1] == ALPS.pixel("2", 0, 127)


def test_layers_answer_in_order(client: Any) -> None:
    """A hole or the outside of a layer goes on to the next one; layers are never mixed."""
    from mastaba.api.catalogue import WGS84, transform_points

    x, y = positions(ALPS, 120)
    lon, lat = transform_points(CRS.from_code("EPSG:2154"), WGS84, x, y)
    found = sampled(client, "stack", lon, lat, "CRS:84", SamplingOptions("bilinear"))
    assert set(found.layers) == {0, 1} or set(found.layers) == {0, 2} or 0 in found.layers
    far = sampled(
        client, "stack", [-100.0, 12.0], [40.0, 0.0], "CRS:84", SamplingOptions("bilinear")
    )
    assert far.layers.tolist() == [2, 2]


@pytest.mark.parametrize(
    ("metres", "level"), [(1, "2"), (10, "2"), (17, "1"), (36, "0"), (1e4, "0")]
)
def test_resolution_selects_the_level(client: Any, metres: float, level: str) -> None:
    found = sampled(
        client,
        "alps",
        [900005.0],
        [6599995.0],
        "EPSG:2154",
        SamplingOptions("nearest", resolution=metres),
    )
    assert ALPS.names[found.levels[0]] == level
    assert found.heights[0] == plain_level(level, 900005.0, 6599995.0)


def plain_level(level: str, x: float, y: float) -> float | None:
    cell, left, top, _ = ALPS.matrix(level)
    return ALPS.pixel(level, math.floor((x - left) / cell), math.floor((top - y) / cell))


def test_resolution_is_on_the_ground(client: Any) -> None:
    site = client.application.site
    service = site.services["elevation"]
    dataset = service._datasets["merc"]
    x, y = np.array([10.0]), np.array([55.0])
    found = sampled(client, "merc", x, y, "CRS:84", SamplingOptions("bilinear"))
    cell = resolutions(dataset, found, CRS.from_code("CRS:84"), x, y)[0]
    level = MERC.names[found.levels[0]]
    assert cell == pytest.approx(MERC.matrix(level)[0] * math.cos(math.radians(55)), rel=1e-9)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e308, -1e308, 1e20])
@pytest.mark.parametrize("code", ["CRS:84", "EPSG:3857", "EPSG:2154"])
def test_impossible_positions_have_no_height(client: Any, bad: float, code: str) -> None:
    with np.errstate(invalid="ignore"):
        found = sampled(
            client, "stack", [bad, 7.0, bad], [45.0, bad, bad], code, SamplingOptions("cubic")
        )
    assert np.isnan(found.heights).all()


def test_values_outside_the_range_are_holes(open_with: Any) -> None:
    client = open_with({"valid_range": [1700, 2300]})
    x, y = positions(ALPS, 300)
    found = sampled(client, "alps", x, y, "EPSG:2154", SamplingOptions("nearest")).heights
    known = found[~np.isnan(found)]
    assert len(known) > 20
    assert known.min() >= 1700
    assert known.max() <= 2300


def test_too_many_tiles_are_refused_before_anything_is_read(client: Any) -> None:
    site = client.application.site
    dataset = site.services["elevation"]._datasets["world"]
    x, y = positions(WORLD, 500)
    budget = Budget(20, 10**9)
    with pytest.raises(TooMuchError):
        sample(
            dataset,
            x,
            y,
            CRS.from_code("CRS:84"),
            SamplingOptions("bilinear"),
            budget,
            site.catalogue.settings.equivalences,
        )
    assert budget == Budget(20, 10**9)
