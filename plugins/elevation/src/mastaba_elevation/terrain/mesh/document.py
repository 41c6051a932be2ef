"""The document ``layer.json``, which says which tiles there are (elevation.md 5.2)."""

from __future__ import annotations

from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from mastaba_elevation.terrain.resource import attribution, described
from mastaba_elevation.web.numbers import json_document
from mastaba_ows.boxes import bounds
from mastaba_render.api.maps import Sources

if TYPE_CHECKING:
    from mastaba.api.web import Document
    from mastaba_elevation.queries.datasets import Dataset
    from mastaba_elevation.terrain.mesh.tiling import Tiling
    from mastaba_elevation.terrain.resource import Context
    from mastaba_elevation.terrain.settings import Options

NORMALS: Final = "octvertexnormals"
_AS_STORED: Final = "Heights are as stored, not above the ellipsoid."
_TILES: Final = 64
"""Tiles of the coarsest level of a layer whose versions are looked at."""


def layer_json(
    context: Context, dataset: Dataset, tiling: Tiling, options: Options, place: str = ""
) -> Document:
    """Return the document of a dataset.

    Args:
        place: where the tiles are, relative to the document.

    Raises:
        SlabFormatError, StorageError: an index of a slab cannot be read.
    """
    default = context.settings.options
    fill = "" if options.fill == default.fill else f"&fill={options.fill}"
    texts = [dataset.description]
    if any(vertical.to_ellipsoid is None for vertical in dataset.verticals):
        texts.append(_AS_STORED)
    document: dict[str, Any] = {
        "tilejson": "2.1.0",
        "name": dataset.title,
        "description": " ".join(filter(None, texts)),
        "version": _version(context, dataset, options),
        "format": "quantized-mesh-1.0",
        "scheme": "tms",
        "tiles": [f"{place}{{z}}/{{x}}/{{y}}.terrain?v={{version}}{fill}"],
        "projection": "EPSG:4326",
        "bounds": bounds(dataset.box),
        "minzoom": 0,
        "maxzoom": tiling.last,
        "extensions": [NORMALS],
        "available": [_available(tiling, z) for z in range(tiling.last + 1)],
        **described(dataset),
    }
    if sources := attribution(dataset):
        document["attribution"] = sources
    return json_document(document)


def _available(tiling: Tiling, z: int) -> list[dict[str, int]]:
    west, east, south, north = tiling.limits(z)
    return [{"startX": west, "startY": south, "endX": east, "endY": north}]


def _version(context: Context, dataset: Dataset, options: Options) -> str:
    """Return a text that changes when the data change.

    Whatever changes a pyramid changes its coarsest level. Where a storage has no versions, the
    text changes with each reload.
    """
    parts = []
    for item in dataset.layers:
        pixels = next(iter(context.site.renderer.level_pixels(item.layer).values()))
        limits = pixels.level.limits
        places = (
            (row, column)
            for row in range(limits.min_row, limits.max_row + 1)
            for column in range(limits.min_col, limits.max_col + 1)
        )
        parts.append(Sources.of(pixels.locate(islice(places, _TILES))))
    version = Sources.joined(parts, ",").version or f"{context.site.started}"
    settings = repr(
        (context.settings.mesh, options.fill, dataset.nodata_height, dataset.valid_range)
    )
    return blake2b((version + settings).encode(), digest_size=6).hexdigest()
