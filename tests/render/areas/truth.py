"""Areas by seed, and whether a point is in one: plain even-odd tests that know nothing of tiles."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import numpy.typing as npt
import pyproj

Ring = list[tuple[float, float]]
Polygons = list[list[Ring]]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

CENTRE = (1.4, 47.6)
"""Of all areas but those across the antimeridian, degrees."""
STEP = 0.1
"""Pixels between points of an edge."""

_known: list[tuple[Polygons, float, tuple[Floats, Floats]]] = []


def star(source: random.Random, x: float, y: float, count: int, low: float, high: float) -> Ring:
    """Return a ring that winds around a point once."""
    turns = sorted(source.uniform(0, 2 * math.pi) for _ in range(count))
    radii = [source.uniform(low, high) for _ in turns]
    ring = [
        (x + radius * math.cos(turn), y + radius * math.sin(turn))
        for turn, radius in zip(turns, radii, strict=True)
    ]
    return [*ring, ring[0]]


def box(west: float, south: float, east: float, north: float) -> Ring:
    return [(west, south), (east, south), (east, north), (west, north), (west, south)]


def area(seed: int, centre: tuple[float, float] = CENTRE) -> Polygons:
    """Return one of many kinds of areas; about 2 degrees wide, or smaller than a pixel."""
    source = random.Random(seed)
    x, y = centre
    match seed % 8:
        case 0:
            return [[star(source, x, y, 7, 0.3, 1.2)]]
        case 1:  # with a hole, and an island in it
            outer, hole = star(source, x, y, 40, 0.8, 1.2), star(source, x, y, 9, 0.3, 0.6)
            return [[outer, hole], [star(source, x, y, 5, 0.05, 0.2)]]
        case 2:  # a comb: many thin teeth
            teeth = [(x - 1 + 0.05 * n, y + (0.9 if n % 2 else -0.8)) for n in range(41)]
            return [[[*teeth, (x + 1, y - 1), (x - 1, y - 1), teeth[0]]]]
        case 3:  # a sliver
            slope = source.uniform(-0.8, 0.8)
            one = [(x - 1.2, y - slope), (x + 1.2, y + slope), (x + 1.2, y + slope + 0.004)]
            return [[[*one, one[0]]]]
        case 4:  # smaller than a pixel
            west, south = x + source.uniform(-0.5, 0.5), y + source.uniform(-0.5, 0.5)
            return [[box(west, south, west + 1e-4, south + 1e-4)]]
        case 5:  # polygons that overlap
            return [[star(source, x + dx, y, 12, 0.3, 0.7)] for dx in (-0.5, 0.0, 0.5)]
        case 6:  # larger than everything, with a hole
            return [[box(-180, -80, 180, 80), star(source, x, y, 20, 0.4, 0.9)]]
        case _:
            if seed > 30:
                return [[star(source, x, y, 50_000, 1.0, 1.02)]]
            return [[star(source, x, y, 500, 0.5, 1.2)]]


def geojson(polygons: Polygons) -> dict[str, Any]:
    return {
        "type": "MultiPolygon",
        "coordinates": [[list(map(list, r)) for r in p] for p in polygons],
    }


def inside(polygons: Polygons, x: Floats, y: Floats, crs: str = "EPSG:3857") -> Mask:
    """Return which points of a CRS are in an area of degrees."""
    transformer = pyproj.Transformer.from_crs(crs, "OGC:CRS84", always_xy=True)
    lon, lat = transformer.transform(x, y)
    found = np.zeros(np.shape(lon), np.bool_)
    for polygon in polygons:
        far = max(abs(x) for x, _ in polygon[0])
        for turn in (0, -360, 360) if far > 180 else (0,):
            odd = np.zeros(found.shape, np.bool_)
            for ring in polygon:
                odd ^= _odd(np.array(ring), lon.ravel() + turn, lat.ravel()).reshape(found.shape)
            found |= odd
    return found


def _odd(ring: Floats, x: Floats, y: Floats) -> Mask:
    odd = np.zeros(x.shape, np.bool_)
    edges = _crossed(np.hstack([ring[:-1], ring[1:]]), y)
    for start in range(0, len(x), 256):
        part = slice(start, start + 256)
        px, py = x[part, np.newaxis], y[part, np.newaxis]
        x0, y0, x1, y1 = _crossed(edges, py).T
        with np.errstate(divide="ignore", invalid="ignore"):
            at = x0 + (py - y0) * (x1 - x0) / (y1 - y0)
        odd[part] = (((y0 > py) != (y1 > py)) & (px < at)).sum(axis=1) % 2 == 1
    return odd


def _crossed(edges: Floats, y: Floats) -> Floats:
    """Return the edges, each x0, y0, x1 and y1, that a row of some points may cross."""
    low, high = edges[:, 1::2].min(axis=1), edges[:, 1::2].max(axis=1)
    return edges[(high >= y.min()) & (low <= y.max())]


def certain(polygons: Polygons, x: Floats, y: Floats, reach: float) -> tuple[Mask, Mask]:
    """Return which pixels are inside, and which outside, without those near to an edge.

    Args:
        x, y: of the middles of a grid of pixels, EPSG:3857.
        reach: distance of an edge, in pixels.
    """
    # The differences of positions in each tile have other last digits, and edges are kept by cell.
    cell = float(f"{x[0, 1] - x[0, 0]:.9g}")
    edges = _along(polygons, cell)
    across = (edges[0] - x[0, 0]) / cell
    down = (y[0, 0] - edges[1]) / cell
    rows, columns = x.shape
    here = (across > -9) & (across < columns + 9) & (down > -9) & (down < rows + 9)
    across, down = across[here], down[here]
    near = np.zeros((rows + 40, columns + 40), np.bool_)
    around = range(-math.ceil(reach) - 1, math.ceil(reach) + 2)
    for row_step in around:
        for col_step in around:
            row, col = np.round(down) + row_step, np.round(across) + col_step
            meets = np.hypot(row - down, col - across) <= reach + STEP
            near[row[meets].astype(int) + 20, col[meets].astype(int) + 20] = True
    near = near[20 : rows + 20, 20 : columns + 20]
    found = inside(polygons, x, y)
    return found & ~near, ~found & ~near


def _along(polygons: Polygons, cell: float) -> tuple[Floats, Floats]:
    """Return points on all edges, not further apart than a part of a pixel, EPSG:3857."""
    if not _known or _known[0][0] is not polygons or _known[0][1] != cell:
        transformer = pyproj.Transformer.from_crs("OGC:CRS84", "EPSG:3857", always_xy=True)
        parts = []
        for ring in (ring for polygon in polygons for ring in polygon):
            points = np.array(ring)
            ends = np.stack(transformer.transform(*points.T), axis=1)
            length = np.abs(np.diff(ends, axis=0)).max(axis=1)
            # Edges that go around the Earth are not near.
            counts = np.minimum(np.ceil(length * 1.5 / (STEP * cell)), 100_000).astype(int) + 1
            for start, end, count in zip(points[:-1], points[1:], counts, strict=True):
                parts.append(start + np.linspace(0, 1, count)[:, np.newaxis] * (end - start))
        _known[:] = [(polygons, cell, transformer.transform(*np.concatenate(parts).T))]
    return _known[0][2]
