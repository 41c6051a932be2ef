"""Which cells a polygon meets, and what it covers of them, against shapely (elevation.md 1.6)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
import shapely

from mastaba_elevation.errors import TooMuchError
from mastaba_elevation.queries.overlap import overlap
from mastaba_elevation.queries.polygons import MOST_PIECES, closed, edges_of, inside, met, pieces_of

Floats = npt.NDArray[np.float64]


def even_odd(ring: Floats) -> shapely.Geometry:
    """Return the faces of a ring that crosses itself whose number of crossings is odd."""
    noded = shapely.unary_union(shapely.LineString(ring))
    faces = shapely.get_parts(shapely.polygonize([noded]))
    kept = []
    for face in faces:
        (x, y), count = face.representative_point().coords[0], 0
        for (ax, ay), (bx, by) in pairwise(ring):
            count += (ay > y) != (by > y) and x < ax + (y - ay) * (bx - ax) / (by - ay)
        if count % 2:
            kept.append(face)
    return shapely.unary_union(kept)


def reference(rings: list[Floats], rows: int, columns: int) -> Floats:
    shape = shapely.Polygon()
    for ring in rings:
        shape = shape.symmetric_difference(even_odd(ring))
    cells = [[shapely.box(c, r, c + 1, r + 1) for c in range(columns)] for r in range(rows)]
    return np.asarray(shapely.area(shapely.intersection(shape, np.array(cells))))


def odd_rings(dice: np.random.Generator, kind: str) -> list[Floats]:
    """Return rings that cross themselves and each other, inside and outside of the window."""
    rings = []
    for _ in range(dice.integers(1, 4)):
        points = dice.uniform(-2, 10, (dice.integers(3, 9), 2))
        if kind == "on sides":
            points = np.round(points)
        elif kind == "on halves":
            points = np.round(points * 2) / 2
        elif kind == "small":
            points = points * 0.05 + dice.uniform(0, 5)
        elif kind == "zero length":
            points = np.repeat(np.round(points), 2, axis=0)
        elif kind == "spikes":
            points = np.concatenate([points, points[-2:0:-1], points[1:3]])
        elif kind == "upright":
            points = np.repeat(np.round(points), 2, axis=0).ravel()[1:-1].reshape(-1, 2)
        rings.append(closed(points))
    return rings


KINDS = ("any", "on sides", "on halves", "small", "zero length", "spikes", "upright")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [8, pytest.param(150, marks=pytest.mark.thorough)])
def test_covered_part_of_each_cell_is_exact(kind: str, count: int) -> None:
    dice = np.random.default_rng(len(kind))
    for _ in range(count):
        rings = odd_rings(dice, kind)
        rows, columns = dice.integers(1, 9, 2).tolist()
        top, left = dice.integers(-20, 1000, 2).tolist()
        edges = edges_of([ring + np.array((left, top)) for ring in rings])
        window = top, top + rows, left, left + columns
        wanted = reference(rings, rows, columns)
        np.testing.assert_allclose(overlap(edges, *window), wanted, rtol=0, atol=2e-7)
        found = met(edges, *window)
        assert found[wanted > 1e-5].all()


def test_many_edges_in_few_cells() -> None:
    angle = np.linspace(0, 2 * np.pi, 5000, endpoint=False)
    radius = 3 + np.random.default_rng(1).uniform(0, 0.001, len(angle))
    ring = closed(np.column_stack([5 + radius * np.cos(angle), 5 + radius * np.sin(angle)]))
    found = overlap(edges_of([ring]), 0, 10, 0, 10)
    cells = np.array([[shapely.box(c, r, c + 1, r + 1) for c in range(10)] for r in range(10)])
    wanted = shapely.area(shapely.intersection(shapely.Polygon(ring), cells))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize("width", [1e-5, 0.01, 0.3, 1.0])
def test_narrow_shape_meets_every_cell_on_its_way(width: float) -> None:
    along = np.array([(0.5, 0.45), (19.5, 8.55)])
    across = np.array([-8.1, 19.0]) / np.hypot(8.1, 19.0) * width / 2
    ring = closed(np.concatenate([along + across, along[::-1] - across]))
    found = met(edges_of([ring]), 0, 10, 0, 20)
    cells = np.array([[shapely.box(c, r, c + 1, r + 1) for c in range(20)] for r in range(10)])
    shared = shapely.area(shapely.intersection(shapely.Polygon(ring), cells))
    assert found.any(axis=0).all()
    assert (found == (shared > 0)).all()


def test_shape_along_the_sides_of_cells_meets_only_those_inside() -> None:
    box = closed(np.array([(2.0, 3.0), (5.0, 3.0), (5.0, 7.0), (2.0, 7.0)]))
    wanted = np.zeros((9, 9), bool)
    wanted[3:7, 2:5] = True
    assert (met(edges_of([box]), 0, 9, 0, 9) == wanted).all()
    assert (overlap(edges_of([box]), 0, 9, 0, 9) == wanted).all()


def test_shape_thinner_than_rounding_errors_meets_a_cell() -> None:
    thin = np.array([(2.0, 3.5), (2.0 + 1e-9, 3.5), (2.0 + 1e-9, 4.5), (2.0, 3.5)])
    assert met(edges_of([thin]), 0, 9, 0, 9).any()


def test_union_of_rings_of_one_direction() -> None:
    square = np.array([(0.0, 0.0), (4.0, 0.0), (4.0, 4.0), (0.0, 4.0), (0.0, 0.0)])
    edges = np.concatenate([np.hstack([r[:-1], r[1:]]) for r in (square, square + 2)])
    assert inside(edges, 0, 6, 0, 6, union=True).sum() == 28
    assert inside(edges, 0, 6, 0, 6).sum() == 24


def test_edges_that_occur_twice_are_not_counted() -> None:
    square = np.array([(0.0, 0.0), (4.0, 0.0), (4.0, 4.0), (0.0, 4.0), (0.0, 0.0)])
    assert len(edges_of([square] * 2000)) == 0
    assert len(edges_of([square] * 2001)) == 4
    assert len(edges_of([square, square[::-1]])) == 0


def test_work_is_counted_before_it_is_done() -> None:
    teeth = np.column_stack([np.arange(5000) / 10, np.arange(5000) % 2 * 1000.0])
    edges = edges_of([closed(teeth)])
    assert pieces_of(edges, 0, 1000) > MOST_PIECES
    for kind in (overlap, met, inside):
        with pytest.raises(TooMuchError):
            kind(edges, 0, 1000, 0, 1000)
    crowd = edges_of([closed(np.random.default_rng(3).uniform(0, 1, (20_000, 2)))])
    with pytest.raises(TooMuchError):
        overlap(crowd, 0, 1000, 0, 1000)
