"""Documents about coverages: links, the grid, the schema, and two that older clients read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mastaba.api.services import Download
from mastaba_ogcapi.coverages.formats import GEOTIFF
from mastaba_ogcapi.crs import in_axis_order, ordered_axes, resolvable_crs
from mastaba_ogcapi.links import RELS, collection_address
from mastaba_ows.boxes import rounded
from mastaba_ows.links import JSON, REL, Link, link

if TYPE_CHECKING:
    from mastaba.api.catalogue import CRS
    from mastaba_coverage import Coverage
    from mastaba_ogcapi.dataset import Collection, Dataset

SCHEMA: Final = "application/schema+json"
ZARR: Final = "application/vnd.zarr; version=2"
_OGC_DATA_TYPES: Final = "http://www.opengis.net/def/dataType/OGC/0"
_CRS84: Final = "http://www.opengis.net/def/crs/OGC/1.3/CRS84"


def coverage_links(dataset: Dataset, collection: Collection) -> list[Link]:
    """Return the links of a collection to its coverage."""
    href = collection_address(dataset.uri, collection.id)
    zarr = [_zarr_link(href, "related")] if collection.has_zarr else []
    return [
        *(
            link(f"{href}/coverage", f"{base}/coverage", GEOTIFF, "Download")
            for base in (REL, RELS)
        ),
        *(link(f"{href}/schema", f"{base}/schema", SCHEMA, "Fields") for base in (REL, RELS)),
        link(f"{href}/coverage/domainset", f"{REL}/coverage-domainset", JSON, "Grid in degrees"),
        link(f"{href}/coverage/rangetype", f"{REL}/coverage-rangetype", JSON, "Types of fields"),
        *zarr,
    ]


def _zarr_link(href: str, rel: str) -> Link:
    """Return a link to the Zarr group; ``href`` is the address of the collection."""
    return link(f"{href}/zarr", rel, ZARR, "The levels as Zarr arrays")


def spatial_grid(coverage: Coverage) -> dict[str, Any]:
    """Return what a collection says of its grid, and the box of it, by key of the extent."""
    crs = coverage.layer.pyramid.tile_matrix_set.crs
    grid, finest = coverage.finest, coverage.finest.matrix.cell_size
    edges, sizes = (
        grid.edges(grid.window),
        [one.matrix.cell_size for one in coverage.grids.values()],
    )
    half = 0.0 if grid.is_post else rounded(finest / 2)
    axes = [(edges.xmin, grid.window.columns), (edges.ymin, grid.window.rows)]
    if crs.northing_first:
        axes.reverse()
    return {
        "storageCrsBbox": [in_axis_order(grid.bounds(grid.window), crs)],
        "grid": [
            {
                "axis": axis,
                "cellsCount": count,
                "resolution": rounded(finest),
                "firstCoordinate": rounded(low + finest / 2),
                "relativeBounds": [-half if half else 0.0, half],
                "availableResolutions": [rounded(size) for size in reversed(sizes)],
            }
            for axis, (low, count) in zip(ordered_axes(crs), axes, strict=True)
        ],
    }


def coverage_summary(dataset: Dataset, collection: Collection) -> dict[str, Any]:
    """Return what the page of a coverage shows: links, fields and levels."""
    coverage = collection.coverage
    base = collection_address(dataset.uri, collection.id)
    href = f"{base}/coverage"
    finest = coverage.finest
    middle = finest.edges(finest.window)
    crs = coverage.crs
    x, y = (middle.xmin + middle.xmax) / 2, (middle.ymin + middle.ymax) / 2
    reach = min(500 * finest.matrix.cell_size, (middle.xmax - middle.xmin) / 4)
    east, north = (f"{v - reach:.12g}:{v + reach:.12g}" for v in (x, y))
    part = _part(crs, east, north)
    return {
        "description": collection.layer.abstract,
        "links": [
            link(f"{href}?f=html", "self", "text/html", "This page"),
            link(href, "item", GEOTIFF, "The whole coverage, as a COG"),
            link(f"{href}?f=geotiff&{part}", "item", GEOTIFF, "A part in the middle"),
            *([_zarr_link(base, "item")] if collection.has_zarr else ()),
            link(f"{base}/schema", "describedby", SCHEMA, "Fields"),
        ],
        "fields": list(coverage.fields),
        "registration": collection.layer.registration,
        "nodata": [rounded(value) for value in coverage.nodata],
        "levels": [
            {
                "level": name,
                "cell": rounded(grid.matrix.cell_size),
                "columns": grid.window.columns,
                "rows": grid.window.rows,
            }
            for name, grid in reversed(list(coverage.grids.items()))
        ],
    }


def coverage_downloads(dataset: Dataset, collection: Collection) -> list[Download]:
    """Return the files of a part of a coverage: ranges of all of them are served."""
    from mastaba_coverage import has_masks

    href = collection_address(dataset.uri, collection.id, "coverage")
    part = _part(collection.layer.pyramid.tile_matrix_set.crs, "{xmin}:{xmax}", "{ymin}:{ymax}")
    exact = f"{href}?f=geotiff&compression=none&level={{level}}&{part}"
    name = f"{collection.id}.tif"
    readers = dataset.site.catalogue.readers_of(collection.layer).values()
    mask = ("mask",) if has_masks(readers) else ()
    return [
        Download("cog", name, f"{href}?f=cog&{part}", takes=mask),
        Download("tif", name, exact, takes=("level", *mask)),
    ]


def _part(crs: CRS, east: str, north: str) -> str:
    """Return the parameters that select a part; intervals are of the form ``low:high``."""
    x, y = ("Lon", "Lat") if crs.is_geographic else ("E", "N")
    return f"subset={x}({east}),{y}({north})&subset-crs={resolvable_crs(crs.code)}"


def schema_document(dataset: Dataset, collection: Collection) -> dict[str, Any]:
    """Return the JSON schema of the fields of a coverage."""
    coverage, layer = collection.coverage, collection.layer
    is_float = coverage.dtype.kind == "f"
    # Numbers that a palette names, and that are never mixed.
    style = layer.default_style
    is_class = layer.resampling == "nn" and style is not None and style.palette is not None
    properties: dict[str, Any] = {}
    for number, (name, nodata) in enumerate(zip(coverage.fields, coverage.nodata, strict=True)):
        described: dict[str, Any] = {
            "title": name.capitalize(),
            "type": "number" if is_float else "integer",
            "x-ogc-propertySeq": number + 1,
            "x-ogc-variableType": "categoricalNominal" if is_class else "continuous",
        }
        if coverage.unit is not None:
            described["x-ogc-unit"] = coverage.unit
        if not is_float:
            described |= {"minimum": 0, "maximum": 255}
        if name != "alpha" and "alpha" not in coverage.fields:
            described["x-ogc-nullValues"] = [nodata if is_float else int(nodata)]
        properties[name] = described
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": collection_address(dataset.uri, collection.id, "schema"),
        "type": "object",
        "title": layer.title,
        "properties": properties,
    }


def domain_set(collection: Collection) -> dict[str, Any]:
    """Return the grid in degrees, as GDAL reads it: it takes all coverages for EPSG:4326."""
    box, window = collection.layer.geographic_bbox, collection.coverage.finest.window
    axes = [("Lon", box.xmin, box.xmax, window.columns), ("Lat", box.ymin, box.ymax, window.rows)]
    return {
        "type": "DomainSet",
        "generalGrid": {
            "type": "GeneralGridCoverage",
            "srsName": _CRS84,
            "axisLabels": [axis for axis, *_ in axes],
            "axis": [
                {
                    "type": "RegularAxis",
                    "axisLabel": axis,
                    "lowerBound": rounded(low),
                    "upperBound": rounded(high),
                    "resolution": rounded((high - low) / count),
                    "uomLabel": "degree",
                }
                for axis, low, high, count in axes
            ],
            "gridLimits": {
                "type": "GridLimits",
                "axisLabels": ["i", "j"],
                "axis": [
                    {"type": "IndexAxis", "axisLabel": label, "lowerBound": 0, "upperBound": n - 1}
                    for label, n in (("i", window.columns), ("j", window.rows))
                ],
            },
        },
    }


def range_type(collection: Collection) -> dict[str, Any]:
    """Return the types of the fields, as GDAL reads them."""
    coverage = collection.coverage
    name = "FLOAT32" if coverage.dtype.kind == "f" else "UINT8"
    kind = {"float32": "float32", "uint8": "unsignedByte"}[coverage.dtype.name]
    return {
        "type": "DataRecord",
        "field": [
            {
                "type": "Quantity",
                "name": field,
                "definition": name,
                "encodingInfo": {"dataType": f"{_OGC_DATA_TYPES}/{kind}"},
            }
            for field in coverage.fields
        ],
    }
