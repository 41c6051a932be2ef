"""Numbers of sources at points and in views (time.md sections 5.2 and 5.5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from mastaba.api.catalogue import WGS84, transform_points
from mastaba.api.web import check_wanted
from mastaba.errors import RequestError
from mastaba_render.api.maps import LevelPixels, Window, tiles_around

if TYPE_CHECKING:
    from mastaba.api.catalogue import CRS, BoundingBox, Layer
    from mastaba.api.services import Site

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

MOST_POINTS: Final = 5000
MOST_VIEW_TILES: Final = 64
"""Tiles of the finest level that are read for a view."""

_MOST_TILES: Final = 8192
"""Tiles that are read for points."""
_GROUP: Final = 64
"""Tiles that are decoded at a time."""
_FAR: Final = 1e12
_STRAIGHT: Final = frozenset(("CRS:84", "EPSG:4326", "EPSG:3857"))
"""CRSs in which a box of longitudes and latitudes is a box."""
_AROUND: Final = np.array([(row, column) for row in (-1, 0, 1) for column in (-1, 0, 1)])
_CENTRE: Final = 4
"""Of these nine pixels."""


class TooManyTilesError(RequestError):
    """The points are in too many tiles."""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The numbers of n points.

    Attributes:
        numbers: shape (n,), int64; 0 without a source.
        is_mixed: shape (n,), whether the pixels around have several sources.
        levels: identifier of the level that each number is from; empty if no tile is there.
    """

    numbers: Integers
    is_mixed: npt.NDArray[np.bool_]
    levels: Sequence[str]


def numbers_at(site: Site, layer: Layer, x: Floats, y: Floats, crs: CRS) -> Found:
    """Return the numbers of the pixels that contain points, at the finest level with a tile there.

    Each level needs one round for indices and one for tiles.

    Args:
        layer: of numbers.
        x, y: shape (n,), x before y, units of the CRS.

    Raises:
        TooManyTilesError: no tile has been read.
        SlabFormatError, StorageError: a tile cannot be read.
    """
    native = layer.pyramid.tile_matrix_set.crs
    if not site.catalogue.settings.equivalences.equal(crs.code, native.code):
        x, y = transform_points(crs, native, x, y)
    count, left = len(x), _MOST_TILES
    numbers, is_mixed = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    levels = np.full(count, "", object)
    todo = np.flatnonzero((np.abs(x) < _FAR) & (np.abs(y) < _FAR))
    for name, pixels in reversed(list(site.renderer.level_pixels(layer).items())):
        if not len(todo):
            break
        plan = _Plan.of(pixels, tiles_around(pixels.level.matrix, native), x[todo], y[todo])
        left -= len(plan.places)
        if left < 0:
            raise TooManyTilesError("the points are in too many tiles; request fewer points")
        values, is_stored = plan.read(site, pixels)
        here = is_stored[:, _CENTRE]
        done = todo[here]
        numbers[done] = values[here, _CENTRE]
        levels[done] = name
        known = values[here]
        least = np.where(known > 0, known, np.iinfo(np.int64).max).min(axis=1)
        is_mixed[done] = (known.max(axis=1) > least) & (numbers[done] > 0)
        todo = todo[~here]
    return Found(numbers, is_mixed, levels.tolist())


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """The nine pixels around each of n points in one level.

    Attributes:
        places: row and column of each tile, once.
        taps: flat indices, of n times 9, of those inside the limits.
        tiles: the tile of each of these, in ``places``.
        rows, columns: pixel of each of these in its tile.
    """

    count: int
    places: Sequence[tuple[int, int]]
    taps: Integers
    tiles: Integers
    rows: Integers
    columns: Integers

    @classmethod
    def of(cls, pixels: LevelPixels, around: int, x: Floats, y: Floats) -> _Plan:
        matrix, limits = pixels.level.matrix, pixels.level.limits
        width, height = matrix.tile_width, matrix.tile_height
        across = np.floor((x - matrix.origin_x) / matrix.cell_size)
        down = np.floor((matrix.origin_y - y) / matrix.cell_size)
        near = (np.abs(across) < _FAR) & (np.abs(down) < _FAR)
        across, down = (np.where(near, one, -_FAR).astype(np.int64) for one in (across, down))
        columns = across[:, np.newaxis] + _AROUND[:, 1]
        rows = down[:, np.newaxis] + _AROUND[:, 0]
        tile_columns, tile_rows = columns // width, rows // height
        in_columns, in_rows = columns - tile_columns * width, rows - tile_rows * height
        if around:
            tile_columns = np.where(near[:, np.newaxis], tile_columns % around, tile_columns)
        inside = (tile_columns >= limits.min_col) & (tile_columns <= limits.max_col)
        inside &= (tile_rows >= limits.min_row) & (tile_rows <= limits.max_row)
        # Neighbours of points that are not here do not matter.
        inside &= inside[:, _CENTRE, np.newaxis]
        taps = np.flatnonzero(inside)
        turn = limits.max_col + 1
        keys, tiles = np.unique(
            tile_rows.ravel()[taps] * turn + tile_columns.ravel()[taps], return_inverse=True
        )
        places = [divmod(key, turn) for key in keys.tolist()]
        return cls(
            len(x), places, taps, tiles.ravel(), in_rows.ravel()[taps], in_columns.ravel()[taps]
        )

    def read(self, site: Site, pixels: LevelPixels) -> tuple[Integers, npt.NDArray[np.bool_]]:
        """Return numbers and whether a tile is stored, shape (n, 9) each."""
        values = np.zeros(self.count * 9, np.int64)
        is_stored = np.zeros(self.count * 9, np.bool_)
        order = np.argsort(self.tiles, kind="stable")
        starts = np.searchsorted(self.tiles[order], np.arange(len(self.places) + 1)).tolist()
        number_of = {place: number for number, place in enumerate(self.places)}
        with _admitted(site, len(self.places), pixels.tile_size):
            located = pixels.locate(self.places)
            for group in pixels.groups(self.places, located, _GROUP):
                check_wanted()
                for place, tile in group.items():
                    if tile is None:
                        continue
                    number = number_of[place]
                    here = order[starts[number] : starts[number + 1]]
                    read = tile[self.rows[here], self.columns[here], 0]
                    values[self.taps[here]] = np.where(read > 0, read, 0)
                    is_stored[self.taps[here]] = True
        return values.reshape(-1, 9), is_stored.reshape(-1, 9)


def counts_in(site: Site, layer: Layer, bbox: BoundingBox) -> Counter[int] | None:
    """Return how many pixels of the finest level each source gave to a view.

    Pixels count whose centre is in the view.

    Args:
        layer: of numbers.
        bbox: WGS 84 degrees, longitude before latitude.

    Returns:
        None if the view is not a box in the CRS of the layer, or has more than 64 tiles.

    Raises:
        SlabFormatError, StorageError: a tile cannot be read.
    """
    native = layer.pyramid.tile_matrix_set.crs
    if native.code not in _STRAIGHT:
        return None
    level = list(site.renderer.level_pixels(layer).values())[-1]
    matrix, limits = level.level.matrix, level.level.limits
    corners = np.array([bbox.xmin, bbox.xmax]), np.array([bbox.ymin, bbox.ymax])
    x, y = transform_points(WGS84, native, *corners)
    x, y = np.nan_to_num(x, posinf=_FAR, neginf=-_FAR), np.nan_to_num(y, posinf=_FAR, neginf=-_FAR)
    left, right = np.ceil((x - matrix.origin_x) / matrix.cell_size - 0.5).tolist()
    bottom, top = np.ceil((matrix.origin_y - y) / matrix.cell_size - 0.5).tolist()
    window = Window(
        int(max(top, limits.min_row * matrix.tile_height)),
        int(min(bottom, (limits.max_row + 1) * matrix.tile_height)),
        int(max(left, limits.min_col * matrix.tile_width)),
        int(min(right, (limits.max_col + 1) * matrix.tile_width)),
    )
    if window.top >= window.bottom or window.left >= window.right:
        return Counter()
    rows, columns = level.count(window)
    if rows * columns > MOST_VIEW_TILES:
        return None
    with _admitted(site, rows * columns, 2 * level.tile_size):
        read = level.read(window)
        values = read.pixels[:, :, 0]
        numbers, counts = np.unique(values[values > 0], return_counts=True)
    return Counter(dict(zip(numbers.astype(np.int64).tolist(), counts.tolist(), strict=True)))


def _admitted(site: Site, tiles: int, size: int) -> AbstractContextManager[None]:
    """Return a context in which tiles may be read; few of them do not wait."""
    if tiles <= 4:
        return nullcontext()
    return site.renderer.admission.map(min(tiles, _GROUP) * size)
