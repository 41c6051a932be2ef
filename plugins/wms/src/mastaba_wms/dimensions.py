"""Dimensions of layers in requests and in capabilities (time.md sections 2.1 and 2.7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from mastaba.api.catalogue import Layer
from mastaba.errors import UnknownNameError
from mastaba_ows.dimensions import Note, requested_values
from mastaba_wms.published import PublishedLayer, unknown_layer

if TYPE_CHECKING:
    from mastaba.api.catalogue import Catalogue
    from mastaba.api.dimensions import Resolved
    from mastaba_ows.dimensions import DimensionValues
    from mastaba_render.api.maps import MapLayer

MOST_VALUES: Final = 16
"""Values of a layer in one map."""


@dataclass(frozen=True, slots=True)
class WantedLayer:
    """A layer of a request, with the values of its dimensions.

    Attributes:
        published: the layer.
        shown: itself, or what the values mean; newest first.
        ranges: pixel values that a map shows; empty for all.
        notes: values that the request did not name exactly.
        cached: what is shown, with the Cache-Control of the request.
        is_plain: whether the layer has no dimensions.
    """

    published: PublishedLayer
    shown: tuple[Layer, ...]
    ranges: tuple[tuple[float, float], ...] = ()
    notes: tuple[Note, ...] = field(default=(), compare=False)
    cached: tuple[Layer, ...] = field(default=(), compare=False)
    is_plain: bool = field(default=False, compare=False)

    @classmethod
    def plain(cls, published: PublishedLayer) -> WantedLayer:
        """Return a layer without dimensions."""
        layers = (published.layer,)
        return cls(published, layers, cached=layers, is_plain=True)

    @classmethod
    def of(cls, published: PublishedLayer, found: Resolved) -> WantedLayer:
        """Return what a name and values mean."""
        layers, notes, is_lasting, by_name = found
        ranges = tuple(next(iter(by_name.values()), ()))
        is_exact = is_lasting and not notes and len(layers) == 1
        if is_exact or layers[0] is published.layer:
            return cls(published, layers, ranges, notes, layers)
        # The Cache-Control of a value is only for requests that name it: for others, another value
        # may be found later.
        own = published.layer.cache_control
        cached = tuple(replace(layer, cache_control=own) for layer in layers)
        return cls(published, layers, ranges, notes, cached)

    def styled(self, name: str) -> list[MapLayer]:
        """Return what a map shows in a style, the oldest value first, so at the bottom."""
        styled = self.published.styled[name]
        return [replace(styled, layer=layer, ranges=self.ranges) for layer in reversed(self.shown)]


class LayerNames:
    """Finds the layers that requests name.

    Args:
        layers: of the service, by identifier.
        catalogue: of the service.

    Attributes:
        plain: the layers without dimensions, by identifier.
    """

    def __init__(self, layers: Mapping[str, PublishedLayer], catalogue: Catalogue) -> None:
        self._layers = layers
        self._catalogue = catalogue
        self.plain = {
            name: WantedLayer.plain(one) for name, one in layers.items() if not one.layer.dimensions
        }
        dimensions = {
            one.name: one for published in layers.values() for one in published.layer.dimensions
        }
        self._dimensions = tuple(dimensions.values())

    def find(
        self, names: Iterable[str], parameters: Mapping[str, str], parameter: str, most: int
    ) -> list[WantedLayer]:
        """Return layers with the values in the parameters of a request.

        Args:
            names: identifiers, qualified names or further names of values.
            parameters: by name in lower case.
            parameter: what contains the names.
            most: values of each layer.

        Raises:
            LayerNotDefinedError: a layer does not exist.
            MissingDimensionError, InvalidDimensionError: the values are refused.
            OverloadedError: a value cannot be opened at the moment.
        """
        found = []
        values: Mapping[str, str] | None = None
        for name in names:
            plain = self.plain.get(name)
            if plain is None:
                if values is None:
                    values = requested_values(parameters, self._dimensions)
                plain = self._resolved(name, values, parameter, most)
            found.append(plain)
        return found

    def legend_of(self, name: str, parameters: Mapping[str, str]) -> tuple[PublishedLayer, Layer]:
        """Return a layer, and what the legend shows values of; errors are those of `find`."""
        published = self._layers.get(name)
        # Addresses of legends in documents have no value, even if maps need one.
        if published is not None and not requested_values(parameters, published.layer.dimensions):
            return published, published.layer
        (wanted,) = self.find([name], parameters, "LAYER", 1)
        return wanted.published, wanted.shown[0]

    def counted(
        self, names: Iterable[str], parameters: Mapping[str, str]
    ) -> list[tuple[PublishedLayer, int]]:
        """Return layers of a request that may be invalid, and how many values each shows at most.

        Nothing is read.
        """
        # Once for all names: both may be as long as a request can be.
        values = requested_values(parameters, self._dimensions)
        most = min(max(map(_most_values, values.values()), default=1), MOST_VALUES)
        found = []
        for name in names:
            published = self._layers.get(name.partition("~")[0].partition(";")[0])
            if published is not None:
                found.append((published, most if published.layer.dimensions else 1))
        return found

    def _resolved(
        self, name: str, values: Mapping[str, str], parameter: str, most: int
    ) -> WantedLayer:
        try:
            found = self._catalogue.resolve(name, values, most)
        except UnknownNameError:
            raise unknown_layer(name, parameter) from None
        published = self._layers.get(found.layer.id)
        if published is None:
            raise unknown_layer(name, parameter)
        return WantedLayer.of(published, found)


def _most_values(text: str) -> int:
    """Return how many values a text names; a range may name any number."""
    return MOST_VALUES if "/" in text else text.count(",") + 1


def attributes_of(values: DimensionValues) -> dict[str, str]:
    """Return the attributes of ``Dimension`` in 1.3.0, without its name and units."""
    dimension, attributes = values.dimension, {}
    if values.default:
        attributes["default"] = _default(values)
    attributes["multipleValues"] = str(int(dimension.multiple))
    attributes["nearestValue"] = str(int(values.nearest))
    attributes["current"] = str(int(dimension.is_current))
    return attributes


def units_of(values: DimensionValues) -> dict[str, str]:
    """Return the attributes with name and units of a dimension."""
    dimension = values.dimension
    attributes = {"name": dimension.name, "units": dimension.units}
    if dimension.unit_symbol:
        attributes["unitSymbol"] = dimension.unit_symbol
    return attributes


def _default(values: DimensionValues) -> str:
    """Return the text of a default; the conformance suite takes ``0`` for an absent one."""
    is_zero = values.dimension.kind == "number" and not values.default.strip("+-0.")
    return "0.0" if is_zero else values.default
