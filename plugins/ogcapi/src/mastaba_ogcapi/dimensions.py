"""Dimensions of collections, such as time: in requests and in extents (time.md section 2.4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from mastaba.errors import InvalidParameterError
from mastaba_ogcapi import params
from mastaba_ogcapi.shown import Shown
from mastaba_ows.dimensions import DATETIME, joined

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.dimensions import Resolved
    from mastaba.api.web import Request, Response
    from mastaba_ogcapi.dataset import Collection, Dataset
    from mastaba_ows.dimensions import DimensionValues

MOST_VALUES: Final = 16
"""Values of a collection in one map."""

MOST_COORDINATES: Final = 10_000
"""Values of a dimension in one description of a collection."""

_GREGORIAN: Final = "http://www.opengis.net/def/uom/ISO-8601/0/Gregorian"
_TIME: Final = "time"
_TIME_AXES: Final = (_TIME, "datetime", "t")
"""Names of the axis of time, in lower case (OGC API Maps, 20-058; OGC API Tiles, 20-057)."""


def shown(dataset: Dataset, collection: Collection, request: Request, most: int = 1) -> Shown:
    """Return what a request means by a collection and the values of its dimensions.

    Args:
        most: number of values. A list of more is an error; of a range, the newest count.

    Raises:
        NoSuchValueError: the collection has no such value.
        MissingParameterError, InvalidParameterError: a value is missing or malformed, or
            ``datetime`` and ``subset`` mean different ones.
        OverloadedError: a value cannot be opened at the moment.
    """
    layer = collection.layer
    if collection.whole is not None:
        return collection.whole
    found = _resolved(dataset, collection, request, most)
    ranges = tuple(next(iter(found.ranges.values()), ()))
    is_exact = found.is_lasting and not found.notes and len(found.layers) == 1
    if is_exact or found.layer is layer:
        return Shown(found.layers, ranges, found.layers)
    # The Cache-Control of a value is only for requests that name it: for others, another value
    # may be found later.
    own = layer.cache_control
    cached = tuple(replace(one, cache_control=own) for one in found.layers)
    return Shown(found.layers, ranges, cached)


def axis_names(layers: Iterable[Layer]) -> frozenset[str]:
    """Return the axes of ``subset`` that are dimensions of layers, in lower case."""
    names = {one.name for layer in layers for one in layer.dimensions}
    return frozenset(names.union(_TIME_AXES) if _TIME in names else names)


def names_value(request: Request, layer: Layer) -> bool:
    """Return whether a request names a value of a dimension, perhaps not of each.

    Raises:
        InvalidParameterError: ``subset`` is malformed.
    """
    query = request.query if request.query_string else {}
    if "subset" in query and not axis_names((layer,)).isdisjoint(params.subset_texts(request)):
        return True
    return bool(query.get("datetime"))


def most_values(query: Mapping[str, str], dimensions: Iterable[str]) -> int:
    """Return how many values of a collection a query may show, without reading anything."""
    time, subset = query.get("datetime", ""), query.get("subset", "").lower()
    parts = (subset.partition(f"{name}(")[2] for name in (*_TIME_AXES, *dimensions))
    if "/" in time or any(":" in part.partition(")")[0] for part in parts):
        return MOST_VALUES
    return min(time.count(",") + 1, MOST_VALUES)


def _resolved(dataset: Dataset, collection: Collection, request: Request, most: int) -> Resolved:
    """Return what the values of a request mean; raises as `shown`."""
    catalogue = dataset.site.catalogue
    query = request.query if request.query_string else {}
    names = {one.name for one in collection.layer.dimensions}
    values = _subset_values(request, axis_names((collection.layer,))) if "subset" in query else {}
    other = query.get("datetime", "") if _TIME in names else ""
    text = values.get(_TIME)
    if text is None:
        if other:
            values[_TIME] = _one_interval(other)
        return catalogue.resolve(collection.name if values else collection.id, values, most)
    found = catalogue.resolve(collection.name, values, most)
    if other and other != text:
        same = catalogue.resolve(collection.name, {**values, _TIME: _one_interval(other)}, most)
        if [one.key for one in same.layers] != [one.key for one in found.layers]:
            raise InvalidParameterError("datetime and subset must mean the same", "datetime")
    return found


def _one_interval(text: str) -> str:
    """Return the value of ``datetime``, which has one form of open interval too few."""
    return "../.." if text.strip() == ".." else text


def _subset_values(request: Request, axes: frozenset[str]) -> dict[str, str]:
    """Return the values of dimensions in ``subset``, by name."""
    found: dict[str, str] = {}
    for axis, ends in params.subset_texts(request).items():
        if axis not in axes:
            continue
        name = _TIME if axis in _TIME_AXES and axis not in found else axis
        if name in found:
            raise InvalidParameterError("subset names the axis of time twice", "subset")
        texts = [".." if end == params.OPEN else end for end in ends]
        found[name] = "/".join(texts if texts != [".."] else ["..", ".."])
    return found


def datetime_header(layers: Sequence[Layer]) -> list[tuple[str, str]]:
    """Return the header with the time of what is shown (20-058, /rec/datetime/actual-datetime)."""
    intervals = [layer.interval for layer in layers if layer.interval is not None]
    if not intervals:
        return []
    # Layers are newest first.
    return [(DATETIME, joined((intervals[-1][0], intervals[0][1])))]


def map_datetime(layers: Sequence[Layer]) -> list[tuple[str, str]]:
    """Return the headers of a map with the time of what is shown (20-058, /req/core/map-response).

    Args:
        layers: newest first.
    """
    found = datetime_header(layers)
    return [*found, *(("Content-Datetime", interval) for _, interval in found)]


def add_date(response: Response, found: Shown) -> None:
    """Add the time of what is shown to the headers of a stored tile."""
    # A tile of an older value says so itself.
    if not any(name == DATETIME for name, _ in response.headers):
        response.headers = [*response.headers, *datetime_header(found.layers)]
    kept = found.cached[0].cache_control
    if found.layers[0].cache_control != kept:
        response.headers = [
            (name, kept if name == "Cache-Control" and kept else value)
            for name, value in response.headers
            if name != "Cache-Control" or kept
        ]


def further_extent(dataset: Dataset, layer: Layer, offset: int = 0) -> dict[str, Any]:
    """Return the members of ``extent`` for dimensions (20-058, schema extent-uad.yaml).

    Args:
        offset: position of the first value of each dimension that is listed.
    """
    if layer.readers is not None:
        return _extent_of_value(layer)
    return {
        _member(one.dimension.name): _extent(one, offset)
        for one in dataset.site.catalogue.values_of(layer)
    }


def count_of_coordinates(dataset: Dataset, layer: Layer) -> int:
    """Return how many values the dimension of a layer has that lists most of them."""
    if layer.readers is not None or not layer.dimensions:
        return 0
    values = dataset.site.catalogue.values_of(layer)
    return max((len(one.texts) for one in values if _is_listed(one)), default=0)


def _is_listed(values: DimensionValues) -> bool:
    """Return whether coordinates are listed: there is no range or step that says as much."""
    return not values.dimension.of_pixels and not (values.step and len(values.texts) > 1)


def _member(name: str) -> str:
    return "temporal" if name == _TIME else name


def _extent_of_value(layer: Layer) -> dict[str, Any]:
    """Return what `further_extent` does for one value of each dimension."""
    found: dict[str, Any] = {}
    for dimension in layer.dimensions:
        text = layer.at.get(dimension.name)
        if dimension.name == _TIME and layer.interval is not None:
            found["temporal"] = {"interval": [list(layer.interval)], "trs": _GREGORIAN}
        elif text is not None:
            value = _plain(text) if dimension.kind == "number" else text
            found[dimension.name] = {"interval": [[value, value]], **_reference(dimension)}
    return found


def _extent(values: DimensionValues, offset: int) -> dict[str, Any]:
    dimension, texts = values.dimension, values.texts
    if dimension.of_pixels:
        low, high = values.extent.split("/")[:2]
        return {"interval": [[_plain(low), _plain(high)]], **_reference(dimension)}
    coordinates: list[Any] = list(texts)
    if dimension.kind == "number":
        coordinates = sorted(map(_plain, texts))
    ends = [coordinates[0], coordinates[-1]]
    if values.intervals:
        ends = [values.intervals[0][0], values.intervals[-1][1]]
    found: dict[str, Any] = {"interval": [ends], **_reference(dimension)}
    found["grid"] = {"cellsCount": len(texts)}
    if _is_listed(values):
        # Another dimension may have more values than this one; an empty list is invalid.
        if listed := coordinates[offset : offset + MOST_COORDINATES]:
            found["grid"]["coordinates"] = listed
    else:
        is_number = dimension.kind == "number"
        found["grid"]["resolution"] = _plain(values.step) if is_number else values.step
    return found


def _reference(dimension: Any) -> dict[str, Any]:
    if dimension.kind == "time":
        return {"trs": _GREGORIAN}
    found = {"definition": dimension.units or dimension.name}
    if dimension.units.upper().startswith("CRS:"):
        found = {"vrs": f"http://www.opengis.net/def/crs/OGC/0/{dimension.units[4:]}"}
    unit = dimension.unit_symbol or ("" if "vrs" in found else dimension.units)
    return found | ({"unit": unit} if unit else {})


def _plain(text: str) -> float | int:
    number = float(text)
    return int(number) if number.is_integer() else number
