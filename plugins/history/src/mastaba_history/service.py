"""The service ``history`` (time.md section 4.5)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import quote

from mastaba.api.services import Service
from mastaba.api.web import Document, Response, message, preferred_media_type
from mastaba.errors import (
    InvalidDimensionError,
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
    http_date,
    is_instant,
    parse_http_date,
    parse_instant,
    rfc3339,
)
from mastaba_history.layers import boxes, layer_histories, state_of
from mastaba_history.tokens import DAY, drawing_digest, require_kept, version_of
from mastaba_ows.errors import STATUSES, entry_of
from mastaba_server.threads.recent import Recent

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.services import ServiceSettings, Site
    from mastaba.api.web import Request
    from mastaba_history.layers import LayerHistory
    from mastaba_history.records import Publication

_JSON: Final = "application/json"
_LINKS: Final = "application/link-format"
_GEOJSON: Final = "application/geo+json"
_PROBLEM: Final = "application/problem+json"
_FEEDS: Final = ("feed.atom", "feed.json")
_MOST_LISTED: Final = 1000
"""Publications in the document of a layer."""
_MOST_VARIANTS: Final = 512
"""Histories of variants of layers that are kept in memory."""
_COST: Final = 20
"""Of the rates of a client, for the differences of two versions."""
_DAY: Final = ("Cache-Control", DAY)
_NO_VALUE: Final = frozenset(("", "default", "undefined", "null"))
"""What clients write instead of a value, in lower case."""
_MINUTE: Final = ("Cache-Control", "max-age=60")


class HistoryService(Service):
    """Says what was published when, and how versions differ."""

    name = "history"
    title = "Versions"
    rank: ClassVar[int] = 60
    settings_schema: ClassVar[Mapping[str, Any]] = {
        "versioned_addresses": {
            "type": "boolean",
            "description": "Whether TileJSON and the capabilities of WMTS contain addresses of "
            "the published version, which caches may keep for ever (default: false).",
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
        # Views show the same histories.
        main = dict.get(site.main.services, self.name) if site.main is not None else None
        self.histories: dict[str, LayerHistory] = (
            main.histories
            if isinstance(main, HistoryService)
            else layer_histories(site.catalogue.layers, site.catalogue.storages)
        )
        self._of_variants: Recent[tuple[LayerHistory | None]] = Recent(_MOST_VARIANTS)
        self._layers = {layer.id: layer for layer in self.published_layers()}
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
        layer = self._layers.get(first)
        if layer is None:
            raise UnknownNameError(f"there is no layer {first[:100]!r}", "layer")
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

    def error_response(self, error: Exception, request: Request) -> Response:
        status = entry_of(error, STATUSES)
        text = public_message(error)
        document = {"type": "about:blank", "status": status, "title": text}
        return message(status, json.dumps(document, ensure_ascii=False), _PROBLEM)

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
            asked: values beside it in the request, which must not be others.

        Raises:
            MissingDimensionError, InvalidDimensionError: there are no such values, or others.
            UnknownNameError: there is none, or the layer has no history here.
            GoneError, MovedError: as `mastaba_history.tokens.version_of`.
            StorageError: it cannot be read.
        """
        history = self.histories.get(layer.id) if layer.id in self._layers else None
        shown = layer
        names = {one.name for one in layer.dimensions}
        asked = {name: text for name, text in asked.items() if text.lower() not in _NO_VALUE}
        others = sorted(names & asked.keys())
        if (own or others) and layer.id in self._layers:
            resolve = self.site.catalogue.resolve
            shown = resolve(layer.id, {**own, **asked}).layer
            if own and others and resolve(layer.id, own).layer.key != shown.key:
                raise InvalidDimensionError("the name of the layer has another value", others[0])
            history = self._history_of(shown)
        if history is None:
            raise UnknownNameError(f"the layer {layer.id} has no versions", "layer")
        version = version_of(shown, history, token)
        opened = self.site.catalogue.opened
        key = version.key, version.generation, shown.generation
        return opened.get(key) or opened.add(key, version.open(shown, layer.open_variant))

    def document_headers(self, layer: Layer) -> list[tuple[str, str]]:
        """Return further headers of a document of a version; see `mastaba_ows.versions`."""
        token = layer.key.partition("~")[2].partition("-")[0]
        history = self.histories.get(layer.id)
        headers = [_DAY]
        # What `/history` says is about the layer, not about a value.
        if history is not None and ";" not in layer.key.removeprefix(layer.id):
            first = next((one for one in history.published if one.token == token), None)
            headers = self._headers_of(layer, first)
        return headers

    def _headers_of(self, layer: Layer, first: Publication | None) -> list[tuple[str, str]]:
        headers = [("Link", self._memento_links(layer)), _DAY]
        if first is not None:
            headers.append(("Memento-Datetime", http_date(first.since)))
        return headers

    def _history_of(self, variant: Layer) -> LayerHistory | None:
        """Return the history of a variant of a layer, which is read when it is first asked for."""
        parts = variant.pyramid.parts
        known = self._of_variants.get(parts)
        if known is None:
            found = layer_histories({variant.key: variant}, self.site.catalogue.storages)
            known = self._of_variants.add(parts, (found.get(variant.key),))
        return known[0]

    def _index(self, request: Request) -> Response:
        known = [layer for layer in self._layers.values() if layer.id in self.histories]
        if _wants_links(request):
            lines = [
                f'<{self._timemap(layer.id)}>;rel="timemap";type="{_LINKS}"' for layer in known
            ]
            return Document(",\n".join(lines), _LINKS).respond(request)
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
        return _json({"title": self.settings.title, "layers": entries, "links": links}, request)

    def _layer(self, request: Request, layer: Layer) -> Response:
        history = self.histories.get(layer.id)
        if _wants_links(request):
            if history is None:
                raise UnknownPathError(f"the layer {layer.id} has no history")
            return Document(self._timemap_text(layer, history), _LINKS).respond(request)
        href = layer_href(self._endpoint, layer.id)
        links = [_link("self", href, _JSON)]
        document: dict[str, Any] = {"layer": layer.id, "title": layer.title}
        if history is None:
            document |= {"published": [], "links": links}
            return _json(document, request)
        links += [
            _link("timemap", self._timemap(layer.id), _LINKS),
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
        response = _json(document, request)
        response.headers.append(("Link", self._memento_links(layer)))
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
            "message": published.message,
            "by": published.by,
            "built": [version.built for version in versions],
            **boxes(layer, published.bbox),
            "href": version_href(self._endpoint, layer.id, published.token),
        }
        if before:
            row["changes"] = changes_href(self._endpoint, layer.id, before, published.token)
        return row

    def _timemap(self, layer: str) -> str:
        return f"{layer_href(self._endpoint, layer)}?f=timemap"

    def _timemap_text(self, layer: Layer, history: LayerHistory) -> str:
        """Return the TimeMap (RFC 7089, section 5), of the newest publications."""
        href = layer_href(self._endpoint, layer.id)
        shown = history.published[-_MOST_LISTED:]
        first, last = http_date(shown[0].since), http_date(shown[-1].since)
        lines = [
            f'<{href}>;rel="original"',
            f'<{href}/at>;rel="timegate"',
            f'<{self._timemap(layer.id)}>;rel="self";type="{_LINKS}";from="{first}";until="{last}"',
        ]
        for number, published in enumerate(shown):
            words = ["first"] * (number == 0) + ["last"] * (number == len(shown) - 1)
            relation = " ".join([*words, "memento"])
            address = version_href(self._endpoint, layer.id, published.token)
            when = http_date(published.since)
            lines.append(f'<{address}>;rel="{relation}";datetime="{when}"')
        return ",\n".join(lines)

    def _memento_links(self, layer: Layer) -> str:
        href = layer_href(self._endpoint, layer.id)
        return (
            f'<{href}>;rel="original", <{href}/at>;rel="timegate", '
            f'<{self._timemap(layer.id)}>;rel="timemap";type="{_LINKS}"'
        )

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
        href = version_href(self._endpoint, layer.id, published.token)
        headers = [
            ("Location", href),
            ("Vary", "accept-datetime"),
            ("Link", self._memento_links(layer)),
            _MINUTE,
        ]
        return Response(302, headers)

    def _version(self, request: Request, layer: Layer, token: str) -> Response:
        history = self._history(layer)
        versions = history.versions(token)
        if versions is None and is_instant(token):
            return self._redirect(layer, history, token)
        if versions is None:
            raise UnknownNameError(f"the layer {layer.id} has no version {token[:100]!r}", "token")
        require_kept(layer, history, token, versions)
        spans = []
        following = [*history.published[1:], None]
        first = None
        for one, after in zip(history.published, following, strict=True):
            if one.token == token:
                first = first or one
                until = None if after is None else rfc3339(after.since)
                spans.append({"from": rfc3339(one.since), "until": until, "message": one.message})
        document = {
            "layer": layer.id,
            "title": layer.title,
            "generation": token,
            "published": spans[-_MOST_LISTED:],
            "versions": [
                {"number": one.number, "built": one.built, **one.facts} for one in versions
            ],
            "links": [
                _link("self", version_href(self._endpoint, layer.id, token), _JSON),
                _link("original", layer_href(self._endpoint, layer.id), _JSON),
                *self._addresses(layer, token),
            ],
        }
        response = _json(document, request)
        response.headers += self._headers_of(layer, first)
        return response

    def _addresses(self, layer: Layer, token: str) -> list[dict[str, str]]:
        """Return where the services publish a version."""
        services = self.site.catalogue.services
        name = quote(f"{layer.id}~{token}", safe="~")
        drawn = quote(f"{layer.id}~{token}-{drawing_digest(layer)}", safe="~")
        forms = {
            "tms": ("tilejson", f"/1.0.0/{name}/metadata.json", _JSON),
            "wms": (
                "wms",
                "?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&STYLES=&CRS={crs}&BBOX={bbox}"
                f"&WIDTH={{width}}&HEIGHT={{height}}&FORMAT=image/png&LAYERS={drawn}",
                "image/png",
            ),
            "wmts": (
                "wmts",
                f"/1.0.0/{name}/{{style}}/{{TileMatrixSet}}/{{TileMatrix}}/{{TileRow}}/{{TileCol}}"
                f".{layer.pyramid.format.extension}",
                layer.pyramid.format.media_type,
            ),
        }
        return [
            _link(relation, services[service].endpoint_uri + address, media_type)
            for service, (relation, address, media_type) in forms.items()
            if service in services and service not in layer.hidden_from
        ]

    def _redirect(self, layer: Layer, history: LayerHistory, text: str) -> Response:
        try:
            published = history.at(parse_instant(text))
        except ValueError as error:
            raise InvalidParameterError(str(error), "token") from None
        if published is None:
            first = history.published[0]
            since = rfc3339(first.since)
            raise UnknownNameError(
                f"{layer.id} was first published {since}, as {first.token}", "token"
            )
        href = version_href(self._endpoint, layer.id, published.token)
        return Response(307, [("Location", href), _MINUTE])

    def _changes(self, request: Request, layer: Layer, pair: str) -> Response:
        from mastaba_history.changes import changes_document

        history = self._history(layer)
        before, dots, after = pair.partition("..")
        for token in (before, after):
            if not dots or history.versions(token) is None:
                text = f"{pair[:100]!r} is not a pair of versions of {layer.id}, such as A..B"
                raise UnknownNameError(text, "token")
        readers = self.site.catalogue.readers[layer.id].values()
        text = changes_document(
            layer,
            history,
            self.site.catalogue.storages,
            (before, after),
            is_masked=any(reader.is_masked for reader in readers),
        )
        response = Document(text, _GEOJSON).respond(request)
        response.headers.append(_DAY)
        return response

    def _stac(self, request: Request, path: list[str]) -> Response:
        from mastaba_history.stac import stac_document

        offset = request.query.get("offset", "0")
        if not (offset.isascii() and offset.isdigit() and len(offset) < 10):
            raise InvalidParameterError("offset is not a number of items", "offset")
        document, media_type = stac_document(
            self.site.catalogue, self._layers.values(), self._endpoint, path, int(offset)
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
        layers = self._layers.values() if layer is None else [layer]
        entries = newest(layers, self.histories, instant)
        path = f"/{name}" if layer is None else f"/{quote(layer.id, safe='')}/{name}"
        title = self.settings.title if layer is None else layer.title
        author = self.site.catalogue.settings.provider
        make, media_type = (atom_feed, ATOM) if name == "feed.atom" else (json_feed, JSON_FEED)
        text = make(self._endpoint, path, title, author, entries)
        return Document(text, media_type).respond(request)

    def _history(self, layer: Layer) -> LayerHistory:
        history = self.histories.get(layer.id)
        if history is None:
            raise UnknownNameError(f"the layer {layer.id} has no history", "layer")
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


def _wants_links(request: Request) -> bool:
    form = request.query.get("f", "").lower()
    if form:
        return form in ("timemap", "link-format")
    accepted = request.header("Accept") or ""
    return _LINKS in accepted and preferred_media_type(request, (_JSON, _LINKS)) == _LINKS


def _json(document: Any, request: Request) -> Response:
    text = json.dumps(document, ensure_ascii=False, indent=1)
    return Document(text, _JSON).respond(request)


def _link(relation: str, href: str, media_type: str) -> dict[str, str]:
    return {"rel": relation, "href": href, "type": media_type}
