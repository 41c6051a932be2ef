"""Pages for browsers that contain no scripts."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from mastaba_server.web.response import preferred_media_type

if TYPE_CHECKING:
    from jinja2 import Environment

    from mastaba_server.web.request import Request

HTML: Final = "text/html"
_JSON: Final = "application/json"
STYLE: Final = """
:root { color-scheme: light dark; }
body { margin: 0 auto; padding: 1rem; font: 16px/1.5 system-ui, sans-serif; }
body { background: #ffffff; color: #1f2328; }
a { color: #8a4b14; }
@media (prefers-color-scheme: dark) {
  body { background: #17191b; color: #e6e6e3; }
  a { color: #e0a35c; }
}
"""
"""Start of the style sheet of a page."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page, for the macro ``listed`` of ``sections.html``.

    Attributes:
        links: addresses and their texts.
        facts: names and values.
        code: shown as it is.
    """

    title: str = ""
    text: str = ""
    links: Sequence[tuple[str, str]] = ()
    facts: Sequence[tuple[str, object]] = ()
    code: str = ""


def rendered_page(
    package: str, style: str, template: str = "page.html", /, **values: object
) -> str:
    """Return a page from a template of a package; it needs the extra ``pages``.

    The template extends ``head.html``, which has the blocks ``head`` and ``body``.

    Args:
        style: the whole style sheet, as for `page_headers`.
        template: its name in the folder ``templates``.
        values: variables of the template; ``title`` is that of the page.
    """
    return _environment(package).get_template(template).render(style=style, **values)


@lru_cache(maxsize=8)
def _environment(package: str) -> Environment:
    from jinja2 import ChoiceLoader, Environment, PackageLoader

    loaders = [PackageLoader(package), PackageLoader("mastaba_server.web")]
    return Environment(
        loader=ChoiceLoader(loaders), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )


def page_headers(style: str, *, has_forms: bool = False) -> tuple[tuple[str, str], ...]:
    """Return the headers of a page without scripts that has one style sheet, in itself.

    Args:
        has_forms: whether the page has forms that send requests to the same host.
    """
    forms = "'self'" if has_forms else "'none'"
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policy = (
        # The image is the icon of the host.
        "default-src 'none'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'; "
        f"form-action {forms}; style-src 'sha256-{digest}'"
    )
    return (
        ("Content-Security-Policy", policy),
        ("X-Content-Type-Options", "nosniff"),
        # The address may contain a key.
        ("Referrer-Policy", "no-referrer"),
    )


def base_path(uri: str) -> str:
    """Return the path of a public address, percent-encoded, without a slash at its end.

    Without scheme and host, the links in pages also work under another host name.
    """
    return quote(urlsplit(uri).path.rstrip("/"), safe="/%:@!$&'()*+,;=~-._")


def wants_page(request: Request) -> bool:
    """Return whether a client prefers a page to JSON, by ``f`` or else ``Accept``.

    Only browsers name HTML; others accept anything.
    """
    if form := request.query.get("f", "").lower():
        return form in ("html", HTML)
    accepted = (request.header("Accept") or "").lower()
    return HTML in accepted and preferred_media_type(request, (_JSON, HTML)) == HTML
