"""The viewer service and its paths."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

from mastaba.api.services import Service
from mastaba.api.web import Document, Response, message, preferred_language
from mastaba.errors import UnknownPathError, public_message
from mastaba_ows.errors import status_of
from mastaba_viewer.assets import assets
from mastaba_viewer.description import layer_document, summary
from mastaba_viewer.pages import compare_page, error_page, layer_page, list_page
from mastaba_viewer.places import found_place
from mastaba_viewer.policy import content_security_policy
from mastaba_viewer.requests import View, requests
from mastaba_viewer.settings import SETTINGS
from mastaba_viewer.stored import stored_tiles
from mastaba_viewer.texts import LANGUAGES
from mastaba_viewer.times import named_layer

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.web import Request

_PLAIN: Final = "text/plain; charset=utf-8"


class Viewer(Service):
    """Pages with maps of the published layers.

    ==================================================== ==============================
    ``/``                                                the list of layers
    ``/{layer}``                                         the map of one layer
    ``/compare/{left}/{right}``                          two layers on one map
    ``/data/layers/{layer}.json``                        one layer, for scripts
    ``/data/place``                                      the place that a text means
    ``/data/requests/{layer}``                           URLs of requests for a view
    ``/data/stored/{layer}/{tile matrix}/{row}/{col}``   which tiles of a block are stored
    ``/static/...``                                      files
    ==================================================== ==============================

    A layer is named by its identifier, or with values: ``ORTHO;time=1950``.
    """

    name: ClassVar[str] = "viewer"
    title: ClassVar[str] = "Map viewer"
    abilities: ClassVar[tuple[str, ...]] = ("pages",)
    parameters: ClassVar[frozenset[str]] = frozenset(
        ("bbox", "cell", "format", "q", "set", "style", "transparent")
    )
    settings_schema: ClassVar[Mapping[str, Any]] = SETTINGS

    def page_uri(self) -> str:
        return self.settings.endpoint_uri

    def respond(self, request: Request) -> Response:
        """Return a page, data or a file.

        Raises:
            UnknownPathError: the path is unknown.
            InvalidParameterError: the view of a request for URLs is invalid.
            SlabFormatError, StorageError: the index of stored tiles cannot be read.
        """
        response = self._find(request, preferred_language(request, LANGUAGES)).respond(request)
        # The names of these files contain a hash of their contents.
        is_fixed = request.path.startswith("/static/chunks/")
        return self._secured(response, "max-age=31536000, immutable" if is_fixed else "no-cache")

    def home_page(self, request: Request) -> Response:
        return self._secured(self._lists[preferred_language(request, LANGUAGES)].respond(request))

    def error_response(self, error: Exception, request: Request) -> Response:
        status = status_of(error)
        if "text/html" not in (request.header("Accept") or ""):
            return self._secured(message(status, public_message(error), _PLAIN))
        # Pages of layers and of comparisons; everything else is for scripts.
        is_layer = len(request.path.split("/")) == 2 or request.path.startswith("/compare/")
        missing = "unknown-layer" if is_layer else "unknown-page"
        key = missing if status in (404, 410) else "request-failed"
        page = error_page(self.settings, key, status, preferred_language(request, LANGUAGES))
        headers = [("Content-Type", "text/html; charset=utf-8"), ("Vary", "Accept")]
        return self._secured(Response(status, headers, page))

    def _find(self, request: Request, lang: str) -> Document:
        found = assets().get(request.path)
        if found is not None:
            return found
        match request.path.split("/")[1:]:
            case []:
                return self._lists[lang]
            # All other paths are deeper, so a layer may have any name.
            case [layer]:
                return layer_page(self.settings, self._layer(layer), self._shared, self.site, lang)
            case ["compare", left, right]:
                sides = self._layer(left), self._layer(right)
                return compare_page(self.settings, sides, self._shared, self.site, lang)
            case ["data", "layers", name] if name.endswith(".json"):
                return layer_document(self._layer(name.removesuffix(".json")), self.site)
            case ["data", "place"]:
                return found_place(request.query.get("q", ""), self.settings.own.get("places", []))
            case ["data", "requests", layer]:
                return requests(self._layer(layer), self.site, View.of(request.query), lang)
            case ["data", "stored", layer, tile_matrix, row, col]:
                return stored_tiles(self._layer(layer), self.site, tile_matrix, row, col)
        raise UnknownPathError("No page at this path")

    def _layer(self, identifier: str) -> Layer:
        layer = self.site.catalogue.layers.get(identifier)
        if layer is None:
            layer = named_layer(self.site.catalogue, identifier)
        if not self.publishes(layer):
            raise UnknownPathError("Unknown layer")
        return layer

    @cached_property
    def _lists(self) -> dict[str, Document]:
        return {lang: self._list(lang) for lang in LANGUAGES}

    def _list(self, lang: str) -> Document:
        # The default abstract of a service is its title.
        abstract = "" if self.settings.abstract == self.title else self.settings.abstract
        return list_page(self.settings, abstract, self.published_layers(), self.site, lang)

    @cached_property
    def _shared(self) -> Mapping[str, Any]:
        """Data of all pages with a map."""
        layers = [summary(layer, self.site) for layer in self.published_layers()]
        own = self.settings.own
        return {"layers": layers, "basemap": own.get("basemap"), "start": own.get("start")}

    @cached_property
    def _policy(self) -> str:
        return content_security_policy(
            self.site.services, self.settings.own.get("basemap", {}).get("url")
        )

    def _secured(self, response: Response, caching: str = "no-cache") -> Response:
        response.headers = [
            (name, f"{value}, Accept-Language" if name == "Vary" else value)
            for name, value in response.headers
        ]
        response.headers += [
            ("Content-Security-Policy", self._policy),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "same-origin"),
            # Without a version in the name, browsers must revalidate with the ETag.
            ("Cache-Control", caching),
        ]
        return response
