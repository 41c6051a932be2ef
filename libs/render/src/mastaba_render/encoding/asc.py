"""ESRI ASCII grid (resampling.md section 10, item 7)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import ClassVar, Final

import numpy as np
import orjson

from mastaba_render.encoder import Strip, StripEncoder, StripRaster
from mastaba_render.map_request import LUMINANCE

_SQUARE: Final = 1e-9
_COLOURS: Final = 3
_BLOCK: Final = 1 << 17
"""Samples written as text at a time."""


class AscEncoder(StripEncoder):
    """Writes one value per pixel: the luminance of colours, otherwise the first channel.

    Numbers are the shortest decimals that read back as the same float32.
    """

    name: ClassVar[str] = "asc"
    media_type: ClassVar[str] = "text/asc"
    extension: ClassVar[str] = "asc"
    is_picture: ClassVar[bool] = False

    def accepts(self, dtype: np.dtype[np.generic], channels: int) -> bool:
        return dtype in (np.uint8, np.float32) and channels >= 1

    def encode_strips(self, raster: StripRaster, options: Mapping[str, str]) -> Iterator[bytes]:
        yield _header(raster).encode()
        for block in raster.regrouped(max(1, _BLOCK // raster.shape[1])):
            yield _lines(_values(block))


def _lines(values: Strip) -> bytes:
    """Return rows as text.

    A JSON array holds the same numbers, and orjson writes them 50 times faster than numpy does.
    """
    text = orjson.dumps(np.ascontiguousarray(values), option=orjson.OPT_SERIALIZE_NUMPY)
    text = text[2:-2].replace(b"],[", b"\n").replace(b",", b" ") + b"\n"
    # JSON has no NaN.
    return text.replace(b".0 ", b" ").replace(b".0\n", b"\n").replace(b"null", b"nan")


def _values(pixels: Strip) -> Strip:
    """Return one value per pixel, shape (rows, columns), same dtype."""
    if pixels.dtype != np.uint8 or pixels.shape[2] < _COLOURS:
        return pixels[:, :, 0]
    return (pixels[:, :, :_COLOURS] @ LUMINANCE + np.float32(0.5)).astype(np.uint8)


def _header(raster: StripRaster) -> str:
    rows, columns, _ = raster.shape
    bbox, half = raster.bbox, raster.offset
    dx, dy = (bbox.xmax - bbox.xmin) / columns, (bbox.ymax - bbox.ymin) / rows
    fields: dict[str, float] = {
        "ncols": columns,
        "nrows": rows,
        f"xll{'center' if half else 'corner'}": bbox.xmin + half * dx,
        f"yll{'center' if half else 'corner'}": bbox.ymin + half * dy,
    }
    fields |= {"cellsize": dx} if math.isclose(dx, dy, rel_tol=_SQUARE) else {"dx": dx, "dy": dy}
    lines = "".join(f"{name} {repr(value).removesuffix('.0')}\n" for name, value in fields.items())
    if raster.nodata:
        # Written like the samples, so that readers find equal values.
        nodata = _values(np.array([[raster.nodata]]).astype(raster.dtype))
        lines += f"NODATA_value {_lines(nodata).decode()}"
    return lines
