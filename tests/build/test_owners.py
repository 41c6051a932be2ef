"""Members that pixels come from: rectangles give what an array of all source pixels does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from affine import Affine
from tests.build.conftest import plan_in
from tests.build.ground import write_raster

from mastaba_build.pixels.owners import Owners
from mastaba_build.pixels.placement import Placement, Rectangle
from mastaba_build.pixels.reading import Reader

SIDE, STEP = 64, 16
WINDOW = (-8, 120, -8, 120)
Members = list[tuple[int, Rectangle]]


def members_of(generator: np.random.Generator) -> Members:
    """Return members that overlap and leave gaps, also with the edges of pixels on theirs."""
    found: Members = []
    for number in range(1, 6):
        top, left = generator.integers(-8, 70, 2).tolist()
        height, width = generator.integers(4, 60, 2).tolist()
        found.append((number, (top, min(top + height, 120), left, min(left + width, 120))))
    return found


def bent(generator: np.random.Generator) -> Placement:
    """Return a tile whose pixels are between the points of an uneven grid."""
    points = np.arange(0, SIDE + 1, STEP, dtype=float)
    turn = generator.uniform(-0.3, 0.3)
    y, x = np.meshgrid(points, points, indexing="ij")
    fields = np.stack([x * 1.3 + y * turn, y * 1.3 - x * turn]) + 15
    if generator.random() < 0.3:
        fields = np.round(fields) - 0.5
    fields += generator.uniform(-1, 1, fields.shape) * generator.choice([0.0, 1.0])
    if generator.random() < 0.2:
        fields[:, 0, 0] = np.nan
    return Placement((0, SIDE, 0, SIDE), points, points, (1.3, 1.3), "linear", 1, fields)


@pytest.mark.parametrize("paints", [False, True])
def test_rectangles_give_the_members_of_each_source_pixel(paints: bool) -> None:
    generator = np.random.default_rng(4)
    for _ in range(20):
        members, placement = members_of(generator), bent(generator)
        # Gaps are narrow, or each of their pixels looks for its neighbours.
        members.insert(0 if paints else len(members), (6, (2, 118, 19, 118)))
        by_rectangles = Owners(WINDOW, np.uint16, paints=paints)
        by_pixels = Owners(WINDOW, np.uint16, paints=paints)
        # A member without a pixel makes the array.
        by_pixels.note(9, (0, 1, 0, 1), np.zeros((1, 1), bool))
        for number, area in members:
            by_rectangles.note(number, area, None)
            by_pixels.note(number, area, None)
        window = WINDOW
        valid = generator.random((SIDE, SIDE)) < 0.9
        assert placement.fields is not None
        valid[:STEP, :STEP] &= bool(np.isfinite(placement.fields).all())
        expected = by_pixels.of(placement, window, valid)
        found = by_rectangles.of(placement, window, valid)
        assert np.array_equal(found[valid], expected[valid])
        for top, left in generator.integers(-8, 116, (20, 2)).tolist():
            part = (top, top + 4, left, left + 4)
            assert by_rectangles.only(part) == by_pixels.only(part)


@pytest.mark.parametrize("paints", [False, True])
def test_a_window_in_one_member_has_only_this_one(paints: bool) -> None:
    owners = Owners((0, 12, 0, 12), np.uint16, paints=paints)
    upper, other, lower = (2, (0, 4, 0, 4)), (3, (6, 10, 0, 4)), (1, (0, 4, 0, 12))
    for member, area in (lower, other, upper) if paints else (upper, other, lower):
        owners.note(member, area, None)
    assert owners.only((0, 4, 0, 4)) == owners.only((1, 3, 1, 3)) == 2
    assert owners.only((6, 8, 0, 4)) == 3
    assert owners.only((0, 4, 4, 9)) == 1
    for across in ((0, 4, 3, 5), (3, 7, 0, 4), (5, 7, 1, 3), (9, 11, 0, 4)):
        assert owners.only(across) == 0
    # Noted later, but also asked.
    owners.note(4, (10, 12, 4, 12), None)
    assert owners.only((10, 12, 5, 7)) == 4


class Noted(tuple[int, ...]):
    """A rectangle that counts how often it is looked at."""

    looks = 0

    def __iter__(self) -> Iterator[int]:
        Noted.looks += 1
        return super().__iter__()


@pytest.mark.parametrize(("size", "most"), [(16, 49), (48, 9)])
def test_a_tile_is_compared_with_the_members_that_it_meets(size: int, most: int) -> None:
    """Members are many and small, so a tile meets few of them."""
    generator = np.random.default_rng(5)
    across, window = 40, (0, 40 * size, 0, 40 * size)
    by_rectangles = Owners(window, np.uint16, paints=False)
    by_pixels = Owners(window, np.uint16, paints=False)
    by_pixels.note(9, (0, 1, 0, 1), np.zeros((1, 1), bool))
    for number in range(across * across):
        top, left = number // across * size, number % across * size
        area = Noted((top, top + size, left, left + size))
        for owners in (by_rectangles, by_pixels):
            owners.note(number + 1, cast("Rectangle", area), None)
    valid = np.ones((SIDE, SIDE), bool)
    by_rectangles.only((0, 1, 0, 1))
    Noted.looks = 0
    points = np.arange(0, SIDE + 1, STEP, dtype=float)
    y, x = np.meshgrid(points, points, indexing="ij")
    for top, left in generator.integers(0, 40 * size - 100, (20, 2)).tolist():
        fields = np.stack([x * 1.3 + y * 0.05 + left, y * 1.3 - x * 0.01 + top + 1])
        placement = Placement((0, SIDE, 0, SIDE), points, points, (1.3, 1.3), "linear", 1, fields)
        part = (top, top + 87, left, left + 90)
        found = by_rectangles.of(placement, part, valid)
        assert np.array_equal(found, by_pixels.of(placement, part, valid))
    assert 20 < Noted.looks <= 20 * 2 * most


def test_columns_after_a_full_turn_have_the_same_members(tmp_path: Path) -> None:
    """A window of a group around the Earth begins before it, or ends after it."""
    west, middle, east = (
        {
            "path": str(
                write_raster(
                    tmp_path / f"{value}.tif",
                    np.full((1, 18, columns), value, np.float32),
                    Affine(10, 0, left, 0, -10, 90),
                    "EPSG:4326",
                )
            )
        }
        for value, left, columns in ((1, -180, 10), (2, -80, 11), (3, 30, 15))
    )
    plan = plan_in(tmp_path, west, middle, east, format="zip")
    (group,) = plan.groups
    assert group.closed_turn == 36
    reader = Reader(plan.source_type, "average", plan.configuration.access)
    places = np.arange(18) + 0.5
    for left, right in ((-20, 20), (-5, 12), (30, 50), (0, 36)):
        window = (0, 18, left, right)
        owners = Owners(window, np.uint16, paints=False)
        stored = reader.read(group, window, 1, owners)
        columns = np.arange(left, right) + 0.5
        found = owners.at(
            (places[:, np.newaxis], columns[np.newaxis]), window, np.ones(stored.valid.shape, bool)
        )
        expected = np.repeat([1, 2, 3], [10, 11, 15])[np.arange(left, right) % 36]
        assert (found == expected).all()
        assert (stored.samples[:, :, 0] == expected).all()
    reader.close()


@pytest.mark.parametrize("paints", [False, True])
def test_a_gap_in_a_member_shows_what_is_below(paints: bool) -> None:
    owners = Owners((0, 4, 0, 4), np.uint16, paints=paints)
    lower, upper = (1, (0, 4, 0, 4), None), (2, (0, 2, 0, 4), np.eye(2, 4, dtype=bool))
    for member, area, where in (lower, upper) if paints else (upper, lower):
        owners.note(member, area, where)
    middle = np.arange(4, dtype=np.float64) + 0.5
    places = middle[:, np.newaxis], middle[np.newaxis]
    found = owners.at(places, (0, 4, 0, 4), np.ones((4, 4), bool))
    assert found.tolist() == [[2, 1, 1, 1], [1, 2, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]]
    assert owners.only((2, 4, 0, 4)) == 1
    assert owners.only((0, 4, 0, 4)) == 0
