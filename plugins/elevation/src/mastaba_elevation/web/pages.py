"""Pages for people: the starts of services and protocols, and errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from mastaba.api.web import Document, Response, phrase
from mastaba.errors import public_message
from mastaba_server.web.pages import HTML, STYLE, Section, base_path, page_headers, rendered_page

if TYPE_CHECKING:
    from mastaba.api.web import Request

_STYLE: Final = (
    STYLE
    + """
body { max-width: 48rem; }
h2 { margin: 2rem 0 0; font-size: 1.2rem; }
p, ul { margin: 0.3rem 0; overflow-wrap: anywhere; }
details { margin: 0 0 1rem; }
form { margin: 0 0 0 2rem; }
input { box-sizing: border-box; width: 100%; }
"""
)
_HEADERS: Final = page_headers(_STYLE, has_forms=True)


def page(title: str, text: str, sections: Iterable[Section], back: str = "") -> Document:
    """Return a page.

    Args:
        back: address of the page above; empty if there is none.
    """
    return _document("page.html", title=title, text=text, sections=sections, back=back)


def forms_page(title: str, uri: str, operations: Sequence[tuple[str, str, object]]) -> Document:
    """Return a page with a form for each operation of an API.

    Args:
        uri: address of the API.
        operations: path below it, summary, and parameters as in OpenAPI.
    """
    return _document("api.html", title=title, uri=uri, path=base_path(uri), operations=operations)


def _document(template: str, **values: object) -> Document:
    content = rendered_page("mastaba_elevation", _STYLE, template, **values)
    return Document(content, f"{HTML}; charset=utf-8")


def page_response(request: Request, document: Document) -> Response:
    """Return the response with a page: browsers run no scripts in it."""
    response = document.respond(request)
    response.headers += _HEADERS
    return response


def error_page(request: Request, error: Exception, report: Response, start: str) -> Response:
    """Return the page of an error.

    Args:
        report: the error in the form of the protocol; the page has its status and no other header.
        start: address of the service.
    """
    title = phrase(report.status)
    document = page(title, public_message(error), (), start)
    headers = [("Content-Type", document.media_type), ("Vary", "Accept"), *_HEADERS]
    return Response(report.status, headers, document.body)
