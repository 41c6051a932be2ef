"""The root resource: the list of services at ``/``, and the icon of its pages (root.md)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cached_property
from importlib.resources import files
from typing import ClassVar, Final

from mastaba.errors import InvalidParameterError, RequestError, public_message
from mastaba.services.base import RootEntry, Service
from mastaba.services.root_page import POLICY, root_page
from mastaba.web.request import Request
from mastaba.web.response import Document, Response, plain_error, preferred_media_type

_XML: Final = "application/xml"
_JSON: Final = "application/json"
_HTML: Final = "text/html"
_FORMS: Final = {"xml": _XML, "json": _JSON, "html": _HTML}
_ICON: Final = "/favicon.ico"


class RootService(Service):
    """Lists the enabled services; needs no section in services.json."""

    name: ClassVar[str] = "root"
    title: ClassVar[str] = "Mastaba"
    default_root_path: ClassVar[str | None] = "/"
    is_fallback: ClassVar[bool] = True
    fallback_paths: ClassVar[frozenset[str]] = frozenset(("", _ICON))

    def respond(self, request: Request) -> Response:
        """Return the icon, or the list as HTML, JSON or XML, by ``f`` or else ``Accept``."""
        if request.path == _ICON:
            response = self._icon.respond(request)
            response.headers.append(("Cache-Control", "max-age=86400"))
            return response
        form = _form(request)
        if form == _HTML:
            homes = (service.home_page(request) for service in self.site.services.values())
            if (home := next(filter(None, homes), None)) is not None:
                return home
            response = self._page.respond(request)
            response.headers += POLICY
            return response
        return (self._json if form == _JSON else self._xml).respond(request)

    def error_response(self, error: Exception, request: Request) -> Response:
        if isinstance(error, RequestError):
            return plain_error(400, "Bad Request", str(error))
        return plain_error(500, "Internal issue", public_message(error))

    @cached_property
    def _xml(self) -> Document:
        return Document(services_xml(self._lines()), _XML)

    @cached_property
    def _json(self) -> Document:
        links = [
            {
                "href": entry.json_href or entry.href,
                "rel": "data",
                "type": entry.media_type,
                "title": title,
            }
            for title, entry in self._lines()
        ]
        landing = {"title": self.title, "description": "", "links": links}
        return Document(json.dumps(landing, ensure_ascii=False), _JSON)

    @cached_property
    def _page(self) -> Document:
        listed = [
            (entry.rank if entry else 0, service.name, service)
            for service in self.site.services.values()
            if (entry := service.root_entry()) or service.page_uri()
        ]
        services = [service for _, _, service in sorted(listed, key=lambda item: item[:2])]
        title = self.site.catalogue.settings.provider or self.title
        return Document(root_page(title, services), f"{_HTML}; charset=utf-8")

    @cached_property
    def _icon(self) -> Document:
        content = files("mastaba.services").joinpath("favicon.ico").read_bytes()
        return Document(content, "image/vnd.microsoft.icon")

    def _lines(self) -> list[tuple[str, RootEntry]]:
        lines = [
            (service.settings.title, entry)
            for service in self.site.services.values()
            if (entry := service.root_entry()) is not None
        ]
        return sorted(lines, key=lambda line: (line[1].rank, line[1].element))


def services_xml(lines: Iterable[tuple[str, RootEntry]]) -> bytes:
    """Return the root resource of the Tile Map Service Specification 1.0.0 (OSGeo).

    Args:
        lines: title and entry of each service, in order.
    """
    # Loaded on first use: an installation may have no service with XML.
    from mastaba.web.xml import add, root_element, serialized

    services = root_element("Services")
    for title, entry in lines:
        attributes = {"title": title, "version": entry.version, "href": entry.href}
        add(services, entry.element, attributes=attributes)
    return serialized(services, indented=True)


def _form(request: Request) -> str:
    wanted = request.query.get("f")
    if wanted is not None:
        if wanted not in _FORMS:
            raise InvalidParameterError("f must be html, json or xml", "f")
        return _FORMS[wanted]
    return preferred_media_type(request, (_XML, "text/xml", _JSON, _HTML)) or _XML
