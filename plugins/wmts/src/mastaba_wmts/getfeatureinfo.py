"""GetFeatureInfo (wmts.md section 4)."""

from __future__ import annotations

from collections.abc import Callable

from mastaba.errors import UnsupportedOperationError
from mastaba.http.response import Response
from mastaba.model.layer import Layer


class GetFeatureInfo:
    """Answers GetFeatureInfo. No layer is queryable yet, and capabilities announce none.

    Args:
        find_layer: returns the layer of a name, or raises what is wrong with the name.
    """

    def __init__(self, find_layer: Callable[[str | None], Layer]) -> None:
        self._find_layer = find_layer

    def respond(self, layer: str | None) -> Response:
        """Refuse, as the standard wants it for a layer without InfoFormat.

        Raises:
            MissingParameterError: no layer is named.
            UnknownNameError: there is no such layer.
            UnsupportedOperationError: the layer is not queryable.
        """
        self._find_layer(layer)
        raise UnsupportedOperationError("the layer is not queryable", "GetFeatureInfo")
