"""ESRI ASCII grid (resampling.md section 10, item 7)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from mastaba.encoding.base import Encoder, Raster

_SQUARE: Final = 1e-9
_COLOURS: Final = 3
# Weights of ITU-R BT.709, as wherever colours become grey.
_LUMINANCE: Final = np.array([0.2125, 0.7154, 0.0721], np.float32)
_BLOCK: Final = 1 << 17
"""Samples written as text at a time; each takes 32 bytes on the way."""


class AscEncoder(Encoder):
    """Writes one value for each pixel: of colours the luminance, else the first channel.

    Numbers are the shortest decimals that read back as the same float32.
    """

    name: ClassVar[str] = "asc"
    media_type: ClassVar[str] = "text/asc"
    extension: ClassVar[str] = "asc"
    is_picture: ClassVar[bool] = False

    def accepts(self, dtype: np.dtype[np.generic], channels: int) -> bool:
        return dtype in (np.uint8, np.float32) and channels >= 1

    def encode(self, raster: Raster, options: Mapping[str, str]) -> bytes:
        values = _values(raster.pixels)
        step = max(1, _BLOCK // values.shape[1])
        blocks = [_header(raster).encode()]
        for start in range(0, len(values), step):
            texts = values[start : start + step].astype("S32").tolist()
            block = b"".join(b" ".join(row) + b"\n" for row in texts)
            blocks.append(block.replace(b".0 ", b" ").replace(b".0\n", b"\n"))
        return b"".join(blocks)


def _values(pixels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return one value for each pixel, shape (rows, columns) and the same dtype."""
    if pixels.dtype != np.uint8 or pixels.shape[2] < _COLOURS:
        return pixels[:, :, 0]
    return (pixels[:, :, :_COLOURS] @ _LUMINANCE + np.float32(0.5)).astype(np.uint8)


def _header(raster: Raster) -> str:
    rows, columns, _ = raster.pixels.shape
    bbox = raster.bbox
    dx, dy = (bbox.xmax - bbox.xmin) / columns, (bbox.ymax - bbox.ymin) / rows
    fields: dict[str, float] = {
        "ncols": columns,
        "nrows": rows,
        "xllcorner": bbox.xmin,
        "yllcorner": bbox.ymin,
    }
    fields |= {"cellsize": dx} if math.isclose(dx, dy, rel_tol=_SQUARE) else {"dx": dx, "dy": dy}
    if raster.nodata:
        nodata = float(_values(np.array([[raster.nodata]], raster.pixels.dtype))[0, 0])
        # Written as the pixels are, so that a reader finds them equal.
        is_float = raster.pixels.dtype == np.float32
        fields["NODATA_value"] = float(str(np.float32(nodata))) if is_float else nodata
    return "".join(f"{name} {_text(value)}\n" for name, value in fields.items())


def _text(value: float) -> str:
    return repr(value).removesuffix(".0")
