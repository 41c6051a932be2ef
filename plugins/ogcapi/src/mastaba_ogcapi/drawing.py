"""From the areas and layers of a map to its bytes (ogcapi.md section 9.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from mastaba.encoding.base import Raster
from mastaba.errors import InvalidParameterError, UnsupportedFormatError
from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import WGS84
from mastaba.render.compose import as_data, as_picture
from mastaba.render.request import Background, MapImage, MapLayer, MapRequest
from mastaba.render.styled_layer import is_bytes

if TYPE_CHECKING:
    from mastaba.render.engine import PreparedMap
    from mastaba.service import Site
    from mastaba_ogcapi.mapquery import MapQuery

Pixels = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]

_OPAQUE: Final = 255
# What the engine calls parameters, for the reports of this protocol.
_PARAMETERS: Final = {"BBOX": "bbox", "WIDTH": "width", "HEIGHT": "height", "LAYERS": "collections"}


def drawn(site: Site, query: MapQuery) -> bytes:
    """Return the encoded map.

    Raises:
        InvalidParameterError: it asks for more than the limits allow, or the format cannot hold
            its pixels.
        SlabFormatError, StorageError: the data cannot be read.
    """
    encoder = query.format.encoder
    if encoder.is_picture and not all(is_bytes(item.layer, style) for item, style in query.layers):
        raise _unfit(query)
    prepared = _prepared(site, query)
    with site.renderer.admission.map(sum(item.memory for item in prepared)):
        return _encoded(_image(prepared), query)


def _encoded(image: MapImage, query: MapQuery) -> bytes:
    encoder = query.format.encoder
    pixels = _picture(image, query) if encoder.is_picture else _data(image, query)
    if not encoder.accepts(pixels.dtype, pixels.shape[2]):
        raise _unfit(query)
    box = query.area.bbox
    raster = Raster(np.ascontiguousarray(pixels), box, query.area.crs, image.nodata)
    return encoder.encode(raster, {})


def _prepared(site: Site, query: MapQuery) -> list[PreparedMap]:
    layers = tuple(MapLayer(item.layer, style) for item, style in query.layers)
    parts = query.area.parts(query.columns)
    try:
        return [
            site.renderer.prepare(
                MapRequest(
                    layers, box, query.area.crs, columns, query.rows, query.resolution_factor
                )
            )
            for box, columns in parts
        ]
    except InvalidParameterError as error:
        name = _PARAMETERS.get(error.parameter or "", error.parameter)
        raise InvalidParameterError(str(error), name) from None


def _image(prepared: list[PreparedMap]) -> MapImage:
    images = [item.draw() for item in prepared]
    if len(images) == 1:
        return images[0]
    # A map across the antimeridian: its halves side by side.
    valid = None
    if any(image.valid is not None for image in images):
        valid = np.concatenate(
            [
                np.ones(image.pixels.shape[:2], np.bool_) if image.valid is None else image.valid
                for image in images
            ],
            axis=1,
        )
    pixels = np.concatenate([image.pixels for image in images], axis=1)
    return MapImage(pixels, valid, images[0].nodata, images[0].encodes_numbers)


def _picture(image: MapImage, query: MapQuery) -> Bytes:
    """Return the pixels of a picture: with an alpha channel wherever the format can hold one."""
    ground, holds_alpha = query.ground, query.format.encoder.holds_alpha
    pixels = _on_background(image, ground.background, holds_alpha=holds_alpha)
    void = _void(image, query)
    if void is None:
        return pixels
    other = _on_background(image, ground.void, holds_alpha=holds_alpha)
    if other.shape[2] != pixels.shape[2]:
        pixels, other = _coloured(pixels), _coloured(other)
    return np.where(void[:, :, np.newaxis], other, pixels)


def _on_background(image: MapImage, background: Background, *, holds_alpha: bool) -> Bytes:
    if not (background.transparent and holds_alpha):
        flat = as_picture(image, background, alpha_possible=False)
        return _with_alpha(flat, _OPAQUE) if holds_alpha else flat
    pixels = as_picture(image, background, alpha_possible=True)
    if background.colour is None:
        return pixels
    # Whoever ignores alpha sees the background colour there.
    red, green, blue = background.colour
    empty = pixels[:, :, -1] == 0
    if not empty.any():
        return pixels
    if not red == green == blue:
        pixels = _coloured(pixels)
    pixels = pixels.copy()
    pixels[empty, :-1] = background.colour[: pixels.shape[2] - 1]
    return pixels


def _data(image: MapImage, query: MapQuery) -> Pixels:
    """Return the pixels of a data format: nodata stays unless a colour is given for it."""
    ground = query.ground
    pixels = as_data(image, ground.background)
    void = _void(image, query)
    if void is None or ground.void.colour is None:
        return pixels
    return np.where(void[:, :, np.newaxis], as_data(image, ground.void), pixels)


def _void(image: MapImage, query: MapQuery) -> npt.NDArray[np.bool_] | None:
    """Return the pixels without data that lie outside the valid area of the CRS; None without."""
    if not query.ground.void_is_asked or image.valid is None:
        return None
    area = query.area
    try:
        inside = WGS84.transform_bbox(area.crs.area_of_use, area.crs)
    except ValueError:
        return None
    void = ~_pixels_inside(inside, query) & ~image.valid
    return void if void.any() else None


def _pixels_inside(inside: BoundingBox, query: MapQuery) -> npt.NDArray[np.bool_]:
    area = query.area
    columns = (np.arange(query.columns) + 0.5) * (area.width / query.columns) + area.bbox.xmin
    rows = area.bbox.ymax - (np.arange(query.rows) + 0.5) * (area.height / query.rows)
    if area.seam is not None:
        columns = np.where(columns > area.seam, columns - area.period, columns)
    across = (columns >= inside.xmin) & (columns <= inside.xmax)
    down = (rows >= inside.ymin) & (rows <= inside.ymax)
    return across[np.newaxis, :] & down[:, np.newaxis]


def _with_alpha(pixels: Bytes, alpha: int) -> Bytes:
    result = np.full((*pixels.shape[:2], pixels.shape[2] + 1), alpha, np.uint8)
    result[:, :, :-1] = pixels
    return result


def _coloured(pixels: Bytes) -> Bytes:
    """Return grey pixels, with alpha or without, as RGB ones; others as they are."""
    channels = pixels.shape[2]
    if channels > 2:
        return pixels
    colours = np.repeat(pixels[:, :, :1], 3, axis=2)
    return colours if channels == 1 else np.concatenate([colours, pixels[:, :, 1:]], axis=2)


def _unfit(query: MapQuery) -> UnsupportedFormatError:
    return UnsupportedFormatError(
        f"{query.format.media_type} cannot hold the pixels of this in its style", "f"
    )
