"""Resampled coverages: drawn as maps are, without a style."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mastaba_coverage.codecs import TileCodec
from mastaba_coverage.grid import Coverage
from mastaba_coverage.shape import TileShape
from mastaba_render.api.geotiff import UNKNOWN, Origin
from mastaba_render.api.maps import SideBySide

if TYPE_CHECKING:
    from mastaba.api.catalogue import CRS, BoundingBox
    from mastaba_render.api.decoding import Pixels
    from mastaba_render.api.maps import GroundBox, PreparedMap


@dataclass(frozen=True, slots=True, eq=False)
class DrawnImage:
    """One image of a file.

    Attributes:
        parts: the maps that it consists of: one, or two side by side.
    """

    parts: Sequence[PreparedMap]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.parts[0].height

    @property
    def columns(self) -> int:
        """Number of columns."""
        return sum(part.width for part in self.parts)

    def rows_of(self, channels: Sequence[int], height: int) -> Iterator[Pixels]:
        """Yield rows from the top, a number of them at a time.

        Args:
            channels: numbers of those to yield, in order.
            height: rows at a time; the last ones may be fewer.
        """
        drawn = self.parts[0] if len(self.parts) == 1 else SideBySide(self.parts)
        waiting: list[Pixels] = []
        count = 0
        for image in drawn.strips():
            strip = image.pixels[:, :, channels]
            while count + len(strip) >= height:
                taken = height - count
                yield np.concatenate([*waiting, strip[:taken]])
                strip, waiting, count = strip[taken:], [], 0
            if len(strip):
                waiting.append(strip)
                count += len(strip)
        if waiting:
            yield np.concatenate(waiting)


@dataclass(frozen=True, slots=True, eq=False)
class DrawnPlan:
    """What is in the file of resampled values.

    Attributes:
        coverage: the stored values.
        images: full resolution first, then overviews from fine to coarse.
        fields: names of the channels, in order.
        crs: CRS of the answer.
        area: of the answer.
        kernel: name of the resampling kernel.
        codec: of the tiles.
        shape: of the tiles.
        format: ``tiff``, or the name of an encoder of pictures.
        origin: of the values.
    """

    coverage: Coverage
    images: tuple[DrawnImage, ...]
    fields: tuple[str, ...]
    crs: CRS
    area: GroundBox
    kernel: str
    codec: TileCodec
    shape: TileShape
    format: str = "tiff"
    origin: Origin = UNKNOWN

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.images[0].rows

    @property
    def columns(self) -> int:
        """Number of columns."""
        return self.images[0].columns

    @property
    def is_post(self) -> bool:
        """Whether a value belongs to the middle of its cell."""
        return self.images[0].parts[0].registration == "post"

    @property
    def edges(self) -> BoundingBox:
        """Outer edges of the cells."""
        return self.area.box

    @property
    def bounds(self) -> BoundingBox:
        """The same; across the antimeridian, west is larger than east."""
        return self.area.written

    @property
    def is_addressable(self) -> bool:
        """Whether any part of the file can be made on its own: never."""
        return False

    @property
    def name(self) -> str:
        """What the answer is, as a part of its file name."""
        return f"{self.columns}x{self.rows}"
