"""The service ``elevation``, which dispatches paths to protocols (elevation.md 0)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar, Final

from mastaba.api.services import RootEntry, Service, ServiceSettings, Site
from mastaba.api.web import CrossOrigin, Document, Request, Response
from mastaba_elevation.datasets import Datasets
from mastaba_elevation.facade import Context, Facade, unknown_path
from mastaba_elevation.native import Native
from mastaba_elevation.numbers import json_document
from mastaba_elevation.queries import Queries
from mastaba_elevation.settings import FACADES, SETTINGS_SCHEMA, Settings
from mastaba_elevation.vertical import LAYER_SCHEMA

_ALLOWED: Final = "GET, HEAD, POST, OPTIONS"
_CLASSES: Final = {
    "edr": "mastaba_elevation.edr.api:Edr",
    "ign": "mastaba_elevation.facades.ign:Ign",
    "swisstopo": "mastaba_elevation.facades.swisstopo:Swisstopo",
    "google": "mastaba_elevation.facades.google:Google",
    "tileserver": "mastaba_elevation.facades.tileserver:Tileserver",
}


class ElevationService(Service):
    """Heights of points, profiles and areas."""

    name = "elevation"
    rank = 60
    title = "Elevation service"
    draws_maps = True
    is_raster_only = True
    allowed_methods: ClassVar[tuple[str, ...]] = ("GET", "POST", "OPTIONS")
    operations: ClassVar[tuple[str, ...]] = ("native", *FACADES)
    settings_schema: ClassVar[Mapping[str, Any]] = SETTINGS_SCHEMA
    layer_schema: ClassVar[Mapping[str, Any]] = LAYER_SCHEMA

    def __init__(self, settings: ServiceSettings, site: Site) -> None:
        super().__init__(settings, site)
        own = Settings.of(settings.own)
        self._datasets = Datasets(site, self.published_layers(), settings.own)
        queries = Queries(site, own.limits)
        context = Context(site, settings, own, self._datasets, queries)
        self._native = Native(context, {})
        self._facades: dict[str, Facade] = {
            name: _load(_CLASSES[name])(context, given) for name, given in own.facades.items()
        }
        self._by_root = {
            root: facade
            for facade in (self._native, *self._facades.values())
            for root in facade.roots
        }
        # The setting for all services adds its headers to every answer.
        self._cors = CrossOrigin(own.cors and not site.catalogue.settings.cors)

    def root_entry(self) -> RootEntry:
        uri = self.settings.endpoint_uri
        return RootEntry(50, "Elevation", "1.0", uri, uri, "application/json")

    def respond(self, request: Request) -> Response:
        """Answer a query.

        Raises:
            UnknownPathError: the path is unknown.
            MastabaError: as in the protocols.
        """
        if request.method == "OPTIONS":
            return self._options(request)
        path = request.path.split("/")[1:]
        if not path:
            response = self._start.respond(request)
        else:
            facade = self._by_root.get(path[0])
            if facade is None:
                raise unknown_path()
            request.name_operation(facade.name)
            response = facade.respond(request, path)
        response.headers += self._cors.headers(request.environ)
        return response

    def error_response(self, error: Exception, request: Request) -> Response:
        root = request.path.split("/")[1:2]
        facade = self._by_root.get(root[0] if root else "", self._native)
        response = facade.error_response(error, request)
        response.headers += self._cors.headers(request.environ)
        return response

    @cached_property
    def _start(self) -> Document:
        """The list of datasets and protocols."""
        uri = self.settings.endpoint_uri
        datasets = [
            {
                "id": item.id,
                "title": item.title,
                "layers": [layer.id for layer in item.layers],
                "bbox": [item.box.xmin, item.box.ymin, item.box.xmax, item.box.ymax],
                "vertical": item.vertical.document(),
                "unit": item.unit,
            }
            for item in self._datasets.values()
        ]
        roots = sorted(root for root in self._by_root if "." not in root)
        links = [{"href": f"{uri}/{root}", "rel": "item"} for root in roots]
        content = {"title": self.settings.title, "datasets": datasets, "links": links}
        return json_document(content)

    def _options(self, request: Request) -> Response:
        environ = request.environ
        headers = [("Allow", _ALLOWED), *self._cors.headers(environ)]
        cors = CrossOrigin(self.site.catalogue.settings.cors) or self._cors
        return Response(204, headers + cors.preflight(environ, _ALLOWED))


def _load(place: str) -> type[Facade]:
    module, _, name = place.partition(":")
    found: type[Facade] = getattr(import_module(module), name)
    return found
