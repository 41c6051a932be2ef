"""Dimensions of layers in capabilities and in requests (time.md section 2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mastaba_ows.dimensions import Dimension

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.services import Site
    from mastaba_ows.dimensions import DimensionValues
    from mastaba_ows.xml import Element

MOST_VALUES: Final = 16
"""Values of a layer in one feature information."""


def tile_dimensions(layer: Layer) -> tuple[Dimension, ...]:
    """Return the dimensions that select tiles: all but those of pixels."""
    return tuple(one for one in layer.dimensions if not one.of_pixels)


def add_dimensions(element: Element, layer: Layer, site: Site, limit: int) -> None:
    """Append the ``Dimension`` elements of a layer, in the order of its templates.

    Args:
        limit: values of a dimension. If there are more, they are written as runs.
    """
    from mastaba_ows.xml import add
    from mastaba_wmts.contents import OWS, WMTS

    for values in site.catalogue.values_of(layer, limit):
        dimension = values.dimension
        if dimension.of_pixels:
            continue
        described = add(element, f"{WMTS}Dimension")
        add(described, f"{OWS}Identifier", dimension.identifier)
        if dimension.units:
            add(described, f"{OWS}UOM", dimension.units)
        if dimension.unit_symbol:
            add(described, f"{WMTS}UnitSymbol", dimension.unit_symbol)
        add(described, f"{WMTS}Default", _default(values))
        add(described, f"{WMTS}Current", str(dimension.is_current).lower())
        for text in values.uniform:
            add(described, f"{WMTS}Value", text)


def _default(values: DimensionValues) -> str:
    """Return the default, which is mandatory: of a dimension without one, the newest value.

    It is written as the value is, if there is one element for each value.
    """
    texts: Sequence[str] = values.texts
    default = values.default or texts[-1]
    is_listed = default in texts and len(texts) == len(values.uniform)
    return values.uniform[texts.index(default)] if is_listed else default
