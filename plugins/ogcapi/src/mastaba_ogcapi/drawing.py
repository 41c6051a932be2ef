"""Drawing and encoding of maps (ogcapi.md section 9.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from mastaba.api.catalogue import WGS84, BoundingBox
from mastaba.errors import InvalidParameterError, UnsupportedFormatError
from mastaba_render.api.maps import (
    Background,
    EncodedMap,
    MapImage,
    MapRequest,
    Mask,
    Pixels,
    SideBySide,
    as_data,
    as_picture,
    coloured,
)

if TYPE_CHECKING:
    from mastaba.api.services import Site
    from mastaba_ogcapi.mapquery import MapQuery
    from mastaba_render.api.geotiff import Origin
    from mastaba_render.api.maps import PreparedMap

Bytes = npt.NDArray[np.uint8]

_OPAQUE: Final = 255
# The engine's parameter names, and those of this protocol for error reports.
_PARAMETERS: Final = {"BBOX": "bbox", "WIDTH": "width", "HEIGHT": "height", "LAYERS": "collections"}


def fitted(site: Site, query: MapQuery) -> MapQuery:
    """Return the map with its layers in styles that its format can hold.

    Raises:
        SlabFormatError, StorageError: the data cannot be read.
    """
    if not query.format.encoder.is_picture:
        return query
    return replace(query, layers=tuple(map(site.renderer.in_picture, query.layers)))


def prepared_maps(site: Site, query: MapQuery) -> list[PreparedMap]:
    """Return the maps to draw: one, or two side by side across the antimeridian.

    Raises:
        InvalidParameterError: the request exceeds a limit.
    """
    try:
        return [
            site.renderer.prepare(
                MapRequest(
                    query.layers,
                    box,
                    query.area.crs,
                    columns,
                    query.rows,
                    query.resolution_factor,
                ),
                query.limits,
            )
            for box, columns in query.area.parts(query.columns)
        ]
    except InvalidParameterError as error:
        name = _PARAMETERS.get(error.parameter or "", error.parameter)
        raise InvalidParameterError(str(error), name) from None


def encoded_map(parts: Sequence[PreparedMap], query: MapQuery, origin: Origin) -> EncodedMap:
    """Return the map in its format, without reading any data yet.

    Args:
        parts: as returned by `prepared_maps`.
        origin: where its pixels come from.

    Raises:
        UnsupportedFormatError: the format cannot hold the pixels.
    """
    encoder = query.format.encoder
    prepared = parts[0] if len(parts) == 1 else SideBySide(parts)
    finish = _picture if encoder.is_picture else _data
    try:
        area, drawn = query.area, partial(finish, query)
        return EncodedMap(prepared, drawn, encoder, {}, area.box, area.crs, origin)
    except UnsupportedFormatError:
        raise _unfit(query) from None


def _picture(query: MapQuery, image: MapImage, row: int) -> Pixels:
    """Return the pixels for a picture format, with an alpha channel if the format can hold one."""
    ground, holds_alpha = query.ground, query.format.encoder.holds_alpha
    pixels = _on_background(image, ground.background, holds_alpha=holds_alpha)
    if not ground.void_is_asked:
        return pixels
    other = _on_background(image, ground.void, holds_alpha=holds_alpha)
    # A map is drawn in strips, so the channels must not depend on whether a strip has void pixels.
    if other.shape[2] != pixels.shape[2]:
        pixels, other = coloured(pixels), coloured(other)
    void = _void(query, image, row)
    return pixels if void is None else np.where(void[:, :, np.newaxis], other, pixels)


def _on_background(image: MapImage, background: Background, *, holds_alpha: bool) -> Bytes:
    if not (background.transparent and holds_alpha):
        flat = as_picture(image, background, alpha_possible=False)
        return _with_alpha(flat, _OPAQUE) if holds_alpha else flat
    pixels = as_picture(image, background, alpha_possible=True)
    if background.colour is None:
        return pixels
    # Clients that ignore alpha show the background colour there.
    red, green, blue = background.colour
    empty = pixels[:, :, -1] == 0
    if not empty.any():
        return pixels
    if not red == green == blue:
        pixels = coloured(pixels)
    pixels = pixels.copy()
    pixels[empty, :-1] = background.colour[: pixels.shape[2] - 1]
    return pixels


def _data(query: MapQuery, image: MapImage, row: int) -> Pixels:
    """Return the pixels for a data format; nodata stays unless a colour replaces it."""
    ground = query.ground
    if not query.format.encoder.shows_background:
        return image.pixels
    pixels = as_data(image, ground.background)
    if not ground.void_is_asked or ground.void.colour is None:
        return pixels
    void = _void(query, image, row)
    if void is None:
        return pixels
    return np.where(void[:, :, np.newaxis], as_data(image, ground.void), pixels)


def _void(query: MapQuery, image: MapImage, row: int) -> Mask | None:
    """Return a mask of pixels without data outside the valid area of the CRS; None if empty.

    Args:
        row: first row of the image in the map.
    """
    if image.valid is None:
        return None
    area = query.area
    try:
        inside = WGS84.transform_bbox(area.crs.area_of_use, area.crs)
    except ValueError:
        return None
    height, width = image.valid.shape
    void = ~_pixels_inside(inside, query, row, height)[:, :width] & ~image.valid
    return void if void.any() else None


def _pixels_inside(inside: BoundingBox, query: MapQuery, row: int, height: int) -> Mask:
    area = query.area
    columns = (np.arange(query.columns) + 0.5) * (area.width / query.columns) + area.box.xmin
    rows = area.box.ymax - (np.arange(row, row + height) + 0.5) * (area.height / query.rows)
    if area.seam is not None:
        columns = np.where(columns > area.seam, columns - area.turn, columns)
    across = (columns >= inside.xmin) & (columns <= inside.xmax)
    down = (rows >= inside.ymin) & (rows <= inside.ymax)
    return across[np.newaxis, :] & down[:, np.newaxis]


def _with_alpha(pixels: Bytes, alpha: int) -> Bytes:
    result = np.full((*pixels.shape[:2], pixels.shape[2] + 1), alpha, np.uint8)
    result[:, :, :-1] = pixels
    return result


def _unfit(query: MapQuery) -> UnsupportedFormatError:
    return UnsupportedFormatError(
        f"{query.format.media_type} cannot contain the pixels of this map in its style", "f"
    )
