"""Where a GeoTIFF is on the ground (OGC 19-008r4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyproj

from mastaba.api.catalogue import CRS
from mastaba_cog.errors import CogError
from mastaba_cog.images import GeoTiff, Position

_WARP: Final = "warp it with gdalwarp"
_MODEL_TYPE, _RASTER_TYPE, _CITATION = 1024, 1025, 1026
_GEOGRAPHIC_TYPE, _PROJECTED_TYPE, _LINEAR_UNITS = 2048, 3072, 3076
_CITATIONS: Final = 3073, 2049, 1026
_POINT: Final = 2
_EPSG: Final = range(1024, 32767)
_SQUARE: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Ground:
    """The grid of the pixels of an image.

    Attributes:
        crs: of the position.
        x, y: outer corner of the first pixel, CRS units.
        cell_size: side of a pixel, CRS units.
        is_post: whether a value belongs to the middle of its pixel.
    """

    crs: CRS
    x: float
    y: float
    cell_size: float
    is_post: bool = False


def ground_of(geotiff: GeoTiff, crs: str | None) -> Ground:
    """Return the grid of the full image.

    Args:
        crs: code that the operator gives; None for that of the file.

    Raises:
        CogError: the file has no position, or one that has no tiles.
    """
    position = geotiff.position
    x, y, width, height = _corner(position)
    if not (0 < width < 1e9 and abs(x) < 1e12 and abs(y) < 1e12):
        raise CogError(f"its pixels have the size {width:g}, at {x:g}, {y:g}", _WARP)
    if height < 0:
        raise CogError("its first row is the southernmost one", _WARP)
    if abs(width - height) > _SQUARE * width:
        raise CogError(f"its pixels are not square: {width:g} × {height:g}", _WARP)
    is_post = position.keys.get(_RASTER_TYPE) == _POINT
    if is_post:
        # The position is that of the middle of the first pixel.
        x, y = x - width / 2, y + width / 2
    return Ground(_crs(position, crs), x, y, width, is_post)


def _corner(position: Position) -> tuple[float, float, float, float]:
    """Return position of the first pixel, and the size of pixels to the right and down."""
    if len(position.matrix) == 16:
        a, b, _, x, e, f, _, y = position.matrix[:8]
        if b or e:
            raise CogError("it is rotated", _WARP)
        return x, y, a, -f
    if not position.scale or not position.tiepoints:
        remedy = "write the position into the file; files beside it are not read"
        raise CogError("it has no position on the ground", remedy)
    if len(position.tiepoints) != 6 or len(position.scale) < 2:
        raise CogError("its position is given by several points", _WARP)
    (width, height), (column, row, _, x, y, _) = position.scale[:2], position.tiepoints
    return x - column * width, y + row * height, width, height


def _crs(position: Position, given: str | None) -> CRS:
    if given is not None:
        try:
            return CRS.from_code(given)
        except ValueError as error:
            raise CogError(f"the option crs: {error}", "correct it") from None
    keys = position.keys
    remedy = 'give it in the option "crs"'
    kind = keys.get(_MODEL_TYPE)
    code: object = None
    if kind in (1, 2):
        code = keys.get(_PROJECTED_TYPE if kind == 1 else _GEOGRAPHIC_TYPE)
    if not isinstance(code, int) or code not in _EPSG:
        texts = [text for key in _CITATIONS if isinstance(text := keys.get(key), str) and text]
        named = f" ({texts[0][:80]})" if texts else ""
        known = _identified(texts[0]) if texts else None
        if known:
            remedy = f'give it in the option "crs"; it may be {known}'
        raise CogError(f"its CRS has no code of EPSG{named}", remedy)
    try:
        crs = CRS.from_code(f"EPSG:{code}")
    except ValueError:
        raise CogError(f"its CRS EPSG:{code} is not known to PROJ", remedy) from None
    unit: object = keys.get(_LINEAR_UNITS)
    if kind == 1 and isinstance(unit, int) and unit in _EPSG:
        axis = pyproj.CRS.from_authority("EPSG", code).axis_info[0]
        if axis.unit_auth_code == "EPSG" and axis.unit_code != str(unit):
            reason = f"its unit (EPSG:{unit}) is not that of its CRS EPSG:{code}"
            raise CogError(reason, remedy)
    return crs


def _identified(name: str) -> str | None:
    """Return the code of a CRS of which a file has only the name."""
    try:
        found = pyproj.CRS.from_user_input(name).to_authority()
    except (pyproj.exceptions.CRSError, ValueError):
        return None
    return None if found is None else ":".join(found)
