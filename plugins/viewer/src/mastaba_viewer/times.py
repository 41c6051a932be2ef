"""Layers with values of time: their names in addresses, and what the slider shows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mastaba.errors import (
    InvalidDimensionError,
    MissingDimensionError,
    UnknownNameError,
    UnknownPathError,
)
from mastaba_ows.errors import GoneError

if TYPE_CHECKING:
    from mastaba.api.catalogue import Catalogue, Layer


def named_layer(catalogue: Catalogue, name: str) -> Layer:
    """Return the layer that a qualified name means, with this name as its identifier.

    All addresses of its page then name the same value.

    Raises:
        UnknownPathError: there is none.
        MovedError: the name has a date, and means a version.
        GoneError: the version has been removed.
        OverloadedError: it cannot be opened at the moment.
    """
    try:
        layer = catalogue.resolve(name).layer
    except GoneError:
        raise
    except (UnknownNameError, InvalidDimensionError, MissingDimensionError):
        raise UnknownPathError("Unknown layer") from None
    if layer.key == layer.id:
        return layer
    # A variant may have a title of its own, which says it already.
    shown = ", ".join(text for text in layer.at.values() if text not in layer.title)
    return replace(layer, id=layer.key, title=f"{layer.title} ({shown})" if shown else layer.title)


def base_id(layer: Layer) -> str:
    """Return the identifier of a layer without values."""
    name, _, token = layer.id.partition("~")
    if layer.readers is None or token:
        return layer.id
    return name.rsplit(";", len(layer.at))[0]


def in_catalogue(layer: Layer) -> Layer:
    """Return a layer of `named_layer` with the identifier that services know it by."""
    if layer.readers is None or layer.id != layer.key:
        return layer
    name = layer.id.partition("~")[0]
    return replace(layer, id=name.rsplit(";", len(layer.at))[0] if layer.at else name)


def times(layer: Layer, catalogue: Catalogue) -> dict[str, Any] | None:
    """Return the times of a layer for the slider, or None if there is no choice."""
    base = catalogue.layers.get(base_id(layer))
    found = () if base is None else catalogue.values_of(base)
    texts = next((list(one.texts) for one in found if one.dimension.name == "time"), [])
    if base is None or len(texts) < 2:
        return None
    others = "".join(
        f";{name}={quote(text, ':.+')}" for name, text in layer.at.items() if name != "time"
    )
    return {"base": base.id, "texts": texts, "value": layer.at.get("time"), "others": others}
