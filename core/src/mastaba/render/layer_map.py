"""The unstyled map of one layer: level, window, resampling, validity."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from mastaba.errors import InvalidParameterError
from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS
from mastaba.model.layer import Layer
from mastaba.model.pyramid import Level, Pyramid
from mastaba.model.settings import MapSettings
from mastaba.model.tile_matrix_set import TileMatrix
from mastaba.render.kernels import AxisWeights, Taps, radii_of, reach_of
from mastaba.render.limits import check_source, check_window
from mastaba.render.local_positions import LocalPositions
from mastaba.render.map_request import MapImage, Mask, Pixels
from mastaba.render.mosaic import KeptTiles, LevelPixels, Mosaic, Window
from mastaba.render.overview import OverviewPixels
from mastaba.render.positions import (
    CurvedPositions,
    Positions,
    StraightPositions,
    areas_to_try,
    covered_pixels,
    is_plausible,
    other_crs_positions,
    reprojected_bbox,
    same_crs_positions,
    tiles_around,
)
from mastaba.render.resample import resample
from mastaba.render.warp import warp

Float32 = npt.NDArray[np.float32]

_COARSEST: Final = 0.8
"""A level may be coarser than wanted by a factor of 1 / 0.8 (resampling.md section 3)."""

_STRIP_PIXELS: Final = 512 * 1024
"""Pixels of a map drawn at a time."""
_STRIP_SOURCE: Final = 8 * 1024**2
"""Bytes of source pixels read at a time, unless a single row needs more."""
_CELL: Final = 16
"""Rows in a cell of the position grid: strips of whole cells draw no row twice."""

_HALF: Final = 0.5

_OVERVIEW_LOSS: Final = 8
"""Factor by which an overview may be coarser than the longer side of its pixels."""


@dataclass(frozen=True, slots=True)
class Extent:
    """An area on the ground and its size in pixels."""

    bbox: BoundingBox
    crs: CRS
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class DrawingMemory:
    """Upper estimates of the bytes needed to draw a layer in strips.

    Attributes:
        kept: held from one strip to the next.
        drawing: held while a strip is drawn.
        drawn: size of a drawn strip.
    """

    kept: int
    drawing: int
    drawn: int


class LayerMap:
    """One layer in one extent. How to draw it is decided at once; it is drawn later.

    Args:
        layer: a raster layer.
        levels: its levels by tile matrix identifier.
        extent: the extent to draw.
        same_crs: whether the CRS of the extent is equal or equivalent to that of the layer.
        resolution_factor: multiplies the wanted resolution for the choice of the level.
    """

    def __init__(
        self,
        layer: Layer,
        levels: Mapping[str, LevelPixels],
        extent: Extent,
        *,
        same_crs: bool,
        resolution_factor: float = 1.0,
    ) -> None:
        self._extent = extent
        self._kernel = layer.resampling
        assert layer.pyramid.raster is not None
        self._raster = layer.pyramid.raster
        self._is_float = layer.pyramid.format.sample == "float32"
        # Part of the output that may hold data: first row, row after the last, same for columns.
        self._part: tuple[int, int, int, int] | None = (0, extent.height, 0, extent.width)
        self._positions: Positions | None = None
        self._windows: dict[tuple[int, int], Window] = {}
        self._around = 0
        source = layer.pyramid.tile_matrix_set.crs
        coarsest = levels[layer.pyramid.coarsest.matrix.id]
        self._coarsest = coarsest
        self._level: LevelPixels | OverviewPixels = coarsest
        self._place: Callable[[TileMatrix], Positions | None]
        if same_crs:
            self._resolution = resolution = _resolution(extent.bbox, extent.width, extent.height)
            level = choose_level(layer.pyramid, resolution * resolution_factor)
            self._place = partial(same_crs_positions, extent.bbox, extent.width, extent.height)
            self._positions = self._place(level.matrix)
            self._level = levels[level.matrix.id]
            return
        reprojected = None
        goes_around = tiles_around(layer.pyramid.finest.matrix, source) > 0
        for area in areas_to_try(extent.crs, source):
            self._part = covered_pixels(extent.bbox, extent.width, extent.height, area)
            if self._part is None:
                return
            part = _part_bbox(extent, *self._part)
            with contextlib.suppress(ValueError):
                reprojected = reprojected_bbox(part, extent.crs, source, go_around=goes_around)
                if is_plausible(reprojected, source):
                    break
        if reprojected is None or self._part is None:
            self._part = None
            return
        top, bottom, left, right = self._part
        self._resolution = resolution = _resolution(reprojected, right - left, bottom - top)
        level = choose_level(layer.pyramid, resolution * resolution_factor)
        self._place = partial(
            other_crs_positions, part, extent.crs, right - left, bottom - top, source=source
        )
        self._positions = self._place(level.matrix)
        self._level = levels[level.matrix.id]
        self._around = tiles_around(level.matrix, source)

    @property
    def strip_height(self) -> int:
        """Number of rows that can be drawn at a time in bounded memory."""
        extent = self._extent
        height = _STRIP_PIXELS // extent.width
        window = self._whole_window()
        if window is not None and self._part is not None:
            rows = self._part[1] - self._part[0]
            height = min(height, rows * _STRIP_SOURCE // self._bytes_of(window))
        if height >= extent.height:
            return extent.height
        return height - height % _CELL if height > _CELL else max(1, height)

    def check(self, settings: MapSettings) -> None:
        """Refuse a map that takes too many tiles.

        If no coarser level is stored and an overview suffices, the map is drawn from it.

        Raises:
            InvalidParameterError: naming BBOX.
        """
        try:
            self._check_tiles(settings)
        except InvalidParameterError:
            for overview in self._overviews() if settings.overviews else ():
                self._level, self._positions = overview, self._place(overview.level.matrix)
                self._windows.clear()
                with contextlib.suppress(InvalidParameterError):
                    return self._check_tiles(settings)
            raise

    def _check_tiles(self, settings: MapSettings) -> None:
        window = self._whole_window()
        if window is None:
            return
        if self._reaches_beyond and isinstance(self._level, LevelPixels):
            matrix, limits = self._level.level.matrix, self._level.level.limits
            top = max(window.top, limits.min_row * matrix.tile_height)
            bottom = min(window.bottom, (limits.max_row + 1) * matrix.tile_height)
            if top >= bottom:
                return
            window = replace(window, top=top, bottom=bottom)
        check_window(*self._level.count(window, self._around), settings)

    @property
    def _reaches_beyond(self) -> bool:
        """Whether kernels may be so wide, next to a pole, that they reach far beyond the level."""
        positions = self._positions
        return isinstance(positions, LocalPositions) or (
            isinstance(positions, StraightPositions) and positions.ratios_y is not None
        )

    def check_strips(self, settings: MapSettings, cuts: Sequence[slice]) -> None:
        """Refuse a map whose strips take too much memory, after `check`.

        Args:
            cuts: the ranges of rows that will be drawn.

        Raises:
            InvalidParameterError: naming BBOX.
        """
        largest = self._largest_window(cuts)
        if largest is not None:
            check_source(self._bytes_of(largest), settings)

    def _overviews(self) -> Iterator[OverviewPixels]:
        """Yield the overviews that may replace the coarsest level, the best one first."""
        positions = self._positions
        if self._level is not self._coarsest or positions is None:
            return
        mean = self._resolution / self._coarsest.level.matrix.cell_size
        longer = max(positions.ratio_x, positions.ratio_y)
        best, last = (math.floor(math.log2(ratio / _COARSEST)) for ratio in (mean, longer))
        if last > 0:
            for power in range(max(best, 1), last + _OVERVIEW_LOSS.bit_length()):
                yield OverviewPixels(self._coarsest, 2**power)

    def _largest_window(self, cuts: Sequence[slice]) -> Window | None:
        """Return the source pixels of the strip that needs most of them."""
        windows = []
        for rows in map(self._rows_of_part, cuts):
            if rows is not None and self._has_place(self._cells(rows)):
                windows.append(self._window_of(self._cells(rows)))
        return max(windows, key=self._bytes_of, default=None)

    def _has_place(self, rows: slice) -> bool:
        positions = self._positions
        if isinstance(positions, LocalPositions):
            return positions.cut(rows.start, rows.stop - 1).window(self._kernel) is not None
        if isinstance(positions, CurvedPositions):
            return bool(np.isfinite(positions.cut(rows.start, rows.stop - 1).columns).any())
        return True

    def memory(self, cuts: Sequence[slice]) -> DrawingMemory:
        """Return upper estimates of the bytes needed to draw ranges of rows."""
        channels = self._raster.channels
        pixels = max(rows.stop - rows.start for rows in cuts) * self._extent.width
        drawn = pixels * (channels * (4 if self._is_float else 1) + 1)
        largest = self._largest_window(cuts)
        if largest is None:
            return DrawingMemory(0, drawn, drawn)
        source = self._bytes_of(largest)
        kept = self._level.tile_memory(largest)
        # Decoded tiles, the mosaic, and the validity of each of its pixels.
        samples = source // (4 if self._is_float else 1)
        drawing = kept + source + 6 * samples // channels
        if self._is_float:
            # A copy without nodata.
            drawing += source
        each = 16
        if not isinstance(self._positions, StraightPositions):
            # Positions of pixels and their validity.
            each += 48
        return DrawingMemory(kept, drawing + drawn + each * pixels, drawn)

    def _bytes_of(self, window: Window) -> int:
        height, width = window.shape
        return height * width * self._raster.channels * (4 if self._is_float else 1)

    @property
    def is_empty(self) -> bool:
        """Whether all pixels are nodata because none has a position in the CRS of the layer."""
        return self._positions is None or self._part is None

    def version(self) -> str | None:
        """Return a text that changes with the stored tiles; see `LevelPixels.version`."""
        window = self._whole_window()
        return "" if window is None else self._level.version(window, self._around)

    def modified(self) -> float | None:
        """Return when the slabs were last modified; see `LevelPixels.modified`."""
        window = self._whole_window()
        return 0.0 if window is None else self._level.modified(window, self._around)

    def draw(self) -> MapImage:
        """Return the pixels of the whole extent; see `strips`."""
        (image,) = self.strips([slice(0, self._extent.height)])
        return image

    def strips(self, cuts: Sequence[slice]) -> Iterator[MapImage]:
        """Yield unstyled ranges of rows, uint8 or float32 like the pyramid.

        A row has the same pixels in every range that contains it.

        Raises:
            SlabFormatError, StorageError: the data cannot be read.
        """
        kept: KeptTiles = {}
        for rows in cuts:
            yield self._draw(rows, kept)

    def _draw(self, rows: slice, kept: KeptTiles) -> MapImage:
        """Return rows of the extent."""
        nodata = self._raster.nodata
        height, width = rows.stop - rows.start, self._extent.width
        inside = self._rows_of_part(rows)
        if inside is None or self._part is None:
            return MapImage(*self._empty(height, width), nodata)
        cells = self._cells(inside)
        pixels, valid = self._draw_rows(cells, kept)
        if cells != inside:
            wanted = slice(inside.start - cells.start, inside.stop - cells.start)
            pixels, valid = pixels[wanted], None if valid is None else valid[wanted]
        if pixels.shape[:2] == (height, width):
            return MapImage(pixels, valid, nodata)
        image, found = self._empty(height, width)
        top, _, left, right = self._part
        start = top + inside.start - rows.start
        part = np.s_[start : start + len(pixels), left:right]
        image[part] = pixels
        found[part] = True if valid is None else valid
        return MapImage(image, found, nodata)

    def _rows_of_part(self, rows: slice) -> slice | None:
        """Return the rows that may hold data, counted from the first such row; None without any."""
        if self._positions is None or self._part is None:
            return None
        top, bottom, _, _ = self._part
        inside = slice(max(rows.start, top) - top, min(rows.stop, bottom) - top)
        return inside if inside.start < inside.stop else None

    def _cells(self, rows: slice) -> slice:
        """Return the rows of the grid cells that contain some rows.

        Positions inside a cell are interpolated. Only the corners of the whole cell give the
        same positions, bit for bit, in every strip.
        """
        if not isinstance(self._positions, CurvedPositions):
            return rows
        lines = self._positions.down
        first = lines[np.searchsorted(lines, rows.start, side="right") - 1]
        last = lines[np.searchsorted(lines, rows.stop - 1)]
        return slice(int(first), int(last) + 1)

    @property
    def blank(self) -> MapImage:
        """A pixel without data."""
        return MapImage(*self._empty(1, 1), self._raster.nodata)

    def _empty(self, height: int, width: int) -> tuple[Pixels, Mask]:
        """Return nodata pixels, and a mask without valid pixels."""
        dtype = np.float32 if self._is_float else np.uint8
        pixels = np.empty((height, width, self._raster.channels), dtype)
        pixels[:] = self._raster.nodata
        return pixels, np.zeros((height, width), np.bool_)

    def _draw_rows(self, rows: slice, kept: KeptTiles) -> tuple[Pixels, Mask | None]:
        """Return rows of the part that may hold data."""
        positions = self._positions
        assert positions is not None
        placed = None
        if not isinstance(positions, StraightPositions):
            placed = positions.cut(rows.start, rows.stop - 1).placed()
            if placed is not None and not placed.any():
                return self._empty(*placed.shape)
        window = self._window_of(rows)
        mosaic = self._level.read(window, self._around, kept)
        if isinstance(positions, StraightPositions):
            if positions.aligned:
                return mosaic.pixels, mosaic.valid
            vertical, horizontal = self._axes(positions, rows)
            vertical = vertical.shifted(window.top)
            horizontal = horizontal.shifted(window.left)

            def sample(pixels: Pixels) -> Pixels:
                return resample(pixels, vertical, horizontal)
        else:
            across, down = self._taps(positions)
            shifted = positions.cut(rows.start, rows.stop - 1).shifted(window.top, window.left)

            def sample(pixels: Pixels) -> Pixels:
                return warp(pixels, shifted, down, across)

        pixels, valid = self._sampled(mosaic, sample)
        if placed is not None:
            valid = placed if valid is None else valid & placed
            pixels[~placed] = self._raster.nodata
        return pixels, valid

    def _sampled(
        self, mosaic: Mosaic, sample: Callable[[Pixels], Pixels]
    ) -> tuple[Pixels, Mask | None]:
        """Return pixels at the positions of the map, and the mask of valid ones.

        Floats next to nodata are averaged over valid pixels only; 8-bit colours mix with the
        nodata colour. In both cases a pixel is valid if at least half of its weights are.
        """
        if not self._is_float:
            pixels = sample(mosaic.pixels)
            if mosaic.valid is None:
                return pixels, None
            return pixels, _valid(sample(_as_pixels(mosaic.valid)))
        if mosaic.valid is None:
            return sample(mosaic.pixels), None
        values = np.where(mosaic.valid[:, :, np.newaxis], mosaic.pixels, np.float32(0))
        # Exactly 1 where no weight is missing, so these pixels stay unchanged.
        weights = 1 - sample(_as_pixels(~mosaic.valid))
        valid = _valid(weights)
        safe = np.where(valid[:, :, np.newaxis], weights, np.float32(1))
        result = (sample(values) / safe).astype(np.float32, copy=False)
        result[~valid] = self._raster.nodata
        return result, valid

    def _taps(self, positions: Positions) -> tuple[Taps, Taps]:
        """Return the horizontal and vertical taps."""
        if isinstance(positions, StraightPositions) and positions.aligned:
            return Taps.of("nn", 1.0), Taps.of("nn", 1.0)
        return Taps.of(self._kernel, positions.ratio_x), Taps.of(self._kernel, positions.ratio_y)

    def _axes(self, positions: StraightPositions, rows: slice) -> tuple[AxisWeights, AxisWeights]:
        across, down = self._taps(positions)
        if positions.ratios_y is None:
            vertical = AxisWeights.at(down, positions.rows[rows])
        else:
            vertical = AxisWeights.stretched(
                self._kernel, positions.rows[rows], positions.ratios_y[rows]
            )
        if positions.ratios_x is None:
            return vertical, AxisWeights.at(across, positions.columns)
        return vertical, AxisWeights.stretched(self._kernel, positions.columns, positions.ratios_x)

    def _whole_window(self) -> Window | None:
        if self._positions is None or self._part is None:
            return None
        return self._window_of(slice(0, self._part[1] - self._part[0]))

    def _window_of(self, rows: slice) -> Window:
        """Return the source pixels that some rows need, cached."""
        key = rows.start, rows.stop
        window = self._windows.get(key)
        if window is None:
            window = self._windows[key] = self._window(rows)
        return window

    def _window(self, rows: slice) -> Window:
        """Return the source pixels that some rows need."""
        positions = self._positions
        assert positions is not None
        if isinstance(positions, LocalPositions):
            found = positions.cut(rows.start, rows.stop - 1).window(self._kernel)
            return Window(0, 1, 0, 1) if found is None else Window(*found)
        across, down = self._taps(positions)
        if isinstance(positions, CurvedPositions):
            cut = positions.cut(rows.start, rows.stop - 1)
            top, bottom = _span(down, cut.rows)
            left, right = _span(across, cut.columns)
            # Positions are rounded down later, which may move their first tap.
            return Window(top - 1, bottom + 1, left - 1, right + 1)
        top, bottom = _span(
            down,
            positions.rows[rows],
            None if positions.ratios_y is None else positions.ratios_y[rows],
        )
        left, right = _span(across, positions.columns, positions.ratios_x)
        return Window(top, bottom, left, right)


def choose_level(pyramid: Pyramid, resolution: float) -> Level:
    """Return the level to draw from: the coarsest that is at most 1.25 times too coarse.

    Args:
        resolution: wanted pixel size, CRS units of the pyramid.
    """
    chosen = pyramid.finest
    for level in pyramid.levels.values():
        if resolution / level.matrix.cell_size >= _COARSEST:
            chosen = level
            break
    return chosen


def _span(
    taps: Taps, positions: npt.NDArray[np.float64], ratios: npt.NDArray[np.float64] | None = None
) -> tuple[int, int]:
    if ratios is not None:
        firsts, counts = reach_of(positions, radii_of(taps.kernel, ratios))
        return int(firsts.min()), int((firsts + counts).max())
    ends = np.array([np.nanmin(positions), np.nanmax(positions)])
    first = taps.first(ends)
    return int(first[0]), int(first[1]) + taps.count


def _resolution(bbox: BoundingBox, width: int, height: int) -> float:
    return math.sqrt((bbox.xmax - bbox.xmin) / width * (bbox.ymax - bbox.ymin) / height)


def _part_bbox(extent: Extent, top: int, bottom: int, left: int, right: int) -> BoundingBox:
    bbox = extent.bbox
    cell_x = (bbox.xmax - bbox.xmin) / extent.width
    cell_y = (bbox.ymax - bbox.ymin) / extent.height
    return BoundingBox(
        bbox.xmin + left * cell_x,
        bbox.ymax - bottom * cell_y,
        bbox.xmin + right * cell_x,
        bbox.ymax - top * cell_y,
    )


def _as_pixels(mask: Mask) -> Float32:
    return mask.astype(np.float32)[:, :, np.newaxis]


def _valid(weights: Float32) -> Mask:
    # Rounding errors must not drop a pixel of which exactly half is data.
    return weights[:, :, 0] >= np.float32(_HALF - 1e-5)
