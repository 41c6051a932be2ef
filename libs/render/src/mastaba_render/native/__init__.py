"""The compiled inner loops of maps: `kernels.c`, called through ctypes.

The library is compiled when the distribution is built (`hatch_build.py`). Calls release the
interpreter, so threads draw maps side by side. Arrays are checked here, positions in C.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mastaba_render.map_request import Mask, Pixels

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]

_NO_MEMORY: Final = 1
_OUTSIDE: Final = 2


class Window(NamedTuple):
    """Pixels of a map or of a level, counted from its upper left corner; they may lie outside.

    Attributes:
        top: first row.
        bottom: row after the last.
        left: first column.
        right: column after the last.
    """

    top: int
    bottom: int
    left: int
    right: int

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return self.bottom - self.top, self.right - self.left

    def counted_from(self, top: int, left: int) -> tuple[slice, slice]:
        """Return its rows and columns, counted from another place."""
        rows = slice(self.top - top, self.bottom - top)
        return rows, slice(self.left - left, self.right - left)


class Weights(NamedTuple):
    """The source pixels of each output pixel along one axis, and their weights.

    Attributes:
        first: shape (outputs,), index of the first source pixel, possibly negative.
        weights: shape (outputs, taps), float32; each row sums to 1.
    """

    first: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float32]


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


def kernel_library() -> str:
    """Return the file name of the loaded library; its variants may round differently."""
    return Path(_library._name).name


class Grid(ctypes.Structure):
    """The struct of the same name in C: the positions of `mastaba_render.sampling`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("across", "down", "columns", "rows")),
        *((name, ctypes.c_void_p) for name in ("ratios_x", "ratios_y", "blocks", "details")),
        *((name, ctypes.c_int64) for name in ("across_count", "down_count")),
        *((name, ctypes.c_double) for name in ("wrap", "centre")),
        *((name, ctypes.c_double) for name in ("top", "bottom", "left", "right", "margin")),
    )

    @classmethod
    def of(
        cls,
        across: Floats,
        down: Floats,
        fields: Floats,
        blocks: npt.NDArray[np.int32] | None = None,
        details: Floats | None = None,
        wrap: float = 0.0,
        centre: float = 0.0,
        area: Window | None = None,
        margin: float = np.inf,
    ) -> Grid:
        """Return a grid with the attributes of `GridPositions`; it keeps the arrays alive.

        Args:
            margin: most source pixels outside the area that a kernel reads; the last one has the
                weight of all that are further away.
        """
        for line in (across, down):
            _check(line, np.float64, 1)
        _check(fields, np.float64, 3)
        if fields.shape[1:] != (len(down), len(across)):
            raise ValueError("one position for each grid point is required")
        arrays = [across, down, *fields, *[None] * (4 - len(fields)), blocks, details]
        addresses = [None if array is None else array.ctypes.data for array in arrays]
        bounds = (-np.inf, np.inf, -np.inf, np.inf) if area is None else area
        grid = cls(*addresses, len(across), len(down), wrap, centre, *bounds, margin)
        grid.arrays = across, down, fields, blocks, details
        return grid


def _call(name: str, *arguments: npt.NDArray[Any] | Grid | float | None) -> int:
    """Call a function of the library: arrays are passed by address, integers as int64."""
    converted: list[Any] = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            converted.append(ctypes.c_void_p(argument.ctypes.data))
        elif isinstance(argument, Grid):
            converted.append(ctypes.byref(argument))
        elif isinstance(argument, float):
            converted.append(ctypes.c_double(argument))
        else:
            converted.append(None if argument is None else ctypes.c_int64(argument))
    status: int = getattr(_library, name)(*converted)
    if status == _NO_MEMORY:
        raise MemoryError
    if status == _OUTSIDE:
        raise IndexError("a position outside the image")
    return status


def _check(array: npt.NDArray[Any], dtype: type[np.generic], dimensions: int) -> None:
    if array.dtype != dtype or array.ndim != dimensions or not array.flags.c_contiguous:
        raise TypeError(f"expected a contiguous {dtype.__name__} array of {dimensions} dimensions")


def _check_weights(*axes: Weights) -> None:
    for axis in axes:
        _check(axis.first, np.int64, 1)
        _check(axis.weights, np.float32, 2)
        if len(axis.first) != len(axis.weights):
            raise ValueError("one row of weights for each first pixel is required")


def resample(pixels: Pixels, rows: Weights, columns: Weights) -> Pixels:
    """Return an image resampled separably (resampling.md section 5.4).

    Args:
        pixels: uint8 or float32, shape (height, width, channels).
        rows, columns: weights of each output row and column; they count from the first row and
            column of ``pixels``.

    Returns:
        sample type of ``pixels``, shape (output rows, output columns, channels). Bytes are
        rounded half up.

    Raises:
        IndexError: weights refer to pixels outside the image.
    """
    pixels = np.ascontiguousarray(pixels)
    _check_weights(rows, columns)
    result = np.empty((len(rows.first), len(columns.first), pixels.shape[2]), pixels.dtype)
    _call(
        f"resample_{pixels.dtype.name}",
        *(pixels, *pixels.shape),
        *(rows.first, rows.weights, *rows.weights.shape),
        *(columns.first, columns.weights, *columns.weights.shape),
        result,
    )
    return result


def survey(
    grid: Grid,
    part: Window,
    radii: tuple[float, float],
    *,
    every_row: bool,
    placed: Mask | None = None,
    boxes: npt.NDArray[np.int64] | None = None,
) -> tuple[Window, float] | None:
    """Return the source pixels that part of a map needs; None if no pixel has a position.

    The second value is the number of taps of the pixels that were looked at.

    Args:
        part: pixels of the map.
        radii: radius of the kernel in x and y, for a ratio of 1 if the grid has ratios.
        every_row: False if the pixels next to the lines of the grid show the extremes.
        placed: filled with the pixels that have a position, if every row is looked at.
        boxes: shape (rows, columns, 4), filled with the source pixels that each of them needs.
    """
    bounds, taps = np.zeros(4, np.int64), np.zeros(1)
    _call("survey", grid, *part, *radii, every_row, placed, bounds, taps, boxes)
    found = Window(*bounds.tolist())
    return (found, float(taps[0])) if found.bottom > found.top else None


def bound(
    pixels: npt.NDArray[np.float32],
    valid: Mask,
    boxes: npt.NDArray[np.int64],
    values: npt.NDArray[np.float32],
    *,
    by_rows: bool,
) -> None:
    """Move values, in place, into the range of the valid pixels that each was made from.

    Args:
        pixels: float32, shape (height, width, channels).
        valid: shape (height, width).
        boxes: shape (n, 4), a `Window` of ``pixels`` for each value.
        values: float32, shape (n, channels).
        by_rows: whether many successive boxes have the same rows, which is then faster.

    Raises:
        IndexError: a box is not inside the image.
    """
    pixels, valid = np.ascontiguousarray(pixels), np.ascontiguousarray(valid)
    _check(pixels, np.float32, 3)
    _check(valid, np.bool_, 2)
    _check(boxes, np.int64, 2)
    _check(values, np.float32, 2)
    _call("bound", pixels, valid, *pixels.shape, boxes, len(values), int(by_rows), values)


def warp(
    pixels: Pixels,
    source: tuple[int, int],
    grid: Grid,
    part: Window,
    rows: Weights,
    columns: Weights,
) -> Pixels:
    """Return an image at the positions of a grid (resampling.md section 6).

    Args:
        pixels: uint8 or float32, shape (height, width, channels).
        source: source row and column of the first pixel.
        part: pixels of the map.
        rows, columns: stencils.

    Returns:
        sample type of ``pixels``, shape (rows, columns, channels); 0 where a pixel has no position.
        Bytes are rounded half up.

    Raises:
        IndexError: a tap is outside the image.
    """
    _check_weights(rows, columns)
    kernel = (
        *(rows.first.astype(np.int32), rows.weights, rows.weights.shape[1]),
        *(columns.first.astype(np.int32), columns.weights, columns.weights.shape[1]),
    )
    return _warped("warp", pixels, source, grid, part, *kernel)


def warp_locally(
    pixels: Pixels,
    source: tuple[int, int],
    grid: Grid,
    part: Window,
    table: Floats,
    radii: tuple[float, float],
) -> Pixels:
    """Return an image at positions that each have a kernel width of their own; see `warp`.

    Args:
        table: the kernel from its centre to its radius, in even steps.
        radii: as in `survey`.
    """
    _check(table, np.float64, 1)
    return _warped("warp_locally", pixels, source, grid, part, table, len(table), *radii)


def _warped(
    name: str,
    pixels: Pixels,
    source: tuple[int, int],
    grid: Grid,
    part: Window,
    *kernel: npt.NDArray[Any] | float,
) -> Pixels:
    pixels = np.ascontiguousarray(pixels)
    result = np.empty((*part.shape, pixels.shape[2]), pixels.dtype)
    _call(
        f"{name}_{pixels.dtype.name}",
        *(pixels, *pixels.shape),
        *source,
        *(grid, *part),
        *kernel,
        result,
    )
    return result


DECIMATIONS: Final = ("average", "nn", "mode", "min", "max")
"""Methods of `decimate`, in the order of the enumeration in C."""


def decimate(
    pixels: Pixels,
    valid: Mask,
    factor: int,
    method: str = "average",
    *,
    has_alpha: bool = False,
    alpha_of_all: bool = True,
    enough: int = 1,
    into: tuple[Pixels, Mask] | None = None,
) -> tuple[Pixels, Mask]:
    """Return an image of 1/factor of the width and height (generation.md 4.4).

    A pixel is made from a box of factor x factor pixels, of which only valid ones count.

    Args:
        pixels: uint8 or float32, shape (height, width, 1 to 4 channels); rows may be strided. Float
            images have one channel. Height and width are multiples of the factor.
        valid: shape (height, width); pixels that are not valid are 0.
        method: ``average``: the mean, bytes rounded half to even. ``nn``: the middle pixel, of two
            the upper left one. ``mode``: the most frequent pixel, of several the smallest.
            ``min``, ``max``: the extremes of each channel.
        has_alpha: the last channel is alpha. It weights the mean of the colours, and pixels with
            alpha 0 do not count as extremes.
        alpha_of_all: alpha is the mean of the box rather than of its valid pixels.
        enough: valid pixels of a box that make the result valid, at least 1; not for ``nn``.
        into: arrays for the result; rows may be strided.

    Returns:
        pixels and which of them are valid; the others are 0.

    Raises:
        ValueError: the shapes do not fit.
    """
    height, width, channels = pixels.shape
    rows, columns = height // factor, width // factor
    if into is None:
        into = np.empty((rows, columns, channels), pixels.dtype), np.empty((rows, columns), bool)
    result, result_valid = into
    if (
        (rows * factor, columns * factor) != (height, width)
        or valid.shape != (height, width)
        or result.shape != (rows, columns, channels)
        or result_valid.shape != (rows, columns)
        or result.dtype != pixels.dtype
        or not 1 <= channels <= 4
    ):
        raise ValueError("the shapes of a decimation do not fit")
    sizes = [_row_size(array) for array in (pixels, valid, result, result_valid)]
    _call(
        f"decimate_{pixels.dtype.name}",
        *(pixels, sizes[0], None if valid.all() else valid, sizes[1]),
        *(rows, columns, channels, factor, DECIMATIONS.index(method)),
        *(has_alpha, alpha_of_all, enough if method != "nn" else 1),
        *(result, sizes[2], result_valid, sizes[3]),
    )
    return into


def _row_size(array: npt.NDArray[Any]) -> int:
    """Return the distance of two rows in samples; the samples of a row follow each other."""
    row = array[:1]
    if not row.flags.c_contiguous or array.strides[0] % array.itemsize:
        raise ValueError("the pixels of a row must follow each other")
    return array.strides[0] // array.itemsize


def colours(
    values: npt.NDArray[np.float32], steps: Floats, entries: Floats, *, rgb: bool, alpha: bool
) -> Bytes:
    """Return the colours of values by a palette.

    Args:
        values: shape (n,).
        steps: ascending values of the palette, at least one.
        entries: shape (steps, 4), red, green, blue and alpha (0 to 255) at each step.
        rgb, alpha: whether colours and alpha are interpolated between steps.

    Returns:
        shape (n, 4); values beyond either end have the colour of that end.
    """
    _check(values, np.float32, 1)
    _check(steps, np.float64, 1)
    _check(entries, np.float64, 2)
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
    _check(pixels, np.uint8, 3)
    _check(ground, np.uint8, 1)
    height, width, channels = pixels.shape
    result = np.empty((height, width, len(ground)), np.uint8)
    _call("flatten", pixels, height * width, channels, ground, len(ground), result)
    return result


def decode_jpeg(
    payload: bytes, size: tuple[int, int], part: tuple[slice, slice], into: Pixels
) -> bool:
    """Decode a part of a JPEG; return False if the JPEG is damaged or of a rare kind.

    Only baseline JPEGs of YCbCr with chroma at half resolution are decoded. The pixels are those of
    libjpeg with its accurate transformation.

    Args:
        size: height and width of the JPEG.
        part: rows and columns.
        into: array for the part, uint8, shape (rows, columns, 3); rows may be strided.
    """
    rows, columns = part
    if into.shape != (rows.stop - rows.start, columns.stop - columns.start, 3):
        raise ValueError("the shape of the array does not fit")
    buffer, (height, width) = np.frombuffer(payload, np.uint8), size
    return not _call(
        "decode_jpeg",
        *(buffer, len(payload), width, height),
        *(rows.start, rows.stop, columns.start, columns.stop),
        *(into, _row_size(into)),
    )
