"""Which cells a box selects."""

from __future__ import annotations

import random

import pytest

from mastaba_coverage import cells_between


@pytest.mark.parametrize(
    ("low", "high", "area", "post"),
    [
        (0.0, 4.0, (0, 4), (0, 4)),
        (0.5, 3.5, (0, 4), (0, 4)),
        (0.6, 3.4, (0, 4), (1, 3)),
        (0.5, 0.5, (0, 1), (0, 1)),
        (1.0, 1.0, (1, 1), (1, 1)),
        (1.3, 1.3, (1, 2), (1, 1)),
        # Rounding errors of clients: on the edge, and on the post.
        (0.9999, 4.0001, (1, 4), (1, 4)),
        (0.509, 3.491, (0, 4), (0, 4)),
        (0.52, 3.48, (0, 4), (1, 3)),
        (-0.51, 0.2, (-1, 1), (-1, 0)),
    ],
)
def test_cells_of_an_interval(
    low: float, high: float, area: tuple[int, int], post: tuple[int, int]
) -> None:
    assert cells_between(low, high, is_post=False) == area
    assert cells_between(low, high, is_post=True) == post


def test_kilometre_of_posts_at_half_a_metre_has_2001_columns() -> None:
    origin, cell = -0.25, 0.5
    low, high = (886000 - origin) / cell, (887000 - origin) / cell
    first, stop = cells_between(low, high, is_post=True)
    assert stop - first == 2001
    low, high = (885999.75 - origin) / cell, (886999.75 - origin) / cell
    first, stop = cells_between(low, high, is_post=True)
    assert stop - first == 2000


def _meets(cell: int, low: float, high: float, is_post: bool) -> bool:
    if is_post:
        return low - 0.01 <= cell + 0.5 <= high + 0.01
    if high - low <= 0.02 and abs(low - round(low)) <= 0.01:
        return False
    return cell < high - 0.01 and cell + 1 > low + 0.01


@pytest.mark.parametrize("is_post", [False, True])
def test_random_intervals_against_a_search(is_post: bool) -> None:
    source = random.Random(7)
    for _ in range(300):
        low = round(source.uniform(0, 20), 3)
        high = low + round(source.uniform(0.03, 9), 3)
        first, stop = cells_between(low, high, is_post=is_post)
        # The tolerance is inclusive, and the search stays away from where it begins.
        edge = 0.5 if is_post else 0.0
        if any(abs(abs((x - edge) - round(x - edge)) - 0.01) < 1e-6 for x in (low, high)):
            continue
        assert list(range(first, stop)) == [
            cell for cell in range(-2, 40) if _meets(cell, low, high, is_post)
        ], (low, high)
