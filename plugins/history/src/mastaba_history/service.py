"""The service ``history`` (time.md section 4.5)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import quote

from mastaba.api.access import LockedReader
from mastaba.api.documents import Fault, Severity
from mastaba.api.services import Service
from mastaba.api.web import Document, Response, problem
from mastaba.errors import (
    InvalidParameterError,
    MastabaError,
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
from mastaba_history.layers import boxes, state_of
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
from mastaba_history.shown import NAME, ShownHistories
from mastaba_history.tokens import drawing_digest, require_kept
from mastaba_history.values import value_layers
from mastaba_ows.errors import status_of
from mastaba_ows.offers import tile_template
from mastaba_ows.parameters import integer
from mastaba_server.web.large import large_response
from mastaba_server.web.pages import HTML, wants_page
from mastaba_server.web.pieces import json_pieces

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
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

    name = NAME
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
        main = dict.get(site.main.services, self.name) if site.main is not None else None
        self.shown: ShownHistories = ShownHistories(
            self.published_layers(),
            site,
            settings,
            main.shown if isinstance(main, HistoryService) else None,
        )
        self._endpoint = settings.endpoint_uri
        if site.main is None:
            find: Any = partial(self.shown.open_version)
            # Attributes, which those keep that wrap it for a view; see `mastaba_ows.versions`.
            find.address_name = self.shown.address_name
            find.document_headers = self.shown.document_headers
            site.catalogue.at_token[:] = [find]

    def findings(self) -> Iterator[Fault]:
        """Return which histories cannot be used, for ``mastaba check``."""
        found: dict[str, Exception] = {}
        self.shown.check(lambda path, error: found.setdefault(str(path), error))
        for path, error in found.items():
            reason = f"the history cannot be used: {error}"
            remedy = "restore it from a backup; until then, the layer has no history"
            severity = Severity.ERROR
            if isinstance(error, MastabaError):
                # Some storages deny access to what does not exist.
                severity, remedy = Severity.WARNING, "make sure that its storage can be read"
            yield Fault(severity, path, "$", reason, remedy)

    def cost(self, request: Request) -> int:
        return _COST if "/changes/" in request.path else 1

    def summary(self) -> list[str]:
        return [f"{len(self.shown.with_history())} layers have a history"]

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
        layer = self.shown.named(first)
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
        raise UnknownPathError

    def error_response(self, error: Exception, request: Request) -> Response:
        return problem(status_of(error), public_message(error))

    def _index(self, request: Request) -> Response:
        known = self.shown.with_history()
        if wants_timemap(request):
            lines = [
                f'<{timemap_href(self._endpoint, layer.id)}>;rel="timemap";type="{LINKS}"'
                for layer in known
            ]
            return Document(",\n".join(lines), LINKS).respond(request)
        entries = []
        for layer in known:
            published = self.shown.histories[layer.id].published
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
        history = self.shown.find(layer)
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
            "message": self.shown.told(layer, published).message,
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
        history = self.shown.history(layer)
        asked = request.header("Accept-Datetime")
        text = request.query.get("datetime")
        published = history.published[-1]
        instant = None
        if text is not None:
            instant = _instant(text, "datetime")
        elif asked is not None:
            instant = _instant(asked, "Accept-Datetime", parse_http_date)
        if instant is not None:
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
        history = self.shown.history(layer)
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
                message = self.shown.told(layer, one).message
                spans.append({"from": rfc3339(one.since), "until": until, "message": message})
        # The counts are those of all data.
        is_whole = self.shown.is_whole(layer)
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
        published = history.at(_instant(text, "token"))
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

        history = self.shown.history(layer)
        before, dots, after = pair.partition("..")
        for token in (before, after):
            if not dots or history.versions(token) is None:
                text = f"{pair[:100]!r} is not a pair of versions of {layer.key}, such as A..B"
                raise UnknownNameError(text, "token")
        readers = self.shown.readers(layer)
        limits = layer.pyramid.finest.limits
        if isinstance(readers[-1], LockedReader):
            # Refuses: where data differ is known from the data.
            readers[-1].locate(limits.min_row, limits.min_col)
        features = changed_features(
            layer,
            history,
            self.site.catalogue.storages,
            (before, after),
            is_masked=self.shown.is_masked(layer),
        )
        pieces = json_pieces({"type": "FeatureCollection"}, "features", features)
        response = large_response(request, pieces, _GEOJSON)
        response.headers.append(FOR_A_DAY)
        return response

    def _stac(self, request: Request, path: list[str]) -> Response:
        from mastaba_history.stac import stac_document

        offset = integer(request.query.get("offset", "0"), "offset", 0, _MOST_ITEMS)
        document, media_type = stac_document(
            self.site.catalogue, self.shown.layers.values(), self._endpoint, path, offset
        )
        text = json.dumps(document, ensure_ascii=False, indent=1)
        return Document(text, media_type).respond(request)

    def _feed(self, request: Request, name: str, layer: Layer | None) -> Response:
        request.name_operation("feed")
        since = request.query.get("since")
        instant = None if since is None else _instant(since, "since")
        layers = list(self.shown.layers.values()) if layer is None else [layer]
        histories: Mapping[str, LayerHistory | None] = self.shown.histories
        if layer is not None and layer.key != layer.id:
            histories = {layer.key: self.shown.find(layer)}
        elif any(one.dimensions for one in layers):
            published = self.shown.values.published(layers, self.site.catalogue)
            histories = {**histories, **published}
            layers += value_layers(layers, self.site.catalogue).values()
        entries = [
            replace(one, published=self.shown.told(one.layer, one.published))
            for one in newest(layers, histories, instant)
        ]
        path = f"/{name}" if layer is None else f"{layer_href('', layer.key)}/{name}"
        title = self.settings.title if layer is None else layer.title
        author = self.site.catalogue.settings.provider
        make, media_type = (atom_feed, ATOM) if name == "feed.atom" else (json_feed, JSON_FEED)
        text = make(self._endpoint, path, title, author, entries)
        return Document(text, media_type).respond(request)


def _named(layer: Layer) -> dict[str, Any]:
    """Return the name of a layer, or of a layer and its value."""
    is_value = layer.key != layer.id
    return {"layer": layer.id, **({"value": dict(layer.at)} if is_value else {})}


def _instant(
    text: str, parameter: str, parse: Callable[[str], datetime] = parse_instant
) -> datetime:
    try:
        return parse(text)
    except ValueError as error:
        raise InvalidParameterError(str(error), parameter) from None


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
