"""The compiled inner loops of maps: `kernels.c`, called through ctypes.

The library is compiled when the distribution is built (`hatch_build.py`). Calls release the
interpreter, so threads draw maps side by side. Arrays are checked here, positions in C.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mastaba.render.map_request import Pixels

Bytes = npt.NDArray[np.uint8]
Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

_NO_MEMORY: Final = 1
_OUTSIDE: Final = 2


def _load() -> ctypes.CDLL:
    name = "kernels-avx2.so" if {"avx2", "fma"} <= _processor_flags() else "kernels.so"
    try:
        return ctypes.CDLL(str(Path(__file__).with_name(name)))
    except OSError as error:
        raise ImportError(
            f"the compiled part of mastaba cannot be loaded ({error}); install mastaba again"
        ) from error


def _processor_flags() -> set[str]:
    with suppress(OSError), open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
        for line in lines:
            if line.startswith("flags"):
                return set(line.split())
    return set()


_library: Final = _load()


def _call(name: str, *arguments: npt.NDArray[Any] | int) -> None:
    """Call a function of the library: arrays are passed by address, sizes as int64."""
    status = getattr(_library, name)(
        *[
            ctypes.c_void_p(argument.ctypes.data)
            if isinstance(argument, np.ndarray)
            else ctypes.c_int64(argument)
            for argument in arguments
        ]
    )
    if status == _NO_MEMORY:
        raise MemoryError
    if status == _OUTSIDE:
        raise IndexError("a position outside the image")


def _checked(array: npt.NDArray[Any], dtype: type[np.generic], dimensions: int) -> None:
    if array.dtype != dtype or array.ndim != dimensions or not array.flags.c_contiguous:
        raise TypeError(f"expected a contiguous {dtype.__name__} array of {dimensions} dimensions")


def resample(
    pixels: Pixels,
    row_first: Int64,
    row_weights: Float32,
    column_first: Int64,
    column_weights: Float32,
) -> Pixels:
    """Return an image resampled separably; see `mastaba.render.resample.resample`.

    Args:
        pixels: uint8 or float32, shape (height, width, channels).
        row_first, column_first: first source row or column of each output row or column.
        row_weights, column_weights: shape (outputs, taps).

    Raises:
        IndexError: weights refer to pixels outside the image.
    """
    pixels = np.ascontiguousarray(pixels)
    for first, weights in ((row_first, row_weights), (column_first, column_weights)):
        _checked(first, np.int64, 1)
        _checked(weights, np.float32, 2)
        if len(first) != len(weights):
            raise ValueError("one row of weights for each first pixel is required")
    height, width, channels = pixels.shape
    result = np.empty((len(row_first), len(column_first), channels), pixels.dtype)
    _call(
        f"resample_{pixels.dtype.name}",
        pixels,
        height,
        width,
        channels,
        row_first,
        row_weights,
        *row_weights.shape,
        column_first,
        column_weights,
        *column_weights.shape,
        result,
    )
    return result


def warp(
    pixels: Pixels,
    across: Float64,
    down: Float64,
    columns: Float64,
    rows: Float64,
    row_first: Int32,
    row_weights: Float32,
    column_first: Int32,
    column_weights: Float32,
) -> Pixels:
    """Return an image at the positions of a grid; see `mastaba.render.warp.warp`.

    Args:
        pixels: uint8 or float32, shape (height, width, channels).
        across, down: output columns and rows of the grid points, ascending from 0.
        columns, rows: shape (down, across), source positions at the grid points.
        row_first, column_first: shape (1024,), first tap for each fraction of a position.
        row_weights, column_weights: shape (1024, taps).

    Raises:
        IndexError: a tap is outside the image.
    """
    pixels = np.ascontiguousarray(pixels)
    for values in (across, down):
        _checked(values, np.float64, 1)
    columns, rows = np.ascontiguousarray(columns), np.ascontiguousarray(rows)
    for values in (columns, rows):
        _checked(values, np.float64, 2)
        if values.shape != (len(down), len(across)):
            raise ValueError("one position for each grid point is required")
    for first, weights in ((row_first, row_weights), (column_first, column_weights)):
        _checked(first, np.int32, 1)
        _checked(weights, np.float32, 2)
    height, width, channels = pixels.shape
    result = np.empty((int(down[-1]) + 1, int(across[-1]) + 1, channels), pixels.dtype)
    _call(
        f"warp_{pixels.dtype.name}",
        pixels,
        height,
        width,
        channels,
        across,
        len(across),
        down,
        len(down),
        columns,
        rows,
        row_first,
        row_weights,
        row_weights.shape[1],
        column_first,
        column_weights,
        column_weights.shape[1],
        result,
    )
    return result


def warp_locally(
    pixels: Pixels,
    table: Float64,
    columns: Float64,
    rows: Float64,
    radii_x: Float64,
    radii_y: Float64,
) -> Pixels:
    """Return an image at positions that each have a kernel width of their own.

    Args:
        pixels: uint8 or float32, shape (height, width, channels).
        table: the kernel from its centre to its radius, in even steps.
        columns, rows: shape (output rows, output columns), source positions.
        radii_x, radii_y: the same shape, kernel radii in source pixels.

    Raises:
        IndexError: a tap is outside the image.
    """
    pixels = np.ascontiguousarray(pixels)
    _checked(table, np.float64, 1)
    fields = [np.ascontiguousarray(values) for values in (columns, rows, radii_x, radii_y)]
    for values in fields:
        _checked(values, np.float64, 2)
        if values.shape != columns.shape:
            raise ValueError("positions and radii must have one shape")
    result = np.empty((*columns.shape, pixels.shape[2]), pixels.dtype)
    _call(
        f"warp_locally_{pixels.dtype.name}",
        pixels,
        *pixels.shape,
        table,
        len(table),
        *fields,
        *columns.shape,
        result,
    )
    return result


def colours(values: Float32, steps: Float64, entries: Float64, *, rgb: bool, alpha: bool) -> Bytes:
    """Return the colours of values by a palette.

    Args:
        values: shape (n,).
        steps: ascending values of the palette, at least one.
        entries: shape (steps, 4), red, green, blue and alpha (0 to 255) at each step.
        rgb, alpha: whether colours and alpha are interpolated between steps.

    Returns:
        shape (n, 4); values beyond either end have the colour of that end.
    """
    _checked(values, np.float32, 1)
    _checked(steps, np.float64, 1)
    _checked(entries, np.float64, 2)
    result = np.empty((len(values), 4), np.uint8)
    _call("colours", values, len(values), steps, len(steps), entries, int(rgb), int(alpha), result)
    return result


def flatten(pixels: Bytes, ground: Bytes) -> Bytes:
    """Return pixels with alpha on a background.

    Args:
        pixels: shape (height, width, 2 or 4 channels), the last one alpha.
        ground: shape (1,) or (3,), the colour behind; grey pixels take part in all three.

    Returns:
        shape (height, width, channels of ``ground``).
    """
    pixels = np.ascontiguousarray(pixels)
    _checked(pixels, np.uint8, 3)
    _checked(ground, np.uint8, 1)
    height, width, channels = pixels.shape
    result = np.empty((height, width, len(ground)), np.uint8)
    _call("flatten", pixels, height * width, channels, ground, len(ground), result)
    return result
