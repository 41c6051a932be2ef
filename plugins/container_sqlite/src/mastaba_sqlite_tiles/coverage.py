"""Heights of a gridded coverage (OGC 17-066r1): from PNG or TIFF tiles to floats."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any, Final

from mastaba.errors import ContainerFormatError
from mastaba_containers.payloads import sniffed

_NODATA: Final = -99999.0
"""Height of pixels without data, if the coverage has no such height."""
_MODES: Final = frozenset(("L", "I;16", "I;16B", "I", "F"))


@dataclass(frozen=True, slots=True)
class Coverage:
    """What applies to all tiles of a coverage.

    Attributes:
        datatype: ``integer`` or ``float``.
        scale, offset: make a height of a value, after those of the tile.
        null: stored value of pixels without data, finite as float32; None if no pixel has it.
    """

    datatype: str
    scale: float
    offset: float
    null: float | None

    @property
    def nodata(self) -> float:
        """Height of pixels without data."""
        return self.null if self.datatype == "float" and self.null is not None else _NODATA


class CoverageDecoding:
    """Makes floats from the row of a tile: data, scale and offset of the tile.

    Args:
        coverage: applies to all tiles.
        size: width and height of tiles, pixels.
        nodata: height of pixels without data.
        name: of the file, for messages.
    """

    def __init__(self, coverage: Coverage, size: tuple[int, int], nodata: float, name: str) -> None:
        self._coverage = coverage
        self._size = size
        self._nodata = nodata
        self._name = name

    def __call__(self, row: tuple[Any, ...]) -> bytes:
        """Return the heights as little-endian float32, row by row.

        Raises:
            ContainerFormatError: the tile is damaged, or has another size.
        """
        import numpy as np

        data, scale, offset = row
        raw = self._raw(data)
        coverage = self._coverage
        heights = raw.astype(np.float64)
        if coverage.datatype == "integer":
            tile = (1.0 if scale is None else scale), (0.0 if offset is None else offset)
            if not all(isinstance(value, int | float) for value in tile):
                raise ContainerFormatError(f"{self._name}: scale or offset of a tile is invalid")
            heights = (heights * tile[0] + tile[1]) * coverage.scale + coverage.offset
        if coverage.null is not None:
            # Not in the type of the values, which may not have this number.
            heights[raw == coverage.null] = self._nodata
        heights = np.where(np.isfinite(heights), heights, self._nodata)
        return heights.astype("<f4").tobytes()

    def _raw(self, data: bytes) -> Any:
        import numpy as np
        from PIL import Image

        found = sniffed(data)
        if found is None or found.kind not in ("png", "tiff"):
            raise ContainerFormatError(f"{self._name}: a tile is neither PNG nor TIFF")
        try:
            with Image.open(io.BytesIO(data), formats=("PNG", "TIFF")) as image:
                # Before anything is decoded: a small file can declare gigabytes of pixels.
                if image.size != self._size or image.mode not in _MODES:
                    raise ContainerFormatError(
                        f"{self._name}: a tile has {image.size} pixels of the kind {image.mode}"
                    )
                return np.asarray(image)
        except (OSError, ValueError, SyntaxError, TypeError, Image.DecompressionBombError) as error:
            raise ContainerFormatError(f"{self._name}: a tile cannot be decoded") from error
