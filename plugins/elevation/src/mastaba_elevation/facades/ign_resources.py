"""The resources of IGN's altimetry service (elevation.md 3.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mastaba.api.web import decode

if TYPE_CHECKING:
    from mastaba_elevation.queries.datasets import Dataset, Datasets
    from mastaba_elevation.queries.vertical import Vertical


def resources(datasets: Datasets, query: str) -> dict[str, Any]:
    """Return the list of resources.

    Args:
        query: query string. A resource has all its ``keywords``, which may be given repeatedly.
    """
    words = {word.lower() for word in _repeated(query, "keywords")}
    found = [
        resource(dataset)
        for dataset in datasets.values()
        if words <= {word.lower() for word in dataset.keywords}
    ]
    return {"resources": found}


def resource(dataset: Dataset) -> dict[str, Any]:
    """Return the description of a resource."""
    box = dataset.box
    return {
        "id": dataset.id,
        "title": dataset.title,
        "description": dataset.description,
        "keywords": list(dataset.keywords),
        "bbox": [box.xmin, box.ymin, box.xmax, box.ymax],
        "used_data": [
            {
                "title": layer.layer.title,
                "source": vertical.source,
                "accuracy": accuracy_of(vertical),
            }
            for layer, vertical in zip(dataset.layers, dataset.verticals, strict=True)
        ],
    }


def accuracy_of(vertical: Vertical) -> float | str:
    """Return the accuracy of heights: metres, or a text, which is empty if it is unknown."""
    return "" if vertical.accuracy is None else vertical.accuracy


def _repeated(query: str, name: str) -> list[str]:
    """Return all values of a parameter, which may be given several times."""
    pairs = (item.partition("=") for item in query.split("&"))
    return [decode(value) for key, _, value in pairs if decode(key).lower() == name and value]
