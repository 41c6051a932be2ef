"""The map of one layer: level, window, resampling, validity; before any style."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS
from mastaba.model.layer import Layer
from mastaba.model.pyramid import Level, Pyramid
from mastaba.model.settings import MapSettings
from mastaba.render.kernels import AxisWeights, Taps, radii_of, reach_of
from mastaba.render.limits import check_window
from mastaba.render.local_positions import LocalPositions
from mastaba.render.mosaic import LevelPixels, Mosaic, Window
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
from mastaba.render.warp import warp

Float32 = npt.NDArray[np.float32]

_COARSEST: Final = 0.8
"""A level may be coarser than wanted by 1 / 0.8 (resampling.md section 3)."""

_STRIP_PIXELS: Final = 4 * 1024 * 1024
"""Pixels rendered at a time, so that memory does not grow with the size of the map."""

_HALF: Final = 0.5


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
        if same_crs:
            resolution = _resolution(extent.bbox, extent.width, extent.height)
            level = choose_level(layer.pyramid, resolution * resolution_factor)
            self._positions = same_crs_positions(
                extent.bbox, extent.width, extent.height, level.matrix
            )
            self._level = levels[level.matrix.id]
            return
        self._level = next(iter(levels.values()))
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
        resolution = _resolution(reprojected, right - left, bottom - top)
        level = choose_level(layer.pyramid, resolution * resolution_factor)
        self._positions = other_crs_positions(
            part, extent.crs, right - left, bottom - top, level.matrix, source
        )
        self._level = levels[level.matrix.id]
        self._around = tiles_around(level.matrix, source)

    def check(self, settings: MapSettings) -> None:
        """Refuse what would take too many tiles.

        Raises:
            InvalidParameterError: naming BBOX.
        """
        window = self._whole_window()
        if window is None:
            return
        matrix = self._level.level.matrix
        size = self._raster.channels * (4 if self._is_float else 1)
        positions = self._positions
        if isinstance(positions, LocalPositions) or (
            isinstance(positions, StraightPositions) and positions.ratios_y is not None
        ):
            # The wide kernels next to a pole reach far beyond the level, where there are no tiles;
            # memory is needed there all the same.
            bytes_alone = replace(settings, max_tiles_y=window.bottom - window.top)
            check_window(window, matrix.tile_width, matrix.tile_height, size, bytes_alone)
            limits = self._level.level.limits
            top = max(window.top, limits.min_row * matrix.tile_height)
            bottom = min(window.bottom, (limits.max_row + 1) * matrix.tile_height)
            if top >= bottom:
                return
            window = replace(window, top=top, bottom=bottom)
        check_window(window, matrix.tile_width, matrix.tile_height, size, settings)

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
        if not isinstance(positions, StraightPositions):
            placed = positions.cut(rows.start, rows.stop - 1).placed()
            if placed is not None and not placed.any():
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
        return self._window(slice(0, self._part[1] - self._part[0]))

    def _window(self, rows: slice) -> Window:
        """Return the source pixels that some rows take."""
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
            # Positions are yet to be cut to a fraction, which may move their first tap.
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
        resolution: wanted, CRS units of the pyramid.
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
    # Rounding noise must not take away a pixel of which exactly half is data.
    return weights[:, :, 0] >= np.float32(_HALF - 1e-5)
