"""Positions of the pixels of a map among the pixels of a level (resampling.md sections 4 to 6).

Between two CRSs, only the points of a grid over the map are transformed. The pixels of a cell of
this grid are in a quadrilateral of source pixels, and are interpolated between its corners:

    map: a cell of the grid           source: a quadrilateral
                                        0 -------> source column
        c0     c      c1                |              _.--B
    r0  A------p------B                 |       _.-p---'    |
        |      :      |                 |   A--'   :        |
        |      :      |                 v  /       :        |
    r   |......x......|             source/        x        |
        |      :      |               row/         :    _.--D
    r1  C------q------D                 /     _.---q---'
                                       C--.--'

    c, r: column and row in the map     A, B, C, D, p, q, x: (source column, source row)
    u = (c - c0) / (c1 - c0)            p = A + u (B - A)
    v = (r - r0) / (r1 - r0)            q = C + u (D - C)
                                        x = p + v (q - p)

A cell is divided, within a limit, if its middle, or the middle of one of its sides, would be off by
more than an eighth of a pixel. Between conformal CRSs the errors along columns and along rows have
opposite signs, and cancel each other in the middle of the cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from mastaba.model.crs import CRS, transform_points
from mastaba.model.tile_matrix_set import TileMatrix
from mastaba_render.local_positions import gradients, local_positions, median_of
from mastaba_render.map_request import MapRequest, Mask
from mastaba_render.native import Floats, Window
from mastaba_render.sampling import FRACTIONS, Axis, GridPositions, Positions, StraightPositions

_GRID_STEP: Final = 16
# Allowed error of an interpolated position in source pixels; in map pixels if the map shrinks.
_UNEVEN: Final = 1.0 / 8.0
# Limit for a grid, so that a large map around a pole costs no more than other large maps.
_MOST_POINTS: Final = 1 << 20
# Fraction by which the ratio of a pixel may differ from that of the whole map.
_VARIES: Final = 0.1
_RATIO_SAMPLES: Final = 5
_LARGEST_RATIO: Final = 256.0
# Columns count as equal in all rows of a grid within this fraction of a source pixel.
_SEPARABLE: Final = 1.0 / 2048.0


def other_crs_positions(
    request: MapRequest, source: CRS, turn: float, matrix: TileMatrix, around: int
) -> Positions | None:
    """Return the positions for a map in a CRS other than that of the level.

    The centres of every 16th pixel, and of the last one of each row and column, are transformed;
    those between are interpolated. More are transformed where interpolation would be off by more
    than an eighth of a pixel, as in maps of the whole world with few pixels.

    If the ratio of the kernel varies by more than a tenth, each pixel has its own
    (`mastaba_render.local_positions`); otherwise the whole map has one, measured from end to end.

    If columns of tiles repeat after a full turn, positions across the antimeridian continue beyond
    the last column.

    Args:
        request: the map; its layers are ignored.
        source: CRS of the level.
        turn: of ``source``, as returned by `mastaba_render.extent.turn_of`.
        matrix: tile matrix of the level.
        around: tiles of it in a full turn, as returned by `TileMatrix.tiles_around`.

    Returns:
        None if no pixel has a position in the source CRS.
    """
    bbox, width, height = request.bbox, request.width, request.height
    cell_x, cell_y = (bbox.xmax - bbox.xmin) / width, (bbox.ymax - bbox.ymin) / height

    def place_points(x: Floats, y: Floats) -> tuple[Floats, Floats]:
        source_x, source_y = transform_points(
            request.crs, source, bbox.xmin + x * cell_x, bbox.ymax - y * cell_y
        )
        columns = (source_x - matrix.origin_x) / matrix.cell_size - 0.5
        rows = (matrix.origin_y - source_y) / matrix.cell_size - 0.5
        found = np.isfinite(columns) & np.isfinite(rows)
        if found.all():
            return columns, rows
        return np.where(found, columns, np.nan), np.where(found, rows, np.nan)

    def place_together(*parts: list[Floats]) -> Iterator[tuple[Floats, Floats]]:
        """Return the positions of several arrays of points, all transformed by one call."""
        x, y = (np.concatenate([part[axis].ravel() for part in parts]) for axis in (0, 1))
        shapes = [part[0].shape for part in parts]
        ends = np.cumsum([part[0].size for part in parts])[:-1]
        columns, rows = place_points(x, y)
        return zip(
            map(np.reshape, np.split(columns, ends), shapes),
            map(np.reshape, np.split(rows, ends), shapes),
            strict=True,
        )

    def place(across: Floats, down: Floats) -> tuple[Floats, Floats]:
        columns, rows = place_points(*_centres(across, down))
        return _unrolled(columns, columns_around), rows

    columns_around = float(around * matrix.tile_width)
    period = turn / matrix.cell_size
    across, down = _grid(width, _GRID_STEP), _grid(height, _GRID_STEP)
    columns, rows = place(across, down)
    if np.isfinite(columns).all() and _is_straight(columns, rows):
        # One row and one column define all positions, so nothing is interpolated.
        in_row, in_column, edges_x, edges_y = place_together(
            _centres(_grid(width, 1), down[:1]),
            _centres(across[:1], _grid(height, 1)),
            _centres(_grid(width + 1, 1) - 0.5, down[:1]),
            _centres(across[:1], _grid(height + 1, 1) - 0.5),
        )
        all_columns, all_rows = _unrolled(in_row[0], columns_around)[0], in_column[1][:, 0]
        if np.isfinite(all_columns).all() and np.isfinite(all_rows).all():
            x = _axis(all_columns, _unrolled(edges_x[0], columns_around)[0])
            y = _axis(all_rows, edges_y[1][:, 0])
            return StraightPositions(Axis(*x), Axis(*y))
    ratio_x = _ratio(columns[:, -1] - columns[:, 0], across)
    ratio_y = _ratio(rows[-1] - rows[0], down)
    middles: tuple[Floats, Floats] | None
    crosses, middles = place_together(
        _samples(width, height), _centres(_middles(across), _middles(down))
    )
    # The size of a map pixel in source pixels. The median ignores a jump at the antimeridian.
    scale_x = median_of(np.abs(np.diff(columns)) / np.diff(across))
    scale_y = median_of(np.abs(np.diff(rows.T)) / np.diff(down))
    found = gradients(crosses, period)
    if _varies(found[0], ratio_x) or _varies(found[1], ratio_y):
        return local_positions(
            place_points,
            (width, height),
            (bbox.xmin / cell_x, -bbox.ymax / cell_y),
            period,
            wraps=around > 0,
            largest=max(_LARGEST_RATIO, 2 * ratio_x, 2 * ratio_y),
        )
    allowed = _UNEVEN * max(1.0, scale_x, scale_y)
    while len(across) < width or len(down) < height:
        if middles is None:
            middles = place_points(*_centres(_middles(across), _middles(down)))
        uneven = _uneven(columns, _unrolled(middles[0], columns_around), allowed, columns_around)
        uneven |= _uneven(rows, middles[1], allowed)
        for values, period in ((columns, columns_around), (rows, 0.0)):
            if len(across) > 1:
                uneven |= _bent(across, values, allowed, period)
            if len(down) > 1:
                uneven |= _bent(down, values.T, allowed, period).T
        high, wide = np.nonzero(uneven)
        finer = _refined(across, wide), _refined(down, high)
        points = len(finer[0]) * len(finer[1])
        if points == columns.size or points > _MOST_POINTS:
            break
        across, down = finer
        columns, rows = place(across, down)
        middles = None
    if not np.isfinite(columns).any():
        return None
    return GridPositions(
        across,
        down,
        np.stack([columns, rows]),
        part=Window(0, height, 0, width),
        ratios=(
            _ratio(columns[:, -1] - columns[:, 0], across),
            _ratio(rows[-1] - rows[0], down),
        ),
        complete=bool(np.isfinite(columns).all()),
    )


def _axis(positions: Floats, edges: Floats) -> tuple[Floats, float, Floats | None]:
    """Return the attributes of an `Axis`, with the ratio of each pixel if they vary.

    Args:
        edges: of each pixel, shape (size + 1,); not finite if an edge has no position.
    """
    ratio = _ratio(positions[-1:] - positions[:1], np.array([len(positions) - 1.0]))
    ratios = np.abs(np.diff(edges))
    has_edges = np.isfinite(ratios)
    if not has_edges.all():
        steps = np.gradient(positions) if len(positions) > 1 else ratio
        ratios = np.where(has_edges, ratios, np.abs(steps))
    ratios = np.minimum(ratios, max(_LARGEST_RATIO, 2 * ratio))
    cut = np.floor(positions * FRACTIONS) / FRACTIONS
    return cut, ratio, ratios if _varies(ratios, ratio) else None


def _samples(width: int, height: int) -> list[Floats]:
    """Return points spread over a map, and the middles of the sides of their pixels.

    Returns:
        x and y, each of shape (5, points down, points across), in the order of `gradients`.
    """
    x, y = np.meshgrid(
        *(
            np.unique(np.floor(np.linspace(0, size - 1, _RATIO_SAMPLES))) + 0.5
            for size in (width, height)
        )
    )
    return [np.stack([x, x - 0.5, x + 0.5, x, x]), np.stack([y, y, y, y - 0.5, y + 0.5])]


def _centres(across: Floats, down: Floats) -> list[Floats]:
    """Return x and y of the centres of pixels in some columns and rows, (0, 0) at the corner."""
    return [*np.meshgrid(across + 0.5, down + 0.5)]


def _varies(ratios: Floats, ratio: float) -> bool:
    """Return whether ratios of pixels differ from that of the map; ratios below 1 count as 1."""
    found = ratios[np.isfinite(ratios)]
    return bool((np.abs(np.maximum(found, 1.0) / max(ratio, 1.0) - 1.0) > _VARIES).any())


def _unrolled(columns: Floats, turn: float) -> Floats:
    """Return columns without jumps of a full turn inside rows, unless that widens their range.

    If some are not finite, they stay as they are.
    """
    if not turn or not np.isfinite(columns).all() or np.ptp(columns) <= turn / 2:
        return columns
    unrolled = np.unwrap(columns, period=turn, axis=1)
    first = unrolled[:, 0]
    unrolled = unrolled + (np.unwrap(first, period=turn) - first)[:, np.newaxis]
    # Around a pole a jump remains: better between two rows than across the whole map.
    return unrolled if np.ptp(unrolled) <= max(turn, float(np.ptp(columns))) else columns


def _grid(size: int, step: int) -> Floats:
    """Return points of a side of a map: the first and the last pixel, and if possible others."""
    step = max(1, min(step, (size - 1) // 2))
    points = np.arange(0, size, step, dtype=np.float64)
    return points if points[-1] == size - 1 else np.append(points, size - 1.0)


def _middles(points: Floats) -> Floats:
    """Return the means of adjacent points, or rows of points; a single one stays as it is."""
    return points if len(points) == 1 else (points[1:] + points[:-1]) / 2


def _refined(points: Floats, intervals: npt.NDArray[np.int64]) -> Floats:
    """Return grid points with one more in the middle of some intervals longer than a pixel."""
    halved = np.floor(_middles(points)[intervals])
    return np.unique(np.concatenate([points, halved]))


def _uneven(values: Floats, middles: Floats, allowed: float, turn: float = 0.0) -> Mask:
    """Return in which cells of the grid the middle differs from the mean of the corners.

    Cells of which only a part has positions are uneven.

    Args:
        allowed: error in source pixels.
    """
    errors = _cell_means(values) - middles
    if turn:
        errors -= turn * np.round(errors / turn)
    has_place = np.isfinite(values).astype(np.float64)
    share = _cell_means(has_place) + np.isfinite(middles)
    uneven: Mask = (np.abs(errors) > allowed) | ((share > 0.0) & (share < 2.0))
    return uneven


def _bent(points: Floats, values: Floats, allowed: float, turn: float) -> Mask:
    """Return which cells of the grid have a side along the last axis that is not straight.

    Args:
        points: of the last axis.
        allowed: error in source pixels in the middle of a side.
    """
    sides = np.diff(points)
    steps = np.diff(values)
    if turn:
        steps -= turn * np.round(steps / turn)
    # Second divided differences; the error of a side is a quarter of them times its square.
    curves = np.abs(np.diff(steps / sides)) / (points[2:] - points[:-2])
    largest = np.zeros_like(steps)
    largest[:, :-1] = curves
    largest[:, 1:] = np.fmax(largest[:, 1:], curves)
    bent = largest * sides**2 > 4.0 * allowed
    result: Mask = bent[:-1] | bent[1:] if len(bent) > 1 else bent
    return result


def _cell_means(values: Floats) -> Floats:
    """Return the mean of the corners of each cell of the grid."""
    return _middles(_middles(values).T).T


def _ratio(spans: Floats, points: Floats) -> float:
    finite = spans[np.isfinite(spans)]
    if points[-1] == 0 or not finite.size:
        return 1.0
    return float(np.abs(finite).max() / points[-1])


def _is_straight(columns: Floats, rows: Floats) -> bool:
    return bool(
        np.ptp(columns, axis=0).max() < _SEPARABLE and np.ptp(rows, axis=1).max() < _SEPARABLE
    )
