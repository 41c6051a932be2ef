"""Styles made from what is known about the tables of a layer.

What a table shows is guessed from its name: water is blue, woods are green, roads lie above
buildings. Other tables get a colour by their name, which is the same in each style.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from mastaba_styles.sources import first_view, tables_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mastaba.api.catalogue import Attribute, Layer, Table
    from mastaba_styles.sheets import Addresses

SOURCE: Final = "layer"
"""Name of the only source of a style that is made."""

_GROUND: Final = "#f6f4ee"
_TEXT, _HALO = "#33312e", "#ffffffd9"
_WATER_TEXT: Final = "#2f6690"
_OTHERS: Final = ("#8a6fb0", "#b0706f", "#5f8fa8", "#a88b4f", "#6f9a6a", "#a5679b", "#7d7f86")
_MOST_TABLES: Final = 200
"""Tables that are drawn: more would need too many layers of a style."""


@dataclass(frozen=True, slots=True)
class _Theme:
    """How tables of one subject are drawn.

    Attributes:
        words: beginnings of words in names of tables.
        colour: of lines and points.
        fill: of polygons.
        rank: tables with higher ranks are drawn above.
        width: of lines at zoom 14, in pixels.
        edge: whether polygons have a line around them.
    """

    words: tuple[str, ...]
    colour: str
    fill: str
    rank: int
    width: float = 1.2
    edge: bool = False


_WATER: Final = _Theme(
    (
        *("water", "hydro", "river", "lake", "ocean", "sea", "stream", "canal", "coast", "marine"),
        *("eau", "cours", "plan_d_eau", "surface_hydro", "troncon_hydro", "mer", "lac", "fleuve"),
    ),
    "#6da7d1",
    "#a9cfe8",
    30,
    1.6,
)
_THEMES: Final = (
    # The first one that matches; "waterway" is water, not a way.
    _WATER,
    _Theme(("contour", "isoline", "courbe", "hypso"), "#c2a27c", "#efe4d2", 35, 0.8),
    _Theme(
        (
            *("wood", "forest", "park", "landcover", "vegetation", "grass", "nature", "green"),
            *("foret", "zone_de_veg", "meadow", "garden"),
        ),
        "#8fb583",
        "#d3e6c5",
        10,
    ),
    _Theme(
        ("landuse", "land", "soil", "occupation", "glacier", "agri", "residential"),
        "#b9b09f",
        "#ebe6da",
        5,
    ),
    _Theme(("building", "bati", "construction", "housing"), "#b8aa9a", "#ddd3c7", 40, 0.8, True),
    _Theme(
        ("bound", "admin", "border", "limit", "commune", "departement", "region", "country"),
        "#9a86a8",
        "#9a86a81f",
        50,
        1.2,
        True,
    ),
    _Theme(("rail", "train", "tram", "voie_ferree"), "#8d8a86", "#d9d7d3", 55, 1.2),
    _Theme(
        ("road", "street", "transport", "highway", "route", "way", "path", "troncon", "aeroway"),
        "#e0a35a",
        "#efe2cc",
        60,
        2.2,
    ),
    _Theme(("peak", "summit", "sommet", "mountain", "oro"), "#8c5a33", "#e8dccb", 70),
    _Theme(
        ("place", "town", "city", "village", "settlement", "toponym", "lieu"), "#55514c", "", 90
    ),
)

_KINDS: Final = {"POINT": "Point", "LINESTRING": "LineString", "POLYGON": "Polygon"}
_NAMES: Final = ("name", "nom", "label", "toponyme", "name_en", "title", "nom_officiel", "ref")
_HEIGHTS: Final = ("elevation", "ele", "altitude", "height", "alti")
_PLACES: Final = ("Point", "Polygon", "LineString")


def made_style(layer: Layer, source: dict[str, Any], others: Addresses) -> dict[str, Any]:
    """Return the style of a layer.

    Args:
        layer: the layer.
        source: its tiles.
        others: further addresses. Without fonts, there are no labels.
    """
    glyphs, font = others.glyphs, others.fonts.default
    style: dict[str, Any] = {
        "version": 8,
        "name": layer.title,
        "metadata": {"mastaba:layer": layer.id, **others.metadata},
        **first_view(layer),
        "sources": {SOURCE: source},
    }
    if source["type"] == "raster":
        style["layers"] = [{"id": "pixels", "type": "raster", "source": SOURCE}]
        return style
    if glyphs is not None:
        style["glyphs"] = glyphs
    layers: list[tuple[int, dict[str, Any]]] = []
    for table in list(tables_of(layer).values())[:_MOST_TABLES]:
        layers += _drawn(table, font)
    # A stable order: of equal ranks, that of the tables.
    layers.sort(key=lambda entry: entry[0])
    ground = {"id": "ground", "type": "background", "paint": {"background-color": _GROUND}}
    style["layers"] = [ground, *(one for _, one in layers)]
    return style


def _drawn(table: Table, font: str) -> Iterable[tuple[int, dict[str, Any]]]:
    """Return the layers of a table with their ranks: areas, then lines, points and labels."""
    theme = _theme(table.name)
    known = _KINDS.get(table.geometry.upper().removeprefix("MULTI"))
    kinds = (known,) if known else _PLACES

    def one(kind: str, type_: str, rank: int, **more: Any) -> tuple[int, dict[str, Any]]:
        entry: dict[str, Any] = {
            "id": f"{table.name} {type_}" + ("" if known else f" {kind.lower()}"),
            "type": type_,
            "source": SOURCE,
            "source-layer": table.name,
        }
        if not known:
            # The older form of filters, which QGIS reads too.
            entry["filter"] = ["==", "$type", kind]
        return rank, entry | more

    if "Polygon" in kinds:
        paint: dict[str, Any] = {"fill-color": theme.fill or theme.colour}
        if theme.edge:
            paint["fill-outline-color"] = theme.colour
        yield one("Polygon", "fill", theme.rank, paint=paint)
    if "LineString" in kinds:
        layout = {"line-cap": "round", "line-join": "round"}
        yield one("LineString", "line", 100 + theme.rank, layout=layout, paint=_line(theme))
    if "Point" in kinds:
        paint = {
            "circle-radius": 3.5,
            "circle-color": theme.colour,
            "circle-stroke-color": "#ffffff",
            "circle-stroke-width": 1,
        }
        yield one("Point", "circle", 200 + theme.rank, paint=paint)
    label = _label(table)
    if font and label:
        for kind in kinds:
            text = _text(label, font, theme, kind)
            yield one(kind, "symbol", 300 + theme.rank, **text)


def _line(theme: _Theme) -> dict[str, Any]:
    stops = [[6, round(theme.width / 3, 2)], [14, theme.width], [18, round(3 * theme.width, 2)]]
    return {"line-color": theme.colour, "line-width": {"base": 1.3, "stops": stops}}


def _text(label: str, font: str, theme: _Theme, kind: str) -> dict[str, Any]:
    layout: dict[str, Any] = {
        "text-field": f"{{{label}}}",
        "text-font": [font],
        "text-size": 11 if kind == "LineString" else 13,
    }
    if kind == "LineString":
        layout["symbol-placement"] = "line"
    elif kind == "Point":
        layout |= {"text-anchor": "top", "text-offset": [0, 0.5], "text-optional": True}
    colour = _WATER_TEXT if theme is _WATER else _TEXT
    paint = {"text-color": colour, "text-halo-color": _HALO, "text-halo-width": 1.3}
    return {"layout": layout, "paint": paint}


def _label(table: Table) -> str:
    """Return the attribute with the names of features; empty without one."""
    texts = {one.name.lower(): one.name for one in table.attributes if not _is_number(one)}
    found = next((texts[name] for name in _NAMES if name in texts), "")
    found = found or next((texts[name] for name in texts if name.startswith(("name", "nom_"))), "")
    if not found:
        numbers = {one.name.lower(): one.name for one in table.attributes if _is_number(one)}
        found = next((numbers[name] for name in _HEIGHTS if name in numbers), "")
    # Braces would end the field of the label.
    return "" if "{" in found or "}" in found else found


def _is_number(attribute: Attribute) -> bool:
    kind = attribute.type.lower()
    return attribute.minimum is not None or kind.startswith(("int", "num", "float", "real", "doub"))


def _theme(name: str) -> _Theme:
    parts = name.lower().replace("-", "_").replace(" ", "_").replace(":", "_")
    for theme in _THEMES:
        if any(parts.startswith(word) or f"_{word}" in parts for word in theme.words):
            return theme
    colour = _OTHERS[crc32(name.encode()) % len(_OTHERS)]
    return _Theme((), colour, f"{colour}40", 20, edge=True)
