"""The service ``elevation``, which dispatches paths to protocols (elevation.md 0)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar, Final
from urllib.parse import quote

from mastaba.api.services import RootEntry, Service, ServiceSettings, Site
from mastaba.api.web import Document, Request, Response
from mastaba.errors import UnknownPathError
from mastaba_elevation.edr.names import OUTPUT
from mastaba_elevation.facades.native import Native
from mastaba_elevation.queries.datasets import Datasets, middle
from mastaba_elevation.queries.queries import Queries
from mastaba_elevation.queries.vertical import LAYER_SCHEMA
from mastaba_elevation.settings import FACADES, SETTINGS_SCHEMA, Settings
from mastaba_elevation.web.facade import Context, Facade
from mastaba_elevation.web.numbers import json_document
from mastaba_elevation.web.pages import error_page, page, page_response
from mastaba_ows.parameters import whole_number
from mastaba_server.web.pages import Section, wants_page

_CLASSES: Final = {
    "edr": "mastaba_elevation.edr.api:Edr",
    "ign": "mastaba_elevation.facades.ign:Ign",
    "swisstopo": "mastaba_elevation.facades.swisstopo:Swisstopo",
    "google": "mastaba_elevation.facades.google:Google",
    "tileserver": "mastaba_elevation.facades.tileserver:Tileserver",
}
_COUNTS: Final = ("points", "sampling", "samples", "nb_points")
"""Parameters of the protocols that say how many points an answer has."""
_PER_POINT: Final = 16
"""Bytes of a point in a body, at least."""
_POINTS: Final = 50
"""Points that cost 1 of the rates of a client."""
_DOCUMENTS: Final = frozenset(("datasets", "resources"))
"""Roots of the lists of datasets of Google and IGN."""


class ElevationService(Service):
    """Heights of points, profiles and areas."""

    name = "elevation"
    rank = 60
    title = "Elevation service"
    draws_maps = True
    is_raster_only = True
    default_cors = True
    allowed_methods: ClassVar[tuple[str, ...]] = ("GET", "POST")
    abilities: ClassVar[tuple[str, ...]] = ("heights",)
    parameters: ClassVar[frozenset[str]] = frozenset(
        (
            *("bbox", "callback", "coords", "corridor-height", "corridor-width", "crs"),
            *("dataset", "datetime", "delimiter", "distance", "distinct_points", "easting"),
            *("extensions", "f", "format", "geom", "geometry", "height-units", "histogram"),
            *("hysteresis", "indent", "interpolation", "lat", "locations", "lon", "measures"),
            *("mode", "nb_points", "nodata_value", "northing", "offset"),
            *("only_requested_points", "parameter-name", "path", "percentiles", "plane"),
            *("points", "profile_mode", "projection", "resolution", "resolution-x"),
            *("resolution-y", "resource", "samples", "sampling", "simplify", "smart_filling"),
            *("sr", "stats", "strict", "width-units", "within", "within-units", "x", "y", "z"),
            *("zonly",),
        )
    )
    operations: ClassVar[tuple[str, ...]] = ("native", *FACADES)
    settings_schema: ClassVar[Mapping[str, Any]] = SETTINGS_SCHEMA
    layer_schema: ClassVar[Mapping[str, Any]] = LAYER_SCHEMA

    def __init__(self, settings: ServiceSettings, site: Site) -> None:
        super().__init__(settings, site)
        own = Settings.of(settings.own)
        self._limits = own.limits
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

    def root_entry(self) -> RootEntry:
        uri = self.settings.endpoint_uri
        return RootEntry(50, "Elevation", "1.0", uri, uri, "application/json")

    def ability_of(self, request: Request) -> str:
        path = request.path.split("/")[1:]
        if not path or path[0] not in self._by_root or path[0] in _DOCUMENTS:
            return ""
        return "" if path[0] == "edr" and path[-1] not in OUTPUT else "heights"

    def query_of(self, request: Request) -> str | None:
        query = super().query_of(request)
        facade = self._by_root.get(request.path.removeprefix("/").partition("/")[0])
        implied = "" if query is None or facade is None else facade.implied(request)
        return f"dataset={quote(implied, safe='')}" if implied else query

    def cost(self, request: Request) -> int:
        query = request.query_string.lower()
        # Upper estimates, by the separators of positions and the length of a body.
        positions = sum(map(query.count, (",", "|", "%2c", "%7c")))
        sent = (request.content_length or 0) // _PER_POINT
        asked = (whole_number(request.query.get(name, "")) or 0 for name in _COUNTS)
        points = max(positions, sent, *asked)
        return 1 + min(points, self._limits.points) // _POINTS

    def respond(self, request: Request) -> Response:
        """Answer a query.

        Raises:
            UnknownPathError: the path is unknown.
            MastabaError: as in the protocols.
        """
        path = request.path.split("/")[1:]
        if not path and wants_page(request):
            response = page_response(request, self._page)
        elif not path:
            response = self._start.respond(request)
        else:
            facade = self._by_root.get(path[0])
            if facade is None:
                raise UnknownPathError
            request.name_operation(facade.name)
            response = facade.respond(request, path)
        return response

    def error_response(self, error: Exception, request: Request) -> Response:
        root = request.path.split("/")[1:2]
        facade = self._by_root.get(root[0] if root else "", self._native)
        response = facade.error_response(error, request)
        if wants_page(request):
            response = error_page(request, error, response, self.settings.endpoint_uri)
        return response

    @cached_property
    def _page(self) -> Document:
        """The start as a page: queries to try, and the addresses for programs."""
        uri = self.settings.endpoint_uri
        sections = []
        for item in self._datasets.values():
            x, y = (f"{value:.5g}" for value in middle(item))
            query = f"dataset={quote(item.id, safe='')}&coords=POINT({x}+{y})"
            links = [(f"{uri}/points?{query}", f"Height at {x}, {y}")]
            if "edr" in self._facades:
                links.append((f"{uri}/edr/api?f=html", "Queries to try (OGC API EDR)"))
            layers = ", ".join(layer.id for layer in item.layers)
            sections.append(Section(item.title, f"Dataset {item.id}. Layers: {layers}.", links))
        protocols = [(f"{uri}/{name}", name) for name in ("edr",) if name in self._facades]
        others = ", ".join(name for name in self._facades if name != "edr")
        text = f"Other protocols: {others}." if others else ""
        sections.append(Section("Protocols", text, protocols))
        words = "Heights of points, profiles along lines, and statistics of areas."
        return page(self.settings.title, words, sections)

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


def _load(place: str) -> type[Facade]:
    module, _, name = place.partition(":")
    found: type[Facade] = getattr(import_module(module), name)
    return found
