"""What jobs can make of a layer, for pages about the layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from mastaba.api.services import Download
from mastaba.api.tiles import can_draw
from mastaba_coverage import has_masks
from mastaba_export.errors import InvalidRequestError
from mastaba_export.formats import MEDIA_TYPES, file_name, kind_of, zooms_of
from mastaba_export.jobs.exporting import PACKED
from mastaba_export.request import COVERAGES, ExportRequest

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.services import Site
    from mastaba_export.service.processes import Process

_TAKES: Final[Mapping[str, tuple[str, ...]]] = {"cog": ("area",), "tif": ("area", "level")}
"""What else formats take than a box, by format: a COG has the coarser levels as overviews."""


def offers(process: Process, layer: Layer, address: str, site: Site) -> Iterator[Download]:
    """Yield the files that a process can make of a layer; nothing is read.

    Tiles are as they are stored. If a format cannot contain them, they are drawn in a style.

    Args:
        process: the process, which takes the layer.
        layer: the layer.
        address: address of the process.
        site: has the encoders.
    """
    readers = site.catalogue.readers_of(layer).values()
    for format in process.formats:
        if format in PACKED:
            # For programs, not for a page.
            continue
        inputs = _inputs(ExportRequest(layer.id, format=format), layer, site)
        if inputs is not None:
            takes = _TAKES.get(format, ("area", "levels"))
            if format in COVERAGES and has_masks(readers):
                takes = (*takes, "mask")
            yield Download(
                format, file_name(layer.id, format), process=address, inputs=inputs, takes=takes
            )


def _inputs(request: ExportRequest, layer: Layer, site: Site) -> Mapping[str, Any] | None:
    """Return the inputs without an area; None if there is no such export."""
    inputs = request.to_inputs()
    if request.format in COVERAGES:
        return inputs
    matrices = {name: level.matrix for name, level in layer.pyramid.levels.items()}
    try:
        zooms_of(request.format or "", layer.pyramid.tile_matrix_set, matrices)
    except InvalidRequestError:
        return None
    try:
        kind_of(request, layer)
    except InvalidRequestError:
        style = _drawn_style(layer, site)
        return None if style is None else {**inputs, "style": style, "tile_format": "png"}
    return inputs


def _drawn_style(layer: Layer, site: Site) -> str | None:
    """Return the first style in which tiles can be drawn as pictures."""
    if layer.is_vector or not can_draw() or MEDIA_TYPES["png"] not in site.encoders:
        return None
    # Only here: servers that draw nothing do not have it.
    from mastaba_render.api.maps import is_bytes

    styles = (style.identifier for style in layer.styles if is_bytes(layer, style))
    return next(styles, None)
