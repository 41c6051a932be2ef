"""The service ``history`` (time.md section 4.5)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import quote

from mastaba.api.access import LockedReader
from mastaba.api.dimensions import NO_VALUE
from mastaba.api.services import Service
from mastaba.api.web import Document, Response, printable, problem
from mastaba.errors import (
    InvalidParameterError,
    UnknownNameError,
    UnknownPathError,
    public_message,
)
from mastaba_history.feeds import (
    ATOM,
    JSON_FEED,
    atom_feed,
    changes_href,
    json_feed,
    layer_href,
    newest,
    version_href,
)
from mastaba_history.instants import (
    is_instant,
    parse_http_date,
    parse_instant,
    rfc3339,
)
from mastaba_history.layers import boxes, layer_histories, shown_box, state_of
from mastaba_history.memento import (
    FOR_A_DAY,
    LINKS,
    memento_links,
    timemap,
    timemap_href,
    version_headers,
    wants_timemap,
)
from mastaba_history.pages import (
    HEADERS,
    index_page,
    layer_page,
    version_page,
)
from mastaba_history.tokens import drawing_digest, require_kept, version_of
from mastaba_history.values import ValueHistories, value_layers
from mastaba_ows.errors import status_of
from mastaba_ows.offers import tile_template
from mastaba_ows.parameters import integer
from mastaba_server.web.large import large_response
from mastaba_server.web.pages import HTML, wants_page
from mastaba_server.web.pieces import json_pieces

if TYPE_CHECKING:
    from mastaba.api.catalogue import Catalogue, Layer
    from mastaba.api.containers import TileReader
    from mastaba.api.services import ServiceSettings, Site
    from mastaba.api.web import Request
    from mastaba_history.layers import LayerHistory
    from mastaba_history.records import Publication

_JSON: Final = "application/json"
_GEOJSON: Final = "application/geo+json"
_MOST_ITEMS: Final = 10**9 - 1
_FEEDS: Final = ("feed.atom", "feed.json")
_MOST_LISTED: Final = 1000
"""Publications in the document of a layer."""
_COST: Final = 20
"""Of the rates of a client, for the differences of two versions."""
_MINUTE: Final = ("Cache-Control", "max-age=60")


class HistoryService(Service):
    """Says what was published when, and how versions differ."""

    name = "history"
    title = "Versions"
    rank: ClassVar[int] = 60
    settings_schema: ClassVar[Mapping[str, Any]] = {
        "versioned_addresses": {
            "type": "boolean",
            "description": "Whether TileJSON, the capabilities of WMTS, tilesets of OGC API and "
            "styles contain addresses of the published version, which caches may keep for ever "
            "(default: false).",
        },
    }
    layer_schema: ClassVar[Mapping[str, Any]] = {
        "versioned_addresses": {
            "type": "boolean",
            "description": "Whether documents contain addresses of the published version "
            "(default: as the service history says).",
        },
    }
    parameters: ClassVar[frozenset[str]] = frozenset(("f", "datetime", "since", "offset"))
    operations: ClassVar[tuple[str, ...]] = ("document", "timegate", "changes", "feed", "stac")

    def __init__(self, settings: ServiceSettings, site: Site) -> None:
        super().__init__(settings, site)
        self._layers = {layer.id: layer for layer in self.published_layers()}
        main = dict.get(site.main.services, self.name) if site.main is not None else None
        self.histories: Mapping[str, LayerHistory]
        self.values: ValueHistories
        if isinstance(main, HistoryService):
            self.values, self.histories = main.values, self._shown_histories(main)
        else:
            self.values = ValueHistories(site.catalogue)
            self.histories = layer_histories(site.catalogue.layers, site.catalogue.storages)
        self._endpoint = settings.endpoint_uri
        if site.main is None:
            site.catalogue.at_token[:] = [Versions(self)]

    def cost(self, request: Request) -> int:
        return _COST if "/changes/" in request.path else 1

    def summary(self) -> list[str]:
        count = sum(identifier in self.histories for identifier in self._layers)
        return [f"{count} layers have a history"]

    def respond(self, request: Request) -> Response:
        """Answer a request.

        Raises:
            UnknownPathError, UnknownNameError: there is no such resource, layer or version.
            InvalidDimensionError: there is no such value of the layer.
            GoneError: the version has been removed.
            InvalidParameterError: an instant is malformed.
            StorageError: what versions differ in cannot be read.
        """
        first, *rest = request.path.removeprefix("/").split("/")
        if not first and not rest:
            request.name_operation("document")
            return self._index(request)
        if first in _FEEDS and not rest:
            return self._feed(request, first, None)
        if first == "stac":
            request.name_operation("stac")
            return self._stac(request, rest)
        layer = self._named(first)
        match rest:
            case []:
                request.name_operation("document")
                return self._layer(request, layer)
            case ["at"]:
                request.name_operation("timegate")
                return self._gate(request, layer)
            case [name] if name in _FEEDS:
                return self._feed(request, name, layer)
            case ["changes", pair]:
                request.name_operation("changes")
                return self._changes(request, layer, pair)
            case [token]:
                request.name_operation("document")
                return self._version(request, layer, token)
        raise UnknownPathError("there is nothing at this path")

    def _shown_histories(self, main: HistoryService) -> Mapping[str, LayerHistory]:
        """Return the histories of a view: those of the site, unless the default is another value.

        Args:
            main: the service of the whole site.
        """
        whole = main.site.catalogue.layers
        others = {
            name: layer
            for name, layer in self._layers.items()
            if layer.pyramid.parts != whole[name].pyramid.parts
        }
        if not others:
            return main.histories
        same = {name: one for name, one in main.histories.items() if name not in others}
        return same | layer_histories(others, self.site.catalogue.storages)

    def _named(self, name: str) -> Layer:
        """Return a layer, or one of its values."""
        layer = self._layers.get(name)
        if layer is None and "~" not in name:
            layer = self.site.catalogue.resolve(name).layer
        if layer is None or layer.id not in self._layers:
            raise UnknownNameError(f"there is no layer {printable(name)}", "layer")
        return layer

    def error_response(self, error: Exception, request: Request) -> Response:
        return problem(status_of(error), public_message(error))

    def address_name(self, layer: Layer) -> str:
        """Return the name of a layer in addresses; see `mastaba_ows.versions.address_name`."""
        history = self.histories.get(layer.id)
        is_wanted = layer.own.get(
            "versioned_addresses", self.settings.own.get("versioned_addresses", False)
        )
        # Layers with values have one token for each; a view may show other pixels.
        is_usual = layer is self._layers.get(layer.id) and not layer.dimensions
        if history is None or not (is_wanted and is_usual):
            return layer.key
        return f"{layer.id}~{history.token}-{drawing_digest(layer)}"

    def open_version(
        self, layer: Layer, own: Mapping[str, str], token: str, asked: Mapping[str, str]
    ) -> Layer:
        """Return the version of a layer that a token in its name means.

        Args:
            own: values of dimensions in the name.
            asked: values beside it in the request, which mean the same.

        Raises:
            MissingDimensionError, InvalidDimensionError: there are no such values.
            UnknownNameError: there is none, or the layer has no history here.
            GoneError, MovedError: as `mastaba_history.tokens.version_of`.
            StorageError: it cannot be read.
        """
        history = self.histories.get(layer.id) if layer.id in self._layers else None
        shown = layer
        names = {one.name for one in layer.dimensions}
        others = {
            name: text
            for name, text in asked.items()
            if name in names and text.lower() not in NO_VALUE
        }
        if (own or others) and layer.id in self._layers:
            shown = self.site.catalogue.resolve(layer.id, {**others, **own}).layer
            history = self.values.of(shown)
        if history is None:
            raise UnknownNameError(f"the layer {layer.id} has no versions", "layer")
        version = version_of(shown, history, token)
        opened = self.site.catalogue.opened
        key = version.key, version.generation, shown.generation
        return opened.get(key) or opened.add(key, version.open(shown, layer.open_variant))

    def document_headers(self, layer: Layer, catalogue: Catalogue) -> list[tuple[str, str]]:
        """Return further headers of a document of a version; see `mastaba_ows.versions`.

        Args:
            catalogue: that shows the layer, perhaps a view.
        """
        name, _, token = layer.key.partition("~")
        token = token.partition("-")[0]
        shown = self._named(name)
        history = self._found(shown)
        service = catalogue.services.get(self.name)
        if history is None or service is None or self.name in layer.hidden_from:
            return [FOR_A_DAY]
        first = next((one for one in history.published if one.token == token), None)
        return version_headers(service.endpoint_uri, shown, first)

    def _index(self, request: Request) -> Response:
        known = [layer for layer in self._layers.values() if layer.id in self.histories]
        if wants_timemap(request):
            lines = [
                f'<{timemap_href(self._endpoint, layer.id)}>;rel="timemap";type="{LINKS}"'
                for layer in known
            ]
            return Document(",\n".join(lines), LINKS).respond(request)
        entries = []
        for layer in known:
            published = self.histories[layer.id].published
            entries.append(
                {
                    "layer": layer.id,
                    "title": layer.title,
                    "generation": published[-1].token,
                    "since": rfc3339(published[-1].since),
                    "publications": len(published),
                    "href": layer_href(self._endpoint, layer.id),
                }
            )
        links = [
            _link("self", self._endpoint, _JSON),
            _link("alternate", f"{self._endpoint}/feed.atom", ATOM),
            _link("alternate", f"{self._endpoint}/feed.json", JSON_FEED),
        ]
        document = {"title": self.settings.title, "layers": entries, "links": links}
        return _answer(document, request, index_page)

    def _layer(self, request: Request, layer: Layer) -> Response:
        history = self._found(layer)
        if wants_timemap(request):
            if history is None:
                raise UnknownPathError(f"the layer {layer.key} has no history")
            return Document(
                timemap(self._endpoint, layer, history.published[-_MOST_LISTED:]), LINKS
            ).respond(request)
        href = layer_href(self._endpoint, layer.key)
        links = [_link("self", href, _JSON)]
        document: dict[str, Any] = {**_named(layer), "title": layer.title}
        if history is None:
            document |= {"published": [], "links": links}
            return self._shown(layer, document, request, layer_page)
        links += [
            _link("timemap", timemap_href(self._endpoint, layer.key), LINKS),
            _link("timegate", f"{href}/at", _JSON),
            _link("alternate", f"{href}/feed.atom", ATOM),
            _link("alternate", f"{href}/feed.json", JSON_FEED),
        ]
        rows = []
        until: datetime | None = None
        for published, before in history.changed():
            rows.append(self._row(layer, history, published, before, until))
            until = published.since
            if len(rows) == _MOST_LISTED:
                break
        document |= {
            "generation": history.token,
            "publications": len(history.published),
            "published": rows,
            "links": links,
        }
        response = self._shown(layer, document, request, layer_page)
        response.headers.append(("Link", memento_links(self._endpoint, layer)))
        return response

    def _row(
        self,
        layer: Layer,
        history: LayerHistory,
        published: Publication,
        before: str,
        until: datetime | None,
    ) -> dict[str, Any]:
        versions = history.versions(published.token) or ()
        row: dict[str, Any] = {
            "generation": published.token,
            "versions": list(published.numbers),
            "from": rfc3339(published.since),
            "until": None if until is None else rfc3339(until),
            "state": state_of(versions),
            "message": self._told(layer, published).message,
            "by": published.by,
            "built": [version.built for version in versions],
            **boxes(layer, published.bbox),
            "href": version_href(self._endpoint, layer.key, published.token),
        }
        if before:
            row["changes"] = changes_href(self._endpoint, layer.key, before, published.token)
        return row

    def _gate(self, request: Request, layer: Layer) -> Response:
        """Redirect to what was published at an instant (RFC 7089, section 4.1)."""
        history = self._history(layer)
        asked = request.header("Accept-Datetime")
        text = request.query.get("datetime")
        published = history.published[-1]
        if text is not None or asked is not None:
            try:
                instant = parse_instant(text) if text is not None else parse_http_date(asked or "")
            except ValueError as error:
                parameter = "datetime" if text is not None else "Accept-Datetime"
                raise InvalidParameterError(str(error), parameter) from None
            # Before the first one, the first one (section 4.5.3).
            published = history.at(instant) or history.published[0]
        href = version_href(self._endpoint, layer.key, published.token)
        headers = [
            ("Location", href),
            ("Vary", "accept-datetime"),
            ("Link", memento_links(self._endpoint, layer)),
            _MINUTE,
        ]
        return Response(302, headers)

    def _version(self, request: Request, layer: Layer, token: str) -> Response:
        history = self._history(layer)
        versions = history.versions(token)
        if versions is None and is_instant(token):
            return self._redirect(layer, history, token)
        if versions is None:
            raise UnknownNameError(f"the layer {layer.key} has no version {token[:100]!r}", "token")
        require_kept(layer, history, token, versions)
        spans = []
        following = [*history.published[1:], None]
        first = None
        for one, after in zip(history.published, following, strict=True):
            if one.token == token:
                first = first or one
                until = None if after is None else rfc3339(after.since)
                message = self._told(layer, one).message
                spans.append({"from": rfc3339(one.since), "until": until, "message": message})
        # The counts are those of all data.
        is_whole = self._is_whole(layer)
        document = {
            **_named(layer),
            "title": layer.title,
            "generation": token,
            "published": spans[-_MOST_LISTED:],
            "versions": [
                {"number": one.number, "built": one.built, **(one.facts if is_whole else {})}
                for one in versions
            ],
            "links": [
                _link("self", version_href(self._endpoint, layer.key, token), _JSON),
                _link("original", layer_href(self._endpoint, layer.key), _JSON),
                *self._addresses(layer, token),
            ],
        }
        response = self._shown(layer, document, request, version_page)
        response.headers += version_headers(self._endpoint, layer, first)
        return response

    def _shown(
        self, layer: Layer, document: Any, request: Request, page: Callable[..., str]
    ) -> Response:
        """Return a document of a layer, or its page."""
        viewer = self.site.catalogue.services.get("viewer")
        address = ""
        if viewer is not None and "viewer" not in layer.hidden_from:
            address = viewer.endpoint_uri
        return _answer(document, request, partial(page, back=self._endpoint, viewer=address))

    def _addresses(self, layer: Layer, token: str) -> list[dict[str, str]]:
        """Return where the services publish a version."""
        services = self.site.catalogue.services
        name = quote(f"{layer.key}~{token}", safe="~;=")
        drawn = quote(f"{layer.key}~{token}-{drawing_digest(layer)}", safe="~;=")
        forms = {
            "tms": ("tilejson", f"/1.0.0/{name}/metadata.json", _JSON),
            "wms": (
                "wms",
                "?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&STYLES=&CRS={crs}&BBOX={bbox}"
                f"&WIDTH={{width}}&HEIGHT={{height}}&FORMAT=image/png&LAYERS={drawn}",
                "image/png",
            ),
        }
        found = [
            _link(relation, services[service].endpoint_uri + address, media_type)
            for service, (relation, address, media_type) in forms.items()
            if service in services and service not in layer.hidden_from
        ]
        wmts = self.site.services.get("wmts")
        if wmts is not None and "wmts" not in layer.hidden_from:
            version = replace(layer, id=f"{layer.id}~{token}")
            if template := tile_template(wmts, version, "{style}"):
                found.append(_link("wmts", template, layer.pyramid.format.media_type))
        return found

    def _redirect(self, layer: Layer, history: LayerHistory, text: str) -> Response:
        try:
            published = history.at(parse_instant(text))
        except ValueError as error:
            raise InvalidParameterError(str(error), "token") from None
        if published is None:
            first = history.published[0]
            since = rfc3339(first.since)
            raise UnknownNameError(
                f"{layer.key} was first published {since}, as {first.token}", "token"
            )
        href = version_href(self._endpoint, layer.key, published.token)
        return Response(307, [("Location", href), _MINUTE])

    def _changes(self, request: Request, layer: Layer, pair: str) -> Response:
        from mastaba_history.changes import changed_features

        history = self._history(layer)
        before, dots, after = pair.partition("..")
        for token in (before, after):
            if not dots or history.versions(token) is None:
                text = f"{pair[:100]!r} is not a pair of versions of {layer.key}, such as A..B"
                raise UnknownNameError(text, "token")
        readers = self._readers(layer)
        limits = layer.pyramid.finest.limits
        if isinstance(readers[-1], LockedReader):
            # Refuses: where data differ is known from the data.
            readers[-1].locate(limits.min_row, limits.min_col)
        features = changed_features(
            layer,
            history,
            self.site.catalogue.storages,
            (before, after),
            is_masked=self._is_masked(layer),
        )
        pieces = json_pieces({"type": "FeatureCollection"}, "features", features)
        response = large_response(request, pieces, _GEOJSON)
        response.headers.append(FOR_A_DAY)
        return response

    def _stac(self, request: Request, path: list[str]) -> Response:
        from mastaba_history.stac import stac_document

        offset = integer(request.query.get("offset", "0"), "offset", 0, _MOST_ITEMS)
        document, media_type = stac_document(
            self.site.catalogue, self._layers.values(), self._endpoint, path, offset
        )
        text = json.dumps(document, ensure_ascii=False, indent=1)
        return Document(text, media_type).respond(request)

    def _feed(self, request: Request, name: str, layer: Layer | None) -> Response:
        request.name_operation("feed")
        since = request.query.get("since")
        try:
            instant = None if since is None else parse_instant(since)
        except ValueError as error:
            raise InvalidParameterError(str(error), "since") from None
        layers = list(self._layers.values()) if layer is None else [layer]
        histories: Mapping[str, LayerHistory | None] = self.histories
        if layer is not None and layer.key != layer.id:
            histories = {layer.key: self.values.of(layer)}
        elif any(one.dimensions for one in layers):
            histories = {**histories, **self.values.published(layers, self.site.catalogue)}
            layers += value_layers(layers, self.site.catalogue).values()
        entries = [
            replace(one, published=self._told(one.layer, one.published))
            for one in newest(layers, histories, instant)
        ]
        path = f"/{name}" if layer is None else f"{layer_href('', layer.key)}/{name}"
        title = self.settings.title if layer is None else layer.title
        author = self.site.catalogue.settings.provider
        make, media_type = (atom_feed, ATOM) if name == "feed.atom" else (json_feed, JSON_FEED)
        text = make(self._endpoint, path, title, author, entries)
        return Document(text, media_type).respond(request)

    def _readers(self, layer: Layer) -> Sequence[TileReader]:
        return list(self.site.catalogue.readers_of(layer).values())

    def _is_masked(self, layer: Layer) -> bool:
        """Return whether the client sees an area of a layer."""
        return any(one.is_masked for one in self._readers(layer))

    def _is_whole(self, layer: Layer) -> bool:
        """Return whether the client sees all levels of a layer or value, and their data."""
        if self.site.main is None:
            return True
        if any(one.is_masked or isinstance(one, LockedReader) for one in self._readers(layer)):
            return False
        catalogue = self.site.main.catalogue
        whole = catalogue.layers.get(layer.key) or catalogue.resolve(layer.key).layer
        return layer.pyramid.levels.keys() == whole.pyramid.levels.keys()

    def _told(self, layer: Layer, one: Publication) -> Publication:
        """Return a publication, without a message about what is outside of the area of a client."""
        is_outside = bool(one.bbox) and shown_box(layer, one.bbox) is None
        return replace(one, message="") if is_outside and self._is_masked(layer) else one

    def _found(self, layer: Layer) -> LayerHistory | None:
        """Return the history of a layer or value, or None."""
        return self.histories.get(layer.id) if layer.key == layer.id else self.values.of(layer)

    def _history(self, layer: Layer) -> LayerHistory:
        history = self._found(layer)
        if history is None:
            raise UnknownNameError(f"the layer {layer.key} has no history", "layer")
        return history


class Versions:
    """What `Catalogue.at_token` contains: opens versions, and names the published ones.

    Args:
        service: of the whole site.
    """

    def __init__(self, service: HistoryService) -> None:
        self._open = service.open_version
        self.address_name = service.address_name
        self.document_headers = service.document_headers

    def __call__(
        self, layer: Layer, own: Mapping[str, str], token: str, asked: Mapping[str, str]
    ) -> Layer:
        return self._open(layer, own, token, asked)


def _named(layer: Layer) -> dict[str, Any]:
    """Return the name of a layer, or of a layer and its value."""
    is_value = layer.key != layer.id
    return {"layer": layer.id, **({"value": dict(layer.at)} if is_value else {})}


def _answer(document: Any, request: Request, page: Callable[[Any], str]) -> Response:
    """Return a document as JSON, or its page to browsers."""
    if wants_page(request):
        response = Document(page(document), HTML).respond(request)
        response.headers += HEADERS
        return response
    text = json.dumps(document, ensure_ascii=False, indent=1)
    return Document(text, _JSON).respond(request)


def _link(relation: str, href: str, media_type: str) -> dict[str, str]:
    return {"rel": relation, "href": href, "type": media_type}
