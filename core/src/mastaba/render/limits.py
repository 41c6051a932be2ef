"""Limits of one map, checked before any work is done."""

from __future__ import annotations

from typing import Final

from mastaba.errors import InvalidParameterError
from mastaba.model.settings import MapSettings
from mastaba.render.map_request import MapRequest

_FURTHEST: Final = 1e10
"""CRS units. No CRS has larger coordinates, and arithmetic overflows beyond 1e300."""

_SMALLEST: Final = 1e-12
"""Fraction of a coordinate; a shorter side of an extent is lost in rounding."""


def check_size(request: MapRequest, settings: MapSettings) -> None:
    """Refuse too many layers or pixels, and extents beyond the range of arithmetic.

    Raises:
        InvalidParameterError: naming the invalid parameter.
    """
    if len(request.layers) > settings.max_layers:
        raise InvalidParameterError(
            f"at most {settings.max_layers} layers may be asked for at once", "LAYERS"
        )
    for name, size, limit in (
        ("WIDTH", request.width, settings.max_width),
        ("HEIGHT", request.height, settings.max_height),
    ):
        if not 1 <= size <= limit:
            raise InvalidParameterError(f"{name} must be from 1 to {limit}", name)
    bbox = request.bbox
    reach = max(map(abs, (bbox.xmin, bbox.ymin, bbox.xmax, bbox.ymax)))
    sides = min(bbox.xmax - bbox.xmin, bbox.ymax - bbox.ymin)
    # In this form the condition also refuses NaN.
    if not (reach <= _FURTHEST and sides > _SMALLEST * reach):
        raise InvalidParameterError("BBOX is no extent on the ground", "BBOX")
    if request.width * request.height > settings.max_pixels:
        raise InvalidParameterError(f"the map has more than {settings.max_pixels} pixels", "WIDTH")


def check_window(rows: int, columns: int, settings: MapSettings) -> None:
    """Refuse a map that needs too many tiles of a layer.

    Args:
        rows, columns: numbers of tiles.

    Raises:
        InvalidParameterError: naming BBOX.
    """
    if columns > settings.max_tiles_x or rows > settings.max_tiles_y:
        raise _too_big()


def check_source(size: int, settings: MapSettings) -> None:
    """Refuse a map that holds too many bytes of source pixels of a layer at once.

    Raises:
        InvalidParameterError: naming BBOX.
    """
    if size > settings.max_source_bytes:
        raise _too_big()


def _too_big() -> InvalidParameterError:
    return InvalidParameterError("BBOX is too big for the size of the map", "BBOX")
