"""The layers of the service, with the data that requests and documents need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mastaba.api.catalogue import Layer
from mastaba.api.web import printable
from mastaba_render.api.crs import LayerCRS
from mastaba_render.api.maps import MapLayer
from mastaba_wms.errors import LayerNotDefinedError, StyleNotDefinedError


@dataclass(frozen=True, slots=True)
class PublishedLayer:
    """One layer of the service.

    Attributes:
        layer: the layer.
        crs: its CRSs.
        styled: the layer in each style, by public identifier; empty for the default style.
    """

    layer: Layer
    crs: LayerCRS
    styled: Mapping[str, MapLayer]

    @classmethod
    def of(cls, layer: Layer, crs: LayerCRS) -> PublishedLayer:
        """Return a layer with all its styles."""
        styles = {style.identifier: style for style in reversed(layer.styles)}
        if layer.default_style is not None:
            styles[""] = layer.default_style
        return cls(layer, crs, {name: MapLayer(layer, style) for name, style in styles.items()})

    @property
    def is_queryable(self) -> bool:
        is_offered = ("wms", "info") not in self.layer.withheld
        return self.layer.feature_info is not None and is_offered

    def unknown_style(self, identifier: str) -> StyleNotDefinedError:
        """Return the error for a style that the layer does not have."""
        return StyleNotDefinedError(
            f"the layer {self.layer.id} has no style {printable(identifier)}", "STYLES"
        )


def unknown_layer(identifier: str, parameter: str) -> LayerNotDefinedError:
    """Return the error for a layer that does not exist, named by a parameter."""
    return LayerNotDefinedError(f"there is no layer {printable(identifier)}", parameter)
