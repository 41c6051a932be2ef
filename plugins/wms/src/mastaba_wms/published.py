"""The layers of the service, with the data that requests and documents need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mastaba.api.catalogue import Layer, LayerCRS, Style
from mastaba.api.web import printable
from mastaba_wms.errors import LayerNotDefinedError, StyleNotDefinedError


@dataclass(frozen=True, slots=True)
class PublishedLayer:
    """One layer of the service."""

    layer: Layer
    crs: LayerCRS

    @property
    def is_queryable(self) -> bool:
        return self.layer.feature_info is not None

    def style(self, identifier: str) -> Style:
        """Return a style by its public identifier; an empty one means the default style.

        Raises:
            StyleNotDefinedError: the layer has no such style.
        """
        style = self.layer.style(identifier) if identifier else self.layer.default_style
        if style is None:
            raise StyleNotDefinedError(
                f"the layer {self.layer.id} has no style {printable(identifier)}", "STYLES"
            )
        return style


def find(
    layers: Mapping[str, PublishedLayer], identifier: str, parameter: str = "LAYERS"
) -> PublishedLayer:
    """Return a layer.

    Args:
        parameter: to report in the error.

    Raises:
        LayerNotDefinedError: there is no such layer.
    """
    found = layers.get(identifier)
    if found is None:
        raise LayerNotDefinedError(f"there is no layer {printable(identifier)}", parameter)
    return found
