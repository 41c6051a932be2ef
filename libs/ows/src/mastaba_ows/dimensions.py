"""Dimensions of layers, such as time: in documents, in parameters, and in warnings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

DATETIME: Final = "OGCAPI-datetime"
"""Header with the time of what is shown (OGC API Maps, 20-058, /rec/datetime/actual-datetime)."""
_PREFIX: Final = "dim_"


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension of a layer (time.md section 1.1).

    Attributes:
        name: in lower case, as in WMS: ``time``, ``elevation`` or another one.
        kind: ``time``, ``number`` or ``text``.
        units: ``ISO8601`` for times; may be empty.
        unit_symbol: may be empty.
        default: rule for requests without a value: ``latest``, ``earliest``, ``current``, ``now``,
            ``none``, or a value.
        nearest: whether the nearest value answers for one that does not exist.
        multiple: whether a map may show several values.
        of_pixels: whether the values are those of pixels, not of pyramids.
    """

    name: str
    kind: str = "time"
    units: str = ""
    unit_symbol: str = ""
    default: str = "latest"
    nearest: bool = False
    multiple: bool = True
    of_pixels: bool = False

    @property
    def identifier(self) -> str:
        """Name in WMTS: ``Time`` and ``Elevation``, others as they are."""
        return self.name.capitalize() if self.name in ("time", "elevation") else self.name

    @property
    def is_current(self) -> bool:
        """Whether documents say that the value ``current`` is kept up to date."""
        return self.kind == "time" and self.default in ("current", "now")


@dataclass(frozen=True, slots=True)
class DimensionValues:
    """The values of one dimension, as documents show them.

    Attributes:
        dimension: whose values these are.
        default: text of the default value, or ``current``; empty for the rule ``none``.
        texts: all values, times ascending, others in the order of the descriptor. Of intervals,
            the start.
        extent: the values for WMS: runs of equal steps as ``first/last/step``, separated by commas.
        uniform: the values for WMTS, one for each element, all of one precision; runs if there are
            too many.
        step: ISO 8601 duration, or number, if all values are one run; empty if not.
        intervals: of a time dimension, first and last instant of each value, in the order of
            ``texts``; empty for others.
        nearest: whether documents must say that nearest values are used.
    """

    dimension: Dimension
    default: str
    texts: Sequence[str]
    extent: str
    uniform: Sequence[str]
    step: str = ""
    intervals: Sequence[tuple[str, str]] = ()
    nearest: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """A value that a request did not name exactly (time.md section 1.4).

    Attributes:
        dimension: of the value.
        value: text of the value that is used.
        kind: ``default`` or ``nearest``.
    """

    dimension: Dimension
    value: str
    kind: str

    @property
    def warning(self) -> str:
        """Value of a ``Warning`` header (WMS 1.3.0, C.4.2 and C.4.3)."""
        unit = self.dimension.unit_symbol or self.dimension.units
        shown = f"{self.dimension.name}={self.value} {unit}".rstrip()
        return f"99 {self.kind.capitalize()} value used: {shown}"


def joined(interval: tuple[str, str]) -> str:
    """Return an interval of time as text; an instant if both ends are equal."""
    first, last = interval
    return first if first == last else f"{first}/{last}"


def requested_values(
    parameters: Mapping[str, str], dimensions: Iterable[Dimension]
) -> dict[str, str]:
    """Return the values of dimensions in the parameters of a request, by name.

    A name may have the prefix ``DIM_`` or not. Values that are empty are left out.

    Args:
        parameters: decoded, with names in lower case.
        dimensions: those of the layers; other parameters are ignored.
    """
    found = {}
    for dimension in dimensions:
        text = parameters.get(dimension.name) or parameters.get(_PREFIX + dimension.name)
        if text:
            found[dimension.name] = text
    return found


def parameter_names(dimensions: Iterable[Dimension]) -> frozenset[str]:
    """Return the names of the parameters that `requested_values` reads."""
    names = [dimension.name for dimension in dimensions]
    return frozenset((*names, *(_PREFIX + name for name in names)))


def with_further_names(layers: Iterable[Any], catalogue: Any) -> Iterator[Any]:
    """Yield layers as documents list them, and after each its values that have names of their own.

    Args:
        layers: `mastaba.api.catalogue.Layer`.
        catalogue: of the layers, `mastaba.api.catalogue.Catalogue`.
    """
    for layer in layers:
        yield layer
        table = catalogue.variants.get(layer.id)
        for name, variant in () if table is None else table.further_names():
            values = ", ".join(f"{key} {text}" for key, text in variant.at.items())
            title = variant.changes.get("title") or f"{layer.title} ({values})"
            yield replace(layer, id=name, key=name, title=title, dimensions=())


def clock_defaults(catalogue: Any, layers: Iterable[Any]) -> tuple[str, ...]:
    """Return the defaults of dimensions that the clock moves: a document with them must be rebuilt.

    Args:
        catalogue: of the layers, `mastaba.api.catalogue.Catalogue`.
        layers: those with a dimension whose default is ``now``.
    """
    return tuple(one.default for layer in layers for one in catalogue.values_of(layer))


def warning_headers(notes: Iterable[Note]) -> list[tuple[str, str]]:
    """Return a ``Warning`` header for each value that is not the requested one."""
    return [("Warning", note.warning) for note in dict.fromkeys(notes)]
