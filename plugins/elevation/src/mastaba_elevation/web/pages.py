"""Pages for people: the starts of services and protocols, and errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from jinja2 import Environment, PackageLoader

from mastaba.api.web import Document, Response, phrase
from mastaba.errors import public_message
from mastaba_server.web.pages import HTML

if TYPE_CHECKING:
    from jinja2 import Template

    from mastaba.api.web import Request

_HEADERS: Final = (
    ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'"),
    ("X-Content-Type-Options", "nosniff"),
)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page.

    Attributes:
        links: addresses and their texts.
    """

    title: str
    text: str = ""
    links: Sequence[tuple[str, str]] = ()


def page(title: str, text: str, sections: Iterable[Section], back: str = "") -> Document:
    """Return a page.

    Args:
        back: address of the page above; empty if there is none.
    """
    content = template("page.html").render(title=title, text=text, sections=sections, back=back)
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


@cache
def template(name: str) -> Template:
    """Return a template of the package; values are escaped."""
    environment = Environment(
        loader=PackageLoader("mastaba_elevation"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)
