"""What requests cost of the rates of a client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from mastaba_render.api.maps import map_cost
from mastaba_wms.params import OPERATIONS, Operation

if TYPE_CHECKING:
    from mastaba_wms.dimensions import LayerNames

ABILITIES: Final = {
    Operation.GET_MAP: "maps",
    Operation.GET_FEATURE_INFO: "info",
    Operation.GET_LEGEND_GRAPHIC: "legend",
}
_FORWARDED: Final = 10
_INFO: Final = 2


def operation_of(parameters: Mapping[str, str]) -> Operation | None:
    """Return the operation of a request that may be invalid."""
    return OPERATIONS.get(parameters.get("request", "").lower())


def cost_of(parameters: Mapping[str, str], names: LayerNames, most_pixels: int) -> int:
    """Return the cost of a request that may be invalid.

    Args:
        parameters: by name in lower case.
        names: finds the layers of the service.
        most_pixels: of a map; one with more is refused.
    """
    operation = operation_of(parameters)
    if operation is Operation.GET_MAP:
        drawn = names.counted(parameters.get("layers", "").split(","), parameters)
        crs = (parameters.get("crs") or parameters.get("srs") or "").upper()
        size = parameters.get("width", ""), parameters.get("height", "")
        natives = [one.layer.pyramid.tile_matrix_set.crs.code.upper() for one, _ in drawn]
        count = sum(values for _, values in drawn)
        return map_cost(size, most_pixels, count, is_projected=any(x != crs for x in natives))
    if operation is Operation.GET_FEATURE_INFO:
        queried = names.counted(parameters.get("query_layers", "").split(","), parameters)
        sources = [one.layer.feature_info for one, _ in queried]
        is_forwarded = any(one and one.url for one in sources)
        return _FORWARDED if is_forwarded else _INFO * max((n for _, n in queried), default=1)
    return 1
