"""JSON descriptions of layers for the scripts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mastaba.api.web import Document
from mastaba_viewer.grids import grids
from mastaba_viewer.kinds import format_label, kind
from mastaba_viewer.projections import projections
from mastaba_viewer.snippets import snippets
from mastaba_viewer.sources import sources
from mastaba_viewer.sources.heights import heights

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer, Palette
    from mastaba.api.services import Site


def layers_document(
    layers: Iterable[Layer], basemap: Mapping[str, Any] | None, site: Site
) -> Document:
    """Return what the scripts of all layers need.

    It is the list of layers, with the fields needed to choose among them, and the basemap.
    """
    listed = [_summary(layer, site) for layer in layers]
    return _json({"layers": listed, "basemap": basemap})


def layer_document(layer: Layer, site: Site) -> Document:
    """Return the full description of one layer and its sources."""
    raster, box = layer.pyramid.raster, layer.geographic_bbox
    # Among bytes, the value for "no data" is one like the others.
    # Loaded on first use: it needs the libraries of rendering.
    from mastaba.api.maps import legend_palette

    attribution, found = layer.attribution, sources(layer, site)
    return _json(
        {
            **_summary(layer, site),
            "abstract": layer.abstract,
            "mediaType": layer.pyramid.format.media_type,
            "nodata": list(raster.nodata) if raster else [],
            "geographicBbox": [box.xmin, box.ymin, box.xmax, box.ymax],
            "attribution": (
                {"title": attribution.title, "url": attribution.url} if attribution else None
            ),
            "metadata": [
                {"title": record.type or "Metadata", "url": record.url} for record in layer.metadata
            ],
            "styles": [
                {
                    "id": style.identifier,
                    "title": style.title or style.identifier,
                    "palette": _palette(legend_palette(layer, style)),
                }
                for style in layer.styles
            ],
            "tables": _tables(layer),
            "sets": grids(layer, site),
            "sources": found,
            "snippets": snippets(layer, site, found),
            "projections": projections(layer, site),
        }
    )


def _summary(layer: Layer, site: Site) -> dict[str, Any]:
    tile_matrix_set = layer.pyramid.tile_matrix_set
    return {
        "id": layer.id,
        "title": layer.title,
        "kind": kind(layer),
        "format": format_label(layer),
        "set": tile_matrix_set.id,
        "crs": tile_matrix_set.crs.code,
        **heights(layer, site),
    }


def _tables(layer: Layer) -> list[dict[str, str]]:
    levels = layer.pyramid.levels.values()
    tables = {table.name: table for level in levels for table in level.tables}
    return [{"name": table.name, "geometry": table.geometry} for table in tables.values()]


def _palette(palette: Palette | None) -> dict[str, Any] | None:
    """Return the colours of a legend."""
    if palette is None:
        return None
    return {
        "continuous": palette.rgb_continuous,
        "colours": [
            [
                entry.value,
                entry.red,
                entry.green,
                entry.blue,
                255 if palette.no_alpha or entry.alpha < 0 else entry.alpha,
            ]
            for entry in palette.entries
        ],
    }


def _json(content: dict[str, Any]) -> Document:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return Document(text, "application/json")
