"""A decoder of quantized mesh 1.0, written from the format, and the geometry of its tiles."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyproj

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

EDGES = ("west", "south", "east", "north")
GEOCENTRIC = pyproj.Transformer.from_crs("EPSG:4979", "EPSG:4978", always_xy=True)


@dataclass(frozen=True, eq=False)
class Tile:
    """A decoded tile with n vertices and t triangles.

    Attributes:
        u, v, h: shape (n,), from 0 to 32767.
        triangles: shape (t, 3).
        edges: vertices by name of the edge.
        extensions: bytes by number.
    """

    centre: Floats
    lowest: float
    highest: float
    sphere: Floats
    radius: float
    horizon: Floats
    u: Integers
    v: Integers
    h: Integers
    triangles: Integers
    edges: dict[str, Integers]
    extensions: dict[int, bytes]

    @property
    def heights(self) -> Floats:
        """Metres, as Cesium computes them."""
        share = self.h / 32767
        return (1 - share) * self.lowest + share * self.highest

    @property
    def step(self) -> float:
        return (self.highest - self.lowest) / 32767

    @property
    def normals(self) -> Floats:
        """Unit vectors, shape (n, 3)."""
        pairs = np.frombuffer(self.extensions[1], np.uint8).reshape(-1, 2) / 255.0 * 2 - 1
        x, y = pairs.T
        z = 1 - np.abs(x) - np.abs(y)
        folded_x = (1 - np.abs(y)) * np.where(x < 0, -1, 1)
        folded_y = (1 - np.abs(x)) * np.where(y < 0, -1, 1)
        vectors = np.stack([np.where(z < 0, folded_x, x), np.where(z < 0, folded_y, y), z], axis=1)
        return vectors / np.linalg.norm(vectors, axis=1)[:, np.newaxis]

    def samples(self, size: int) -> Integers:
        """Return column and row of each vertex in the grid of samples, shape (n, 2)."""
        cells = np.stack([self.u, self.v], axis=1) * (size - 1) / 32767
        found = np.rint(cells).astype(np.int64)
        assert np.array_equal(np.floor(found * 32767 / (size - 1) + 0.5)[:, 0], self.u)
        return found

    def positions(self, box: tuple[float, float, float, float]) -> Floats:
        """Return Earth-centred positions, shape (n, 3)."""
        west, south, east, north = box
        longitude = west + self.u / 32767 * (east - west)
        latitude = south + self.v / 32767 * (north - south)
        return np.stack(GEOCENTRIC.transform(longitude, latitude, self.heights), axis=1)


def box_of(z: int, x: int, y: int) -> tuple[float, float, float, float]:
    """Return west, south, east and north of a tile, degrees."""
    side = 180 / 2**z
    return -180 + x * side, -90 + y * side, -180 + (x + 1) * side, -90 + (y + 1) * side


def decode(data: bytes) -> Tile:
    """Return a tile; every byte of it must be accounted for."""
    numbers = struct.unpack_from("<3d2f4d3d", data)
    (count,) = struct.unpack_from("<I", data, 88)
    at = 92
    columns = []
    for _ in range(3):
        codes = np.frombuffer(data, "<u2", count, at).astype(np.int64)
        columns.append(np.cumsum((codes >> 1) ^ -(codes & 1)))
        at += 2 * count
    size = 4 if count > 65536 else 2
    at += -at % size

    def indices(number: int) -> Integers:
        nonlocal at
        found = np.frombuffer(data, f"<u{size}", number, at).astype(np.int64)
        at += size * number
        return found

    def length() -> int:
        nonlocal at
        (number,) = struct.unpack_from("<I", data, at)
        at += 4
        return int(number)

    codes = indices(3 * length())
    is_new = codes == 0
    # A code is the distance from the number of the vertices that are used so far.
    corners = np.cumsum(is_new) - is_new - codes
    edges = {name: indices(length()) for name in EDGES}
    extensions: dict[int, bytes] = {}
    while at < len(data):
        number, length_of = struct.unpack_from("<BI", data, at)
        extensions[number] = data[at + 5 : at + 5 + length_of]
        at += 5 + length_of
    assert at == len(data)
    return Tile(
        np.array(numbers[:3]),
        numbers[3],
        numbers[4],
        np.array(numbers[5:8]),
        numbers[8],
        np.array(numbers[9:]),
        *columns,
        corners.reshape(-1, 3),
        edges,
        extensions,
    )


def check_topology(tile: Tile, side: int) -> None:
    """Check what every tile must be.

    Args:
        side: vertices on each edge.
    """
    u, v = tile.u, tile.v
    for values in (u, v, tile.h):
        assert values.min() >= 0
        assert values.max() <= 32767
    for name, coordinate, value in (("west", u, 0), ("south", v, 0), ("east", u, 32767),
                                    ("north", v, 32767)):  # fmt: skip
        edge = tile.edges[name]
        assert len(edge) == side
        assert set(edge.tolist()) == set(np.flatnonzero(coordinate == value).tolist())
    places = set(zip(u.tolist(), v.tolist(), strict=True))
    assert len(places) == len(u)
    assert places >= {(0, 0), (0, 32767), (32767, 0), (32767, 32767)}
    assert set(np.unique(tile.triangles).tolist()) == set(range(len(u)))
    x, y = u[tile.triangles], v[tile.triangles]
    areas = (x[:, 1] - x[:, 0]) * (y[:, 2] - y[:, 0]) - (x[:, 2] - x[:, 0]) * (y[:, 1] - y[:, 0])
    assert (areas > 0).all()
    assert areas.sum() == 2 * 32767**2
    # Inside, each edge belongs to two triangles, in both directions; so no vertex is on another
    # edge, and no triangles overlap.
    pairs = np.concatenate([tile.triangles[:, [a, b]] for a, b in ((0, 1), (1, 2), (2, 0))])
    forward = set(map(tuple, pairs.tolist()))
    assert len(forward) == len(pairs)
    alone = [pair for pair in forward if pair[::-1] not in forward]
    assert len(alone) == 4 * (side - 1)


def edge_of(tile: Tile, name: str) -> dict[int, tuple[float, Any]]:
    """Return heights and encoded normals along an edge, by position on it."""
    vertices = tile.edges[name]
    along = (tile.v if name in ("west", "east") else tile.u)[vertices]
    normals = tile.extensions.get(1, b"\0\0" * len(tile.u))
    return {
        int(place): (float(tile.heights[vertex]), normals[2 * vertex : 2 * vertex + 2])
        for place, vertex in zip(along, vertices.tolist(), strict=True)
    }


def surface(tile: Tile, size: int) -> Floats:
    """Return the height of the triangles at each sample of the grid, shape (rows, columns)."""
    result = np.full((size, size), np.nan)
    places, heights = tile.samples(size), tile.heights
    corners = places[tile.triangles]
    lowest = corners.min(axis=1)
    spans = corners.max(axis=1) - lowest
    # All triangles whose boxes have one size at once.
    for span in np.unique(spans, axis=0):
        of_size = (spans == span).all(axis=1)
        left, down = lowest[of_size].T[:, :, np.newaxis, np.newaxis]
        x, y = np.broadcast_arrays(
            left + np.arange(span[0] + 1), down + np.arange(span[1] + 1)[:, np.newaxis]
        )
        (x0, y0), (x1, y1), (x2, y2) = corners[of_size].transpose(1, 2, 0)[
            ..., np.newaxis, np.newaxis
        ]
        double = (x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0)
        second = ((x - x0) * (y2 - y0) - (x2 - x0) * (y - y0)) / double
        third = ((x1 - x0) * (y - y0) - (x - x0) * (y1 - y0)) / double
        first = 1 - second - third
        inside = (first >= 0) & (second >= 0) & (third >= 0)
        a, b, c = heights[tile.triangles[of_size]].T[..., np.newaxis, np.newaxis]
        result[y[inside], x[inside]] = (first * a + second * b + third * c)[inside]
    return result
