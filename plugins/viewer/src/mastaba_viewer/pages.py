"""The HTML pages. All texts from the configuration are escaped here."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from mastaba.api.web import Document
from mastaba_server.web.pages import base_path
from mastaba_viewer import choices
from mastaba_viewer.description import description
from mastaba_viewer.facts import facts
from mastaba_viewer.kinds import format_label
from mastaba_viewer.legends import legends
from mastaba_viewer.provider import about_section, services_section
from mastaba_viewer.texts import text, texts
from mastaba_viewer.thumbnails import thumbnail
from mastaba_viewer.times import base_id

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.services import ServiceSettings, Site
    from mastaba_viewer.thumbnails import Thumbnail

_SHOWN: Final = 180
"""Characters of an abstract that are shown at once."""

_CHIPS: Final = 24
"""Most keywords that are offered: those that most layers have."""


def list_page(
    settings: ServiceSettings, abstract: str, layers: Iterable[Layer], site: Site, lang: str
) -> Document:
    """Return the page of the server: its layers with thumbnails, its services and its provider.

    Args:
        abstract: of the viewer.
    """
    base = base_path(settings.endpoint_uri)
    listed = list(layers)
    cards = [_card(layer, thumbnail(layer, site), base, lang) for layer in listed]
    kinds = dict.fromkeys(map(format_label, listed))
    keywords = _keywords(listed, {name.casefold() for name in kinds})
    return _page(
        "list.html",
        settings,
        lang,
        title=escape(service_title(settings, lang)),
        abstract=_paragraph(abstract, "lead"),
        provider=_paragraph(site.catalogue.settings.provider, "provider"),
        kinds="".join(_chip("kind", name, kind_text(name, lang)) for name in kinds),
        keywords="".join(_chip("keyword", name, name) for name in keywords),
        count=text("one-layer" if len(cards) == 1 else "layers", lang, count=len(cards)),
        cards="".join(cards),
        services=services_section(site, lang),
        about=about_section(site.catalogue.settings, lang),
    )


def layer_page(
    settings: ServiceSettings, layer: Layer, shared: Mapping[str, Any], site: Site, lang: str
) -> Document:
    """Return the page with the map of one layer.

    Args:
        settings: of the viewer.
        layer: the layer.
        shared: data of all pages with a map.
        site: site of the layer.
        lang: language of the texts.
    """
    found, titles = description(layer, site), _titles(shared)
    base = base_id(layer)
    others = {name: title for name, title in titles.items() if name != base}
    last = len(found["times"]["texts"]) - 1 if found["times"] else 0
    itself = {layer.id: text("itself", lang, title=layer.title)}
    styles = choices.styles(found, lang)
    snippets = [(snippet["id"], snippet["title"]) for snippet in found["snippets"]]
    return _page(
        "layer.html",
        settings,
        lang,
        title=escape(layer.title),
        layers=choices.options(titles.items(), base),
        no_times=_unless(found["times"]),
        last_time=str(last),
        no_provenance=_unless(found["provenance"]),
        compared=choices.options((titles | itself).items(), next(iter(others), layer.id)),
        styles=choices.options(styles),
        no_styles=_unless(len(styles) > 1),
        sources=choices.options(choices.sources(found)),
        formats=choices.options(choices.formats(found)),
        sets=choices.options(choices.sets(found)),
        projections=choices.options(choices.projections(found)),
        others=choices.options(others.items()),
        no_others=_unless(others),
        basemap=escape((shared["basemap"] or {}).get("title", "")),
        no_basemap=_unless(shared["basemap"]),
        no_ground=_unless(any("terrain" in one for one in shared["layers"])),
        no_terrain=_unless(found.get("terrain")),
        no_elevation=_unless(found.get("elevation")),
        no_downloads=_unless(found["downloads"]),
        programs=choices.options(snippets),
        no_programs=_unless(snippets),
        layer_id=escape(layer.id),
        legends=legends(found),
        places=choices.places(settings.own.get("places", [])),
        map_of=escape(text("map-of", lang, title=layer.title)),
        abstract=_abstract(layer.abstract, lang),
        tags=_tags(layer, lang),
        facts=facts(layer, lang),
        data=_embedded({**shared, "layer": found}),
    )


def compare_page(
    settings: ServiceSettings,
    sides: tuple[Layer, Layer],
    shared: Mapping[str, Any],
    site: Site,
    lang: str,
) -> Document:
    """Return the page with two layers on one map; see `layer_page`."""
    left, right = sides
    found = [description(layer, site) for layer in sides]
    named = {layer.id: layer.title for layer in sides}
    selects: dict[str, str] = {}
    for side, layer, shown in zip(("left", "right"), sides, found, strict=True):
        styles = choices.styles(shown, lang)
        selects |= {
            f"{side}_layers": choices.options((_titles(shared) | named).items(), layer.id),
            f"{side}_sources": choices.options(choices.sources(shown)),
            f"{side}_styles": choices.options(styles),
            f"{side}_no_styles": _unless(len(styles) > 1),
        }
    return _page(
        "compare.html",
        settings,
        lang,
        **selects,
        compared=escape(text("compared", lang, left=left.title, right=right.title)),
        left_title=escape(left.title),
        right_title=escape(right.title),
        data=_embedded({**shared, "sides": found}),
    )


def error_page(settings: ServiceSettings, key: str, status: int, lang: str) -> bytes:
    """Return the page that browsers get instead of one that does not exist or fails.

    Args:
        settings: of the viewer.
        key: of the text that says what is wrong.
        status: of the response.
        lang: language of the texts.
    """
    return _page(
        "error.html",
        settings,
        lang,
        title=escape(text("not-found" if status == 404 else "error", lang)),
        message=escape(text(key, lang)),
    ).body


def service_title(settings: ServiceSettings, lang: str) -> str:
    """Return the title of the viewer; the default one is translated."""
    return text("viewer", lang) if settings.title == texts("en")["viewer"] else settings.title


def _unless(found: object) -> str:
    """Return the attribute that hides an element without a content."""
    return "" if found else " hidden"


def _titles(shared: Mapping[str, Any]) -> dict[str, str]:
    return {layer["id"]: layer["title"] for layer in shared["layers"]}


def _page(name: str, settings: ServiceSettings, lang: str, **values: str) -> Document:
    base = base_path(settings.endpoint_uri)
    script = name.replace(".html", ".js")
    content = _template(name).substitute(
        {f"t_{key.replace('-', '_')}": escape(found) for key, found in texts(lang).items()},
        **values,
        lang=lang,
        base=escape(base),
        home=escape(base or "/"),
        service=escape(service_title(settings, lang)),
        preload=_preload(script, base) if script in _modules() else "",
    )
    return Document(content, "text/html; charset=utf-8")


def _embedded(data: Mapping[str, Any]) -> str:
    """Return data as JSON that cannot end the element around it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _preload(script: str, base: str) -> str:
    """Return links to the modules of a script, so that browsers request all of them at once."""
    return "".join(
        f'<link rel="modulepreload" href="{escape(base)}/static/{escape(path)}">\n'
        for path in _modules()[script]
    )


@cache
def _modules() -> Mapping[str, list[str]]:
    content = files("mastaba_viewer").joinpath("bundle", "modules.json").read_text("utf-8")
    found: Mapping[str, list[str]] = json.loads(content)
    return found


@cache
def _template(name: str) -> Template:
    return Template(files("mastaba_viewer").joinpath("templates", name).read_text("utf-8"))


def _keywords(layers: list[Layer], others: set[str]) -> list[str]:
    """Return the most frequent keywords, each in one letter case, without those in `others`."""
    words = [word for layer in layers for word in layer.keywords]
    counts = Counter(word.casefold() for word in words if word.casefold() not in others)
    written = {word.casefold(): word for word in reversed(words)}
    return [written[name] for name, _ in counts.most_common(_CHIPS)]


def _card(layer: Layer, image: Thumbnail | None, base: str, lang: str) -> str:
    address = escape(f"{base}/{quote(layer.id, safe='')}")
    names = (format_label(layer), *layer.keywords)
    words = json.dumps([name.casefold() for name in names], ensure_ascii=False)
    return (
        f'<li class="card" data-layer="{escape(layer.id)}" data-words="{escape(words)}">'
        f'<a href="{address}">'
        f'<span class="picture">{_thumbnail(image)}</span>'
        f'<span class="title" title="{escape(layer.title)}">{escape(layer.title)}</span></a>'
        f"{_paragraph(layer.abstract, 'abstract')}"
        f'<p class="tags">{_tags(layer, lang)}</p></li>\n'
    )


def _thumbnail(image: Thumbnail | None) -> str:
    if image is None:
        return ""
    if image.tile is None:
        return f'<img src="{escape(image.url)}" alt="" loading="lazy" decoding="async">'
    tile = json.dumps(image.tile, ensure_ascii=False, separators=(",", ":"))
    return f'<canvas data-tile="{escape(tile)}" aria-hidden="true"></canvas>'


def _tags(layer: Layer, lang: str) -> str:
    crs = layer.pyramid.tile_matrix_set.crs.code
    return (
        f'<span class="tag kind">{escape(kind_text(format_label(layer), lang))}</span> '
        f'<span class="tag">{escape(crs)}</span>'
    )


def kind_text(name: str, lang: str) -> str:
    """Return the name of a kind of tiles; names of formats are the same in all languages."""
    return texts(lang).get(f"kind-{name.lower()}", name)


def _chip(kind: str, name: str, shown: str) -> str:
    value = escape(name.casefold())
    attributes = f'type="button" class="chip {kind}" aria-pressed="false" value="{value}"'
    return f"<button {attributes}>{escape(shown)}</button>\n"


def _abstract(found: str, lang: str) -> str:
    """Return an abstract, of which the start is shown until it is opened if it is long."""
    shown = f'<p class="abstract" id="abstract">{escape(found)}</p>'
    if len(found) <= _SHOWN:
        return shown if found else ""
    more = escape(text("more", lang))
    summary = f'<summary>{shown}<span class="more">{more}</span></summary>'
    return f'<details class="long">{summary}</details>'


def _paragraph(text: str, css_class: str) -> str:
    return f'<p class="{css_class}">{escape(text)}</p>' if text else ""
