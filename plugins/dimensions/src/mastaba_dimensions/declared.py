"""Dimensions as descriptors declare them, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from mastaba.api.dimensions import VariantSource
from mastaba_documents.times import parse_number, parse_period
from mastaba_ows.dimensions import Dimension

_RESERVED: Final = frozenset(
    (
        *("bbox", "bbox_crs", "bgcolor", "crs", "datetime", "dpi", "exceptions", "f", "format"),
        *("height", "i", "info_format", "j", "layer", "layers", "map_resolution", "query_layers"),
        *("request", "service", "srs", "style", "styles", "subset", "tilecol", "tilematrix"),
        *("tilematrixset", "tilerow", "transparent", "version", "width", "x", "y", "current"),
    )
)
"""Names of request parameters."""
_TIMES: Final = ("time", "reference_time")


@dataclass(frozen=True, slots=True)
class Declared:
    """A dimension, and what only the resolution of its values needs.

    Attributes:
        dimension: the dimension.
        tolerance: a `Period`, a number, or None.
        values: lowest, highest and step of pixel values, as in the descriptor; empty for variants.
        bounds: the same as numbers.
        default_text: of the default of pixel values.
        falls_back: whether tiles of older values answer for those that a value does not have.
    """

    dimension: Dimension
    tolerance: object = None
    values: str = ""
    bounds: tuple[Decimal, Decimal, Decimal] | None = None
    default_text: str = ""
    falls_back: bool = False


def declared(source: VariantSource) -> list[Declared]:
    """Return the dimensions of a layer; refuse it if one is invalid."""
    documents = source.document.get("dimensions", [])
    if not documents:
        source.refuse("$.dimensions", "is missing", "declare the dimensions of the variants")
    found = [_one(one, f"$.dimensions[{n}]", source) for n, one in enumerate(documents)]
    names = [one.dimension.name for one in found]
    if len(set(names)) < len(names):
        source.refuse("$.dimensions", "two dimensions have the same name", "rename one of them")
    if sum(one.falls_back for one in found) > 1:
        source.refuse("$.dimensions", "two dimensions have a fallback", "remove one of them")
    return found


def _one(document: Mapping[str, Any], at: str, source: VariantSource) -> Declared:
    name = document["name"]
    if name in _RESERVED or name.startswith("dim_"):
        reason = f"{name!r} is the name of a request parameter"
        source.refuse(f"{at}.name", reason, "choose another name")
    usual = "time" if name in _TIMES else "number" if name == "elevation" else "text"
    kind = document.get("kind", usual)
    units, symbol = document.get("units", ""), document.get("unit_symbol", "")
    if kind == "time":
        units = units or "ISO8601"
        if units != "ISO8601":
            source.refuse(f"{at}.units", f"times have no unit {units!r}", "write ISO8601")
    if units == "CRS:88":
        symbol = symbol or "m"
        if symbol != "m":
            source.refuse(f"{at}.unit_symbol", "the unit CRS:88 has the symbol m", "write m")
    default = str(document.get("default", "latest"))
    if default in ("current", "now") and kind != "time":
        source.refuse(f"{at}.default", f"{default!r} is only for times", "name a value")
    is_raster = not source.layer.is_vector
    dimension = Dimension(
        name,
        kind,
        units,
        symbol,
        default,
        nearest=document.get("nearest", False),
        multiple=document.get("multiple", is_raster) and is_raster,
        of_pixels=document.get("of") == "pixels",
    )
    if dimension.of_pixels:
        return _pixels(dimension, document, at, source)
    falls_back = "fallback" in document
    if falls_back and kind != "time":
        source.refuse(f"{at}.fallback", "only times have previous values", "remove it")
    tolerance = _tolerance(document.get("tolerance"), kind, at, source)
    return Declared(dimension, tolerance, falls_back=falls_back)


def _tolerance(value: object, kind: str, at: str, source: VariantSource) -> object:
    if value is None:
        return None
    parse = {"time": parse_period, "number": parse_number}.get(kind)
    found = None if parse is None else parse(str(value))
    if found is None:
        remedy = "write an ISO 8601 duration for times, a number for numbers"
        source.refuse(f"{at}.tolerance", f"cannot be {value!r}", remedy)
    return found


def _pixels(
    dimension: Dimension, document: Mapping[str, Any], at: str, source: VariantSource
) -> Declared:
    """Return a dimension whose values are those of pixels (time.md section 2.7)."""
    text = document.get("values", "")
    parts = [parse_number(one) for one in text.split("/")]
    if len(parts) != 3 or None in parts:
        source.refuse(f"{at}.values", f"{text!r} is not lowest/highest/step", "as in 0/425/1")
    low, high, step = (one or Decimal(0) for one in parts)
    if high < low or step <= 0:
        source.refuse(f"{at}.values", f"{text!r} is not a range", "write lowest/highest/step")
    if source.layer.pyramid.format.sample != "float32":
        source.refuse(f"{at}.of", "only float layers have values of pixels", "use variants")
    lowest, highest, _ = text.split("/")
    default = dimension.default
    chosen = {"latest": highest, "earliest": lowest, "none": ""}.get(default, default)
    return Declared(dimension, None, text, (low, high, step), chosen)
