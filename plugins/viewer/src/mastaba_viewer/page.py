"""The HTML page; all that comes from the configuration is escaped here."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from mastaba.http.response import Document
from mastaba_viewer.description import format_label

if TYPE_CHECKING:
    from mastaba.model.layer import Layer
    from mastaba.service import ServiceSettings


def page(settings: ServiceSettings, layers: Iterable[Layer]) -> Document:
    """Return the page with its list of layers."""
    template = Template(files("mastaba_viewer").joinpath("page.html").read_text("utf-8"))
    text = template.substitute(
        title=escape(settings.title),
        base=escape(base_path(settings.endpoint_uri)),
        items="".join(_item(layer) for layer in layers),
    )
    return Document(text, "text/html; charset=utf-8")


def base_path(endpoint_uri: str) -> str:
    """Return the path that the files of the page are below.

    Only the path: the page is then free to be opened under another name of the host.
    """
    return quote(urlsplit(endpoint_uri).path.rstrip("/"), safe="/%:@!$&'()*+,;=~-._")


def _item(layer: Layer) -> str:
    identifier = escape(layer.id)
    abstract = f'<span class="abstract">{escape(layer.abstract)}</span>' if layer.abstract else ""
    crs = layer.pyramid.tile_matrix_set.crs.code
    return (
        f'<li data-layer="{identifier}">'
        f'<button type="button" class="choose" aria-pressed="false">'
        f'<span class="title">{escape(layer.title)}</span>'
        f"{abstract}"
        f'<span class="tags"><span class="tag kind">{escape(format_label(layer))}</span>'
        f'<span class="tag">{escape(crs)}</span></span>'
        f"</button>"
        f'<button type="button" class="stack" aria-pressed="false" '
        f'title="Lay over the map" hidden>+</button>'
        f"</li>\n"
    )
