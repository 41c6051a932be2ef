"""Descriptions of coverages of version 2.0.1, in GML (OGC 09-146r2 and 09-110r4 clause 8.3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mastaba.api.web import coordinate, decimal
from mastaba_ows.xml import XLINK, XSI, Element, add, add_filled, root_element
from mastaba_wcs.formats import GEOTIFF
from mastaba_wcs.names import GML, GMLCOV, OWS, PREFIXES, SCHEMAS, SWE, WCS
from mastaba_wcs.published import axis_labels, crs_address, ordered

if TYPE_CHECKING:
    from mastaba.api.catalogue import CRS, BoundingBox
    from mastaba_wcs.published import PublishedCoverage

_SUBTYPE: Final = "RectifiedGridCoverage"
_FILE: Final = "cid:coverage"
_GEOTIFF_CLASS: Final = (
    "http://www.opengis.net/spec/GMLCOV_geotiff-coverages/1.0/conf/geotiff-coverage"
)
_NO_UNIT: Final = "1"
"""Unit of values without one, in UCUM."""
_UNKNOWN: Final = "http://www.opengis.net/def/nil/OGC/0/unknown"
_INTERVALS: Final = {"float32": "", "uint8": "0 255"}
"""Range of the values by their type."""

CONTENT_ID: Final = _FILE.removeprefix("cid:")
"""Content-ID of the file that a coverage in GML refers to."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A grid, as documents describe it.

    Attributes:
        crs: of the grid.
        edges: its outer edges.
        columns, rows: number of cells.
    """

    crs: CRS
    edges: BoundingBox
    columns: int
    rows: int


def descriptions(published: Iterable[PublishedCoverage]) -> Element:
    """Return the answer to DescribeCoverage."""
    root = root_element(f"{WCS}CoverageDescriptions", {f"{XSI}schemaLocation": SCHEMAS}, PREFIXES)
    for one in published:
        window = one.grid.window
        grid = Grid(one.crs, one.edges, window.columns, window.rows)
        element = add(root, f"{WCS}CoverageDescription", attributes={f"{GML}id": one.id})
        add_filled(element, (f"{GML}description", one.layer.abstract))
        add(element, f"{GML}name", one.layer.title)
        _add_envelope(element, grid)
        add(element, f"{WCS}CoverageId", one.id)
        _add_function(element)
        _add_registration(element, one)
        _add_domain(element, one.id, grid)
        _add_range(element, one, one.coverage.fields)
        parameters = add(element, f"{WCS}ServiceParameters")
        add(parameters, f"{WCS}CoverageSubtype", _SUBTYPE)
        add(parameters, f"{WCS}nativeFormat", GEOTIFF)
    return root


def coverage_without_values(
    published: PublishedCoverage, grid: Grid, fields: tuple[str, ...]
) -> Element:
    """Return a coverage in GML, of which the values are in another part of the message.

    Args:
        grid: of the answer.
        fields: names of its fields, in order.
    """
    identifier = published.id
    root = root_element(f"{GMLCOV}{_SUBTYPE}", {f"{GML}id": identifier}, PREFIXES)
    _add_envelope(root, grid)
    _add_domain(root, identifier, grid)
    file = add(add(root, f"{GML}rangeSet"), f"{GML}File")
    role = {
        f"{XLINK}arcrole": "fileReference",
        f"{XLINK}href": _FILE,
        f"{XLINK}role": _GEOTIFF_CLASS,
    }
    add(file, f"{GML}rangeParameters", attributes=role)
    add(file, f"{GML}fileReference", _FILE)
    add(file, f"{GML}fileStructure", "inapplicable")
    add(file, f"{GML}mimeType", GEOTIFF)
    _add_function(root)
    _add_range(root, published, fields)
    return root


def _add_envelope(parent: Element, grid: Grid) -> None:
    crs, edges = grid.crs, grid.edges
    unit = "deg" if crs.is_geographic else "m"
    attributes = {
        "srsName": _name(crs),
        "axisLabels": " ".join(axis_labels(crs)),
        "uomLabels": f"{unit} {unit}",
        "srsDimension": "2",
    }
    envelope = add(add(parent, f"{GML}boundedBy"), f"{GML}Envelope", attributes=attributes)
    add(envelope, f"{GML}lowerCorner", _position(crs, edges.xmin, edges.ymin))
    add(envelope, f"{GML}upperCorner", _position(crs, edges.xmax, edges.ymax))


def _add_function(parent: Element) -> None:
    function = add(add(parent, f"{GML}coverageFunction"), f"{GML}GridFunction")
    # GDAL swaps the axes by the CRS, and once more if the order differs.
    add(function, f"{GML}sequenceRule", "Linear", {"axisOrder": "+1 +2"})
    add(function, f"{GML}startPoint", "0 0")


def _add_registration(parent: Element, published: PublishedCoverage) -> None:
    """Say that values belong to points. Clients read all boxes as edges."""
    if published.grid.is_post:
        words = "post: a value belongs to the point in the middle of its cell"
        extension = add(add(parent, f"{GMLCOV}metadata"), f"{GMLCOV}Extension")
        attributes = {"about": "registration", f"{XLINK}title": words}
        add(extension, f"{OWS}Metadata", attributes=attributes)


def _add_domain(parent: Element, identifier: str, grid: Grid) -> None:
    crs, edges, name = grid.crs, grid.edges, _name(grid.crs)
    width = (edges.xmax - edges.xmin) / grid.columns
    height = (edges.ymax - edges.ymin) / grid.rows
    # No identifier of a coverage contains "_x_".
    attributes = {f"{GML}id": f"{identifier}_x_grid", "dimension": "2", "srsName": name}
    element = add(add(parent, f"{GML}domainSet"), f"{GML}RectifiedGrid", attributes=attributes)
    limits = add(add(element, f"{GML}limits"), f"{GML}GridEnvelope")
    add(limits, f"{GML}low", "0 0")
    add(limits, f"{GML}high", f"{grid.columns - 1} {grid.rows - 1}")
    add(element, f"{GML}axisLabels", "i j")
    attributes = {f"{GML}id": f"{identifier}_x_origin", "srsName": name}
    point = add(add(element, f"{GML}origin"), f"{GML}Point", attributes=attributes)
    # The middle of the upper left cell.
    add(point, f"{GML}pos", _position(crs, edges.xmin + width / 2, edges.ymax - height / 2))
    for x, y in ((width, 0.0), (0.0, -height)):
        add(element, f"{GML}offsetVector", _position(crs, x, y), {"srsName": name})


def _add_range(parent: Element, published: PublishedCoverage, fields: tuple[str, ...]) -> None:
    coverage = published.coverage
    record = add(add(parent, f"{GMLCOV}rangeType"), f"{SWE}DataRecord")
    for name in fields:
        nodata = published.nodata[coverage.fields.index(name)]
        quantity = add(add(record, f"{SWE}field", attributes={"name": name}), f"{SWE}Quantity")
        add(quantity, f"{SWE}label", name.capitalize())
        if nodata is not None:
            values = add(add(quantity, f"{SWE}nilValues"), f"{SWE}NilValues")
            add(values, f"{SWE}nilValue", decimal(nodata), {"reason": _UNKNOWN})
        add(quantity, f"{SWE}uom", attributes={"code": coverage.unit or _NO_UNIT})
        interval = _INTERVALS[coverage.dtype.name]
        if interval:
            allowed = add(add(quantity, f"{SWE}constraint"), f"{SWE}AllowedValues")
            add(allowed, f"{SWE}interval", interval)


def _name(crs: CRS) -> str:
    return crs_address(crs.code) or crs.urn


def _position(crs: CRS, x: float, y: float) -> str:
    return " ".join(map(coordinate, ordered(crs, x, y)))
