"""JSON descriptions of layers for the scripts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mastaba.api.web import Document
from mastaba.errors import AccessError, SlabFormatError, StorageError
from mastaba_ows.offers import heat_map, sources_address
from mastaba_viewer.choices import is_offered
from mastaba_viewer.downloads import downloads
from mastaba_viewer.grids import grids
from mastaba_viewer.kinds import format_label, kind
from mastaba_viewer.legends import table_colour
from mastaba_viewer.projections import projections
from mastaba_viewer.snippets import snippets
from mastaba_viewer.sources import sources
from mastaba_viewer.sources.heights import heights
from mastaba_viewer.sources.stylesheets import default_stylesheet
from mastaba_viewer.times import in_catalogue, times

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer, Palette, Style
    from mastaba.api.services import Site


def layer_document(layer: Layer, site: Site) -> Document:
    """Return the description of a layer, for scripts that show another one."""
    content = json.dumps(description(layer, site), ensure_ascii=False, separators=(",", ":"))
    return Document(content, "application/json")


def description(layer: Layer, site: Site) -> dict[str, Any]:
    """Return the full description of one layer and its sources."""
    raster, box = layer.pyramid.raster, layer.geographic_bbox
    attribution, shown = layer.attribution, grids(layer, site)
    found = sources(layer, site)
    for source in found:
        source["offers"] = [grid["id"] for grid in shown if is_offered(source, grid)]
    return {
        **summary(layer, site),
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
        "styles": _styles(layer, site),
        "tables": _tables(layer),
        "stylesheet": default_stylesheet(layer, site) if layer.is_vector else "",
        "sets": shown,
        "sources": found,
        "downloads": downloads(layer, site),
        "snippets": snippets(layer, site, found),
        "projections": projections(layer, site),
        "times": times(layer, site.catalogue),
        "heat": heat_map(site, layer),
        "provenance": sources_address(site, in_catalogue(layer)),
    }


def summary(layer: Layer, site: Site) -> dict[str, Any]:
    """Return the fields needed to choose among layers."""
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
    return [
        {"name": table.name, "geometry": table.geometry, "colour": table_colour(table.name, place)}
        for place, table in enumerate(tables.values())
    ]


def _styles(layer: Layer, site: Site) -> list[dict[str, Any]]:
    """Return the styles of a layer; the legends of a float layer end near its values."""
    # Loaded on first use: it needs the libraries of rendering.
    from mastaba_render.api.maps import legend_palette, legend_unit

    values, metres = None, ""
    if kind(layer) == "elevation":
        metres = "m"
        if any(style.palette for style in layer.styles):
            values = _values(layer, site)

    def palette(style: Style) -> dict[str, Any] | None:
        shown = legend_palette(layer, style, values)
        unit = legend_unit(layer, style)
        return _palette(shown, metres if unit is None else unit) if shown else None

    return [
        {
            "id": style.identifier,
            "title": style.title or style.identifier,
            "palette": palette(style),
        }
        for style in layer.styles
    ]


def _values(layer: Layer, site: Site) -> tuple[float, float] | None:
    """Return the range of the values of a float layer; None if they cannot be read."""
    try:
        return site.renderer.value_range(layer)
    except (AccessError, SlabFormatError, StorageError):
        return None


def _palette(palette: Palette, unit: str) -> dict[str, Any]:
    """Return the colours of a legend, and the unit of its values."""
    return {
        "continuous": palette.rgb_continuous,
        "unit": unit,
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
