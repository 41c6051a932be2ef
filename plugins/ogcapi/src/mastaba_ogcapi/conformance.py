"""The conformance declaration (OGC API Common, 19-072 clause 7.4)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from mastaba_ows.links import self_links

if TYPE_CHECKING:
    from mastaba_ogcapi.dataset import Dataset

_SPEC: Final = "www.opengis.net/spec"
_CORE: Final = ("core", "landing-page", "json", "html", "oas30")
_TILES: Final = ("core", "tileset", "tilesets-list", "geodata-tilesets", "oas30")
_MAPS: Final = (
    "core",
    "collection-map",
    "styled-map",
    "crs",
    "spatial-subsetting",
    "scaling",
    "display-resolution",
    "background",
    "api-operations",
)
_COVERAGES: Final = (
    *("core", "subsetting-spatial", "scaling-spatial", "field-selection", "crs", "position-query"),
    *("geotiff", "cog", "api-operations", "html"),
)
_DATASET_MAPS: Final = ("dataset-map", "collections-selection")
_FORMATS: Final = {"png": "png", "jpeg": "jpg", "tiff": "tiff"}
"""Format names by conformance class."""


def conformance(dataset: Dataset) -> dict[str, Any]:
    """Return the conformance classes that this installation supports."""
    classes = [f"http://{_SPEC}/ogcapi-common-1/1.0/conf/{name}" for name in _CORE]
    classes.append(f"http://{_SPEC}/ogcapi-common-2/1.0/conf/collections")
    formats = {item.name for item in dataset.formats.all}
    if dataset.tiles:
        of_tiles = {item.name for item in dataset.tile_formats.all}
        stored = {item.layer.pyramid.format.short_name for item in dataset.raster}
        names = [*_TILES, *(_classes(of_tiles | stored) if dataset.raster else ())]
        names += ["mvt"] if dataset.vector else []
        names += ["datetime"] if "time" in dataset.dimensions else []
        classes += [f"http://{_SPEC}/ogcapi-tiles-1/1.0/conf/{name}" for name in names]
    if dataset.maps:
        names = [*_MAPS, *(_DATASET_MAPS if dataset.has_dataset_map else ()), *_classes(formats)]
        names += ["tilesets"] if dataset.tiles else []
        names += ["cors"] if dataset.cors else []
        names += ["datetime"] if "time" in dataset.dimensions else []
        names += ["general-subsetting"] if dataset.dimensions - {"time"} else []
        # Clients look for either spelling.
        classes += [
            f"{scheme}://{_SPEC}/ogcapi-maps-1/1.0/conf/{name}"
            for name in names
            for scheme in ("http", "https")
        ]
    if dataset.downloadable:
        classes += [
            f"{scheme}://{_SPEC}/ogcapi-coverages-1/1.0/conf/{name}"
            for name in (*_COVERAGES, *(("png",) if dataset.has_picture_coverage else ()))
            for scheme in ("https", "http")
        ]
    if dataset.stylesheets:
        names = ["core", "mapbox-styles"]
        classes += [f"http://{_SPEC}/ogcapi-styles-1/1.0/conf/{name}" for name in names]
    links = self_links(f"{dataset.uri}/conformance", "Conformance classes")
    return {"links": links, "conformsTo": classes}


def _classes(formats: Iterable[str]) -> list[str]:
    offered = set(formats)
    return [name for name, short in _FORMATS.items() if short in offered]
