"""The root resource: the list of services at ``/``, and the response to unknown paths (root.md)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cached_property
from typing import ClassVar, Final
from xml.sax.saxutils import quoteattr

from mastaba.errors import InvalidParameterError, RequestError, public_message
from mastaba.http.markup import legal
from mastaba.http.request import Request
from mastaba.http.response import Document, Response, message, preferred_media_type
from mastaba.service import RootEntry, Service

_XML: Final = "application/xml"
_JSON: Final = "application/json"


class RootService(Service):
    """Lists the enabled services; needs no section in services.json."""

    name: ClassVar[str] = "root"
    title: ClassVar[str] = "Mastaba"
    default_root_path: ClassVar[str | None] = "/"
    is_fallback: ClassVar[bool] = True

    def respond(self, request: Request) -> Response:
        """Return the list, as XML unless the client requests JSON.

        Raises:
            InvalidParameterError: ``f`` is present and is not ``json``.
        """
        document = self._json if _wants_json(request) else self._xml
        return document.respond(request)

    def error_response(self, error: Exception, request: Request) -> Response:
        if isinstance(error, RequestError):
            status, title, description = 400, "Bad Request", str(error)
        else:
            status, title, description = 500, "Internal issue", public_message(error)
        text = json.dumps({"error": title, "error_description": description})
        return message(status, text, _JSON)

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

    def _lines(self) -> list[tuple[str, RootEntry]]:
        lines = [
            (service.settings.title, entry)
            for service in self.site.services.values()
            if (entry := service.root_entry()) is not None
        ]
        return sorted(lines, key=lambda line: (line[1].rank, line[1].element))


def services_xml(lines: Iterable[tuple[str, RootEntry]]) -> str:
    """Return the root resource of the Tile Map Service Specification 1.0.0 (OSGeo).

    Args:
        lines: title and entry of each service, in order.
    """
    elements = [
        f"  <{entry.element} title={_attribute(title)} version={_attribute(entry.version)}"
        f" href={_attribute(entry.href)}/>\n"
        for title, entry in lines
    ]
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<Services>\n{"".join(elements)}</Services>\n'


def _attribute(text: str) -> str:
    return quoteattr(legal(text, "_"))


def _wants_json(request: Request) -> bool:
    wanted = request.query.get("f")
    if wanted is not None:
        if wanted != "json":
            raise InvalidParameterError("the value of f is not json", "f")
        return True
    return preferred_media_type(request, (_XML, "text/xml", _JSON)) == _JSON
