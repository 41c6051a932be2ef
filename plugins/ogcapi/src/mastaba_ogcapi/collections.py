"""The list of collections (OGC API Common Part 2, 20-024 clause 8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mastaba_ogcapi.collection import collection_document
from mastaba_ogcapi.links import metadata_links
from mastaba_ows.links import self_links

if TYPE_CHECKING:
    from mastaba_ogcapi.dataset import Collection, Dataset


def collections_document(dataset: Dataset, collections: Iterable[Collection]) -> dict[str, Any]:
    """Return a list of collections of the dataset."""
    listed = [collection_document(dataset, item) for item in collections]
    metadata = dataset.settings.metadata
    return {
        "links": [
            *self_links(f"{dataset.uri}/collections", "Collections"),
            *metadata_links([metadata] if metadata else []),
        ],
        "numberMatched": len(listed),
        "numberReturned": len(listed),
        "collections": listed,
    }


def meeting(
    collections: Iterable[Collection], edges: tuple[float, float, float, float]
) -> list[Collection]:
    """Return the collections whose geographic extent touches or intersects a box.

    Args:
        edges: west, south, east, north in degrees.
    """
    west, south, east, north = edges
    # Across the antimeridian, the west is east of the east.
    parts = [(west, east)] if west <= east else [(west, 180.0), (-180.0, east)]
    found = []
    for item in collections:
        extent = item.layer.geographic_bbox
        is_beside = any(extent.xmin <= last and first <= extent.xmax for first, last in parts)
        if is_beside and extent.ymin <= north and south <= extent.ymax:
            found.append(item)
    return found
