"""Descriptions of coverages of version 1.0.0 (OGC 03-065r6 clause 8). Coordinates are x, y."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from mastaba.api.web import coordinate, decimal
from mastaba_ows.xml import Element, add
from mastaba_wcs.capabilities100 import add_brief, add_corners, root_100
from mastaba_wcs.formats import GEOTIFF_100, KERNELS_100
from mastaba_wcs.names import GML_100, WCS_100

if TYPE_CHECKING:
    from mastaba_wcs.published import PublishedCoverage

_SHARP: Final = "bicubic"
"""Method of the standard that is nearest to kernels that it does not know."""


def descriptions_100(published: Iterable[PublishedCoverage]) -> Element:
    """Return the answer to DescribeCoverage."""
    root = root_100("CoverageDescription", "describeCoverage.xsd")
    for one in published:
        _add_offering(root, one)
    return root


def _add_offering(root: Element, published: PublishedCoverage) -> None:
    offering = add_brief(root, "CoverageOffering", published)
    _add_domain(add(offering, f"{WCS_100}domainSet"), published)
    values = add(add(offering, f"{WCS_100}rangeSet"), f"{WCS_100}RangeSet")
    add(values, f"{WCS_100}name", "values")
    add(values, f"{WCS_100}label", ", ".join(published.coverage.fields))
    nodata = set(published.nodata)
    if len(nodata) == 1 and (value := nodata.pop()) is not None:
        nulls = add(values, f"{WCS_100}nullValues")
        add(nulls, f"{WCS_100}singleValue", decimal(value))
    systems = add(offering, f"{WCS_100}supportedCRSs")
    for code in published.codes:
        add(systems, f"{WCS_100}requestResponseCRSs", code)
    add(systems, f"{WCS_100}nativeCRSs", published.crs.code)
    formats = add(offering, f"{WCS_100}supportedFormats", attributes={"nativeFormat": GEOTIFF_100})
    add(formats, f"{WCS_100}formats", GEOTIFF_100)
    kernel = published.layer.resampling
    default = next((name for name, one in KERNELS_100.items() if one == kernel), _SHARP)
    attributes = {"default": default}
    methods = add(offering, f"{WCS_100}supportedInterpolations", attributes=attributes)
    for name in KERNELS_100:
        add(methods, f"{WCS_100}interpolationMethod", name)


def _add_domain(parent: Element, published: PublishedCoverage) -> None:
    domain = add(parent, f"{WCS_100}spatialDomain")
    edges, size, window = published.edges, published.grid.matrix.cell_size, published.grid.window
    name = {"srsName": published.crs.code}
    envelope = add(domain, f"{GML_100}Envelope", attributes=name)
    add_corners(envelope, edges.xmin, edges.ymin, edges.xmax, edges.ymax)
    grid = add(domain, f"{GML_100}RectifiedGrid", attributes={**name, "dimension": "2"})
    limits = add(add(grid, f"{GML_100}limits"), f"{GML_100}GridEnvelope")
    add(limits, f"{GML_100}low", "0 0")
    add(limits, f"{GML_100}high", f"{window.columns - 1} {window.rows - 1}")
    for axis in ("x", "y"):
        add(grid, f"{GML_100}axisName", axis)
    # The middle of the upper left cell.
    corner = edges.xmin + size / 2, edges.ymax - size / 2
    add(add(grid, f"{GML_100}origin"), f"{GML_100}pos", " ".join(map(coordinate, corner)))
    for vector in ((size, 0.0), (0.0, -size)):
        add(grid, f"{GML_100}offsetVector", " ".join(map(coordinate, vector)))
