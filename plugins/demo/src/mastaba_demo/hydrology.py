"""Rivers of a region and the valleys that they carve.

Water is routed over a square grid of elevations. Depressions are half filled and half cut
through. Rivers then deepen their beds, and the land beside them slopes down to the bed.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mastaba_demo.noise import Field, Window, gradient_noise
from mastaba_demo.terrain import Valleys, World, evaluate

_NEIGHBOURS = ((-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1))
_SOURCE_AREA = 60  # cells that feed the start of a river
_SIDE_SLOPE = 0.16  # slope of the land beside a river
_REACH = 14  # width of a valley on each side of its river, in cells


@dataclass(frozen=True, slots=True)
class River:
    """A reach of a river: from a source or junction down to the next junction or the sea.

    Attributes:
        points: positions in the unit square, shape (n, 2), in downstream order.
        area: square kilometres drained at the lower end.
        bounds: minimum x, minimum y, maximum x, maximum y.
    """

    points: NDArray[np.float64]
    area: float
    bounds: tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Drainage:
    """The rivers of a region, its valleys, and its elevations after erosion.

    Attributes:
        rivers: reaches, the smallest area first.
        valleys: input of `terrain.evaluate`.
        elevation: metres at the nodes of the grid of `valleys`.
        area: cells drained through each node.
    """

    rivers: tuple[River, ...]
    valleys: Valleys
    elevation: Field
    area: NDArray[np.int64]


def drain(window: Window, world: World) -> Drainage:
    """Route the water of a window, one node per pixel."""
    terrain = evaluate(window, world, margin=0)
    height = terrain.elevation
    filled, order, parent = _flood(height)
    area, reaches_sea = _accumulate(height, order, parent)
    half_filled = height + (filled - height) * np.float32(0.5)
    is_river = (area >= _SOURCE_AREA) & reaches_sea & (height > 0)
    bed = _beds(half_filled, order, parent, is_river, area)
    target, distance = _slopes(bed, terrain.cell_size)
    carved = np.where(height > 0, np.minimum(half_filled, target), height)
    fade = _border_fade(window.size)
    spacing = 1 / window.world
    valleys = Valleys(
        left=(window.left + 0.5) * spacing,
        top=(window.top + 0.5) * spacing,
        spacing=spacing,
        change=_blurred(carved - height) * fade,
        floor=_blurred(np.clip(1.6 - distance, 0, 1).astype(np.float32)) * fade,
    )
    cell_area = (terrain.cell_size / 1000) ** 2
    rivers = _trace(is_river, parent, area, window, cell_area, world.seed)
    return Drainage(rivers, valleys, height + valleys.change, area)


def _flood(height: Field) -> tuple[Field, list[int], NDArray[np.int64]]:
    """Flood the land from the sea and the border, lowest cells first.

    Returns:
        the elevations with depressions filled; the land cells in the order of flooding; and
        for each cell the neighbour that its water flows to (the cell itself for sea and border).
    """
    size = len(height)
    padded = np.full((size + 2, size + 2), np.inf, np.float64)
    padded[1:-1, 1:-1] = height
    width = size + 2
    flat = padded.ravel().tolist()
    sea = padded <= 0
    outlet = sea.copy()
    outlet[1, :] = outlet[-2, :] = outlet[:, 1] = outlet[:, -2] = True
    done = outlet.copy()
    done[0, :] = done[-1, :] = done[:, 0] = done[:, -1] = True
    # Outlets surrounded by sea have nothing to flood: start from those beside land.
    land = ~done
    beside = np.zeros_like(land)
    for down, right in _NEIGHBOURS:
        beside |= np.roll(land, (down, right), (0, 1))
    steps = [down * width + right for down, right in _NEIGHBOURS]
    starts = np.flatnonzero(outlet & beside).tolist()
    queue = [(flat[cell], cell) for cell in starts]
    heapq.heapify(queue)
    visited = bytearray(done.ravel().tobytes())
    parent = list(range(width * width))
    order: list[int] = []
    push, pop = heapq.heappush, heapq.heappop
    while queue:
        level, cell = pop(queue)
        for step in steps:
            near = cell + step
            if not visited[near]:
                visited[near] = 1
                parent[near] = cell
                order.append(near)
                if flat[near] <= level:
                    flat[near] = level + 1e-3
                push(queue, (flat[near], near))
    filled = np.array(flat).reshape(width, width)[1:-1, 1:-1].astype(np.float32)
    unpadded = np.arange(width * width).reshape(width, width)
    index = np.full(width * width, -1, np.int64)
    index[unpadded[1:-1, 1:-1].ravel()] = np.arange(size * size)
    parents = index[np.array(parent)[unpadded[1:-1, 1:-1].ravel()]]
    return filled, index[np.array(order, np.int64)].tolist(), parents


def _accumulate(
    height: Field, order: list[int], parent: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the cells drained through each cell, and whether its water reaches the sea."""
    area = [1] * height.size
    downstream = parent.tolist()
    for cell in reversed(order):
        area[downstream[cell]] += area[cell]
    sea: list[bool] = (height <= 0).ravel().tolist()
    for cell in order:
        sea[cell] = sea[downstream[cell]]
    shape = height.shape
    return np.array(area).reshape(shape), np.array(sea).reshape(shape)


def _beds(
    height: Field,
    order: list[int],
    parent: NDArray[np.int64],
    is_river: NDArray[np.bool_],
    area: NDArray[np.int64],
) -> Field:
    """Return the elevation of river beds, never rising downstream, and infinity elsewhere."""
    depth = 26 * np.log2(np.maximum(area / _SOURCE_AREA, 1)) + 6
    bed = np.where(is_river, np.maximum(height - depth, 3), np.inf).ravel().tolist()
    downstream = parent.tolist()
    for cell in reversed(order):
        below = downstream[cell]
        if bed[cell] < bed[below] < np.inf:
            bed[below] = bed[cell]
    return np.array(bed, np.float32).reshape(height.shape)


def _slopes(bed: Field, cell_size: float) -> tuple[Field, Field]:
    """Return the highest elevation allowed near river beds, and the distance to a bed in cells."""
    target = np.pad(bed, 1, constant_values=np.inf)
    distance = np.where(np.isfinite(target), np.float32(0), np.float32(np.inf))
    size = len(bed)
    for ring in range(_REACH):
        rise = cell_size * _SIDE_SLOPE * (0.35 + 0.13 * ring)  # flat floor, steeper sides
        new_target, new_distance = target.copy(), distance.copy()
        for down, right in _NEIGHBOURS:
            step = np.float32(np.hypot(down, right))
            rows, columns = slice(1 + down, 1 + down + size), slice(1 + right, 1 + right + size)
            inside = new_target[1:-1, 1:-1]
            np.minimum(inside, target[rows, columns] + np.float32(rise) * step, out=inside)
            inside = new_distance[1:-1, 1:-1]
            np.minimum(inside, distance[rows, columns] + step, out=inside)
        target, distance = new_target, new_distance
    return target[1:-1, 1:-1], distance[1:-1, 1:-1]


def _blurred(field: Field) -> Field:
    """Smooth with weights 1, 2, 1 along both axes; the border is set to 0."""
    result = np.zeros_like(field)
    rows = field[:-2] + 2 * field[1:-1] + field[2:]
    result[1:-1, 1:-1] = (rows[:, :-2] + 2 * rows[:, 1:-1] + rows[:, 2:]) / 16
    return result


def _border_fade(size: int) -> Field:
    edge = np.minimum(np.arange(size), np.arange(size)[::-1])
    fade = np.clip((edge - 2) / 24, 0, 1).astype(np.float32)
    result: Field = np.minimum.outer(fade, fade)
    return result


def _trace(
    is_river: NDArray[np.bool_],
    parent: NDArray[np.int64],
    area: NDArray[np.int64],
    window: Window,
    cell_area: float,
    seed: int,
) -> tuple[River, ...]:
    """Join river cells into reaches, each from a source or junction to the next junction."""
    river = is_river.ravel()
    cells = np.flatnonzero(river)
    inflows = np.bincount(parent[cells], minlength=river.size)
    flat_area = area.ravel()
    heads = [int(cell) for cell in cells if inflows[cell] != 1]
    rivers: list[River] = []
    for head in heads:
        path = [head]
        while river[path[-1]]:
            below = int(parent[path[-1]])
            path.append(below)
            if inflows[below] != 1:
                break
        rows, columns = np.divmod(np.array(path), window.size)
        points = np.stack((columns + window.left + 0.5, rows + window.top + 0.5), -1)
        last = path[-2] if len(path) > 1 else head
        points = _winding(_smoothed(points) / window.world, 1 / window.world, seed)
        (west, north), (east, south) = points.min(axis=0), points.max(axis=0)
        bounds = (float(west), float(north), float(east), float(south))
        rivers.append(River(points, float(flat_area[last]) * cell_area, bounds))
    return tuple(sorted(rivers, key=lambda reach: reach.area))


def _winding(points: NDArray[np.float64], cell: float, seed: int) -> NDArray[np.float64]:
    """Shift points by up to a cell. The shift depends on position only: junctions stay joined."""
    x, y = points[:, 0], points[:, 1]
    shift = np.zeros_like(points)
    for octave, amount in ((13, 1.3), (14, 0.8), (15, 0.35)):
        for axis in (0, 1):
            shift[:, axis] += amount * gradient_noise(x, y, 2**octave, seed, 14 + axis)
    return points + shift * cell


def _smoothed(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round the corners of a path. Its ends stay in place so that reaches meet."""
    for _ in range(2):
        middle = points[1:-1] / 2 + (points[:-2] + points[2:]) / 4
        points = np.concatenate((points[:1], middle, points[-1:]))
    for _ in range(2):
        first, second = points[:-1], points[1:]
        cut = np.stack((0.75 * first + 0.25 * second, 0.25 * first + 0.75 * second), 1)
        points = np.concatenate((points[:1], cut.reshape(-1, 2), points[-1:]))
    return points
