"""What the services offer of a layer, as other programs need it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Final

from mastaba_viewer.kinds import is_picture, kind
from mastaba_viewer.sources.common import (
    data_formats,
    map_formats,
    picture_formats,
    publisher,
    with_query,
)
from mastaba_viewer.sources.heights import heights
from mastaba_viewer.sources.stylesheets import default_stylesheet
from mastaba_viewer.sources.tms import tms_source

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.services import Site

_WEB_MERCATOR: Final = 156543.03392804097
"""Cell size of zoom 0 with tiles of 256 pixels, in metres."""

_EDGE: Final = 1e-6
"""Degrees by which extents may differ."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A layer and its addresses; empty for services that do not have it.

    Attributes:
        layer: the layer.
        is_web_mercator: whether clients of XYZ tiles know its tile matrix set.
        wmts: URL of WMTS, for layers of pixels.
        tiles: template of XYZ tiles, with ``{z}``, ``{x}`` and ``{y}``.
        terrain: URL of the layer in the terrain service.
        maps: URL of WMS and the first format of its maps, for layers without XYZ tiles.
        values: URL of WMS, a style without colours and a format of its values, for heights.
        stylesheet: URL of the MapLibre style of vector tiles.
        backdrop: template of XYZ tiles with an image that can be draped over the heights, and its
            first and last zoom.
    """

    layer: Layer
    is_web_mercator: bool
    wmts: str
    tiles: str
    terrain: str
    maps: tuple[str, str] | None
    values: tuple[str, str, str] | None
    backdrop: tuple[str, tuple[int, int]] | None
    stylesheet: str = ""

    @property
    def heights(self) -> str:
        """Return the template of XYZ tiles with heights encoded as colours; empty without."""
        return f"{self.terrain}/terrarium/{{z}}/{{x}}/{{y}}.png" if self.terrain else ""

    @property
    def attribution(self) -> str:
        """Return the attribution as plain text; empty without."""
        found = self.layer.attribution
        return " ".join(" ".join(filter(None, (found.title, found.url))).split()) if found else ""

    @property
    def attribution_html(self) -> str:
        """Return the attribution as HTML, with a link."""
        found = self.layer.attribution
        if found is None:
            return ""
        # Any other URL could be a script.
        if (found.url or "").lower().startswith(("http://", "https://")):
            return f'<a href="{escape(found.url)}">{escape(found.title)}</a>'
        return escape(found.title)

    @property
    def capabilities(self) -> str:
        """Return the URL of the capabilities of WMTS."""
        return with_query(self.wmts, {"SERVICE": "WMTS", "REQUEST": "GetCapabilities"}, {})

    @property
    def degrees(self) -> list[float]:
        """Return the western, southern, eastern and northern edge."""
        box = self.layer.geographic_bbox
        return [round(edge, 6) for edge in (box.xmin, box.ymin, box.xmax, box.ymax)]

    @property
    def zooms(self) -> tuple[int, int]:
        """Return the first and the last zoom of the XYZ tiles, of heights also in other grids."""
        if self.is_web_mercator:
            return _zooms(self.layer)
        finest, crs = self.layer.pyramid.finest.matrix, self.layer.pyramid.tile_matrix_set.crs
        return 0, max(0, round(math.log2(_WEB_MERCATOR / (finest.cell_size * crs.metres_per_unit))))


def offer_of(layer: Layer, site: Site, found: list[dict[str, Any]]) -> Offer:
    """Return what the services of a site offer of a layer with the sources found."""
    wmts = None if layer.is_vector else publisher("wmts", layer, site)
    is_web_mercator = _is_web_mercator(layer)
    return Offer(
        layer,
        is_web_mercator,
        wmts.settings.endpoint_uri if wmts else "",
        _tiles(layer, found) if is_web_mercator else "",
        heights(layer, site).get("terrain", ""),
        None if is_web_mercator else _maps(layer, site),
        _values(layer, site),
        _backdrop(layer, site) if kind(layer) == "elevation" else None,
        default_stylesheet(layer, site) if layer.is_vector else "",
    )


def _zooms(layer: Layer) -> tuple[int, int]:
    levels = sorted(map(int, layer.pyramid.levels))
    return levels[0], levels[-1]


def _values(layer: Layer, site: Site) -> tuple[str, str, str] | None:
    service = publisher("wms", layer, site)
    style = next((style for style in layer.styles if not is_picture(layer, style)), None)
    if service is None or style is None or "," in layer.id + style.identifier:
        return None
    known = {name.lower(): name for name in map_formats(site)}
    # Those with the nodata value first.
    names = ("image/geotiff", "image/tiff")
    found = next((known[name] for name in names if name in known), None)
    if kind(layer) != "elevation" or found is None or found not in data_formats(site):
        return None
    return service.settings.endpoint_uri, style.identifier, found


def _backdrop(layer: Layer, site: Site) -> tuple[str, tuple[int, int]] | None:
    """Return XYZ tiles of the first image that covers a layer."""
    for other in site.catalogue.layers.values():
        if kind(other) == "image" and _is_web_mercator(other) and _contains(other, layer):
            source = tms_source(other, site)
            template = _tiles(other, [source] if source else [])
            if template and "viewer" not in other.hidden_from:
                return template, _zooms(other)
    return None


def _contains(outer: Layer, inner: Layer) -> bool:
    one, other = outer.geographic_bbox, inner.geographic_bbox
    west, east = one.xmin - _EDGE <= other.xmin, one.xmax + _EDGE >= other.xmax
    return west and east and one.ymin - _EDGE <= other.ymin and one.ymax + _EDGE >= other.ymax


def _tiles(layer: Layer, found: list[dict[str, Any]]) -> str:
    source = next((source for source in found if source["id"] == "tms"), None)
    if source is None or source["fromBottom"] or layer.pyramid.format.sample == "float32":
        return ""
    template: str = source["styles"][0]["template"]
    for name, short in (("TileMatrix", "z"), ("TileCol", "x"), ("TileRow", "y")):
        template = template.replace(f"{{{name}}}", f"{{{short}}}")
    return template


def _maps(layer: Layer, site: Site) -> tuple[str, str] | None:
    service, style = publisher("wms", layer, site), layer.default_style
    # A comma separates the names of layers in requests.
    if service is None or style is None or "," in layer.id:
        return None
    formats = picture_formats(site)
    if not formats or not is_picture(layer, style):
        return None
    return service.settings.endpoint_uri, formats[0]


def _is_web_mercator(layer: Layer) -> bool:
    tile_matrix_set = layer.pyramid.tile_matrix_set
    return tile_matrix_set.crs.code == "EPSG:3857" and all(
        name.isdigit()
        and level.matrix.tile_width == level.matrix.tile_height == 256
        and abs(level.matrix.cell_size * 2 ** int(name) / _WEB_MERCATOR - 1) < 1e-6
        for name, level in layer.pyramid.levels.items()
    )
