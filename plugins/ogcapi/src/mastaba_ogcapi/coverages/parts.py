"""Parts of a coverage that are small enough to be sent: COGs, which together are all of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from mastaba.api.catalogue import WGS84, BoundingBox, poles_in, transform_points
from mastaba_ogcapi.crs import in_axis_order, resolvable_crs
from mastaba_ogcapi.links import collection_address
from mastaba_ows.boxes import bounds, polygon
from mastaba_ows.links import link
from mastaba_render.api.maps import box_on_ground

if TYPE_CHECKING:
    from mastaba_coverage import Cells
    from mastaba_ogcapi.dataset import Collection, Dataset

GEOJSON: Final = "application/geo+json"
TEXT: Final = "text/plain"
_MOST: Final = 40_000
_POINTS: Final = 256
"""Points of an edge of one part that is the whole layer."""
_FEWEST: Final = 9
_HALF_TURN: Final = 180.0
"""Degrees; a wider box may be across the antimeridian."""


def has_parts(dataset: Dataset, collection: Collection) -> bool:
    """Return whether parts can be small enough to be sent, and are few enough to be listed."""
    blocks = _blocks(dataset, collection)
    return blocks is not None and len(blocks[2]) * len(blocks[3]) <= _MOST


def parts_path(collection: Collection) -> str:
    """Return the path of the list of parts below the service."""
    return collection_address("", collection.id, "coverage", "parts")


def parts_document(dataset: Dataset, collection: Collection) -> dict[str, Any]:
    """Return the parts as GeoJSON; GDAL reads them as the index of a mosaic (GTI)."""
    href = f"{dataset.uri}{parts_path(collection)}"
    crs = collection.coverage.crs
    grid = collection.coverage.finest
    parts = list(_parts(dataset, collection))
    boxes = [grid.edges(cells) for cells in parts]
    features = []
    for cells, edges, box in zip(parts, boxes, _geographic(boxes, collection), strict=True):
        address = _address(dataset, collection, cells)
        features.append(
            {
                "type": "Feature",
                "geometry": polygon(bounds(box)),
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


def _blocks(dataset: Dataset, collection: Collection) -> tuple[int, int, range, range] | None:
    """Return height and width of a part, cells, and the rows and columns of parts.

    None if a part of a single tile may be too large.
    """
    from mastaba_coverage import side_of_parts

    assert dataset.coverages is not None
    window, matrix = collection.coverage.finest.window, collection.coverage.finest.matrix
    side = side_of_parts(collection.coverage, dataset.coverages)
    if not side:
        return None
    height, width = side * matrix.tile_height, side * matrix.tile_width
    rows = range(window.top // height, (window.bottom - 1) // height + 1)
    columns = range(window.left // width, (window.right - 1) // width + 1)
    return height, width, rows, columns


def _parts(dataset: Dataset, collection: Collection) -> Iterator[Cells]:
    from mastaba_coverage import Cells

    window = collection.coverage.finest.window
    blocks = _blocks(dataset, collection)
    assert blocks is not None
    height, width, rows, columns = blocks
    for row in rows:
        for col in columns:
            block = Cells(row * height, (row + 1) * height, col * width, (col + 1) * width)
            part = block.intersection(window)
            assert part is not None
            yield part


def _geographic(boxes: Sequence[BoundingBox], collection: Collection) -> Iterator[BoundingBox]:
    """Yield the boxes in longitude and latitude; that of the layer where one has none.

    Across the antimeridian, west is larger than east. All are transformed at once. Many parts are
    small, so few points of an edge are enough.
    """
    import numpy as np

    steps = np.linspace(0, 1, max(_FEWEST, _POINTS // math.isqrt(len(boxes))))
    edges = np.array([(box.xmin, box.ymin, box.xmax, box.ymax) for box in boxes])
    left, lower, right, upper = edges.T[:, :, np.newaxis]
    across, up = left + steps * (right - left), lower + steps * (upper - lower)
    sides = np.ones_like(steps)
    x = np.hstack([across, across, left * sides, right * sides])
    y = np.hstack([lower * sides, upper * sides, up, up])
    x, y = transform_points(collection.coverage.crs, WGS84, x, y)
    found = np.stack([x.min(axis=1), y.min(axis=1), x.max(axis=1), y.max(axis=1)], axis=1)
    crs = collection.coverage.crs
    for box, corners in zip(boxes, found.tolist(), strict=True):
        on_ground = None
        if all(map(math.isfinite, corners)):
            if corners[2] - corners[0] <= _HALF_TURN and not poles_in(box, crs):
                yield BoundingBox(*corners)
                continue
            on_ground = box_on_ground(box, crs, WGS84)
        yield collection.layer.geographic_bbox if on_ground is None else on_ground.written


def _address(dataset: Dataset, collection: Collection, cells: Cells) -> str:
    crs, box = collection.coverage.crs, collection.coverage.finest.bounds(cells)
    east, north = ("Lon", "Lat") if crs.is_geographic else ("E", "N")
    x = f"{box.xmin:.15g}:{box.xmax:.15g}"
    y = f"{box.ymin:.15g}:{box.ymax:.15g}"
    href = collection_address(dataset.uri, collection.id, "coverage")
    code = quote(resolvable_crs(crs.code), safe=":/")
    return f"{href}?f=cog&subset={east}({x}),{north}({y})&subset-crs={code}"
