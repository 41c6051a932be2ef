"""Functions shared by the sources of all protocols."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from mastaba_render.api.crs import CRSOffer

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.services import Service, Site


def publisher(name: str, layer: Layer, site: Site) -> Service | None:
    """Return a service by name, or None if it does not publish the layer."""
    return None if name in layer.hidden_from else site.services.get(name)


def segment(text: str) -> str:
    """Encode a text as one path segment."""
    return quote(text, safe="")


def with_query(uri: str, parameters: Mapping[str, str], places: Mapping[str, str]) -> str:
    """Return a URL with query parameters.

    Args:
        uri: base URL, which may already have a query.
        parameters: values that need encoding.
        places: placeholders, or values that are already encoded.
    """
    joint = "&" if "?" in uri else "?"
    fixed = urlencode(parameters, quote_via=quote, safe="/:")
    return f"{uri}{joint}{fixed}" + "".join(f"&{name}={value}" for name, value in places.items())


def document(label: str, url: str) -> dict[str, str]:
    """Return the entry of a metadata document of a layer or service."""
    return {"label": label, "url": url}


def picture_formats(site: Site) -> list[str]:
    """Return the media types of maps that browsers can show."""
    return [name for name in map_formats(site) if site.encoders[name.lower()].is_picture]


def data_formats(site: Site) -> list[str]:
    """Return the media types of maps that contain raw values."""
    return [name for name in map_formats(site) if not site.encoders[name.lower()].is_picture]


def map_formats(site: Site) -> list[str]:
    """Return the media types in which maps are available."""
    return [name for name in site.catalogue.settings.map.formats if name.lower() in site.encoders]


def geotiff_format(site: Site) -> str | None:
    """Return the media type of georeferenced maps, or None."""
    known = {name.lower(): name for name in map_formats(site)}
    return known.get("image/geotiff") or known.get("image/tiff")


def map_crs(layer: Layer, site: Site) -> list[str]:
    """Return the codes of the CRSs in which maps of a layer are available, its own first."""
    offer = CRSOffer(site.catalogue.settings)
    native = layer.pyramid.tile_matrix_set.crs.code.upper()
    return list(dict.fromkeys((native, *offer.of(layer).own, *offer.shared)))


def map_limits(site: Site) -> dict[str, Any]:
    """Return the limits of one map."""
    settings = site.catalogue.settings.map
    return {
        "width": settings.max_width,
        "height": settings.max_height,
        "tilesX": settings.max_tiles_x,
        "tilesY": settings.max_tiles_y,
    }
