"""Tables in GeoJSON, and collections of STAC items."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from mastaba_cog.errors import CogError
from mastaba_cog.mosaic.geometry import Box, box_of_geojson
from mastaba_cog.mosaic.table import Rows, Wanted

_MOST_VALUES: Final = 6_000_000
"""Values of a document; each takes some 50 bytes in memory."""
_LOCATIONS: Final = ("path", "location")
_REMEDY: Final = "write a FeatureCollection of GeoJSON"
_CODE: Final = re.compile(r"(?:urn:ogc:def:crs:)?([A-Za-z]+):+(?:[0-9.]*:)?([A-Za-z0-9]+)")


def rows_of_geojson(data: bytes, wanted: Wanted) -> Rows:
    """Return the rows of a FeatureCollection. Raises `CogError`."""
    # Each value but the first of a list or object has a comma before it.
    if sum(map(data.count, (b",", b"[", b"{"))) > _MOST_VALUES:
        remedy = "write it as a GeoPackage or GeoParquet"
        raise CogError(f"it has more than {_MOST_VALUES:,} values", remedy)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise CogError("it is not valid JSON", _REMEDY) from None
    features = document.get("features") if isinstance(document, dict) else None
    if not isinstance(features, list):
        raise CogError("it has no features", _REMEDY)
    rows = Rows(_crs_of(document), descends=bool(wanted.descends))
    sort_field = wanted.sort_field or "order"
    for feature in features:
        if not isinstance(feature, dict):
            raise CogError("a feature is not an object", _REMEDY)
        properties = feature.get("properties")
        if not isinstance(properties, dict):
            properties = {}
        location = next((properties[key] for key in _LOCATIONS if key in properties), None)
        if location is None:
            location = asset_of(feature.get("assets"), wanted.asset)
        box = box_of_geojson(feature.get("geometry"))
        rows.add(location, box, properties.get(sort_field), properties)
    return rows


def asset_of(assets: object, key: str | None) -> Any:
    """Return the address of an asset of a STAC item: with a key, or with the role ``data``.

    Raises:
        CogError: there is none, or there are several.
    """
    found = assets if isinstance(assets, Mapping) else {}
    usable = {name: one for name, one in found.items() if isinstance(one, Mapping)}
    if key is not None:
        chosen = [usable[key]] if key in usable else []
    else:
        chosen = [one for one in usable.values() if "data" in (one.get("roles") or ())]
        chosen = chosen or list(usable.values())
    if not usable:
        raise CogError("a row has no path", 'give it the property "path"')
    if len(chosen) != 1:
        names = ", ".join(map(str, usable))[:80]
        raise CogError(f"a row has several assets: {names}", 'name one in the option "asset"')
    return chosen[0].get("href")


def _crs_of(document: dict[str, Any]) -> str:
    """Return the CRS of the former standard of 2008, or longitude and latitude."""
    crs = document.get("crs")
    if not isinstance(crs, dict):
        return "CRS:84"
    properties = crs.get("properties")
    name = properties.get("name") if isinstance(properties, dict) else None
    found = _CODE.fullmatch(name[:80]) if isinstance(name, str) else None
    if found is None:
        raise CogError("its CRS has no name", "remove the member crs")
    authority, code = found.groups()
    return "CRS:84" if code.upper() == "CRS84" else f"{authority.upper()}:{code}"


def box_of(values: object) -> Box | None:
    """Return a box of four numbers, or None."""
    if not isinstance(values, list | tuple) or len(values) != 4:
        return None
    if not all(isinstance(one, int | float) for one in values):
        return None
    xmin, ymin, xmax, ymax = map(float, values)
    return xmin, ymin, xmax, ymax
