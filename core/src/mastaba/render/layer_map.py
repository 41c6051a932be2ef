"""The map of one layer: level, window, resampling, validity; before any style."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
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
from mastaba.render.kernels import AxisWeights, Taps
from mastaba.render.limits import check_window
from mastaba.render.mosaic import LevelPixels, Mosaic, Window
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
from mastaba.render.request import MapImage, Mask, Pixels
from mastaba.render.resample import resample
from mastaba.render.warp import stencil, warp

Float32 = npt.NDArray[np.float32]

_COARSEST: Final = 0.8
"""A level may be coarser than wanted by 1 / 0.8 (resampling.md section 3)."""

_STRIP_PIXELS: Final = 4 * 1024 * 1024
"""Pixels rendered at a time, so that memory does not grow with the size of the map."""

_HALF: Final = 0.5

_OVERVIEW_LOSS: Final = 8
"""How many times coarser than the longer side of its pixels an overview may be."""


@dataclass(frozen=True, slots=True)
class Extent:
    """A part of the ground, and the pixels it is drawn in."""

    bbox: BoundingBox
    crs: CRS
    width: int
    height: int


class LayerMap:
    """How one layer is drawn in one extent: decided at once, drawn later.

    Args:
        layer: a raster layer.
        levels: its levels by tile matrix identifier.
        extent: what is drawn.
        same_crs: whether the CRS of the extent is, or counts as, that of the layer.
        resolution_factor: of the wanted resolution, for the choice of the level.
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
        # Part of the output that may hold data: first row, behind last, first column, behind last.
        self._part: tuple[int, int, int, int] | None = (0, extent.height, 0, extent.width)
        self._positions: Positions | None = None
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

    def check(self, settings: MapSettings) -> None:
        """Refuse what would take too many tiles.

        Where no coarser level is stored, the map is drawn from an overview if that is enough.

        Raises:
            InvalidParameterError: naming BBOX.
        """
        try:
            self._check_window(settings)
        except InvalidParameterError:
            for overview in self._overviews() if settings.overviews else ():
                self._level, self._positions = overview, self._place(overview.level.matrix)
                with contextlib.suppress(InvalidParameterError):
                    return self._check_window(settings)
            raise

    def _check_window(self, settings: MapSettings) -> None:
        window = self._whole_window()
        if window is not None:
            size = self._raster.channels * (4 if self._is_float else 1)
            check_window(window, self._level.count(window, self._around), size, settings)

    def _overviews(self) -> Iterator[OverviewPixels]:
        """Yield what may take the place of the coarsest level, the best one first."""
        positions = self._positions
        if self._level is not self._coarsest or positions is None:
            return
        mean = self._resolution / self._coarsest.level.matrix.cell_size
        longer = max(positions.ratio_x, positions.ratio_y)
        best, last = (math.floor(math.log2(ratio / _COARSEST)) for ratio in (mean, longer))
        if last > 0:
            for power in range(max(best, 1), last + _OVERVIEW_LOSS.bit_length()):
                yield OverviewPixels(self._coarsest, 2**power)

    @property
    def is_empty(self) -> bool:
        """Whether no pixel has a place in the CRS of the layer, so that all is nodata."""
        return self._positions is None or self._part is None

    def version(self) -> str | None:
        """Return a text that changes with the stored tiles; see `LevelPixels.version`."""
        window = self._whole_window()
        return "" if window is None else self._level.version(window, self._around)

    def draw(self) -> MapImage:
        """Return the pixels of the extent, uint8 or float32 as the pyramid, without style.

        Raises:
            SlabFormatError, StorageError: the data cannot be read.
        """
        extent, nodata = self._extent, self._raster.nodata
        if self._positions is None or self._part is None:
            return MapImage(*self._empty(extent.height, extent.width), nodata)
        top, bottom, left, right = self._part
        whole = (bottom - top, right - left) == (extent.height, extent.width)
        strip = max(16, _STRIP_PIXELS // (right - left))
        if whole and strip >= extent.height:
            pixels, valid = self._draw_rows(slice(0, bottom - top))
            return MapImage(pixels, valid, nodata)
        image, found = self._empty(extent.height, extent.width)
        for start in range(0, bottom - top, strip):
            stop = min(start + strip, bottom - top)
            pixels, valid = self._draw_rows(slice(start, stop))
            image[top + start : top + stop, left:right] = pixels
            found[top + start : top + stop, left:right] = True if valid is None else valid
        return MapImage(image, None if found.all() else found, nodata)

    def _empty(self, height: int, width: int) -> tuple[Pixels, Mask]:
        """Return pixels of nodata, and that none of them is data."""
        dtype = np.float32 if self._is_float else np.uint8
        pixels = np.empty((height, width, self._raster.channels), dtype)
        pixels[:] = self._raster.nodata
        return pixels, np.zeros((height, width), np.bool_)

    def _draw_rows(self, rows: slice) -> tuple[Pixels, Mask | None]:
        """Return some rows of the part that may hold data."""
        positions = self._positions
        assert positions is not None
        placed = None
        if isinstance(positions, CurvedPositions) and not positions.is_complete:
            cut = positions.cut(rows.start, rows.stop - 1)
            placed = np.isfinite(cut.spread(cut.columns + cut.rows))
            if not placed.any():
                return self._empty(*placed.shape)
        window = self._window(rows)
        mosaic = self._level.read(window, self._around)
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
            row_stencil, column_stencil = stencil(down), stencil(across)
            shifted = positions.cut(rows.start, rows.stop - 1).shifted(window.top, window.left)

            def sample(pixels: Pixels) -> Pixels:
                return warp(pixels, shifted, row_stencil, column_stencil)

        pixels, valid = self._sampled(mosaic, sample)
        if placed is not None:
            valid = placed if valid is None else valid & placed
            pixels[~placed] = self._raster.nodata
        return pixels, valid

    def _sampled(
        self, mosaic: Mosaic, sample: Callable[[Pixels], Pixels]
    ) -> tuple[Pixels, Mask | None]:
        """Return pixels at the positions of the map, and where they are data.

        Floats next to nodata are averaged over data alone; 8-bit colours mix with the nodata
        colour. In both cases a pixel is data when at least half of its weights are.
        """
        if not self._is_float:
            pixels = sample(mosaic.pixels)
            if mosaic.valid is None:
                return pixels, None
            return pixels, _valid(sample(_as_pixels(mosaic.valid)))
        if mosaic.valid is None:
            return sample(mosaic.pixels), None
        mask = _as_pixels(mosaic.valid)
        values = np.where(mosaic.valid[:, :, np.newaxis], mosaic.pixels, np.float32(0))
        weights = sample(mask)
        valid = _valid(weights)
        safe = np.where(valid[:, :, np.newaxis], weights, np.float32(1))
        result = (sample(values) / safe).astype(np.float32, copy=False)
        result[~valid] = self._raster.nodata
        return result, valid

    def _taps(self, positions: Positions) -> tuple[Taps, Taps]:
        """Return the taps across and down."""
        if isinstance(positions, StraightPositions) and positions.aligned:
            return Taps.of("nn", 1.0), Taps.of("nn", 1.0)
        return Taps.of(self._kernel, positions.ratio_x), Taps.of(self._kernel, positions.ratio_y)

    def _axes(self, positions: StraightPositions, rows: slice) -> tuple[AxisWeights, AxisWeights]:
        across, down = self._taps(positions)
        return (
            AxisWeights.at(down, positions.rows[rows]),
            AxisWeights.at(across, positions.columns),
        )

    def _whole_window(self) -> Window | None:
        if self._positions is None or self._part is None:
            return None
        return self._window(slice(0, self._part[1] - self._part[0]))

    def _window(self, rows: slice) -> Window:
        """Return the source pixels that some rows take."""
        positions = self._positions
        assert positions is not None
        across, down = self._taps(positions)
        if isinstance(positions, CurvedPositions):
            cut = positions.cut(rows.start, rows.stop - 1)
            top, bottom = _span(down, cut.rows)
            left, right = _span(across, cut.columns)
            # Positions are yet to be cut to a fraction, which may move their first tap.
            return Window(top - 1, bottom + 1, left - 1, right + 1)
        top, bottom = _span(down, positions.rows[rows])
        left, right = _span(across, positions.columns)
        return Window(top, bottom, left, right)


def choose_level(pyramid: Pyramid, resolution: float) -> Level:
    """Return the level to draw from: the coarsest that is at most 1.25 times too coarse.

    Args:
        resolution: wanted, CRS units of the pyramid.
    """
    chosen = pyramid.finest
    for level in pyramid.levels.values():
        if resolution / level.matrix.cell_size >= _COARSEST:
            chosen = level
            break
    return chosen


def _span(taps: Taps, positions: npt.NDArray[np.float64]) -> tuple[int, int]:
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
    # Rounding noise must not take away a pixel of which exactly half is data.
    return weights[:, :, 0] >= np.float32(_HALF - 1e-5)
