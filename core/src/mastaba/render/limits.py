"""What one map may cost, checked before any of it is done."""

from __future__ import annotations

from typing import Final

from mastaba.errors import InvalidParameterError
from mastaba.model.settings import MapSettings
from mastaba.render.request import MapRequest

_FURTHEST: Final = 1e10
"""CRS units; no CRS has a place for larger coordinates, and arithmetic none beyond 1e300."""

_SMALLEST: Final = 1e-12
"""Part of a coordinate: a shorter side of an extent is lost in rounding."""


def check_size(request: MapRequest, settings: MapSettings) -> None:
    """Refuse too many layers or pixels, and extents that no arithmetic can handle.

    Raises:
        InvalidParameterError: naming the parameter at fault.
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
    # Written so that nan is refused as well.
    if not (reach <= _FURTHEST and sides > _SMALLEST * reach):
        raise InvalidParameterError("BBOX is no extent on the ground", "BBOX")
    if request.width * request.height > settings.max_pixels:
        raise InvalidParameterError(f"the map has more than {settings.max_pixels} pixels", "WIDTH")


def check_window(rows: int, columns: int, settings: MapSettings) -> None:
    """Refuse a map that takes too many tiles of a layer.

    Args:
        rows, columns: of tiles.

    Raises:
        InvalidParameterError: naming BBOX.
    """
    if columns > settings.max_tiles_x or rows > settings.max_tiles_y:
        raise _too_big()


def check_source(size: int, settings: MapSettings) -> None:
    """Refuse a map that holds too many bytes of source pixels of a layer at a time.

    Raises:
        InvalidParameterError: naming BBOX.
    """
    if size > settings.max_source_bytes:
        raise _too_big()


def _too_big() -> InvalidParameterError:
    return InvalidParameterError("BBOX is too big for the size of the map", "BBOX")
