"""Bytes of quantized mesh 1.0 (elevation.md 5.1). All numbers are little-endian."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from mastaba_elevation.queries.ground import Floats
from mastaba_elevation.terrain.mesh.rtin import Numbers

HIGHEST: Final = 32767
"""Largest value of a coordinate in a tile."""

_SHORT: Final = 65536
"""Vertices up to which an index has 16 bits."""
_NORMALS: Final = 1


@dataclass(frozen=True, slots=True, eq=False)
class Vertices:
    """The vertices of a mesh in the order of their first use, n of them.

    Attributes:
        samples: number of each in the grid, shape (n,).
        triangles: numbers of vertices, shape (t, 3).
        codes: the same, as differences to the highest number so far, shape (3 t,).
        edges: vertices on the west, south, east and north edge.
    """

    samples: Numbers
    triangles: Numbers
    codes: Numbers
    edges: tuple[Numbers, Numbers, Numbers, Numbers]


def numbered(triangles: Numbers, size: int) -> Vertices:
    """Return the vertices of triangles.

    Args:
        triangles: numbers of samples, shape (t, 3). All samples on the edges are used.
        size: samples per side of the grid.
    """
    used = triangles.ravel()
    steps = np.arange(len(used))
    first = np.empty(size * size, np.intp)
    # The last assignment counts, which is the first use.
    first[used[::-1]] = steps[::-1]
    is_first = first[used] == steps
    numbers = np.empty(size * size, np.intp)
    samples = used[is_first]
    numbers[samples] = np.arange(len(samples))
    indices = numbers[used]
    codes = np.cumsum(is_first) - is_first - indices
    grid = numbers.reshape(size, size)
    edges = grid[:, 0], grid[0, :], grid[:, -1], grid[-1, :]
    return Vertices(samples, indices.reshape(-1, 3), codes, edges)


@dataclass(frozen=True, slots=True, eq=False)
class Header:
    """What a tile says of itself.

    Attributes:
        centre: of the tile and of its bounding sphere, Earth-centred, metres, shape (3,).
        radius: of the bounding sphere, metres.
        lowest, highest: heights of the codes 0 and 32767, metres, exact as float32.
        horizon: see `globe.horizon_point`.
    """

    centre: Floats
    radius: float
    lowest: float
    highest: float
    horizon: Floats


def encode(
    header: Header,
    vertices: Vertices,
    coordinates: tuple[Numbers, Numbers, Numbers],
    normals: bytes | None = None,
) -> bytes:
    """Return a tile.

    Args:
        coordinates: u to the east, v to the north and h, 0 to 32767, shape (n,) each.
        normals: extension ``octvertexnormals``, two bytes per vertex.
    """
    count = len(vertices.samples)
    is_short = count <= _SHORT
    kind = np.dtype("<u2" if is_short else "<u4")
    parts = [
        struct.pack("<3d2f", *header.centre, header.lowest, header.highest),
        struct.pack("<3dd3d", *header.centre, header.radius, *header.horizon),
        struct.pack("<I", count),
        *map(_zigzag, coordinates),
    ]
    if not is_short:
        # The indices begin at a multiple of their size.
        parts.append(b"\0" * (-sum(map(len, parts)) % kind.itemsize))
    parts += [struct.pack("<I", len(vertices.triangles)), vertices.codes.astype(kind).tobytes()]
    for edge in vertices.edges:
        parts += [struct.pack("<I", len(edge)), edge.astype(kind).tobytes()]
    if normals is not None:
        parts += [struct.pack("<BI", _NORMALS, len(normals)), normals]
    return b"".join(parts)


def _zigzag(values: npt.NDArray[np.intp]) -> bytes:
    """Return differences to the previous value: 0, -1, 1, -2 as 0, 1, 2, 3."""
    steps = np.diff(values, prepend=0)
    return ((steps << 1) ^ (steps >> 63)).astype("<u2").tobytes()
