"""The area and size of a map, from request parameters (ogcapi.md 9.2 and 9.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mastaba.api.catalogue import CRS, CRS84, BoundingBox
from mastaba.errors import InvalidParameterError
from mastaba_ogcapi import params
from mastaba_ogcapi.dimensions import axis_names
from mastaba_ogcapi.maparea import (
    Area,
    area_across,
    area_of,
    centred_area,
    check_pixels,
    extent_in,
    finest_scale,
    pixel_size,
    point_in,
    size_of,
    subset_area,
)
from mastaba_ows.crs import offered_crs

if TYPE_CHECKING:
    from mastaba.api.services import MapSettings
    from mastaba.api.web import Request
    from mastaba_ogcapi.dataset import Collection, Dataset

STANDARD_PIXEL: Final = 0.28
"""Pixel size for scale denominators, in millimetres."""


@dataclass(frozen=True, slots=True)
class WantedSize:
    """The size of a map in a request; None for absent values.

    Attributes:
        width, height: pixels, within the limits.
        scale: scale denominator.
        millimetres: size of a pixel on the display.
    """

    width: int | None
    height: int | None
    scale: float | None
    millimetres: float

    @property
    def pixel(self) -> float | None:
        """Size of a pixel on the ground in metres; None without a scale."""
        return None if self.scale is None else pixel_size(self.scale, self.millimetres)

    def check_alone(self) -> None:
        """Check that a scale and a size are not both given, when the extent is given too.

        Raises:
            InvalidParameterError: both are given.
        """
        if self.scale is not None and (self.width is not None or self.height is not None):
            raise InvalidParameterError(
                "scale-denominator and an extent leave no choice of width and height",
                "scale-denominator",
            )


def wanted_size(parameters: Mapping[str, str], limits: MapSettings) -> WantedSize:
    """Return the size of a map from a request.

    Raises:
        InvalidParameterError: a parameter is invalid.
    """
    millimetres = params.positive_number(parameters, "mm-per-pixel")
    return WantedSize(
        params.size(parameters, "width", limits.max_width),
        params.size(parameters, "height", limits.max_height),
        params.positive_number(parameters, "scale-denominator"),
        STANDARD_PIXEL if millimetres is None else millimetres,
    )


class AreaReader:
    """Finds the area and size of a map.

    Args:
        collections: to draw.
        crs: of the map.
        offered: codes of the CRSs accepted for coordinates; CRS:84 always is.
    """

    def __init__(
        self,
        dataset: Dataset,
        collections: Sequence[Collection],
        crs: CRS,
        offered: Sequence[str],
    ) -> None:
        self._equivalences = dataset.site.catalogue.settings.equivalences
        self._layers = [item.layer for item in collections]
        self._crs = crs
        # Coordinates may be in degrees even if maps are not offered in degrees.
        self._offered = {*offered, CRS84}

    def find(
        self, request: Request, size: WantedSize, default: int, limits: MapSettings
    ) -> tuple[Area, int, int]:
        """Return the area, columns and rows of a map.

        Args:
            default: larger dimension in pixels if the request gives no size.

        Raises:
            InvalidParameterError: a parameter is invalid, or the map is too large.
            OutsideError: ``subset`` is outside the collections.
        """
        parameters = request.query
        intervals = None
        if "subset" in parameters:
            # Without an axis of the CRS, the map has the whole area.
            intervals = params.subsets(request, axis_names(self._layers)) or None
        given = [
            name
            for name in ("bbox", "subset", "center")
            if name in parameters and not (name == "subset" and intervals is None)
        ]
        if len(given) > 1:
            raise InvalidParameterError(f"{given[1]} and {given[0]} exclude each other", given[1])
        if intervals is None and "bbox" not in parameters:
            has_size = size.width is not None or size.height is not None
            # A scale and a size without an extent define the area around the centre.
            if "center" in parameters or (size.scale is not None and has_size):
                return self._around(parameters, size, default, limits)
            area = Area(self._extent_in(self._crs), crs=self._crs)
        else:
            size.check_alone()
            area = self._part(parameters, intervals)
        columns, rows = size_of(area, size.width, size.height, size.pixel, default, limits)
        return area, columns, rows

    def _part(
        self, parameters: Mapping[str, str], intervals: Mapping[str, params.Interval] | None
    ) -> Area:
        if intervals is None:
            source = self._source(parameters, "bbox-crs")
            cyclic = int(source.northing_first) if source.is_geographic else None
            one, two, three, four = params.box(parameters["bbox"], "bbox", cyclic=cyclic)
            if source.northing_first:
                one, two, three, four = two, one, four, three
            box = BoundingBox(one, two, three, four)
            find = area_across if one > three else area_of
            return find(box, self._resolved(source), self._crs, "bbox")
        source = self._resolved(self._source(parameters, "subset-crs"))
        return subset_area(intervals, source, self._extent_in(source), self._crs)

    def _around(
        self, parameters: Mapping[str, str], size: WantedSize, default: int, limits: MapSettings
    ) -> tuple[Area, int, int]:
        columns = size.width or min(size.height or default, limits.max_width)
        rows = size.height or min(size.width or default, limits.max_height)
        check_pixels(columns, rows, limits)
        pixel = size.pixel
        if pixel is None:
            pixel = pixel_size(finest_scale(self._layers), size.millimetres)
        x, y = self._centre(parameters)
        return centred_area(x, y, self._crs, columns, rows, pixel), columns, rows

    def _centre(self, parameters: Mapping[str, str]) -> tuple[float, float]:
        if "center" not in parameters:
            extent = self._extent_in(self._crs)
            return (extent.xmin + extent.xmax) / 2, (extent.ymin + extent.ymax) / 2
        x, y = params.numbers(parameters["center"], "center", (2,))
        source = self._source(parameters, "center-crs")
        if source.northing_first:
            x, y = y, x
        return point_in(x, y, self._resolved(source), self._crs)

    def _source(self, parameters: Mapping[str, str], name: str) -> CRS:
        """Return the CRS of coordinates; CRS:84 if the parameter is absent."""
        text = parameters.get(name)
        return CRS.from_code(CRS84) if text is None else offered_crs(text, self._offered, name)

    def _extent_in(self, crs: CRS) -> BoundingBox:
        return extent_in(self._layers, crs, self._equivalences)

    def _resolved(self, source: CRS) -> CRS:
        """Return the CRS of the map if a CRS is treated as the same, otherwise the CRS."""
        is_same = self._equivalences.equal(source.code, self._crs.code)
        return self._crs if is_same else source
