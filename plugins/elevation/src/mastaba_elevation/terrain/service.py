"""The service ``terrain``, which dispatches paths to resources (elevation.md 4 to 6)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar, Final

from mastaba.api.services import RootEntry, Service, ServiceSettings, Site
from mastaba.api.web import Document, Request, Response
from mastaba.errors import UnknownNameError, UnknownPathError
from mastaba_elevation.queries.datasets import Dataset, Datasets
from mastaba_elevation.queries.vertical import LAYER_SCHEMA
from mastaba_elevation.terrain.resource import Context, Resource
from mastaba_elevation.terrain.settings import SETTINGS_SCHEMA, Settings, dataset_settings
from mastaba_elevation.web.facade import error_message
from mastaba_elevation.web.numbers import json_document
from mastaba_elevation.web.pages import error_page, page, page_response
from mastaba_ows.boxes import bounds
from mastaba_ows.links import JSON
from mastaba_server.web.pages import Section, wants_page

_ROUTES: Final[Mapping[str, str]] = {
    "mapbox": "tiles:Tiles",
    "terrarium": "tiles:Tiles",
    "mapbox.json": "tilejson:TileJson",
    "terrarium.json": "tilejson:TileJson",
    "style.json": "style:MapStyle",
    "mesh": "mesh.resource:Mesh",
    "contours": "contours.resource:Contours",
    "contours.json": "contours.resource:Contours",
}
"""Module and class of the resource, by the first path segment below a dataset."""

_NAME: Final = "terrain"
_COSTS: Final[Mapping[str, int]] = {"tile": 4, "mesh": 8, "contours": 8}
"""Of the rates of a client, by operation."""
_OF_DATASET: Final = 2
"""Slashes of the shortest path of a resource."""


class TerrainService(Service):
    """Tiles of heights for clients that draw terrain."""

    name = _NAME
    rank = 65
    title = "Terrain service"
    draws_maps = True
    is_raster_only = True
    default_cors = True
    abilities: ClassVar[tuple[str, ...]] = ("terrain",)
    parameters: ClassVar[frozenset[str]] = frozenset(
        ("encoding", "extensions", "f", "fill", "format", "missing", "precision", "size")
    )
    operations: ClassVar[tuple[str, ...]] = ("tile", "tilejson", "style", "mesh", "contours")
    settings_schema: ClassVar[Mapping[str, Any]] = SETTINGS_SCHEMA
    layer_schema: ClassVar[Mapping[str, Any]] = LAYER_SCHEMA

    def __init__(self, settings: ServiceSettings, site: Site) -> None:
        super().__init__(settings, site)
        own = Settings.of(settings.own)
        queries = site.catalogue.services.get("elevation")
        given = dataset_settings(settings.own, queries.own if queries else None)
        self._datasets = Datasets(
            site,
            self.published_layers(),
            given,
            section=_NAME,
            are_optional="datasets" not in settings.own,
        )
        context = self._context = Context(site, settings, own, self._datasets)
        kinds = dict.fromkeys(_ROUTES.values())
        made = {place: _load(place)(context) for place in kinds}
        self._resources = context.resources = tuple(made.values())
        self._routes: dict[str, Resource] = {name: made[place] for name, place in _ROUTES.items()}

    def root_entry(self) -> RootEntry:
        uri = self.settings.endpoint_uri
        return RootEntry(60, "Terrain", "1.0", uri, uri, JSON)

    def summary(self) -> list[str]:
        return [f"terrain: {item.id}: {self._offer(item)}" for item in self._datasets.values()]

    def ability_of(self, request: Request) -> str:
        is_document = request.path.count("/") < _OF_DATASET or request.path.endswith(".json")
        return "" if is_document else "terrain"

    def cost(self, request: Request) -> int:
        resource = self._routes.get(request.path.partition("/")[2].partition("/")[2].split("/")[0])
        return 1 if resource is None else _COSTS.get(resource.operation, 1)

    def respond(self, request: Request) -> Response:
        """Answer a request.

        Raises:
            UnknownPathError: the path is unknown.
            MastabaError: as in the resources.
        """
        path = request.path.split("/")[1:]
        if not path and wants_page(request):
            response = page_response(request, self._page)
        elif not path:
            response = self._start.respond(request)
        else:
            dataset = self._datasets.addressed(path[0], request.query)
            resource = self._routes.get(path[1]) if len(path) > 1 else None
            if resource is None:
                raise UnknownPathError
            request.name_operation(resource.operation)
            response = resource.respond(request, dataset, path[1:])
        return response

    def error_response(self, error: Exception, request: Request) -> Response:
        response = error_message(error)
        if wants_page(request):
            response = error_page(request, error, response, self.settings.endpoint_uri)
        return response

    def _offer(self, dataset: Dataset) -> str:
        """Return what is served of a dataset, with its zooms."""
        try:
            return ", ".join(filter(None, (item.offer(dataset) for item in self._resources)))
        except UnknownNameError as error:
            return str(error)

    @cached_property
    def _page(self) -> Document:
        """The start as a page."""
        sections = [
            Section(
                item.title,
                self._offer(item),
                [
                    (link["href"], link["href"].removeprefix(f"{self._context.uri(item)}/"))
                    for resource in self._resources
                    for link in resource.links(item)
                ],
            )
            for item in self._datasets.values()
        ]
        words = "Tiles of heights for MapLibre GL, meshes for Cesium, and contour lines."
        return page(self.settings.title, words, sections)

    @cached_property
    def _start(self) -> Document:
        """The list of datasets and their resources."""
        datasets = [
            {
                "id": item.id,
                "title": item.title,
                "layers": [layer.id for layer in item.layers],
                "bbox": bounds(item.box),
                "vertical": item.vertical.document(),
                "unit": item.unit,
                "links": [link for resource in self._resources for link in resource.links(item)],
            }
            for item in self._datasets.values()
        ]
        return json_document({"title": self.settings.title, "datasets": datasets})


def _load(place: str) -> type[Resource]:
    module, _, name = place.partition(":")
    found: type[Resource] = getattr(import_module(f"mastaba_elevation.terrain.{module}"), name)
    return found
