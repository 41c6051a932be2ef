"""The rendering engine: maps of layers in any extent, CRS and style."""

from __future__ import annotations

from mastaba.catalogue import Catalogue
from mastaba.render.request import Background, MapImage, MapRequest, Pixels


class Renderer:
    """Renders maps of one catalogue. Shared by all threads."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def check(self, request: MapRequest) -> None:
        """Refuse a map that asks too much, before any of it is done.

        Raises:
            InvalidParameterError: sizes, number of layers, source tiles or bytes beyond the
                limits; layers whose pixels have different sample types.
        """
        raise NotImplementedError

    def render(self, request: MapRequest) -> MapImage:
        """Return the pixels of a map that `check` let pass.

        Raises:
            SlabFormatError, StorageError: the data cannot be read.
        """
        raise NotImplementedError


def as_picture(image: MapImage, background: Background, *, alpha_possible: bool) -> Pixels:
    """Return the pixels for a picture format: PNG, JPEG, WebP (wms.md section 3.4).

    Args:
        alpha_possible: whether the format can hold an alpha channel.

    Returns:
        uint8, shape (height, width, channels): with alpha when the background is transparent
        and the format can hold it, flattened otherwise.
    """
    raise NotImplementedError


def as_data(image: MapImage, background: Background) -> Pixels:
    """Return the pixels for a data format: TIFF, GeoTIFF, BIL, ASCII grid.

    Channels stay; pixels without data hold the nodata value, or the background colour where
    the request gives one and the pixels are 8-bit.
    """
    raise NotImplementedError
