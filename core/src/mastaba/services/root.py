"""The root resource: the list of services at ``/``, and the icon of its pages (root.md)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cached_property
from importlib.resources import files
from typing import ClassVar, Final

from mastaba.errors import InvalidParameterError, public_message
from mastaba.services.base import RootEntry, Service, Site
from mastaba.services.root_page import POLICY, root_page
from mastaba.services.statuses import status_of
from mastaba_server.web.markup import legal
from mastaba_server.web.request import Request
from mastaba_server.web.response import Document, Response, plain_error, preferred_media_type
from mastaba_server.web.statuses import phrase

_XML: Final = "application/xml"
_JSON: Final = "application/json"
_HTML: Final = "text/html"
_FORMS: Final = {"xml": _XML, "json": _JSON, "html": _HTML}
# The default header of Java programs: no person reads the answer.
_JAVA_DEFAULT: Final = "text/html, image/gif, image/jpeg"
_ICON: Final = "/favicon.ico"


class RootService(Service):
    """Lists the enabled services; needs no section in services.json."""

    name: ClassVar[str] = "root"
    title: ClassVar[str] = "Mastaba"
    default_root_path: ClassVar[str | None] = "/"
    is_fallback: ClassVar[bool] = True
    parameters: ClassVar[frozenset[str]] = frozenset(("f",))
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
        status = status_of(error)
        title = "Internal issue" if status == 500 else phrase(status)
        return plain_error(status, title, public_message(error))

    @cached_property
    def _xml(self) -> Document:
        return Document(services_xml(self._lines()), _XML)

    @cached_property
    def _json(self) -> Document:
        links = [
            {"href": to.json_href or to.href, "rel": "data", "type": to.media_type, "title": title}
            for title, to in self._lines()
        ]
        landing = {"title": self.title, "description": "", "links": links}
        return Document(json.dumps(landing, ensure_ascii=False), _JSON)

    @cached_property
    def _page(self) -> Document:
        title = self.site.catalogue.settings.provider or self.title
        return Document(root_page(title, _listed(self.site)), f"{_HTML}; charset=utf-8")

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


def _listed(site: Site) -> list[Service]:
    """Return the services that have a document or pages, in order."""
    listed = [
        (entry.rank if entry else 0, service.name, service)
        for service in site.services.values()
        if (entry := service.root_entry()) or service.page_uri()
    ]
    return [service for _, _, service in sorted(listed, key=lambda item: item[:2])]


def for_people(
    report: Response, error: str, request: Request, site: Site, service: Service | None
) -> Response:
    """Return a page with links instead of an error report, if a person sees it.

    This is so if a browser opens an address without a query: an unknown path, an unknown layer, or
    a service without a request. All other clients get the report.

    Args:
        report: of the protocol; one that is a page stays.
        error: what it says.
        service: the service that the request is for; None if there is none.
    """
    if report.status not in (400, 404) or request.query_string or request.method != "GET":
        return report
    header = request.environ.get("HTTP_ACCEPT", "")
    is_page = dict(report.headers).get("Content-Type", "").startswith(_HTML)
    if is_page or header.startswith(_JAVA_DEFAULT) or _preferred(request) != _HTML:
        return report
    is_bare = service is not None and not request.path
    services = [one for one in _listed(site) if not is_bare or one is service or one.page_uri()]
    # That of the request first.
    services.sort(key=lambda one: one is not service)
    title, status = ("Not found", 404) if report.status == 404 else ("Invalid address", 400)
    if service is not None and is_bare:
        title, status, error = service.settings.title, 200, ""
    headers = [("Content-Type", f"{_HTML}; charset=utf-8"), ("Cache-Control", "no-store")]
    page = root_page(title, services, error, is_list=False).encode()
    return Response(status, [*headers, ("Vary", "Accept"), *POLICY], page)


def services_xml(lines: Iterable[tuple[str, RootEntry]]) -> bytes:
    """Return the root resource of the Tile Map Service Specification 1.0.0 (OSGeo).

    Args:
        lines: title and entry of each service, in order.
    """
    # Loaded on first use: few clients request this form.
    from xml.sax.saxutils import quoteattr

    text = ['<?xml version="1.0" encoding="UTF-8"?>\n<Services>\n']
    for title, entry in lines:
        attributes = {"title": title, "version": entry.version, "href": entry.href}
        quoted = (f" {name}={quoteattr(legal(value))}" for name, value in attributes.items())
        text.append(f"  <{entry.element}{''.join(quoted)}/>\n")
    return "".join((*text, "</Services>\n")).encode()


def _form(request: Request) -> str:
    wanted = request.query.get("f")
    if wanted is not None:
        if wanted not in _FORMS:
            raise InvalidParameterError("f must be html, json or xml", "f")
        return _FORMS[wanted]
    return _preferred(request)


def _preferred(request: Request) -> str:
    return preferred_media_type(request, (_XML, "text/xml", _JSON, _HTML)) or _XML
