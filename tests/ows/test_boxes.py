"""Coordinates and boxes in documents."""

from __future__ import annotations

import pytest

from mastaba.api.catalogue import BoundingBox
from mastaba_ows.boxes import bounds, centre, polygon, rounded


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.1 + 0.2, 0.3),
        (1 / 3, 0.333333333333333),
        (-20037508.342789244, -20037508.3427892),
        (0, 0),
    ],
)
def test_numbers_have_15_digits(value: float, written: float) -> None:
    assert rounded(value) == written
    assert isinstance(rounded(value), float)


def test_bounds_are_west_south_east_north() -> None:
    assert bounds(BoundingBox(0.1 + 0.2, -1.0, 2.0, 3.5)) == [0.3, -1.0, 2.0, 3.5]


def test_the_centre_of_a_symmetric_box_is_zero() -> None:
    found = centre(BoundingBox(-179.99999999999997, -85.0511287798066, 180.0, 85.05112877980659))
    assert list(map(repr, found)) == ["0.0", "0.0"]
    assert centre(BoundingBox(5.0, 43.0, 6.0, 44.5)) == [5.5, 43.75]


def test_polygons_are_counterclockwise_and_divided_at_the_antimeridian() -> None:
    ring = [[1, 2], [3, 2], [3, 4], [1, 4], [1, 2]]
    assert polygon([1, 2, 3, 4]) == {"type": "Polygon", "coordinates": [ring]}
    west = [[170, 2], [180, 2], [180, 4], [170, 4], [170, 2]]
    east = [[-180, 2], [-170, 2], [-170, 4], [-180, 4], [-180, 2]]
    assert polygon([170, 2, -170, 4]) == {"type": "MultiPolygon", "coordinates": [[west], [east]]}
