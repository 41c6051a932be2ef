"""Ready texts that show a layer in other programs: a module for each program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mastaba_viewer.snippets import (
    arcgis,
    cesium,
    gdal,
    leaflet,
    maplibre,
    mapproxy,
    openlayers,
    owslib,
    qgis,
)
from mastaba_viewer.snippets.offer import offer_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from mastaba.api.catalogue import Layer
    from mastaba.api.services import Site
    from mastaba_viewer.snippets.offer import Offer

_PROGRAMS: Final[tuple[tuple[str, str, str, Callable[[Offer], str | None]], ...]] = (
    ("qgis", "QGIS", "{layer}.xml", qgis.connection),
    ("gdal", "GDAL", "{layer}.sh", gdal.command),
    ("owslib", "OWSLib", "{layer}.py", owslib.script),
    ("openlayers", "OpenLayers", "{layer}.html", openlayers.page),
    ("leaflet", "Leaflet", "{layer}.html", leaflet.page),
    ("maplibre", "MapLibre GL", "{layer}.html", maplibre.page),
    ("cesium", "Cesium", "{layer}.html", cesium.page),
    ("mapproxy", "MapProxy", "mapproxy.yaml", mapproxy.configuration),
    ("arcgis", "ArcGIS", "{layer}.txt", arcgis.address),
)
"""Identifier, title, name of the file, and what makes the text, None if there is none."""


def snippets(layer: Layer, site: Site, found: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return the texts for the programs that can show a layer.

    Args:
        layer: the layer.
        site: site of the layer.
        found: its sources.

    Returns:
        objects with ``id``, ``title``, ``file`` (name to save the text as) and ``text``.
    """
    offer = offer_of(layer, site, found)
    return [
        {"id": name, "title": title, "file": file.replace("{layer}", layer.id), "text": text}
        for name, title, file, make in _PROGRAMS
        if (text := make(offer)) is not None
    ]
