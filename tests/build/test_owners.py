"""Members that pixels come from: rectangles give what an array of all source pixels does."""

from __future__ import annotations

import numpy as np
import pytest

from mastaba_build.pixels.owners import Owners
from mastaba_build.pixels.placement import Placement, Rectangle

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
        assert by_rectangles.only((20, 24, 20, 24)) in (0, by_pixels.only((20, 24, 20, 24)))


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
