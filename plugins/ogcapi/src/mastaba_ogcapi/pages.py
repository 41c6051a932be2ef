"""HTML pages of the API's documents, from the templates of this package.

Templates escape all text. Pages are made from the JSON documents of the same resources.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from mastaba.api.web import anchor
from mastaba_ows.links import REL
from mastaba_server.web.pages import base_path

if TYPE_CHECKING:
    from mastaba_ogcapi.dataset import Collection, Dataset

Content = Mapping[str, Any]

Crumb = tuple[str, str]
"""Text and path below the API."""


def page(
    dataset: Dataset,
    template: str,
    content: Content,
    *,
    title: str | None = None,
    crumbs: Sequence[Crumb] | None = (),
    others: Sequence[Crumb] = (),
    **more: object,
) -> str:
    """Return a page.

    Args:
        template: name of the template.
        content: JSON document of the resource.
        title: plain text; None for the title in the document.
        crumbs: parent pages below the landing page; None for the landing page itself.
        others: other representations of the same resource, in addition to those that links name.
        more: further variables of the template.
    """
    viewer = dataset.site.services.get("viewer")
    return (
        _environment()
        .get_template(f"{template}.html")
        .render(
            dataset=dataset,
            title=content["title"] if title is None else title,
            content=content,
            crumbs=() if crumbs is None else ((dataset.settings.title, ""), *crumbs),
            others=others or _others(dataset, content),
            viewer=viewer and viewer.settings,
            base=base_path(dataset.uri),
            rel=REL,
            **more,
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("mastaba_ogcapi"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "anchor": lambda href, text: Markup(anchor(href, text)),  # noqa: S704 - anchor escapes
        "local": _local,
        "numbers": lambda values: ", ".join(f"{value:.12g}" for value in values),
        "preview_side": _preview_side,
        "own": lambda item: next(link["href"] for link in item["links"] if link["rel"] == "self"),
        "short_crs": _short_crs,
        "shortened": _shortened,
    }
    return environment


@pass_context
def _local(context: Context, href: str) -> str:
    """Return a link address for a page: local for resources of the API, others unchanged.

    The browser requests pages by its Accept header, so the format is omitted.
    """
    uri = context["dataset"].uri
    if href == uri or href.startswith((f"{uri}/", f"{uri}?")):
        rest = href[len(uri) :].removesuffix("?f=json").removesuffix("?f=html")
        return f"{context['base']}{rest}" or "/"
    return href


def _preview_side(collection: Collection) -> str:
    """Return the longer side of a collection, ``width`` or ``height``.

    An empty string if browsers cannot show its maps.
    """
    natural = collection.natural_format(collection.layer.default_style)
    if natural is None or natural.name not in ("png", "jpg", "webp"):
        return ""
    box = collection.layer.native_bbox
    return "width" if box.xmax - box.xmin >= box.ymax - box.ymin else "height"


def _others(dataset: Dataset, content: Content) -> list[Crumb]:
    """Return the representations of a document to which it links."""
    kinds = [("JSON", "self"), ("TileJSON", "alternate")]
    return [
        (text, item["href"][len(dataset.uri) :])
        for text, rel in kinds
        for item in content["links"]
        if item["rel"] == rel and not item["href"].endswith("f=html")
    ]


def _short_crs(uri: str) -> str:
    """Return a short, readable CRS identifier."""
    parts = uri.strip("[]").split("/")
    if len(parts) < 4 or parts[-1] == "CRS84":
        return parts[-1]
    return f"{'EPSG' if 'EPSG' in parts else 'IGNF'}:{parts[-1]}"


def _shortened(text: str, limit: int = 160) -> str:
    return text if len(text) <= limit else text[:limit].rsplit(" ", 1)[0] + " …"
