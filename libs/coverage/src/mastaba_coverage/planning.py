"""From what a client wants to a plan: which cells, copied, cut or resampled."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

from mastaba.api.web import printable
from mastaba.errors import InvalidParameterError
from mastaba_coverage.area import area_of_trim, extent_in
from mastaba_coverage.cells import Cells
from mastaba_coverage.codecs import TileCodec
from mastaba_coverage.drawn import DrawnImage, DrawnPlan
from mastaba_coverage.errors import (
    CoverageTooLargeError,
    InvalidIntervalError,
    InvalidScalingError,
    OutsideCoverageError,
    UnknownFieldError,
    UnknownLevelError,
)
from mastaba_coverage.grid import cells_of_box
from mastaba_coverage.plan import MOST_COMPUTED, CoveragePlan
from mastaba_coverage.readers import has_masks
from mastaba_coverage.shape import TileShape
from mastaba_render.api.maps import GroundBox, MapLayer, MapRequest, box_on_ground
from mastaba_render.api.resampling import BASE_RADIUS

if TYPE_CHECKING:
    from mastaba.api.catalogue import CRS, BoundingBox, Equivalences
    from mastaba.api.services import MapSettings
    from mastaba_coverage.grid import Coverage, CoverageGrid
    from mastaba_coverage.limits import CoverageLimits
    from mastaba_coverage.request import CoverageRequest
    from mastaba_render.api.geotiff import Origins
    from mastaba_render.api.maps import Renderer

Plan = CoveragePlan | DrawnPlan
"""What is in an answer: stored values, or resampled ones."""
P = TypeVar("P", bound=Plan)

_SAME: Final = 1e-6
"""Relative difference of cell sizes that are treated as equal."""
_FINEST: Final = 4
"""Times that requested cells may be smaller than stored ones."""
_LONGEST: Final = 65_536
"""Cells of a side of a resampled answer: some rows are held in memory."""
_TILES: Final = 1024
"""Rows, and columns, of stored tiles that a resampled answer may read."""
_OVERVIEW: Final = 512
"""Cells of the longest side; a smaller image needs no overview."""


def with_origin(plan: P, origins: Origins) -> P:
    """Return a plan whose file names the sources of its area; none across the antimeridian.

    Raises:
        MastabaError: the sources cannot be read.
    """
    if plan.bounds.xmin > plan.bounds.xmax:
        return plan  # one box cannot have both sides of the antimeridian alone
    return replace(plan, origin=origins.of(plan.coverage.layer, plan.edges, plan.crs))


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans answers.

    Attributes:
        renderer: draws what is resampled.
        maps: limits of maps, which those of pictures are too.
        equivalences: CRSs that are treated as the same.
        limits: of answers.
    """

    renderer: Renderer
    maps: MapSettings
    equivalences: Equivalences
    limits: CoverageLimits

    def plan(self, coverage: Coverage, request: CoverageRequest) -> Plan:
        """Return what to read for a request.

        Raises:
            OutsideCoverageError, InvalidIntervalError, InvalidScalingError, UnknownFieldError,
            UnknownLevelError, CoverageTooLargeError: as they say.
            InvalidParameterError: naming the attribute of the request, or the TIFF option.
        """
        plan = _Planning(self, coverage, request).plan()
        return masked(plan) if request.tiff.mask else plan

    def same(self, crs: CRS, native: CRS) -> CRS:
        """Return the CRS of a layer if a CRS is treated as the same, otherwise the CRS."""
        return native if self.equivalences.equal(crs.code, native.code) else crs


def masked(plan: Plan) -> CoveragePlan:
    """Return the plan of a file that also says which cells have data.

    Raises:
        InvalidParameterError: the layer has no masks, or values are resampled or not in a GeoTIFF.
    """
    if not isinstance(plan, CoveragePlan) or plan.format != "tiff":
        raise InvalidParameterError(
            "only GeoTIFF of stored cells has a mask: request their CRS and size", "mask"
        )
    if not has_masks(image.grid.reader for image in plan.images):
        raise InvalidParameterError("the layer has no stored masks", "mask")
    return replace(plan, has_mask=True)


def file_name(plan: Plan) -> str:
    """Return the name of the file of an answer: layer, level or size, and lower left corner."""
    corner = (f"{value:.12g}" for value in (plan.bounds.xmin, plan.bounds.ymin))
    extension = {"tiff": "tif", "jpeg": "jpg"}.get(plan.format, plan.format)
    return f"{'_'.join((plan.coverage.layer.id, plan.name, *corner))}.{extension}"


class _Planning:
    """One request on its way to a plan."""

    def __init__(self, planner: Planner, coverage: Coverage, request: CoverageRequest) -> None:
        self._planner = planner
        self._coverage = coverage
        self._request = request
        self._native = coverage.crs
        self._crs = self._native if request.crs is None else planner.same(request.crs, self._native)
        self._fields = _fields(coverage, request.fields)
        self._trim = request.trim
        if self._trim is not None:
            self._trim = replace(self._trim, crs=planner.same(self._trim.crs, self._native))
        if request.kernel is not None and request.kernel not in BASE_RADIUS:
            raise InvalidParameterError(
                f"there is no kernel {printable(request.kernel)}; use {', '.join(BASE_RADIUS)}",
                "kernel",
            )

    def plan(self) -> Plan:
        request, scaling = self._request, self._request.scaling
        grid = self._grid()
        if request.level is not None and (scaling is not None or self._crs is not self._native):
            raise InvalidParameterError(
                "a level is sent as it is stored: in its CRS and size", "level"
            )
        if request.tiff.overviews and not request.is_cog:
            raise InvalidParameterError("only a COG has overviews", "overview-count")
        if request.is_fixed:
            return self._fixed()
        if self._crs is not self._native:
            return self._drawn(*self._elsewhere())
        if scaling is None:
            return self._stored(grid)
        if scaling.resolution is not None:
            level = self._level_of(scaling.resolution)
            if level is not None:
                return self._stored(level)
        area, columns, rows = self._scaled()
        found = (
            None if area.seam is not None else cells_of_box(self._coverage, area.box, columns, rows)
        )
        if found is not None:
            return self._of_cells(*found)
        return self._drawn(area, columns, rows)

    def _grid(self) -> CoverageGrid:
        coverage, level = self._coverage, self._request.level
        if level is None:
            return coverage.finest
        grid = coverage.grids.get(level)
        if grid is None:
            raise UnknownLevelError(
                f"there is no level {printable(level)}; levels are {', '.join(coverage.grids)}"
            )
        if self._request.is_cog and grid is not coverage.finest:
            raise InvalidParameterError("a COG begins with the finest level", "level")
        return grid

    def _level_of(self, resolution: tuple[float, float]) -> CoverageGrid | None:
        """Return the level whose cells have a size."""
        for grid in self._coverage.grids.values():
            size = grid.matrix.cell_size
            if all(abs(value - size) <= _SAME * size for value in resolution):
                return grid
        return None

    def _area(self, target: CRS) -> GroundBox:
        """Return the area of the request in a CRS, clipped to the coverage."""
        coverage, trim = self._coverage, self._trim
        is_native = target is self._native
        extent = extent_in(coverage, target, is_native=is_native)
        if trim is None:
            if extent is None:
                raise InvalidParameterError(
                    f"the coverage cannot be transformed to {target.code}", "crs"
                )
            return GroundBox(extent)
        of_trim = extent_in(coverage, trim.crs, is_native=trim.crs is self._native)
        area = area_of_trim(coverage, trim, target, of_trim)
        if not (_width(area.box) > 0 and _height(area.box) > 0):
            raise InvalidScalingError("the area has no extent to scale")
        if area.seam is not None or extent is None:
            return area
        box = area.box.intersection(extent)
        if box is None:
            raise OutsideCoverageError("the area is outside the coverage")
        return GroundBox(box)

    def _cells(self, grid: CoverageGrid) -> Cells:
        """Return the stored cells of the request."""
        if self._trim is None:
            return grid.window
        trim, coverage = self._trim, self._coverage
        if trim.crs is self._native:
            # Coarser levels may cover more than the finest one.
            extent: BoundingBox | None = grid.edges(grid.window)
        else:
            extent = extent_in(coverage, trim.crs, is_native=False)
        area = area_of_trim(coverage, trim, self._native, extent)
        if area.seam is None:
            cells = grid.cells(area.box)
        else:
            try:
                cells = grid.cells_across(area.box)
            except ValueError:
                raise InvalidIntervalError(
                    "the grid ends at the antimeridian: request two areas", "x"
                ) from None
        if cells is None:
            raise OutsideCoverageError("no cell of the coverage is in the area")
        return cells

    def _stored(self, grid: CoverageGrid) -> CoveragePlan:
        return self._of_cells(grid, self._cells(grid))

    def _of_cells(
        self, grid: CoverageGrid, cells: Cells, fixed: BoundingBox | None = None
    ) -> CoveragePlan:
        request, coverage = self._request, self._coverage
        if request.format != "tiff":
            self._check_picture(cells.columns, cells.rows)
            shape = TileShape.strips(cells.columns, len(self._fields))
            plan = CoveragePlan.exact(coverage, grid, cells, self._fields)
            images = (replace(plan.images[0], is_copied=False),)
            return replace(plan, images=images, shape=shape, format=request.format, fixed=fixed)
        if request.is_cog and grid is coverage.finest and fixed is None:
            return CoveragePlan.cog(coverage, cells, self._fields, request.tiff, MOST_COMPUTED)
        plan = CoveragePlan.exact(coverage, grid, cells, self._fields, request.tiff)
        return replace(plan, fixed=fixed)

    def _scaled(self) -> tuple[GroundBox, int, int]:
        """Return area, columns and rows of a scaled answer in the CRS of the layer."""
        scaling, grid = self._request.scaling, self._coverage.finest
        assert scaling is not None
        if scaling.factor is not None:
            cells = self._cells(grid)
            size = grid.matrix.cell_size
            seam = None
            if grid.is_beyond(cells):
                seam = grid.matrix.origin_x + grid.around * grid.matrix.tile_width * size
            turn = grid.around * grid.matrix.tile_width * size
            area = GroundBox(grid.edges(cells), seam, turn)
            counts = cells.columns * scaling.factor[0], cells.rows * scaling.factor[1]
            return self._sized(area, *counts)
        return self._of_size(self._area(self._native))

    def _elsewhere(self) -> tuple[GroundBox, int, int]:
        """Return area, columns and rows of an answer in another CRS."""
        area = self._area(self._crs)
        scaling = self._request.scaling
        if scaling is not None and scaling.factor is None:
            return self._of_size(area)
        # As many square cells as are stored there.
        cells = self._cells(self._coverage.finest)
        ratio = _width(area.box) / _height(area.box)
        columns = math.sqrt(cells.columns * cells.rows * ratio)
        if scaling is None:
            # Around a pole, there are more.
            across, down = self._most_cells(area)
            columns = min(columns, across, down * ratio)
        factor = (1.0, 1.0) if scaling is None or scaling.factor is None else scaling.factor
        return self._sized(area, columns * factor[0], columns / ratio * factor[1])

    def _of_size(self, area: GroundBox) -> tuple[GroundBox, int, int]:
        """Return an area with the requested size."""
        scaling = self._request.scaling
        assert scaling is not None
        width, height = _width(area.box), _height(area.box)
        if scaling.resolution is not None:
            x, y = scaling.resolution
            if not (0 < x < math.inf and 0 < y < math.inf):
                raise InvalidScalingError("a resolution must be greater than 0")
            area, columns, rows = self._sized(area, width / x, height / y)
            # Cells have exactly the size; the area begins in the upper left corner.
            box = replace(
                area.box,
                xmax=area.box.xmin + columns * x,
                ymin=area.box.ymax - rows * y,
            )
            return replace(area, box=box), columns, rows
        if scaling.width is None and scaling.height is None:
            raise InvalidScalingError("no size is given")
        across = scaling.width or (scaling.height or 0) * width / height
        down = scaling.height or (scaling.width or 0) * height / width
        return self._sized(area, across, down)

    def _sized(self, area: GroundBox, columns: float, rows: float) -> tuple[GroundBox, int, int]:
        """Return an area and a whole number of cells, within the limits."""
        # In this form the condition also refuses NaN.
        if not (0 <= columns < _LONGEST + 0.5 and 0 <= rows < _LONGEST + 0.5):
            if math.isfinite(columns) and math.isfinite(rows) and columns > 0 < rows:
                side = max(1, round(max(columns, rows)))
                raise CoverageTooLargeError(
                    side, _LONGEST, "cells in a row or column", "request larger cells"
                )
            raise InvalidScalingError("the answer would have no size")
        across, down = max(1, round(columns)), max(1, round(rows))
        if across * down > self._planner.limits.pixels:
            raise CoverageTooLargeError(
                across * down, self._planner.limits.pixels, "pixels", "request larger cells"
            )
        return area, across, down

    def _fixed(self) -> Plan:
        """Return a plan whose extent and size are the numbers of the request."""
        trim, scaling, native = self._trim, self._request.scaling, self._native
        if trim is None or scaling is None or None in (*trim.x, *trim.y):
            raise InvalidParameterError("a box is required", "trim")
        if scaling.width is None or scaling.height is None:
            raise InvalidScalingError("width and height are required")
        columns, rows = scaling.width, scaling.height
        self._check_picture(columns, rows)
        extent: BoundingBox | None = self._coverage.layer.native_bbox
        if trim.crs is not native:
            extent = extent_in(self._coverage, trim.crs, is_native=False)
        area = area_of_trim(self._coverage, trim, self._crs, extent)
        if not (_width(area.box) > 0 and _height(area.box) > 0):
            raise InvalidIntervalError("the box has no extent", "x")
        if self._crs is native and area.seam is None:
            found = cells_of_box(self._coverage, area.box, columns, rows)
            if found is not None:
                return self._of_cells(*found, fixed=area.box)
        return self._drawn(area, columns, rows)

    def _check_picture(self, columns: int, rows: int) -> None:
        """Check the limits of maps, which pictures and interactive answers have."""
        maps = self._planner.maps
        limits = ((columns, maps.max_width), (rows, maps.max_height))
        for size, limit in (*limits, (columns * rows, maps.max_pixels)):
            if size > limit:
                raise CoverageTooLargeError(size, limit, "pixels", "request a smaller size")

    def _drawn(self, area: GroundBox, columns: int, rows: int) -> DrawnPlan:
        """Return the plan of a resampled answer."""
        request, coverage = self._request, self._coverage
        self._check_cells(area, columns, rows)
        if request.format != "tiff":
            self._check_picture(columns, rows)
        tiff, matrix = request.tiff, coverage.finest.matrix
        name = "deflate" if tiff.compression == "stored" else tiff.compression
        codec = TileCodec.of(name, tiff.predictor, coverage.dtype, len(self._fields))
        if request.format != "tiff" or not (tiff.is_tiled or request.is_cog):
            shape = codec.strips(columns, len(self._fields) * coverage.dtype.itemsize)
        else:
            shape = TileShape(
                tiff.tile_width or matrix.tile_width, tiff.tile_height or matrix.tile_height
            )
        images = [self._image(area, columns, rows)]
        cell_x, cell_y = _width(area.box) / columns, _height(area.box) / rows
        step = 2
        while (
            request.is_cog
            and max(columns, rows) * 2 // step > _OVERVIEW
            and len(images) - 1 != tiff.overviews
        ):
            across, down = -(-columns // step), -(-rows // step)
            # Overviews share the corner of the image; their last cells may be beyond it.
            box = replace(
                area.box,
                xmax=area.box.xmin + across * step * cell_x,
                ymin=area.box.ymax - down * step * cell_y,
            )
            images.append(self._image(replace(area, box=box), across, down))
            step *= 2
        return DrawnPlan(
            coverage,
            tuple(images),
            self._fields,
            self._crs,
            area,
            request.kernel or coverage.layer.resampling,
            codec,
            shape,
            request.format,
        )

    def _check_cells(self, area: GroundBox, columns: int, rows: int) -> None:
        """Refuse cells much smaller than the stored ones."""
        if self._request.is_fixed:
            return
        across, down = self._most_cells(area)
        if columns > across or rows > down:
            raise InvalidScalingError("the cells would be less than a quarter of the stored ones")

    def _most_cells(self, area: GroundBox) -> tuple[float, float]:
        """Return the columns and rows of the smallest cells that are not too small."""
        found: GroundBox | None = area
        if area.seam is None and self._crs is not self._native:
            found = box_on_ground(area.box, self._crs, self._native)
        if area.seam is not None or found is None:
            return math.inf, math.inf
        finest = self._coverage.finest.matrix.cell_size / _FINEST * (1 - _SAME)
        return _whole(_width(found.box) / finest), _whole(_height(found.box) / finest)

    def _image(self, area: GroundBox, columns: int, rows: int) -> DrawnImage:
        layer, maps = self._coverage.layer, self._planner.maps
        if self._request.kernel is not None:
            layer = replace(layer, resampling=self._request.kernel)
        larger = replace(
            maps,
            max_width=_LONGEST,
            max_height=_LONGEST,
            max_pixels=self._planner.limits.pixels,
            max_tiles_x=max(_TILES, maps.max_tiles_x),
            max_tiles_y=max(_TILES, maps.max_tiles_y),
        )
        parts = area.parts(columns)
        requests = [
            MapRequest((MapLayer(layer, None),), box, self._crs, count, rows)
            for box, count in parts
        ]
        try:
            # What maps can draw is drawn as they do.
            return DrawnImage([self._planner.renderer.prepare(one, maps) for one in requests])
        except InvalidParameterError:
            pass
        try:
            return DrawnImage([self._planner.renderer.prepare(one, larger) for one in requests])
        except InvalidParameterError as error:
            raise InvalidScalingError(
                "the area needs too many stored tiles for its size, or has no extent"
            ) from error


def _fields(coverage: Coverage, wanted: tuple[str, ...] | None) -> tuple[str, ...]:
    if wanted is None:
        return coverage.fields
    for name in wanted:
        if name not in coverage.fields:
            raise UnknownFieldError(
                f"there is no field {printable(name)}; fields are {', '.join(coverage.fields)}",
                name,
            )
    if not wanted or len(set(wanted)) < len(wanted):
        raise InvalidParameterError("each field may be requested once, and one at least", "fields")
    return wanted


def _whole(cells: float) -> float:
    # A cell of 1e308 has as many stored ones as a float cannot say.
    return math.floor(cells) if math.isfinite(cells) else math.inf


def _width(box: BoundingBox) -> float:
    return box.xmax - box.xmin


def _height(box: BoundingBox) -> float:
    return box.ymax - box.ymin
