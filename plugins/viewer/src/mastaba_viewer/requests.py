"""Request URLs for the view of a map, from all services that publish the layer."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from mastaba.api.catalogue import CRS, BoundingBox
from mastaba.api.web import Document
from mastaba.errors import InvalidParameterError, UnknownNameError
from mastaba_ows.parameters import decimal, decimals, flag
from mastaba_viewer.choices import is_offered
from mastaba_viewer.grids import grids
from mastaba_viewer.sources import sources
from mastaba_viewer.sources.common import segment
from mastaba_viewer.texts import text, texts

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.services import Site

_MOST_PIXELS: Final = 2048
"""Widest and highest map of a view."""


@dataclass(frozen=True, slots=True)
class View:
    """What a map shows.

    Attributes:
        set: identifier of the tile matrix set.
        style: identifier of the style, None for stored data.
        box: visible box in the CRS of the set; x before y.
        cell: size of a pixel in this CRS.
        format: media type of maps.
        transparent: whether maps are transparent.
    """

    set: str
    style: str | None
    box: BoundingBox
    cell: float
    format: str
    transparent: bool

    @classmethod
    def of(cls, query: Mapping[str, str]) -> View:
        """Return the view in the parameters of a request.

        Raises:
            InvalidParameterError: the box or the cell size is missing or invalid.
        """
        corners, cell = decimals(query.get("bbox", ""), (4,)), decimal(query.get("cell", ""))
        if corners is None or cell is None:
            raise InvalidParameterError("bbox needs four numbers, cell one", "bbox")
        xmin, ymin, xmax, ymax = corners
        if not (xmin < xmax and ymin < ymax and cell > 0):
            raise InvalidParameterError("bbox or cell is empty", "bbox")
        return cls(
            query.get("set", ""),
            query.get("style") or None,
            BoundingBox(xmin, ymin, xmax, ymax),
            cell,
            query.get("format", ""),
            flag(query.get("transparent", "")) is not False,
        )

    def in_grid(self, shown: Mapping[str, Any], grid: Mapping[str, Any]) -> View:
        """Return the view of one grid in the CRS of another one."""
        if grid["crs"] == shown["crs"]:
            return self
        before, after = CRS.from_code(shown["crs"]), CRS.from_code(grid["crs"])
        try:
            box = before.transform_bbox(self.box, after)
        except ValueError:
            box = BoundingBox(*grid["bbox"])
        cell = self.cell * before.metres_per_unit / after.metres_per_unit
        return replace(self, box=box, cell=cell)


@dataclass(frozen=True, slots=True)
class _Offer:
    """What a source offers for a view: the nearest grid and style."""

    source: Mapping[str, Any]
    grid: Mapping[str, Any]
    look: Mapping[str, Any]
    view: View

    @property
    def set_name(self) -> dict[str, str]:
        """The value for the placeholder of the tile matrix set."""
        sets = self.source.get("sets", {})
        return {"TileMatrixSet": segment(sets[self.grid["id"]])} if sets else {}


def requests(layer: Layer, site: Site, view: View, lang: str) -> Document:
    """Return the requests of a view, and the URL of a GeoTIFF of it or null.

    Each of ``groups`` has the ``title`` of a source, a ``note`` that says how its requests differ
    from what is shown, and ``items`` with ``label``, ``url`` and ``example``: of a template, the
    tile in the middle of the view.

    Raises:
        UnknownNameError: the layer has no such tile matrix set.
    """
    shown = grids(layer, site)
    here = next((grid for grid in shown if grid["id"] == view.set), None)
    if here is None:
        raise UnknownNameError("unknown tile matrix set", "set")
    found = sources(layer, site)
    first = next((source for source in found if source["type"] == "tiles"), None)
    groups, geotiffs = [], []
    for source in found:
        offer = _offer(source, here, [here, *shown], view)
        items = []
        if offer is not None:
            items += (
                _maps(offer, lang)
                if source["type"] == "maps"
                else _tiles(offer, source is first, lang)
            )
            if source.get("geotiff") and offer.grid is here:
                geotiffs.append(_map_url(offer, source["geotiff"], transparent=False))
        names = offer.set_name if offer else {}
        items += [
            _item(_label(entry["label"], lang), _filled(entry["url"], names))
            for entry in source["documents"]
        ]
        note = _note(layer, offer, here, lang) if offer else ""
        groups.append({"title": source["title"], "note": note, "items": items})
    content = {"groups": groups, "geotiff": next(iter(geotiffs), None)}
    return Document(json.dumps(content, ensure_ascii=False), "application/json")


def _label(name: str, lang: str) -> str:
    """Return the name of a document; names of formats are the same in all languages."""
    return texts(lang).get(name.lower(), name)


def _offer(
    source: Mapping[str, Any],
    here: Mapping[str, Any],
    shown: list[Mapping[str, Any]],
    view: View,
) -> _Offer | None:
    grid = next((one for one in shown if is_offered(source, one)), None)
    if grid is None or not source["styles"]:
        return None
    same = (look for look in source["styles"] if look["style"] == view.style)
    return _Offer(source, grid, next(same, source["styles"][0]), view.in_grid(here, grid))


def _note(layer: Layer, offer: _Offer, here: Mapping[str, Any], lang: str) -> str:
    style, notes = offer.look["style"], []
    if style != offer.view.style and len(layer.styles) > 1:
        stored = style is None
        notes.append(text("stored-data", lang) if stored else text("style-id", lang, id=style))
    if offer.grid is not here:
        notes.append(offer.grid["crs" if offer.source["type"] == "maps" else "id"])
    return ", ".join(notes)


def _maps(offer: _Offer, lang: str) -> list[dict[str, str]]:
    formats, name = offer.look["formats"], offer.view.format
    url = _map_url(offer, name if name in formats else formats[0], offer.view.transparent)
    label = "getmap-of-view" if offer.source["id"] == "wms" else "map-of-view"
    items = [_item(text(label, lang), url)]
    if "legend" in offer.look:
        items.append(_item(text("legend", lang), offer.look["legend"]))
    return items


def _map_url(offer: _Offer, media_type: str, transparent: bool) -> str:
    box, width, height = _extent(offer)
    edges = [box.xmin, box.ymin, box.xmax, box.ymax]
    if offer.grid["northingFirst"]:
        edges = [box.ymin, box.xmin, box.ymax, box.xmax]
    is_wms, shows_below = offer.source["id"] == "wms", str(transparent)
    values = {
        "CRS": offer.grid["crs"],
        "BBOX": ",".join(f"{edge:.15g}" for edge in edges),
        "WIDTH": str(width),
        "HEIGHT": str(height),
        # OGC API uses short format names and lower-case booleans.
        "FORMAT": media_type if is_wms else re.sub(r"^image/(\w+).*", r"\1", media_type),
        "TRANSPARENT": shows_below.upper() if is_wms else shows_below.lower(),
    }
    return _filled(offer.look["template"], values)


def _extent(offer: _Offer) -> tuple[BoundingBox, int, int]:
    """Return box, width and height of a map of the visible part of the layer, or else of all of it.

    The map stays within the limits of the service.
    """
    limits, coarsest = offer.source["limits"], _levels(offer.grid)[0]
    whole = BoundingBox(*offer.grid["bbox"])
    box = offer.view.box.intersection(whole) or whole
    width, height = box.xmax - box.xmin, box.ymax - box.ymin
    cell = max(
        offer.view.cell,
        width / min(limits["width"], _MOST_PIXELS),
        height / min(limits["height"], _MOST_PIXELS),
    )
    # If even the coarsest level is finer than the map, the map needs many of its tiles.
    finest = min(coarsest["cellSize"], cell)
    width = min(width, max(1, limits["tilesX"] - 2) * coarsest["tileWidth"] * finest)
    height = min(height, max(1, limits["tilesY"] - 2) * coarsest["tileHeight"] * finest)
    x, y = (box.xmin + box.xmax) / 2, (box.ymin + box.ymax) / 2
    part = BoundingBox(x - width / 2, y - height / 2, x + width / 2, y + height / 2)
    return part, max(1, round(width / cell)), max(1, round(height / cell))


def _tiles(offer: _Offer, is_first: bool, lang: str) -> list[dict[str, str]]:
    source, look, has_zooms = offer.source, offer.look, offer.grid["hasZooms"]
    row = "{-y}" if source["fromBottom"] else "{y}"
    zooms = {"TileMatrix": "{z}", "TileCol": "{x}", "TileRow": row}
    tile = _middle(offer)

    def item(key: str, template: str, names: Mapping[str, str] | None = None) -> dict[str, str]:
        url = _filled(template, offer.set_name | dict(names or {}))
        return _item(text(key, lang), url, _filled(template, offer.set_name | tile))

    items = []
    # One {z}/{x}/{y} template is enough.
    if has_zooms and is_first:
        items.append(item("xyz-template", look["template"], zooms))
    if source["id"] == "wmts":
        items.append(item("kvp-template", look["template"]))
    elif source["id"] != "tms" or not has_zooms:
        items.append(item("tile-template", look["template"]))
    if "rest" in look:
        items.append(item("rest-template", look["rest"]))
    return items


def _middle(offer: _Offer) -> dict[str, str]:
    """Return the values for the placeholders of the tile of the layer nearest to the middle."""
    box = offer.view.box
    levels = _levels(offer.grid)
    matrix = min(levels, key=lambda level: abs(math.log(level["cellSize"] / offer.view.cell)))
    min_row, max_row, min_col, max_col = offer.grid["limits"][matrix["id"]]
    down = (matrix["originY"] - (box.ymin + box.ymax) / 2) / matrix["cellSize"]
    right = ((box.xmin + box.xmax) / 2 - matrix["originX"]) / matrix["cellSize"]
    row = min(max_row, max(min_row, math.floor(down / matrix["tileHeight"])))
    col = min(max_col, max(min_col, math.floor(right / matrix["tileWidth"])))
    if offer.source["fromBottom"]:
        row = matrix["matrixHeight"] - 1 - row
    return {"TileMatrix": segment(matrix["id"]), "TileRow": str(row), "TileCol": str(col)}


def _levels(grid: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [matrix for matrix in grid["matrices"] if matrix["id"] in grid["limits"]]


def _item(label: str, url: str, example: str | None = None) -> dict[str, str]:
    return {"label": label, "url": url, "example": url if example is None else example}


def _filled(template: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), template)
