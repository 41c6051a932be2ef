"""Float levels of a pyramid, from positions in their CRS to values of pixels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import count
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from mastaba.api.catalogue import BoundingBox, geographic_bbox, pyramid_bbox
from mastaba.api.containers import may_retry
from mastaba.api.web import check_wanted
from mastaba.errors import ObjectChangedError
from mastaba_elevation.errors import TooMuchError
from mastaba_elevation.queries.taps import (
    METHODS,
    REACH,
    Booleans,
    Floats,
    Integers,
    Taps,
    heights_of,
    is_height,
)
from mastaba_render.api.maps import COARSEST, LevelPixels, Sources, tiles_around

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mastaba.api.catalogue import CRS, Layer
    from mastaba.api.services import Site

GROUP: Final = 64
"""Decoded tiles held at a time, in addition to those of the shared cache."""

_FAR: Final = 1e12
"""Pixels; positions further away are on no level, and would not be exact."""

_AT_CENTRE: Final = 2e-8
"""Pixels from a centre that are rounding errors of a coordinate."""

_ON_EDGE: Final = 0.01
"""Cells from the edge of a box within which a post is on it."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The stored pixels of taps, without having read any.

    Attributes:
        shape: of the taps, (n, t).
        places: row and column of each tile, once, shape (k, 2).
        taps: flat indices of the taps inside the limits that have a weight.
        tiles: for each of these taps, its tile in ``places``.
        rows, columns: for each of these taps, its pixel in the tile.
    """

    shape: tuple[int, int]
    places: Integers
    taps: Integers
    tiles: Integers
    rows: Integers
    columns: Integers


@dataclass(slots=True)
class Budget:
    """Tiles and decoded bytes that a query may still need."""

    tiles: int
    size: int

    def fits(self, tiles: int, tile_size: int) -> bool:
        return tiles <= self.tiles and tiles * tile_size <= self.size

    def take(self, tiles: int, tile_size: int) -> None:
        """Reserve tiles before they are read.

        Raises:
            TooMuchError: they are too many.
        """
        if not self.fits(tiles, tile_size):
            raise TooMuchError("the query needs too many tiles; request fewer or closer points")
        self.tiles -= tiles
        self.size -= tiles * tile_size


class HeightLevel:
    """One level.

    Attributes:
        id: of its tile matrix.
        cell: size of a pixel, CRS units.
        tile_size: bytes of a decoded tile.
        nodata: stored where there is no height.
    """

    def __init__(self, pixels: LevelPixels, crs: CRS) -> None:
        matrix, limits = pixels.level.matrix, pixels.level.limits
        self.id = matrix.id
        self.cell = matrix.cell_size
        self.tile_size = pixels.tile_size
        self._pixels = pixels
        self._matrix, self._limits = matrix, limits
        self._around = tiles_around(matrix, crs)
        self.nodata = np.float32(pixels.nodata[0])
        self._left = limits.min_col * matrix.tile_width
        self._right = (limits.max_col + 1) * matrix.tile_width
        self._top = limits.min_row * matrix.tile_height
        self._bottom = (limits.max_row + 1) * matrix.tile_height

    @property
    def turn(self) -> int:
        """Pixels after which columns repeat; 0 if they do not."""
        return self._around * self._matrix.tile_width

    def positions(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Return positions in pixels from the origin of the matrix.

        Where columns repeat after a full turn, positions begin a few pixels before the limits. The
        coordinates of a centre give exactly this centre, and so the stored value.
        """
        across, down = _centred(*self.line(x, y))
        if self._around:
            first = self._left - REACH
            turn = float(self.turn)
            off = ~((across >= first) & (across < first + turn)) & (np.abs(across) < _FAR)
            if off.any():
                across = np.where(off, np.mod(across - first, turn) + first, across)
        return across, down

    def line(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Return positions in pixels from the origin of the matrix, without turns."""
        matrix = self._matrix
        return (x - matrix.origin_x) / matrix.cell_size, (matrix.origin_y - y) / matrix.cell_size

    def places(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Return the CRS coordinates of positions in pixels."""
        matrix = self._matrix
        return matrix.origin_x + x * matrix.cell_size, matrix.origin_y - y * matrix.cell_size

    def is_fine_enough(self, resolution: float) -> bool:
        """Return whether its pixels are small enough for a resolution, CRS units."""
        return self._matrix.suits(resolution)

    def are_fine_enough(self, resolutions: Floats) -> Booleans:
        """Return, for each resolution, what `is_fine_enough` does."""
        found: Booleans = resolutions / self._matrix.cell_size >= COARSEST
        return found

    def heights(
        self,
        x: Floats,
        y: Floats,
        method: str,
        budget: Budget,
        valid_range: tuple[float, float],
        *,
        strict: bool,
    ) -> tuple[Floats, Booleans]:
        """Return the heights of points, and where a coarser level is not looked at.

        Args:
            x, y: shape (n,), units of the CRS of the level.
            method: one of `METHODS`.
            budget: is reduced by what is read.

        Returns:
            shape (n,) each; NaN without a height. Tiles are stored where the search ends.

        Raises:
            TooMuchError: the points need too many tiles. No tile has been read.
            SlabFormatError, StorageError: the data cannot be read.
        """
        near, taps = self._taps(x, y, method)
        heights, is_done = np.full(len(x), np.nan), np.zeros(len(x), np.bool_)
        if not near.any():
            return heights, is_done
        plan = self._plan(taps)
        budget.take(len(plan.places), self.tile_size)
        values, valid, is_stored = self._read(plan, *valid_range)
        found = heights_of(taps, values, valid, strict=strict)
        heights[near] = found
        # A hole ends the search: a mean of the coarser level would invent a coast. The pixel that
        # contains the point weighs most.
        points = np.arange(len(found))
        is_done[near] = is_stored[points, taps.weights.argmax(axis=1)] | ~np.isnan(found)
        return heights, is_done

    def count(self, x: Floats, y: Floats, method: str) -> int:
        """Return how many tiles the heights of points need."""
        return len(self._plan(self._taps(x, y, method)[1]).places)

    def _taps(self, x: Floats, y: Floats, method: str) -> tuple[Booleans, Taps]:
        """Return which points may have taps inside the limits, and their taps."""
        across, down = self.positions(x, y)
        near = (across >= self._left - REACH) & (across < self._right + REACH)
        near &= (down > self._top - REACH) & (down < self._bottom + REACH)
        across, down = across[near], down[near]
        if method == "nearest":
            # The right and the lower edge of the limits belong to the last pixel.
            across = np.where(across == self._right, np.nextafter(across, -np.inf), across)
            down = np.where(down == self._bottom, np.nextafter(down, -np.inf), down)
        return near, METHODS[method](across, down)

    def _plan(self, taps: Taps) -> Plan:
        """Return which tiles and pixels taps need."""
        width, height = self._matrix.tile_width, self._matrix.tile_height
        limits = self._limits
        used = np.flatnonzero(taps.weights)
        columns, rows = taps.columns.ravel()[used], taps.rows.ravel()[used]
        tile_columns, tile_rows = columns // width, rows // height
        in_columns, in_rows = columns - tile_columns * width, rows - tile_rows * height
        if self._around:
            tile_columns %= self._around
        inside = (tile_columns >= limits.min_col) & (tile_columns <= limits.max_col)
        inside &= (tile_rows >= limits.min_row) & (tile_rows <= limits.max_row)
        if not inside.all():
            used, tile_columns, tile_rows = used[inside], tile_columns[inside], tile_rows[inside]
            in_columns, in_rows = in_columns[inside], in_rows[inside]
        across = limits.max_col + 1
        keys, tiles = np.unique(tile_rows * across + tile_columns, return_inverse=True)
        places = np.column_stack(np.divmod(keys, across))
        return Plan(taps.weights.shape, places, used, tiles.ravel(), in_rows, in_columns)

    def _read(self, plan: Plan, lowest: float, highest: float) -> tuple[Floats, Booleans, Booleans]:
        """Return the values of the taps of a plan: one round for indices, one for tiles.

        Args:
            lowest, highest: values outside are not valid.

        Returns:
            arrays of the shape of the plan: the values, 0 where they are not valid; whether they
            are heights; whether the tile is stored.

        Raises:
            SlabFormatError, StorageError: a tile cannot be read or decoded.
        """
        size = plan.shape[0] * plan.shape[1]
        values, valid = np.zeros(size), np.zeros(size, np.bool_)
        is_stored = np.zeros(size, np.bool_)
        places = list(map(tuple, plan.places.tolist()))
        order = np.argsort(plan.tiles, kind="stable")
        rows, columns = plan.rows[order], plan.columns[order]
        starts = np.searchsorted(plan.tiles[order], np.arange(len(places) + 1)).tolist()
        numbers = {place: number for number, place in enumerate(places)}
        ordered = np.zeros(len(plan.taps), np.float32)
        has = np.zeros(len(plan.taps), np.bool_)
        # The groups of a plan never mix versions of a slab.
        for group in self._pixels.groups(places, self._pixels.locate(places), GROUP):
            check_wanted()
            for place, pixels in group.items():
                if pixels is None:
                    continue
                number = numbers[place]
                here = slice(starts[number], starts[number + 1])
                ordered[here] = pixels[rows[here], columns[here], 0]
                has[here] = True
        read, found = np.empty_like(ordered), np.empty_like(has)
        read[order], found[order] = ordered, has
        is_stored[plan.taps] = found
        valid[plan.taps] = found & is_height(read, lowest, highest, self.nodata)
        values[plan.taps] = read
        values[~valid] = 0.0
        shape = plan.shape
        return values.reshape(shape), valid.reshape(shape), is_stored.reshape(shape)

    def window(
        self, top: int, bottom: int, left: int, right: int
    ) -> tuple[int, tuple[int, int, int, int]]:
        """Return how many tiles inside the limits a window of pixels needs, and its part there.

        Args:
            top, bottom, left, right: pixels; the last row and column are not included.
        """
        width, height = self._matrix.tile_width, self._matrix.tile_height
        turn = self.turn
        copies = range(1)
        if turn:
            right = min(right, left + turn)
            # The limits are there again after each turn: those that the window meets.
            copies = range((left - self._right) // turn + 1, (right - self._left - 1) // turn + 1)
        parts = [
            (max(left, self._left + copy * turn), min(right, self._right + copy * turn))
            for copy in copies
        ]
        top, bottom = max(top, self._top), min(bottom, self._bottom)
        if top >= bottom or not parts or parts[0][0] >= parts[-1][1]:
            return 0, (0, 0, 0, 0)
        across = sum(-(-end // width) - start // width for start, end in parts)
        tiles = across * (-(-bottom // height) - top // height)
        return tiles, (top, bottom, parts[0][0], parts[-1][1])

    def beyond(
        self, box: BoundingBox, near: tuple[float, float, float, float], slack: float
    ) -> Iterator[tuple[float, float, float, float]]:
        """Yield the parts of a box outside the limits: left, top, right, bottom, pixels.

        Args:
            box: units of the CRS of the level.
            near: rectangle that the parts meet, if not at first, then after full turns.
            slack: pixels that are left out on each side of a part; more than 0.
        """
        left, above, right, below = near
        columns, rows = self.line(np.array([box.xmin, box.xmax]), np.array([box.ymax, box.ymin]))
        (west, east), (north, south) = columns.tolist(), rows.tolist()
        turn = self.turn
        parts = [
            (west, north, east, min(south, self._top)),
            (west, max(north, self._bottom), east, south),
        ]
        if not turn or self._right - self._left < turn:
            parts += [
                (west, north, min(east, self._left), south),
                (max(west, self._right), north, east, south),
            ]
        for part in parts:
            first, top, last, bottom = (
                side + sign * slack for side, sign in zip(part, (1, 1, -1, -1), strict=True)
            )
            if first >= last or top >= bottom or top >= below or bottom <= above:
                continue
            if not turn:
                copies = range(first < right and last > left)
            else:
                end = min(right, left + turn)
                copies = range(
                    math.floor((left - last) / turn) + 1, math.ceil((end - first) / turn)
                )
            for copy in copies:
                yield first + copy * turn, top, last + copy * turn, bottom

    def has_columns(self, columns: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        """Return whether columns of pixels are inside the limits, or inside after full turns."""
        beside = columns - self._left
        return (beside % self.turn if self.turn else beside) < self._right - self._left

    def values(self, top: int, bottom: int, left: int, right: int) -> npt.NDArray[np.float32]:
        """Return the pixels of a window, shape (rows, columns); the nodata value where none is.

        Raises:
            SlabFormatError, StorageError: a tile cannot be read or decoded.
            ObjectChangedError: the slabs are replaced each time they are read.
        """
        from mastaba_render.api.maps import Window

        window = Window(top, bottom, left, right)
        for attempt in count(1):
            stored = self._pixels.stored(window, self._around)
            before = Sources.of(stored).version
            mosaic = self._pixels.read(window, self._around, stored)
            # A large window takes several reads, and slabs may be replaced between them.
            if before is None or Sources.of(stored).version == before:
                found: npt.NDArray[np.float32] = mosaic.pixels[:, :, 0]
                return found if mosaic.valid is None else np.where(mosaic.valid, found, self.nodata)
            changed = ObjectChangedError("the slabs of a query are replaced while they are read")
            if not may_retry(changed, attempt):
                raise changed
        raise AssertionError("unreachable: the last attempt returns or raises")


def _centred(across: Floats, down: Floats) -> tuple[Floats, Floats]:
    """Return positions without the rounding errors of those at the centre of a pixel."""
    positions = np.concatenate((across, down))
    centres = np.floor(positions) + 0.5
    with np.errstate(invalid="ignore"):
        is_centre = np.abs(positions - centres) <= _AT_CENTRE
    positions[is_centre] = centres[is_centre]
    return positions[: len(across)], positions[len(across) :]


class HeightLayer:
    """A layer of heights.

    Attributes:
        layer: FLOAT32 with one channel.
        crs: CRS of its pyramid.
    """

    def __init__(self, layer: Layer, site: Site) -> None:
        self.layer = layer
        self.id = layer.id
        self.crs = layer.pyramid.tile_matrix_set.crs
        self._site = site

    @cached_property
    def levels(self) -> tuple[HeightLevel, ...]:
        """Finest first."""
        pixels = self._site.renderer.level_pixels(self.layer)
        return tuple(HeightLevel(level, self.crs) for level in reversed(list(pixels.values())))

    @cached_property
    def cells(self) -> Floats:
        """Sizes of the pixels of its levels, CRS units."""
        return np.array([level.cell for level in self.levels])

    @cached_property
    def margin(self) -> float:
        """Degrees by which points may lie outside the geographic box: about one cell."""
        cell = self.layer.pyramid.finest.matrix.cell_size
        return cell if self.crs.is_geographic else 2.0 * cell / 111_000.0

    @property
    def is_of_posts(self) -> bool:
        """Whether the values of the finest level belong to points instead of areas."""
        return self.layer.registration == "post"

    @cached_property
    def extent(self) -> BoundingBox:
        """Box around what has a height, WGS 84 degrees: around the posts, if it has posts."""
        whole, box = self.layer.geographic_bbox, self.layer.native_bbox
        matrix = self.layer.pyramid.finest.matrix
        cell = matrix.cell_size
        west, east = _posts(matrix.origin_x, cell, box.xmin, box.xmax)
        south, north = _posts(matrix.origin_y, cell, box.ymin, box.ymax)
        # A box between posts has none.
        if not self.is_of_posts or west > east or south > north:
            return whole
        posts = geographic_bbox(BoundingBox(west, south, east, north), self.crs)
        return posts.intersection(whole) or whole

    @cached_property
    def box(self) -> BoundingBox:
        """Box around the data of its pyramid, units of `crs`."""
        whole = self.layer.native_bbox
        # That of a variant is the box of all variants.
        return pyramid_bbox(self.layer.pyramid).intersection(whole) or whole

    @cached_property
    def limits(self) -> BoundingBox:
        """Box around the limits of all levels, units of `crs`."""
        levels = self.layer.pyramid.levels.values()
        return reduce(BoundingBox.union, (item.matrix.bbox_of(item.limits) for item in levels))


def _posts(origin: float, cell: float, low: float, high: float) -> tuple[float, float]:
    """Return the first and the last post on an axis between two edges, CRS units."""
    first = math.ceil((low - origin) / cell - 0.5 - _ON_EDGE)
    last = math.floor((high - origin) / cell - 0.5 + _ON_EDGE)
    return origin + (first + 0.5) * cell, origin + (last + 0.5) * cell
