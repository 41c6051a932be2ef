"""Parts of a coverage that are small enough to be sent: COGs, which together are all of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from mastaba.api.catalogue import WGS84, BoundingBox
from mastaba_ogcapi.crs import in_axis_order, resolvable_crs, rounded
from mastaba_ogcapi.links import collection_address, link

if TYPE_CHECKING:
    from mastaba_coverage import Cells
    from mastaba_ogcapi.dataset import Collection, Dataset

GEOJSON: Final = "application/geo+json"
TEXT: Final = "text/plain"
_SIDE: Final = 512
"""Tiles of a side: the corner of a part is the corner of a tile of nine overviews."""
_MOST: Final = 10_000


def side_of_parts(dataset: Dataset) -> int:
    """Return the number of tiles of a side: 512, or fewer if the limit of tiles is low."""
    assert dataset.coverages is not None
    side = _SIDE
    while side > 1 and side * side * 4 // 3 + side > dataset.coverages.tiles:
        side //= 2
    return side


def has_parts(dataset: Dataset, collection: Collection) -> bool:
    """Return whether the parts of a coverage can be listed: there are not too many."""
    window, matrix = collection.coverage.finest.window, collection.coverage.finest.matrix
    side = side_of_parts(dataset)
    down = window.bottom // (side * matrix.tile_height) - window.top // (side * matrix.tile_height)
    across = window.right // (side * matrix.tile_width) - window.left // (side * matrix.tile_width)
    return (down + 1) * (across + 1) <= _MOST


def parts_document(dataset: Dataset, collection: Collection) -> dict[str, Any]:
    """Return the parts as GeoJSON; GDAL reads them as the index of a mosaic (GTI)."""
    href = collection_address(dataset.uri, collection.id, "coverage", "parts")
    crs = collection.coverage.crs
    grid = collection.coverage.finest
    features = []
    for cells in _parts(dataset, collection):
        address, edges = _address(dataset, collection, cells), grid.edges(cells)
        try:
            box = crs.transform_bbox(edges, WGS84)
        except ValueError:
            box = collection.layer.geographic_bbox
        features.append(
            {
                "type": "Feature",
                "geometry": {"type": "Polygon", "coordinates": [_ring(box)]},
                "properties": {
                    "location": f"/vsicurl/{address}",
                    "href": address,
                    "storageCrsBbox": in_axis_order(edges, crs),
                    "columns": cells.columns,
                    "rows": cells.rows,
                },
            }
        )
    links = [
        link(f"{href}?f=json", "self", GEOJSON, "Parts"),
        link(f"{href}?f=txt", "alternate", TEXT, "Addresses of the parts"),
    ]
    return {"type": "FeatureCollection", "features": features, "links": links}


def parts_text(dataset: Dataset, collection: Collection) -> str:
    """Return the addresses of the parts, one for each line."""
    parts = _parts(dataset, collection)
    return "".join(f"{_address(dataset, collection, cells)}\n" for cells in parts)


def _parts(dataset: Dataset, collection: Collection) -> Iterator[Cells]:
    from mastaba_coverage import Cells

    window, matrix = collection.coverage.finest.window, collection.coverage.finest.matrix
    side = side_of_parts(dataset)
    height, width = side * matrix.tile_height, side * matrix.tile_width
    for row in range(window.top // height, (window.bottom - 1) // height + 1):
        for col in range(window.left // width, (window.right - 1) // width + 1):
            block = Cells(row * height, (row + 1) * height, col * width, (col + 1) * width)
            part = block.intersection(window)
            assert part is not None
            yield part


def _address(dataset: Dataset, collection: Collection, cells: Cells) -> str:
    crs, box = collection.coverage.crs, collection.coverage.finest.bounds(cells)
    east, north = ("Lon", "Lat") if crs.is_geographic else ("E", "N")
    x = f"{box.xmin:.15g}:{box.xmax:.15g}"
    y = f"{box.ymin:.15g}:{box.ymax:.15g}"
    href = collection_address(dataset.uri, collection.id, "coverage")
    code = quote(resolvable_crs(crs.code), safe=":/")
    return f"{href}?f=cog&subset={east}({x}),{north}({y})&subset-crs={code}"


def _ring(box: BoundingBox) -> list[list[float]]:
    """Return the outline of a box, against the clock."""
    corners = (
        *((box.xmin, box.ymin), (box.xmax, box.ymin), (box.xmax, box.ymax)),
        *((box.xmin, box.ymax), (box.xmin, box.ymin)),
    )
    return [[rounded(x), rounded(y)] for x, y in corners]
