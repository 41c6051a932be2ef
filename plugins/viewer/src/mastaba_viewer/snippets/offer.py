"""What the services offer of a layer, as other programs need it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mastaba_viewer.kinds import is_picture
from mastaba_viewer.sources.common import picture_formats, publisher, with_query
from mastaba_viewer.sources.heights import heights

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.services import Site

_WEB_MERCATOR: Final = 156543.03392804097
"""Cell size of zoom 0 with tiles of 256 pixels, in metres."""


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
    """

    layer: Layer
    is_web_mercator: bool
    wmts: str
    tiles: str
    terrain: str
    maps: tuple[str, str] | None

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
        """Return the first and the last zoom of the XYZ tiles."""
        levels = sorted(map(int, self.layer.pyramid.levels))
        return levels[0], levels[-1]


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
    )


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
