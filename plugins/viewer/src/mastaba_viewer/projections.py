"""Definitions of the CRSs of a layer, for scripts that reproject it."""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyproj

from mastaba.api.catalogue import CRS, WGS84
from mastaba_viewer.grids import extra_links
from mastaba_viewer.sources.common import map_crs

if TYPE_CHECKING:
    from mastaba.api.catalogue import Layer
    from mastaba.api.services import Site


def projections(layer: Layer, site: Site) -> dict[str, dict[str, Any]]:
    """Return the CRSs in which a layer can be shown, by code, its own first.

    Each has ``name``, ``definition`` (a PROJ string), ``extent`` (xmin, ymin, xmax, ymax of the
    area of use) and ``area`` (the same in degrees).
    """
    codes = [layer.pyramid.tile_matrix_set.crs.code]
    codes += [link.tile_matrix_set.crs.code for link in extra_links(layer, site)]
    codes += map_crs(layer, site)
    return {code: found for code in codes if (found := _projection(code)) is not None}


@lru_cache(maxsize=256)
def _projection(code: str) -> dict[str, Any] | None:
    crs = CRS.from_code(code)
    area = crs.area_of_use
    try:
        extent = WGS84.transform_bbox(area, crs)
    except ValueError:
        return None
    name = "OGC:CRS84" if code == "CRS:84" else code
    known = pyproj.CRS.from_user_input(name)
    return {
        "name": known.name,
        "definition": _definition(known),
        "extent": [extent.xmin, extent.ymin, extent.xmax, extent.ymax],
        "area": [area.xmin, area.ymin, area.xmax, area.ymax],
    }


def _definition(crs: pyproj.CRS) -> str:
    with warnings.catch_warnings():
        # A PROJ string has no datum but WGS 84: the shift is added below.
        warnings.simplefilter("ignore", UserWarning)
        text = crs.to_proj4()
    if "+datum=" in text or "+towgs84=" in text:
        return text
    pipeline = pyproj.Transformer.from_crs(crs, "EPSG:4326", always_xy=True).definition
    helmert = pipeline.partition("proj=helmert")[2].partition(" step ")[0]
    values = dict(word.split("=", 1) for word in helmert.split() if "=" in word)
    shift = ",".join(values.get(axis, "0") for axis in "xyz")
    return f"{text} +towgs84={shift}"
