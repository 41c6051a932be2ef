"""What the resources of the service ``terrain`` have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import quote

from mastaba.api.web import anchor
from mastaba_elevation.terrain.coverage import Coverage, coverage_of
from mastaba_server.threads.recent import Recent

if TYPE_CHECKING:
    from mastaba.api.services import ServiceSettings, Site
    from mastaba.api.web import Request, Response
    from mastaba_elevation.queries.datasets import Dataset, Datasets
    from mastaba_elevation.terrain.settings import Settings

Headers = list[tuple[str, str]]

_MOST_COVERAGES: Final = 512
"""Datasets, at their values and in their sets, whose tiles are remembered."""

FORMATS: Final = {"png": "image/png", "webp": "image/webp"}
"""Media types by file name extension."""


class Context:
    """What every resource needs.

    Attributes:
        site: the configuration.
        service: settings of the service that all services have.
        settings: those of this service.
        datasets: by identifier.
        formats: file name extensions of the formats that are installed.
        resources: all resources; set when they are made.
    """

    resources: Sequence[Resource] = ()

    def __init__(
        self, site: Site, service: ServiceSettings, settings: Settings, datasets: Datasets
    ) -> None:
        self.site = site
        self.service = service
        self.settings = settings
        self.datasets = datasets
        self.formats = [name for name, kind in FORMATS.items() if kind in site.encoders]
        self._coverages: Recent[Coverage] = Recent(_MOST_COVERAGES)

    def uri(self, dataset: Dataset) -> str:
        """Return the public address of a dataset."""
        return f"{self.service.endpoint_uri}/{segment(dataset)}"

    def coverage(self, dataset: Dataset, tile_matrix_set: str | None = None) -> Coverage:
        """Return where a dataset has tiles in a set.

        Args:
            tile_matrix_set: identifier; None for Web Mercator.

        Raises:
            UnknownNameError: the dataset has no tiles in this set.
        """
        key = identity_of(dataset), tile_matrix_set or ""
        found = self._coverages.get(key)
        if found is None:
            # Two threads may compute it at the same time; both results are equal.
            equivalences = self.site.catalogue.settings.equivalences
            found = coverage_of(dataset, tile_matrix_set, equivalences, self.settings.overzoom)
            found = self._coverages.add(key, found)
        return found


def segment(dataset: Dataset) -> str:
    """Return the part of a path that names a dataset and its values."""
    return quote(dataset.id, safe=";=")


def identity_of(dataset: Dataset) -> Hashable:
    """Return what distinguishes a dataset, at its values, from others and its earlier contents."""
    return dataset.id, *((item.layer.key, item.layer.generation) for item in dataset.layers)


class Resource(ABC):
    """One kind of resource below a dataset.

    Args:
        context: what all have in common.
    """

    operation: ClassVar[str]
    """What metrics count its requests for."""

    def __init__(self, context: Context) -> None:
        self.context = context

    @abstractmethod
    def respond(self, request: Request, dataset: Dataset, path: list[str]) -> Response:
        """Answer a request.

        Args:
            path: segments below the dataset, not empty.

        Raises:
            MastabaError: the service answers it as JSON.
        """

    def links(self, dataset: Dataset) -> list[dict[str, str]]:
        """Return the links of a dataset to this resource, for the list of datasets."""
        return []

    def offer(self, dataset: Dataset) -> str:
        """Return what is served of a dataset and its zooms, for ``mastaba check``; may be empty.

        Raises:
            UnknownNameError: nothing in Web Mercator.
        """
        return ""

    def style(self, dataset: Dataset) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return the sources and layers that this resource adds to the style of a dataset."""
        return {}, []


def caching(dataset: Dataset) -> Headers:
    """Return Cache-Control of tiles, `Layer.headers` and surrogate keys: by default none.

    Cache-Control is the value on which the layers agree, or ``no-cache``.
    """
    from mastaba_render.api.maps import drawn_keys  # loads the renderer

    layers = [item.layer for item in dataset.layers]
    values = {layer.cache_control for layer in layers}
    agreed = values.pop() if len(values) == 1 else "no-cache"
    fields = [header for layer in layers for header in layer.headers] + drawn_keys(layers)
    return [("Cache-Control", agreed), *fields] if agreed else fields


def attribution(dataset: Dataset) -> str:
    """Return the sources of a dataset as HTML; may be empty."""
    return ", ".join(anchor(url, title) for title, url in dataset.attributions)


def described(dataset: Dataset) -> dict[str, Any]:
    """Return what documents say about the heights of a dataset."""
    found: dict[str, Any] = {"nodataHeight": dataset.nodata_height}
    if dataset.vertical.crs:
        found["verticalCrs"] = dataset.vertical.crs
    return found
