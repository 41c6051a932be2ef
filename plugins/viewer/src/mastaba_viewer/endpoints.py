"""Addresses of other services of this server, as far as they are enabled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

if TYPE_CHECKING:
    from mastaba.model.layer import Layer
    from mastaba.service import Service

_PLACEHOLDERS = {"TILEMATRIX": "{z}", "TILEROW": "{y}", "TILECOL": "{x}"}


def tile_source(layer: Layer, services: Mapping[str, Service]) -> dict[str, Any] | None:
    """Return where the tiles of a layer are, or None when no service gives them.

    The template has ``{z}`` for the tile matrix identifier, ``{x}`` for the column and ``{y}``
    for the row.
    """
    if (service := _publisher("tms", layer, services)) is not None:
        return {
            "service": "TMS",
            "template": f"{_tms_layer(service, layer)}/{{z}}/{{x}}/{{y}}."
            f"{layer.pyramid.format.extension}",
            "fromBottom": service.settings.own.get("y_origin", "top") == "bottom",
        }
    if (service := _publisher("wmts", layer, services)) is not None:
        return {"service": "WMTS", "template": _wmts_tile(service, layer), "fromBottom": False}
    return None


def resources(layer: Layer, services: Mapping[str, Service]) -> list[dict[str, str]]:
    """Return labels and addresses of a layer, ready to be copied into other programs."""
    found: list[tuple[str, str]] = []
    if (service := _publisher("tms", layer, services)) is not None:
        base = _tms_layer(service, layer)
        template = f"{base}/{{z}}/{{x}}/{{y}}.{layer.pyramid.format.extension}"
        found += [("TMS tiles", template), ("TileJSON", f"{base}/metadata.json")]
        if not layer.is_vector and layer.pyramid.tile_matrix_set.is_quadtree:
            found.append(("GDAL", f"{base}/gdal.xml"))
    if (service := _publisher("wmts", layer, services)) is not None:
        found += [
            ("WMTS tiles", _wmts_tile(service, layer)),
            ("WMTS capabilities", _capabilities(service, "WMTS", "1.0.0")),
        ]
    if (service := _publisher("wms", layer, services)) is not None:
        found.append(("WMS capabilities", _capabilities(service, "WMS", "1.3.0")))
    if (service := _publisher("ogcapi", layer, services)) is not None:
        collection = f"{service.settings.endpoint_uri}/collections/{quote(layer.id, safe='')}"
        found.append(("OGC API", collection))
    return [{"label": label, "url": url} for label, url in found]


def origins(services: Mapping[str, Service]) -> list[str]:
    """Return scheme, host and port of the services that tiles come from, sorted."""
    found = set()
    for name in ("tms", "wmts"):
        if name in services:
            parts = urlsplit(services[name].settings.endpoint_uri)
            origin = f"{parts.scheme}://{parts.netloc}"
            # Only what can be no more than one source expression of the policy.
            if parts.scheme in ("http", "https") and _is_host(parts.netloc):
                found.add(origin)
    return sorted(found)


def _is_host(text: str) -> bool:
    return bool(text) and all(c.isascii() and (c.isalnum() or c in ".-:[]_") for c in text)


def _publisher(name: str, layer: Layer, services: Mapping[str, Service]) -> Service | None:
    return None if name in layer.hidden_from else services.get(name)


def _tms_layer(service: Service, layer: Layer) -> str:
    return f"{service.settings.endpoint_uri}/1.0.0/{quote(layer.id, safe='')}"


def _wmts_tile(service: Service, layer: Layer) -> str:
    style = layer.default_style
    parameters = {
        "SERVICE": "WMTS",
        "VERSION": "1.0.0",
        "REQUEST": "GetTile",
        "LAYER": layer.id,
        "STYLE": style.identifier if style else "",
        "FORMAT": layer.pyramid.format.media_type,
        "TILEMATRIXSET": layer.levels_id,
    }
    places = "&".join(f"{name}={value}" for name, value in _PLACEHOLDERS.items())
    return f"{service.settings.endpoint_uri}?{urlencode(parameters, quote_via=quote)}&{places}"


def _capabilities(service: Service, protocol: str, version: str) -> str:
    parameters = {"SERVICE": protocol, "VERSION": version, "REQUEST": "GetCapabilities"}
    return f"{service.settings.endpoint_uri}?{urlencode(parameters)}"
