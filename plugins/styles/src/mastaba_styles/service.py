"""The service with styles, sprites and glyphs, and its paths."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import quote

from mastaba.api.catalogue import DOCUMENTS_KEY
from mastaba.api.documents import Fault, Severity
from mastaba.api.services import RootEntry, Service
from mastaba.api.web import Document, Response, message, printable
from mastaba.errors import UnknownPathError, public_message
from mastaba_ows.errors import status_of
from mastaba_ows.offers import STYLESHEET, Stylesheet
from mastaba_styles.fonts import Fonts
from mastaba_styles.made import made_style
from mastaba_styles.sheets import (
    LAYER_SCHEMA,
    STYLE,
    Addresses,
    StyleFile,
    StyleFiles,
    findings,
    rewritten,
)
from mastaba_styles.sources import source_of, why
from mastaba_styles.sprites import Sprites

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.services import ServiceSettings, Site
    from mastaba.api.web import Request

logger = logging.getLogger(__name__)

_JSON: Final = "application/json"
_END: Final = ".json"
_SPRITES, _GLYPHS = "sprites", "glyphs"
_AGE: Final = {_SPRITES: 3600, _GLYPHS: 86400}
"""Seconds for which clients keep files without asking again."""
_MOST_DOCUMENTS: Final = 1024
_DOCUMENT, _FILE = "style", "file"


class StylesService(Service):
    """Styles of layers.

    ========================================== ==================================================
    ``/``                                      the list of styles
    ``/{layer}.json``                          the default style of a layer
    ``/{layer}/{name}.json``                   another style that its descriptor names
    ``/sprites/{name}[@2x].json``, ``….png``   icons
    ``/glyphs/{fontstack}/{range}.pbf``        glyphs
    ``/fonts/{family}/{weight}[-italic].css``  fonts of browsers
    ========================================== ==================================================
    """

    name: ClassVar[str] = "stylesheets"
    title: ClassVar[str] = "Styles"
    default_root_path: ClassVar[str | None] = "/styles"
    operations: ClassVar[tuple[str, ...]] = (_DOCUMENT, _FILE)
    layer_schema: ClassVar[Mapping[str, Any]] = {STYLE: LAYER_SCHEMA}
    settings_schema: ClassVar[Mapping[str, Any]] = {
        "fonts": {
            "type": "string",
            "minLength": 1,
            "description": "Directory of fonts: folders with glyphs (FONT/0-255.pbf), as "
            "`mastaba styles glyphs` writes them, and font files (with mastaba-styles[fonts]).",
        },
        "sprites": {
            "type": "string",
            "minLength": 1,
            "description": "Directory of sprites: NAME.json and NAME.png, and both with @2x.",
        },
        "font": {
            "type": "string",
            "minLength": 1,
            "description": "Font of labels whose style names none, such as Noto Sans Regular. By "
            "default, the first regular one.",
        },
    }

    def __init__(self, settings: ServiceSettings, site: Site) -> None:
        super().__init__(settings, site)
        # Views share what belongs to the configuration: files are read once.
        main = site.main.services.get(self.name) if site.main else None
        self._loaded: _Loaded = (
            main._loaded if isinstance(main, StylesService) else _Loaded(settings, site)
        )
        self._fonts, self._sprites = self._loaded.fonts, self._loaded.sprites
        self._sheets = self._loaded.sheets
        self._addresses = Addresses(settings.endpoint_uri, self._source, self._fonts, self._sprites)
        self._documents: dict[tuple[str, str], Document] = {}

    def root_entry(self) -> RootEntry:
        uri = self.settings.endpoint_uri
        return RootEntry(70, "Styles", "1.0", uri, uri, media_type=_JSON)

    def summary(self) -> Sequence[str]:
        given = sum(map(len, self._sheets.by_layer.values()))
        offered = sum(self._source(layer.id) is not None for layer in self.published_layers())
        fonts = ", ".join(sorted(self._fonts.names)[:10]) or "no fonts, hence no labels"
        return [f"styles: {offered} layers, {given} styles from files; {fonts}"]

    def findings(self) -> Iterator[Fault]:
        """Return what is wrong with styles, fonts and sprites, for ``mastaba check``."""
        yield from self._sheets.faults.all
        section = f"$.{self.name}"
        for reason in self._fonts.problems:
            remedy = "correct the directory or the settings"
            yield Fault(Severity.ERROR, "services.json", f"{section}.fonts", reason, remedy)
        if self._sprites.problem:
            remedy = "correct the directory or the setting"
            reason = f"the directory {self._sprites.problem}"
            yield Fault(Severity.ERROR, "services.json", f"{section}.sprites", reason, remedy)
        for layer in self.published_layers():
            for sheet in self._sheets.by_layer.get(layer.id, ()):
                yield from findings(sheet, layer, self._addresses)

    def stylesheets(self, layer: Layer) -> list[Stylesheet]:
        """Return the styles of a layer; see `mastaba_ows.offers.stylesheets`."""
        if self._source(layer.id) is None:
            return []
        first_name, *names = [sheet.name for sheet in self._sheets_of(layer)] or [""]
        uri, segment = self.settings.endpoint_uri, quote(layer.id, safe="")
        first = Stylesheet(
            layer.id,
            first_name,
            layer.title,
            f"{uri}/{segment}{_END}",
            partial(self._style, layer.id, ""),
        )
        return [
            first,
            *(
                Stylesheet(
                    f"{layer.id}:{name}",
                    name,
                    f"{layer.title}: {name}",
                    f"{uri}/{segment}/{quote(name, safe='')}{_END}",
                    partial(self._style, layer.id, name),
                )
                for name in names
            ),
        ]

    def respond(self, request: Request) -> Response:
        """Answer a request.

        Raises:
            UnknownPathError: there is nothing at the path.
            InvalidParameterError: the name of a range of glyphs is invalid.
            StorageError: a file cannot be read.
        """
        parts = request.path.split("/")[1:]
        request.name_operation(_DOCUMENT)
        match parts:
            case []:
                return self._list().respond(request, is_constant=True)
            case [file] if file.endswith(_END):
                document = self._style(file.removesuffix(_END), "")
            case ["sprites", file] if self._sprites.has(file):
                request.name_operation(_FILE)
                return self._sprites.respond(request, file, self._headers(_SPRITES))
            case ["fonts", *rest] if not rest[-1:] or not rest[-1].endswith(_END):
                request.name_operation(_FILE)
                return self._fonts.respond_web(request, rest, self._headers(_GLYPHS))
            case ["glyphs", stack, file]:
                request.name_operation(_FILE)
                return self._fonts.respond(request, stack, file, self._headers(_GLYPHS))
            case [layer, file] if file.endswith(_END):
                document = self._style(layer, file.removesuffix(_END))
            case _:
                raise UnknownPathError
        return document.respond(request, is_constant=True)

    def error_response(self, error: Exception, request: Request) -> Response:
        status = status_of(error)
        content = {"error": {"status": status, "message": public_message(error)}}
        return message(status, json.dumps(content, ensure_ascii=False), _JSON)

    def _source(self, identifier: str) -> dict[str, Any] | None:
        """Return the tiles of a layer; None if there is no such layer with a style."""
        layer = self.site.catalogue.layers.get(identifier)
        if layer is None or not self.publishes(layer):
            return None
        return source_of(layer, self.site)

    def _sheets_of(self, layer: Layer) -> list[StyleFile]:
        """Return the styles from files of a layer that no rule hides, the default first."""
        sheets = self._sheets.by_layer.get(layer.id, ())
        return [one for one in sheets if self.offers(f"style:{one.name}", layer)]

    def _style(self, identifier: str, name: str) -> Document:
        """Return a style.

        Args:
            identifier: of the layer.
            name: of the style; empty for the default one.

        Raises:
            UnknownPathError: there is no such style.
        """
        key = identifier, name
        document = self._documents.get(key)
        if document is None:
            document = Document(_text(self._made(identifier, name)), STYLESHEET)
            # Two threads may build it at the same time; both results are equal.
            if len(self._documents) >= _MOST_DOCUMENTS:
                self._documents.clear()
            self._documents[key] = document
        return document

    def _made(self, identifier: str, name: str) -> dict[str, Any]:
        source = self._source(identifier)
        layer = self.site.catalogue.layers.get(identifier)
        sheets = self._sheets_of(layer) if layer is not None else []
        sheet = next((one for one in sheets if name in ("", one.name)), None)
        if layer is not None and source is None and not name and self.publishes(layer):
            raise UnknownPathError(f"the layer {printable(identifier)} has no style: {why(layer)}")
        if source is None or layer is None or (sheet is None and name):
            raise UnknownPathError(f"there is no style {printable(name or identifier)}")
        if sheet is not None:
            return rewritten(sheet, layer, self._addresses)
        return made_style(layer, source, self._addresses)

    def _list(self) -> Document:
        key = "", ""
        document = self._documents.get(key)
        if document is None:
            entries = [
                {"id": one.id, "title": one.title, "href": one.href, "type": STYLESHEET}
                for layer in self.published_layers()
                for one in self.stylesheets(layer)
            ]
            content = {"title": self.settings.title, "styles": entries}
            document = self._documents[key] = Document(_text(content), _JSON)
        return document

    def _headers(self, kind: str) -> list[tuple[str, str]]:
        headers = [("Cache-Control", f"public, max-age={_AGE[kind]}")]
        if self.site.catalogue.settings.caching.surrogate_keys:
            headers.append(("Surrogate-Key", f"{DOCUMENTS_KEY} {kind}"))
        return headers


class _Loaded:
    """What is read once for a configuration.

    Attributes:
        fonts, sprites, sheets: of the operator.
    """

    def __init__(self, settings: ServiceSettings, site: Site) -> None:
        own, catalogue = settings.own, site.catalogue
        self.fonts = Fonts(own.get("fonts", ""), own.get("font", ""))
        self.sprites = Sprites(own.get("sprites", ""))
        self.sheets = StyleFiles.read(catalogue.layers, catalogue.storages)
        for fault in self.sheets.faults.errors:
            logger.error("%s; the style is left out", fault)


def _text(content: object) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))
