"""HTML building blocks for pages, with escaping of all external text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from mastaba.web.markup import anchor
from mastaba.web.response import Document

if TYPE_CHECKING:
    from mastaba_ogcapi.dataset import Dataset

CSS_PATH: Final = "/static/ogcapi.css"

POLICY: Final = (
    (
        "Content-Security-Policy",
        "default-src 'none'; style-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "same-origin"),
)
"""Headers for every page: no scripts and no content from other origins."""

Crumb = tuple[str, str]
"""Text and path below the API."""


@cache
def style_sheet() -> Document:
    """Return the style sheet, the only file that pages load."""
    content = files("mastaba_ogcapi").joinpath("static", "ogcapi.css").read_bytes()
    return Document(content, "text/css; charset=utf-8")


def base_path(uri: str) -> str:
    """Return the path of the API. Links in pages have no host, so they work for any host name."""
    return quote(urlsplit(uri).path.rstrip("/"), safe="/%:@!$&'()*+,;=~-._")


def local(dataset: Dataset, href: str) -> str:
    """Return a link address for a page: local for resources of the API, others unchanged.

    The browser requests pages by its Accept header, so the format is omitted.
    """
    if href == dataset.uri or href.startswith((f"{dataset.uri}/", f"{dataset.uri}?")):
        rest = href[len(dataset.uri) :].removesuffix("?f=json").removesuffix("?f=html")
        return f"{base_path(dataset.uri)}{rest}" or "/"
    return href


def page(
    dataset: Dataset,
    title: str,
    crumbs: Sequence[Crumb] | None,
    body: str,
    others: Iterable[Crumb],
) -> str:
    """Return a page.

    Args:
        title: plain text.
        crumbs: parent pages below the landing page; None for the landing page itself.
        body: markup.
        others: other representations of the same resource.
    """
    base = base_path(dataset.uri)
    above = [] if crumbs is None else [(dataset.settings.title, ""), *crumbs]
    trail = "".join(f"<li>{anchor(f'{base}{path}' or '/', text)}</li>" for text, path in above)
    footer = " · ".join(anchor(f"{base}{path}", text) for text, path in others)
    viewer = dataset.site.services.get("viewer")
    if viewer is not None:
        footer += " · " + anchor(viewer.settings.endpoint_uri, viewer.settings.title)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n"
        f'<link rel="stylesheet" href="{escape(base)}{CSS_PATH}">\n</head>\n<body>\n'
        f'<header><nav aria-label="Where this is"><ol>{trail}</ol></nav></header>\n'
        f"<main>\n<h1>{escape(title)}</h1>\n{body}\n</main>\n"
        f"<footer><p>{footer}</p></footer>\n</body>\n</html>\n"
    )


def paragraph(text: str, css_class: str = "") -> str:
    """Return a paragraph, or an empty string for an empty string."""
    attribute = f' class="{css_class}"' if css_class else ""
    return f"<p{attribute}>{escape(text)}</p>\n" if text else ""


def heading(text: str) -> str:
    return f"<h2>{escape(text)}</h2>\n"


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Return a description list of plain names and markup; empty values are omitted."""
    items = "".join(f"<dt>{escape(name)}</dt><dd>{markup}</dd>" for name, markup in pairs if markup)
    return f"<dl>{items}</dl>\n" if items else ""


def table(names: Sequence[str], rows: Iterable[Sequence[str | int | float]]) -> str:
    """Return a table; text cells are markup, and number cells are formatted."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>\n" for row in rows)
    return (
        f'<div class="table" tabindex="0"><table>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}</tbody>\n</table></div>\n"
    )


def links(items: Iterable[tuple[str, str]]) -> str:
    """Return a list of links from pairs of address and text."""
    lines = "".join(f"<li>{anchor(href, text)}</li>\n" for href, text in items)
    return f'<ul class="links">\n{lines}</ul>\n' if lines else ""


def _cell(value: str | float) -> str:
    if isinstance(value, str):
        return f"<td>{value}</td>"
    return f'<td class="number">{value:.15g}</td>'
