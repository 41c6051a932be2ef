"""Values for the parameters of the API: requests with them find data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from mastaba.api.catalogue import geographic_bbox
from mastaba.errors import AccessError, SlabFormatError, StorageError

if TYPE_CHECKING:
    from mastaba.api.catalogue import BoundingBox, Layer, Level, TileLimits
    from mastaba_ogcapi.dataset import Collection, Dataset

_SEARCHED: Final = 100
"""Most tiles of a level whose index is read."""

_WIDTH: Final = 512


def examples(dataset: Dataset, collection: Collection | None = None) -> Mapping[str, Any]:
    """Return a value for each parameter, by its key in ``openapi.yaml``.

    Parameters that exclude one another, or change little, have none.

    Args:
        dataset: the published collections.
        collection: the collection of the values; by default an image and the first
            collection of vector tiles.
    """
    chosen = collection or _default(dataset)
    found: dict[str, Any] = {"f": "json", "f-api": "json", "f-tileset": "json"}
    if chosen is None:
        return found | {"tileMatrixSetId": next(iter(dataset.tile_matrix_sets), None)}
    raster = vector = None
    if chosen.layer.is_vector:
        vector, raster = chosen, next(iter((*dataset.pictures, *dataset.raster)), None)
    else:
        raster, vector = chosen, next(iter(dataset.vector), None)
    found["collectionId"] = chosen.id
    found["tileMatrixSetId"] = chosen.layer.pyramid.tile_matrix_set.id
    found["bbox"] = _degrees(chosen.layer, chosen.layer.native_bbox)
    downloadable = chosen if chosen.has_coverage else next(iter(dataset.downloadable), None)
    if downloadable:
        found["coverageCollectionId"] = downloadable.id
    found |= _chunk(dataset, chosen)
    if vector:
        found |= {"vectorCollectionId": vector.id, "f-vectorTile": "mvt"}
        found |= {f"vector-{name}": value for name, value in _tile(dataset, vector).items()}
    styled = [item for item in (raster, vector) if item and (item is raster or item.stylesheets)]
    if styled:
        found["styledCollectionId"] = styled[0].id
    found["stylesheetId"] = next(iter(dataset.stylesheets), None)
    if raster:
        found |= {"rasterCollectionId": raster.id, **_tile(dataset, raster)}
        found |= _map(dataset, raster)
    return found


def _default(dataset: Dataset) -> Collection | None:
    """Return a collection that browsers show as it is stored, or else any."""
    stored = (item for item in dataset.pictures if item.layer.pyramid.format.is_picture)
    return next(chain(stored, dataset.pictures, dataset.collections.values()), None)


def _map(dataset: Dataset, collection: Collection) -> dict[str, Any]:
    layer, style = collection.layer, collection.layer.default_style
    limits = dataset.site.catalogue.settings.map
    level, row, col = _stored_tile(dataset, layer)
    natural, stored = collection.natural_format(style), layer.pyramid.format
    shared = [code for code in collection.crs if code in dataset.dataset_crs]
    return {
        "styleId": style.identifier if style else None,
        "f-mapTile": _shown(dataset, stored.short_name, is_picture=stored.is_picture),
        "f-map": _shown(dataset, natural.name, is_picture=natural.is_picture) if natural else None,
        "crs": (shared or collection.crs)[0],
        "bbox-map": _degrees(layer, _box(level, row, col)),
        "width-map": min(_WIDTH, limits.max_width),
        "collections": [collection.id],
    }


def _shown(dataset: Dataset, name: str, *, is_picture: bool) -> str:
    """Return the name of a format, or else of one that browsers show."""
    offered = (item.name for item in dataset.formats.all if item.is_picture)
    return name if is_picture else next(offered, name)


def _tile(dataset: Dataset, collection: Collection) -> dict[str, Any]:
    level, row, col = _stored_tile(dataset, collection.layer)
    return {
        "tileMatrixSetId": collection.layer.pyramid.tile_matrix_set.id,
        "tileMatrix": level.matrix.id,
        "tileRow": row,
        "tileCol": col,
    }


def _chunk(dataset: Dataset, chosen: Collection) -> dict[str, Any]:
    """Return the values for a chunk of a Zarr array; none if no collection has some."""
    collection = chosen if chosen.has_zarr else next(iter(dataset.with_zarr), None)
    if collection is None or collection.zarr is None:
        return {}
    name = collection.zarr.levels[-1]
    level = collection.layer.pyramid.levels[name]
    _, row, col = _stored_tile(dataset, collection.layer, level)
    return {
        "zarrCollectionId": collection.id,
        "zarr-tileMatrix": name,
        "chunk": collection.zarr.key_of(name, row, col),
    }


def _stored_tile(
    dataset: Dataset, layer: Layer, level: Level | None = None
) -> tuple[Level, int, int]:
    """Return a stored tile of a level, the coarsest by default, close to its middle."""
    level = level or layer.pyramid.coarsest
    reader = dataset.site.catalogue.readers_of(layer)[level.matrix.id]
    places = list(islice(_from_the_middle(level.limits), _SEARCHED))
    try:
        row, col = next((place for place in places if reader.locate(*place)), places[0])
    except (AccessError, SlabFormatError, StorageError):
        row, col = places[0]
    return level, row, col


def _from_the_middle(limits: TileLimits) -> Iterator[tuple[int, int]]:
    """Yield the rows and columns within limits, in growing squares around the middle."""
    middle_row = (limits.min_row + limits.max_row) // 2
    middle_col = (limits.min_col + limits.max_col) // 2
    farthest = max(limits.max_row - middle_row, limits.max_col - middle_col)
    for distance in range(farthest + 1):
        for row in range(middle_row - distance, middle_row + distance + 1):
            is_edge = abs(row - middle_row) == distance
            for col in range(
                middle_col - distance,
                middle_col + distance + 1,
                1 if is_edge else max(1, 2 * distance),
            ):
                if limits.contains(row, col):
                    yield row, col


def _box(level: Level, row: int, col: int) -> BoundingBox:
    return level.matrix.bbox_of(type(level.limits)(row, row, col, col))


def _degrees(layer: Layer, box: BoundingBox) -> list[float]:
    """Return the part of a box in the layer: west, south, east, north."""
    box = box.intersection(layer.native_bbox) or layer.native_bbox
    try:
        box = geographic_bbox(box, layer.pyramid.tile_matrix_set.crs)
    except ValueError:
        box = layer.geographic_bbox
    return [round(edge, 6) for edge in (box.xmin, box.ymin, box.xmax, box.ymax)]
