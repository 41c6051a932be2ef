"""The list of services at ``/`` as a page for browsers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mastaba.services.base import Service
from mastaba_server.web.markup import anchor, escaped
from mastaba_server.web.pages import STYLE, page_headers

_STYLE: Final = (
    STYLE
    + """
body { max-width: 48rem; }
h2 { margin: 2rem 0 0; font-size: 1.2rem; }
p, ul { margin: 0.3rem 0; }
"""
)

POLICY: Final = page_headers(_STYLE)
"""Headers of the page: no scripts, no styles but its own."""


def root_page(
    title: str, services: Iterable[Service], error: str = "", *, is_list: bool = True
) -> str:
    """Return the page.

    Args:
        error: why it is shown; may be empty.
        is_list: whether it is the list at ``/``, which has other forms.
    """
    reason = f"<p>{escaped(error)}</p>\n" if error else ""
    forms = (
        '<footer><p>This list as <a href="?f=xml">XML</a> or <a href="?f=json">JSON</a></p>'
        "</footer>\n"
    )
    sections = "".join(map(_section, services)) or "<p>No service is enabled.</p>\n"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n<h1>{escaped(title)}</h1>\n{reason}{sections}</main>\n"
        f"{forms if is_list else ''}</body>\n</html>\n"
    )


def _section(service: Service) -> str:
    settings, entry, page = service.settings, service.root_entry(), service.page_uri()
    links = []
    if page is not None:
        links.append(anchor(page, f"{settings.title}: web pages"))
    if entry is not None:
        words = f"{settings.title}: service description, version {entry.version}"
        links.append(anchor(entry.json_href or entry.href, words))
    # The abstract defaults to the title of the service class.
    described = settings.abstract not in ("", service.title, settings.title)
    abstract = f"<p>{escaped(settings.abstract)}</p>\n" if described else ""
    items = "".join(f"<li>{link}</li>\n" for link in links)
    return (
        f"<section>\n<h2>{escaped(settings.title)}</h2>\n{abstract}<ul>\n{items}</ul>\n</section>\n"
    )
