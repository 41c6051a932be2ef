"""A service that passes all conformance tests, from which wrong ones are made by one change."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from xml.sax.saxutils import escape, quoteattr

from mastaba import hookimpl
from mastaba.errors import (
    InvalidParameterError,
    RequestError,
    TileNotFoundError,
    TileOutOfRangeError,
    UnknownNameError,
    UnknownPathError,
    public_message,
)
from mastaba.model.layer import Layer
from mastaba.services.base import RootEntry, Service, Site
from mastaba.tiles.stored import TilePublisher
from mastaba_server.web.request import Request
from mastaba_server.web.response import Document, Response, message
from mastaba_server.web.text import printable


class PickService(Service):
    """An XML document at the root, a JSON document per layer, and stored tiles.

    ``?lang=`` chooses the language of the XML document.
    """

    name: ClassVar[str] = "pick"
    title: ClassVar[str] = "Tiles to pick"
    allowed_methods: ClassVar[tuple[str, ...]] = ("GET", "POST")
    settings_schema: ClassVar[Mapping[str, Any]] = {
        "greeting": {"type": "string", "default": "hello", "description": "Text of the document."}
    }

    def __init__(self, settings: Any, site: Site) -> None:
        super().__init__(settings, site)
        self.layers = {layer.id: layer for layer in self.published_layers()}
        self.publishers = {
            (layer.id, level): TilePublisher(layer, reader, layer.default_style)
            for layer in self.layers.values()
            for level, reader in site.catalogue.readers[layer.id].items()
        }
        self.documents = {
            language: Document(self.overview(language), "application/xml")
            for language in ("en", "fr")
        }

    def overview(self, language: str) -> str:
        links = "".join(
            f"<layer href={quoteattr(f'{self.settings.endpoint_uri}/{layer}')}/>"
            for layer in self.layers
        )
        greeting = escape(self.settings.own.get("greeting", "hello"))
        return f"<pick><text lang='{language}'>{greeting}</text>{links}</pick>"

    def respond(self, request: Request) -> Response:
        parts = request.path.split("/")[1:]
        if not parts:
            document = self.documents.get(request.query.get("lang", "en"))
            if document is None:
                raise InvalidParameterError("the language is en or fr", "lang")
            return document.respond(request, is_constant=True)
        layer = self.layer(parts[0])
        if len(parts) == 1:
            return self.description(layer, request)
        if len(parts) != 4:
            raise UnknownPathError("the path is LAYER/LEVEL/COLUMN/ROW")
        return self.tile(layer, parts[1], parts[2], parts[3], request)

    def layer(self, name: str) -> Layer:
        if name not in self.layers:
            raise UnknownNameError(f"unknown layer {printable(name)}", "layer")
        return self.layers[name]

    def description(self, layer: Layer, request: Request) -> Response:
        links = [f"{self.settings.endpoint_uri}/{layer.id}/{{level}}/{{column}}/{{row}}"]
        text = json.dumps({"id": layer.id, "title": layer.title, "links": links})
        return Document(text, "application/json").respond(request)

    def tile(self, layer: Layer, level: str, column: str, row: str, request: Request) -> Response:
        publisher = self.publishers.get((layer.id, level))
        if publisher is None:
            raise UnknownNameError(f"unknown level {printable(level)}", "level")
        return publisher.respond(request, self.number(row), self.number(column))

    def number(self, text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise InvalidParameterError("columns and rows are integers")
        return int(text)

    def error_response(self, error: Exception, request: Request) -> Response:
        return self.report(self.status_of(error), public_message(error))

    def status_of(self, error: Exception) -> int:
        if isinstance(error, TileNotFoundError | TileOutOfRangeError | UnknownPathError):
            return 404
        return 400 if isinstance(error, RequestError) else 500

    def report(self, status: int, text: str) -> Response:
        # XML has no control characters, and UTF-8 no lone surrogates.
        text = "".join(c if c.isprintable() else "?" for c in text)
        return message(status, f"<error>{escape(text)}</error>", "application/xml")

    def root_entry(self) -> RootEntry | None:
        return RootEntry(50, "Pick", "1.0", self.settings.endpoint_uri)


class PickPlugin:
    """Provides one service."""

    def __init__(self, service: type[Service]) -> None:
        self._service = service

    @hookimpl
    def register_services(self) -> Sequence[type[Service]]:
        return [self._service]
