"""Descriptions of collections (19-086r6 clause 8.3; elevation.md 2.6)."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import pyproj

from mastaba_elevation.edr.names import (
    CORRIDOR,
    COVERAGE,
    CUBE,
    DISTANCE,
    ELEVATION,
    LAYER,
    OUTPUT,
    RADIUS,
    RESOLUTION,
    SOURCE,
    SOURCE_DATE,
    UNITS,
    collection_uri,
    crs_names,
)
from mastaba_elevation.edr.sources import have_sources
from mastaba_ows.crs import CRS84_URI
from mastaba_ows.links import JSON, Link, link

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mastaba_elevation.queries.datasets import Dataset
    from mastaba_elevation.web.facade import Context

UCUM: Final = "http://www.opengis.net/def/uom/UCUM/"
_ALTITUDE: Final = "http://vocab.nerc.ac.uk/standard_name/surface_altitude/"
_GREGORIAN: Final = "http://www.opengis.net/def/uom/ISO-8601/0/Gregorian"
_MOST_TIMES: Final = 500
_EPOCH: Final = "1970-01-01T00:00:00Z"


def parameter_names(dataset: Dataset, *, has_sources: bool = True) -> dict[str, Any]:
    """Return the parameters of a collection: heights, and what explains them.

    Args:
        has_sources: whether its sources are known.
    """
    metre = {"label": "metre", "symbol": {"value": "m", "type": UCUM}}
    unit = metre
    if dataset.unit != "m":
        unit = {"label": dataset.unit, "symbol": {"value": dataset.unit, "type": UCUM}}
    sources = {
        SOURCE: _category(SOURCE, "Source", "Survey that a height comes from"),
        SOURCE_DATE: _category(SOURCE_DATE, "Date of the source", "When it was surveyed"),
    }
    return {
        ELEVATION: _parameter(
            ELEVATION, "Elevation", f"Heights: {dataset.vertical.text}", unit, _ALTITUDE
        ),
        DISTANCE: _parameter(
            DISTANCE, "Distance", "Distance along the line of a trajectory", metre
        ),
        RESOLUTION: _parameter(
            RESOLUTION, "Resolution", "Size of the cell that a height comes from", metre
        ),
        LAYER: {
            "type": "Parameter",
            "id": LAYER,
            "label": "Layer",
            "description": "Layer that a height comes from",
            "data-type": "string",
            "observedProperty": {"label": "Layer"},
        },
        **(sources if has_sources else {}),
    }


def _category(name: str, label: str, description: str) -> dict[str, Any]:
    return {
        "type": "Parameter",
        "id": name,
        "label": label,
        "description": description,
        "data-type": "integer",
        "observedProperty": {"label": label},
    }


def _parameter(
    name: str, label: str, description: str, unit: dict[str, Any], observed: str = ""
) -> dict[str, Any]:
    observed_property = {"label": label}
    if observed:
        observed_property["id"] = observed
    return {
        "type": "Parameter",
        "id": name,
        "label": label,
        "description": description,
        "data-type": "float",
        "unit": unit,
        "observedProperty": observed_property,
        "measurementType": {"method": "instantaneous", "duration": "PT0S"},
    }


def collection_document(
    context: Context,
    uri: str,
    dataset: Dataset,
    *,
    temporal: bool,
    described: set[str] | None = None,
) -> dict[str, Any]:
    """Return the description of a collection.

    Args:
        uri: of the API.
        temporal: whether it has a temporal extent, without which test suites fail.
        described: CRSs whose definition is already in the document, to which those of the
            collection are added. None if each query has the definitions.
    """
    box = dataset.extent
    extent: dict[str, Any] = {
        "spatial": {"bbox": [[box.xmin, box.ymin, box.xmax, box.ymax]], "crs": CRS84_URI}
    }
    if temporal:
        interval = list(interval_of(context, dataset))
        times = [first for first, _ in _times(context, dataset)][-_MOST_TIMES:]
        extent["temporal"] = {
            "interval": [interval],
            "values": times or ["/".join(interval)],
            "trs": _GREGORIAN,
        }
    content: dict[str, Any] = {
        "id": dataset.id,
        "title": dataset.title,
        "description": dataset.description or dataset.title,
        "links": _links(context, uri, dataset),
        "extent": extent,
        "data_queries": {
            query: {"link": _query(uri, dataset, query, described)} for query in OUTPUT
        },
        "crs": crs_names(dataset),
        "output_formats": list(OUTPUT[CUBE]),
        "parameter_names": parameter_names(
            dataset, has_sources=have_sources(context.site, dataset)
        ),
    }
    if dataset.keywords:
        content["keywords"] = list(dataset.keywords)
    if dataset.attributions:
        content["attribution"] = ", ".join(title for title, _ in dataset.attributions)
    return content


def interval_of(context: Context, dataset: Dataset) -> tuple[str, str]:
    """Return the first and the last time of a collection, RFC 3339."""
    times = _times(context, dataset)
    if times:
        return times[0][0], max(last for _, last in times)
    if date := dataset.vertical.date:
        return date, date
    started = datetime.fromtimestamp(context.site.started, UTC)
    return _EPOCH, started.strftime("%Y-%m-%dT%H:%M:%SZ")


def _times(context: Context, dataset: Dataset) -> list[tuple[str, str]]:
    """Return first and last instant of each time of the layers, in order."""
    found: set[tuple[str, str]] = set()
    for item in dataset.layers:
        layer = item.layer
        if layer.readers is not None:
            found.update(() if layer.interval is None else (layer.interval,))
        elif layer.dimensions:
            values = context.site.catalogue.values_of(layer)
            found.update(*(one.intervals for one in values if one.dimension.name == "time"))
    return sorted(found)


def collections_document(uri: str, collections: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the list of collections."""
    return {
        "links": [link(f"{uri}/collections", "self", JSON, "Collections")],
        "collections": list(collections),
    }


def _links(context: Context, uri: str, dataset: Dataset) -> list[Link]:
    own = collection_uri(uri, dataset)
    links = [
        link(own, "self", JSON, dataset.title),
        link(own, "collection", JSON, dataset.title),
        *(link(f"{own}/{query}", "data", JSON, f"Query by {query}") for query in OUTPUT),
    ]
    ogcapi = context.site.services.get("ogcapi")
    if ogcapi is not None:
        base = ogcapi.settings.endpoint_uri
        links += [
            link(f"{base}/collections/{quote(one.key, safe='')}", "related", JSON, one.title)
            for one in (item.layer for item in dataset.layers)
            if "ogcapi" not in one.hidden_from
        ]
    links += [
        link(address, "license", "text/html", title)
        for title, address in dataset.attributions
        if address
    ]
    return links


def _query(uri: str, dataset: Dataset, query: str, described: set[str] | None) -> Link:
    formats = list(OUTPUT[query])
    variables: dict[str, Any] = {
        "title": f"{query.capitalize()} query",
        "description": f"Heights by {query}",
        "query_type": query,
        "output_formats": formats,
        "default_output_format": COVERAGE,
        "crs_details": [_definition(name, described) for name in crs_names(dataset)],
    }
    if query == RADIUS:
        # Clients look for either spelling.
        variables |= {"within_units": list(UNITS), "within-units": list(UNITS)}
    if query == CORRIDOR:
        for name in ("width_units", "width-units", "height_units", "height-units"):
            variables[name] = list(UNITS)
    if query == CUBE:
        variables["height_units"] = ["m"]
    address = f"{collection_uri(uri, dataset)}/{query}"
    media_type, title = "application/vnd.cov+json", f"Query by {query}"
    return link(address, "data", media_type, title, templated=False, variables=variables)


def _definition(name: str, described: set[str] | None) -> dict[str, str]:
    """Return the name and the definition of a CRS; the schema of EDR 1.2 requires both.

    Definitions are long, and the same for all queries and most collections. So in a list only the
    first one of a CRS is not empty.
    """
    is_known = described is not None and name in described
    if described is not None:
        described.add(name)
    return {"crs": name, "wkt": "" if is_known else _wkt(name)}


@lru_cache(maxsize=256)
def _wkt(name: str) -> str:
    return pyproj.CRS.from_user_input("OGC:CRS84" if name == "CRS84" else name).to_wkt()
