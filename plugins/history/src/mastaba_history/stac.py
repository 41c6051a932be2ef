"""Layers with a time as a STAC catalogue (STAC 1.1.0, Web Map Links 1.2; time.md section 2.6)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from mastaba.errors import UnknownPathError
from mastaba_ows.boxes import polygon

if TYPE_CHECKING:
    from mastaba.api.catalogue import Catalogue, Layer

VERSION: Final = "1.1.0"
GEOJSON: Final = "application/geo+json"
_JSON: Final = "application/json"
_WEB_MAP_LINKS: Final = "https://stac-extensions.github.io/web-map-links/v1.2.0/schema.json"
_MOST_ITEMS: Final = 10_000


def stac_document(
    catalogue: Catalogue, layers: Iterable[Layer], endpoint: str, path: list[str], offset: int
) -> tuple[dict[str, Any], str]:
    """Return a document of the STAC catalogue, and its media type.

    Args:
        catalogue: of the layers.
        layers: those that the client sees.
        endpoint: public address of the service.
        path: below ``/stac``: nothing for the catalogue, a layer for its collection, a layer and
            ``items`` for its items.
        offset: number of items before the first one, of which there are at most 10,000.

    Raises:
        UnknownPathError: there is no such document.
    """
    timed = {layer.id: layer for layer in layers if _time(catalogue, layer) is not None}
    root = f"{endpoint}/stac"
    links = [_link("root", root, _JSON)]
    if not path:
        links += [_link("self", root, _JSON)]
        links += [_link("child", _href(root, name), _JSON) for name in timed]
        return {**_head("Catalog", "layers", "Layers with a time"), "links": links}, _JSON
    layer = timed.get(path[0])
    if layer is None or path[1:] not in ([], ["items"]):
        raise UnknownPathError
    href = _href(root, layer.id)
    links.append(_link("parent", root, _JSON))
    if len(path) == 1:
        return _collection(catalogue, layer, href, links), _JSON
    return _items(catalogue, layer, href, root, offset), GEOJSON


def _collection(
    catalogue: Catalogue, layer: Layer, href: str, links: list[dict[str, Any]]
) -> dict[str, Any]:
    intervals = _time(catalogue, layer).intervals
    ends = [min(one[0] for one in intervals), max(one[1] for one in intervals)]
    return {
        **_head("Collection", layer.id, layer.abstract or layer.title),
        "title": layer.title,
        "keywords": list(layer.keywords),
        "license": "other",
        "extent": {
            "spatial": {"bbox": [_bbox(layer)]},
            "temporal": {"interval": [ends]},
        },
        "links": [
            *links,
            _link("self", href, _JSON),
            _link("items", f"{href}/items", GEOJSON),
        ],
    }


def _items(catalogue: Catalogue, layer: Layer, href: str, root: str, offset: int) -> dict[str, Any]:
    values = _time(catalogue, layer)
    pairs = list(zip(values.texts, values.intervals, strict=True))
    shown = pairs[offset : offset + _MOST_ITEMS]
    box = _bbox(layer)
    features = [
        {
            "type": "Feature",
            "stac_version": VERSION,
            "stac_extensions": [_WEB_MAP_LINKS],
            "id": f"{layer.id};{values.dimension.name}={text}",
            "collection": layer.id,
            "bbox": box,
            "geometry": polygon(box),
            "properties": {
                "title": f"{layer.title}, {text}",
                "datetime": first if first == last else None,
                "start_datetime": first,
                "end_datetime": last,
            },
            "links": [
                _link("root", root, _JSON),
                _link("collection", href, _JSON),
                *_map_links(catalogue, layer, values.dimension, text),
            ],
            "assets": {},
        }
        for text, (first, last) in shown
    ]
    own = f"{href}/items" + (f"?offset={offset}" if offset else "")
    links = [_link("self", own, GEOJSON)]
    if offset + len(shown) < len(pairs):
        links.append(_link("next", f"{href}/items?offset={offset + len(shown)}", GEOJSON))
    return {"type": "FeatureCollection", "features": features, "links": links}


def _map_links(
    catalogue: Catalogue, layer: Layer, dimension: Any, text: str
) -> list[dict[str, Any]]:
    """Return links of the extension to the services that show a value."""
    found = []
    for service, media_type, values in (
        ("wmts", layer.pyramid.format.media_type, {dimension.identifier: text}),
        ("wms", "image/png", {dimension.name: text}),
    ):
        if service in catalogue.services and service not in layer.hidden_from:
            link = _link(service, catalogue.services[service].endpoint_uri, media_type)
            name = [layer.id]
            link[f"{service}:{'layer' if service == 'wmts' else 'layers'}"] = name
            found.append({**link, f"{service}:dimensions": values})
    return found


def _time(catalogue: Catalogue, layer: Layer) -> Any:
    """Return the values of the time of a layer; None if it has none."""
    if not layer.dimensions:
        return None
    values = catalogue.values_of(layer, limit=10**9)
    return next((one for one in values if one.dimension.kind == "time" and one.texts), None)


def _bbox(layer: Layer) -> list[float]:
    box = layer.geographic_bbox
    return [box.xmin, box.ymin, box.xmax, box.ymax]


def _head(kind: str, identifier: str, text: str) -> dict[str, Any]:
    return {"type": kind, "stac_version": VERSION, "id": identifier, "description": text}


def _href(root: str, layer: str) -> str:
    return f"{root}/{quote(layer, safe='')}"


def _link(relation: str, href: str, media_type: str) -> dict[str, Any]:
    return {"rel": relation, "href": href, "type": media_type}
