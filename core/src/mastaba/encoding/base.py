"""What an image encoder is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS


@dataclass(frozen=True, slots=True, eq=False)
class Raster:
    """Pixels of a map, with their place on the ground.

    Attributes:
        pixels: shape (rows, columns, channels), dtype uint8 or float32, top row first.
        bbox: outer edges of the border pixels, x before y, CRS units.
        crs: of ``bbox``.
        nodata: one value per channel, or None.
    """

    pixels: npt.NDArray[np.uint8] | npt.NDArray[np.float32]
    bbox: BoundingBox
    crs: CRS
    nodata: tuple[float, ...] | None = None


class Encoder(ABC):
    """Writes rasters in one media type. Instances are shared by all threads."""

    name: ClassVar[str]
    """Short name, such as ``png``."""

    media_type: ClassVar[str]
    """Content-Type of what it writes, and the FORMAT that asks for it."""

    extension: ClassVar[str]
    """Of file names, without dot."""

    is_picture: ClassVar[bool] = True
    """Whether it is made for the eye: flattened on a background or transparent where there is no
    data. Data formats keep their channels, and hold the nodata value there."""

    holds_alpha: ClassVar[bool] = False
    """Whether a picture in it can have an alpha channel."""

    @abstractmethod
    def accepts(self, dtype: np.dtype[np.generic], channels: int) -> bool:
        """Tell whether rasters of this sample type and channel count can be written."""

    def check_options(self, options: Mapping[str, str]) -> None:  # noqa: B027 - most take any
        """Refuse options that `encode` would refuse, before there is anything to encode.

        Raises:
            InvalidParameterError: an option has a value that is not allowed.
        """

    @abstractmethod
    def encode(self, raster: Raster, options: Mapping[str, str]) -> bytes:
        """Return the encoded picture.

        Args:
            raster: one that `accepts` allows.
            options: ``FORMAT_OPTIONS`` of the request, names in lower case; unknown ones are
                ignored.

        Raises:
            InvalidParameterError: an option has a value that is not allowed, or the format
                cannot hold a picture of this size.
        """
