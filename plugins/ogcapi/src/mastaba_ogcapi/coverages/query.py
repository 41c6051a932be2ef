"""A request for a coverage: its area, level, fields and format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mastaba.api.catalogue import CRS, CRS84, BoundingBox
from mastaba.api.web import printable
from mastaba.errors import InvalidParameterError
from mastaba_coverage import Cells, Coverage, CoverageGrid, CoveragePlan
from mastaba_ogcapi import params
from mastaba_ogcapi.coverages.formats import CoverageFormat, wanted_format
from mastaba_ogcapi.crs import offered_crs
from mastaba_ogcapi.errors import OutsideCoverageError
from mastaba_ogcapi.maparea import Area, OutsideError, area_of, extent_in, subset_area

if TYPE_CHECKING:
    from mastaba.api.web import Request
    from mastaba_ogcapi.dataset import Collection, Dataset

_SCALING: Final = (
    *("width", "height", "resolution", "scale-factor", "scale-axes", "scale-size"),
    *("scalefactor", "scaleaxes", "scalesize"),
)
"""Parameters that would resample."""
_COMPRESSIONS: Final = ("stored", "none")


class CoverageQuery:
    """What a request for a coverage selects.

    Args:
        coverage: of the collection.

    Attributes:
        plan: what is in the file.
        format: format of the answer.

    Raises:
        InvalidParameterError: a parameter is invalid, or is not offered.
        NotAcceptableError: the client accepts no format.
        OutsideCoverageError: no cell is in the requested area.
    """

    def __init__(
        self, dataset: Dataset, collection: Collection, coverage: Coverage, request: Request
    ) -> None:
        self._dataset, self._collection = dataset, collection
        self._coverage = coverage
        parameters = request.query
        for name in _SCALING:
            if name in parameters:
                raise InvalidParameterError(
                    f"{name} is not offered: values are sent as stored. level names a coarser "
                    f"level: {', '.join(coverage.grids)}",
                    name,
                )
        self._check_crs(parameters.get("crs"))
        fields = _fields(
            coverage, parameters.get("properties"), parameters.get("exclude-properties")
        )
        compression = parameters.get("compression", "stored").lower()
        if compression not in _COMPRESSIONS:
            raise InvalidParameterError("compression must be stored or none", "compression")
        level = parameters.get("level")
        is_part = "bbox" in parameters or "subset" in parameters
        is_whole = not is_part and level is None and fields == coverage.fields
        self.format = wanted_format(request, is_whole=is_whole)
        grid = self._grid(level)
        if level is not None and self.format is CoverageFormat.COG and grid is not coverage.finest:
            raise InvalidParameterError(
                "a COG begins with the finest level; use f=geotiff", "level"
            )
        cells = self._cells(request, grid) if is_part else grid.window
        copies = compression == "stored"
        if self.format is CoverageFormat.COG:
            self.plan = CoveragePlan.cog(coverage, cells, fields, copies=copies)
        else:
            self.plan = CoveragePlan.exact(coverage, grid, cells, fields, copies=copies)

    def _check_crs(self, text: str | None) -> None:
        """Check that the answer is requested in the CRS of the layer."""
        if text is None:
            return
        native = self._native
        wanted = offered_crs(text, self._collection.crs, "crs")
        if not self._equal(wanted, native):
            raise InvalidParameterError(
                f"coverages are sent in the CRS of the layer, {native.code}", "crs"
            )

    def _grid(self, level: str | None) -> CoverageGrid:
        if level is None:
            return self._coverage.finest
        grid = self._coverage.grids.get(level)
        if grid is None:
            raise InvalidParameterError(
                f"there is no level {printable(level)}; levels are "
                f"{', '.join(self._coverage.grids)}",
                "level",
            )
        return grid

    def _cells(self, request: Request, grid: CoverageGrid) -> Cells:
        try:
            area = self._area(request)
        except OutsideError:
            raise OutsideCoverageError("the area is outside the coverage") from None
        if area.seam is not None:
            raise InvalidParameterError(
                "an area across the antimeridian is not offered: request two", "subset"
            )
        cells = grid.cells(area.bbox)
        if cells is None:
            raise OutsideCoverageError("no cell of the coverage is in the area")
        return cells

    def _area(self, request: Request) -> Area:
        parameters, native = request.query, self._native
        if "bbox" in parameters and "subset" in parameters:
            raise InvalidParameterError("subset and bbox exclude each other", "subset")
        is_box = "bbox" in parameters
        name = "bbox-crs" if is_box else "subset-crs"
        source = self._source(parameters.get(name), name)
        is_turned = source.northing_first
        source = self._same(source)
        layers = [self._collection.layer]
        extent = extent_in(layers, source, self._dataset.site.catalogue.settings.equivalences)
        if is_box:
            one, two, three, four = params.box(parameters["bbox"], "bbox")
            box = (
                BoundingBox(two, one, four, three)
                if is_turned
                else BoundingBox(one, two, three, four)
            )
            if not extent.intersection(box):
                raise OutsideError
            return area_of(box, source, native, "bbox")
        intervals = params.subsets(request)
        for axis, (low, high) in intervals.items():
            if low is not None and low == high:
                raise InvalidParameterError(
                    f"subset has one value for {axis}: give an interval", "subset"
                )
        return subset_area(intervals, source, extent, native)

    @property
    def _native(self) -> CRS:
        return self._collection.layer.pyramid.tile_matrix_set.crs

    def _source(self, text: str | None, name: str) -> CRS:
        """Return the CRS of coordinates; CRS:84 if the parameter is absent."""
        if text is None:
            return CRS.from_code(CRS84)
        return offered_crs(text, {*self._collection.crs, CRS84}, name)

    def _same(self, source: CRS) -> CRS:
        """Return the CRS of the layer if a CRS is treated as the same, otherwise the CRS."""
        return self._native if self._equal(source, self._native) else source

    def _equal(self, one: CRS, other: CRS) -> bool:
        return self._dataset.site.catalogue.settings.equivalences.equal(one.code, other.code)


def _fields(coverage: Coverage, chosen: str | None, excluded: str | None) -> tuple[str, ...]:
    if chosen is not None and excluded is not None:
        raise InvalidParameterError(
            "properties and exclude-properties exclude each other", "exclude-properties"
        )
    parameter = "properties" if excluded is None else "exclude-properties"
    text = chosen if excluded is None else excluded
    if text is None:
        return coverage.fields
    names = tuple(dict.fromkeys(name.strip() for name in text[:200].split(",")))
    for name in names:
        if name not in coverage.fields:
            raise InvalidParameterError(
                f"there is no field {printable(name)}; fields are {', '.join(coverage.fields)}",
                parameter,
            )
    if excluded is None:
        return names
    left = tuple(name for name in coverage.fields if name not in names)
    if not left:
        raise InvalidParameterError("exclude-properties leaves no field", parameter)
    return left
