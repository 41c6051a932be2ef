"""GeoTIFF (OGC 19-008r4): TIFF with georeferencing (resampling.md section 10, item 8)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar, Final

import numpy as np
import pyproj
from pyproj.exceptions import CRSError

from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS
from mastaba.slab.tiff import Field
from mastaba_render.encoder import StripRaster
from mastaba_render.encoding.tiff import TiffEncoder

_PIXEL_SCALE: Final = 33550
_TIEPOINT: Final = 33922
_KEY_DIRECTORY: Final = 34735
_ASCII_PARAMETERS: Final = 34737
_GDAL_NODATA: Final = 42113

_MODEL_TYPE, _RASTER_TYPE, _CITATION = 1024, 1025, 1026
_GEOGRAPHIC_TYPE, _GEOGRAPHIC_CITATION = 2048, 2049
_PROJECTED_TYPE, _PROJECTED_CITATION = 3072, 3073
_VERTICAL_TYPE, _VERTICAL_UNIT = 4096, 4099
_METRE: Final = 9001
_PROJECTED, _GEOGRAPHIC = 1, 2
_PIXEL_IS_AREA, _PIXEL_IS_POINT = 1, 2
_USER_DEFINED: Final = 32767
_LARGEST_CODE: Final = 65535


class GeotiffEncoder(TiffEncoder):
    """Writes the same as `TiffEncoder`, with position, CRS and the nodata value for GDAL."""

    name: ClassVar[str] = "geotiff"
    media_type: ClassVar[str] = "image/geotiff"

    def _further_fields(self, raster: StripRaster) -> list[Field]:
        size = raster.shape[:2]
        fields = place_fields(raster.bbox, size, raster.crs, is_post=bool(raster.offset))
        # GDAL reads one value for all channels.
        return [*fields, nodata_field(raster.nodata[0])] if raster.nodata else fields


def nodata_field(value: float) -> Field:
    """Return the tag of the nodata value: the shortest text that is read as the same float32."""
    return Field.text(_GDAL_NODATA, np.format_float_positional(np.float32(value), trim="-"))


def place_fields(
    box: BoundingBox,
    size: tuple[int, int],
    crs: CRS,
    *,
    is_post: bool,
    vertical: str | None = None,
) -> list[Field]:
    """Return the tags that say where an image is on the ground.

    Args:
        box: outer edges of its cells, in CRS units.
        size: rows and columns.
        is_post: whether a value belongs to the middle of its cell, not to its square.
        vertical: code of the vertical or compound CRS of heights in metres; None if there is none.
    """
    dx, dy = (box.xmax - box.xmin) / size[1], (box.ymax - box.ymin) / size[0]
    # With PixelIsPoint, the position of the first pixel is that of its centre.
    half = 0.5 if is_post else 0.0
    return [
        Field.of(_PIXEL_SCALE, "d", dx, dy, 0.0),
        Field.of(_TIEPOINT, "d", 0.0, 0.0, 0.0, box.xmin + half * dx, box.ymax - half * dy, 0.0),
        *_geo_keys(crs, is_post=is_post, vertical=vertical),
    ]


def _geo_keys(crs: CRS, *, is_post: bool, vertical: str | None) -> list[Field]:
    """Return the entries that name a CRS."""
    raster_type = _PIXEL_IS_POINT if is_post else _PIXEL_IS_AREA
    if crs.is_geographic:
        model, type_key, name_key = _GEOGRAPHIC, _GEOGRAPHIC_TYPE, _GEOGRAPHIC_CITATION
    else:
        model, type_key, name_key = _PROJECTED, _PROJECTED_TYPE, _PROJECTED_CITATION
    keys = [(_MODEL_TYPE, 0, 1, model), (_RASTER_TYPE, 0, 1, raster_type)]
    number = _epsg_number(crs.code)
    heights = []
    height_system = None if vertical is None else _vertical_number(vertical)
    if height_system is not None:
        heights = [(_VERTICAL_TYPE, 0, 1, height_system), (_VERTICAL_UNIT, 0, 1, _METRE)]
    if number is not None:
        return [_key_directory([*keys, (type_key, 0, 1, number), *heights])]
    # Some readers show the general citation, some that of the CRS: both refer to the same text.
    citation = f"{crs.code}|"
    reference = (_ASCII_PARAMETERS, len(citation), 0)
    keys += [
        (_CITATION, *reference),
        (type_key, 0, 1, _USER_DEFINED),
        (name_key, *reference),
        *heights,
    ]
    return [_key_directory(keys), Field.text(_ASCII_PARAMETERS, citation)]


def _key_directory(keys: Sequence[tuple[int, int, int, int]]) -> Field:
    header = (1, 1, 0, len(keys))
    return Field.of(_KEY_DIRECTORY, "H", *(value for key in (header, *keys) for value in key))


@lru_cache(maxsize=1024)
def _vertical_number(code: str) -> int | None:
    """Return the EPSG code of a vertical CRS, or of that in a compound CRS; None without any."""
    try:
        crs = pyproj.CRS.from_user_input(code)
    except CRSError:
        return None
    parts = crs.sub_crs_list or [crs]
    number = next((one.to_epsg() for one in parts if one.is_vertical), None)
    return number if number is not None and number <= _LARGEST_CODE else None


@lru_cache(maxsize=1024)
def _epsg_number(code: str) -> int | None:
    """Return the EPSG code of a CRS, or None if it has none that fits into a key."""
    authority, _, number = code.partition(":")
    if code == "CRS:84":
        # Axis order does not matter here: GeoTIFF is always x, y.
        found: int | None = 4326
    elif authority == "EPSG" and number.isdigit():
        found = int(number)
    else:
        found = pyproj.CRS.from_user_input(code).to_epsg()
    return found if found is not None and found <= _LARGEST_CODE else None
