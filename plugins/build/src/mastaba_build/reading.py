"""Reading of native source pixels; GDAL decodes them and does nothing else."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
from rasterio.errors import RasterioError
from rasterio.windows import Window

from mastaba_build.errors import SourceError
from mastaba_build.groups import Group, Member
from mastaba_build.pixels import PixelType, Raster, as_samples, paste
from mastaba_build.placement import Rectangle
from mastaba_build.sources import Source, identity_of, open_dataset

_OPEN_DATASETS = 32
_STRIP = 1 << 22
"""Source pixels that are averaged at a time."""
_EXACT = 1 << 24
"""Integers up to this value are exact in float32."""


class Reader:
    """Reads pixels of groups. Datasets stay open: at most 32, the least recently used is closed."""

    def __init__(self, pixel_type: PixelType) -> None:
        self._type = pixel_type
        self._open: OrderedDict[str, Any] = OrderedDict()
        self._palettes: dict[str, np.ndarray[Any, Any]] = {}
        self._used: dict[str, Source] = {}

    def close(self) -> None:
        for dataset in self._open.values():
            dataset.close()
        self._open.clear()

    def read(self, group: Group, window: Rectangle, factor: int) -> Raster:
        """Return source cells of ``factor`` x ``factor`` pixels.

        Args:
            window: cells; those outside all members are not valid.

        Raises:
            SourceError: a source cannot be read or has changed.
        """
        if factor == 1:
            return self._read(group, window)
        top, bottom, left, right = window
        result = self._type.blank(bottom - top, right - left)
        # Cells far outside the group would be read for nothing.
        first_row, last_row = max(top, 0), min(bottom, -(-group.height // factor))
        first, last = max(left, 0), min(right, -(-group.width // factor))
        if last_row <= first_row or last <= first:
            return result
        rows = max(1, _STRIP // (factor * factor * (last - first)))
        for start in range(first_row, last_row, rows):
            end = min(start + rows, last_row)
            native = (start * factor, end * factor, first * factor, last * factor)
            cells = _averaged(self._read(group, native), factor, has_alpha=self._type.has_alpha)
            part = np.s_[start - top : end - top, first - left : last - left]
            result.samples[part], result.valid[part] = cells
        return result

    def _read(self, group: Group, window: Rectangle) -> Raster:
        top, bottom, left, right = window
        canvas = self._type.blank(bottom - top, right - left)
        for member in group.members:
            source = member.source
            rows = max(top, member.row), min(bottom, member.row + source.height)
            columns = max(left, member.column), min(right, member.column + source.width)
            if rows[0] >= rows[1] or columns[0] >= columns[1]:
                continue
            raster = self._member(member, (*rows, *columns))
            paste(canvas, raster, rows[0] - top, columns[0] - left, has_alpha=self._type.has_alpha)
        return canvas

    def _member(self, member: Member, rectangle: Rectangle) -> Raster:
        source = member.source
        top, bottom, left, right = rectangle
        window = Window(left - member.column, top - member.row, right - left, bottom - top)
        dataset = self._dataset(source)
        self._used[source.path] = source
        try:
            bands = dataset.read(list(source.bands), window=window)
            alpha = dataset.read(source.alpha, window=window) if source.alpha else None
            mask = dataset.read_masks(source.bands[0], window=window) if source.has_mask else None
        except (RasterioError, OSError, MemoryError) as error:
            raise SourceError(
                f"{source.path}: cannot be read at row {window.row_off}, column {window.col_off}: "
                f"{error.__cause__ or error}"
            ) from None
        return self._converted(source, dataset, bands, alpha, mask)

    def _dataset(self, source: Source) -> Any:
        dataset = self._open.pop(source.path, None)
        if dataset is None:
            dataset = open_dataset(source.path)
            if len(self._open) >= _OPEN_DATASETS:
                self._open.popitem(last=False)[1].close()
        self._open[source.path] = dataset
        return dataset

    def start(self) -> None:
        """Forget which sources were read."""
        self._used.clear()

    def check_sources(self) -> None:
        """Check that the sources read since `start` are still those in the plan.

        Raises:
            SourceError: one has changed.
        """
        for source in self._used.values():
            if identity_of(source.path, self._dataset(source).files) != source.identity:
                raise SourceError(f"{source.path}: has changed since the start; build again")

    def _converted(self, source: Source, dataset: Any, bands: Any, alpha: Any, mask: Any) -> Raster:
        """Return samples of the pyramid from bands, shape (bands, rows, columns)."""
        valid = np.ones(bands.shape[1:], bool)
        if source.nodata is not None:
            is_nodata = np.ones_like(valid)
            for band, value in zip(bands, source.nodata, strict=True):
                if np.isnan(value):
                    is_nodata &= np.isnan(band)
                elif source.tolerance:
                    is_nodata &= np.abs(band.astype(np.float64) - value) <= source.tolerance
                else:
                    is_nodata &= band == value
            valid &= ~is_nodata
        if mask is not None:
            valid &= mask >= 128
        if bands.dtype.kind == "f":
            valid &= np.isfinite(bands).all(axis=0)
            bands = np.where(valid, bands, 0)
        if source.palette:
            colours = self._palette(source, dataset)[bands[0]]
            bands, alpha = np.moveaxis(colours[:, :, :3], -1, 0), colours[:, :, 3]
        samples = self._samples(source, np.moveaxis(bands, 0, -1))
        samples = _with_colours(samples, 3 if self._type.channels >= 3 else 1)
        if alpha is not None:
            alpha = (
                alpha if alpha.dtype == np.uint8 else np.where(alpha > 0, 255, 0).astype(np.uint8)
            )
            if not self._type.has_alpha:
                valid &= alpha > 0
                samples = self._flattened(samples, alpha)
        if self._type.has_alpha:
            opaque = np.full(valid.shape, 255, np.uint8) if alpha is None else alpha
            samples = np.concatenate([samples, opaque[:, :, np.newaxis]], axis=2)
        if not valid.all():
            samples = np.where(valid[:, :, np.newaxis], samples, samples.dtype.type(0))
        return Raster(np.ascontiguousarray(samples), valid)

    def _samples(self, source: Source, bands: Any) -> Any:
        if source.scale is not None:
            low, high = source.scale
            values = (bands.astype(np.float64) - low) * (255 / (high - low))
            return as_samples(values, np.dtype(np.uint8)).astype(self._type.dtype, copy=False)
        is_wide = bands.dtype.kind in "iu" and bands.dtype.itemsize > 2
        if is_wide and np.abs(bands.astype(np.int64)).max(initial=0) > _EXACT:
            raise SourceError(f"{source.path}: contains integers too large for FLOAT32")
        return bands.astype(self._type.dtype, copy=False)

    def _palette(self, source: Source, dataset: Any) -> Any:
        if source.path not in self._palettes:
            colours = np.zeros((1 << 16 if source.dtype == "uint16" else 256, 4), np.uint8)
            for index, colour in dataset.colormap(source.bands[0]).items():
                colours[index] = colour
            self._palettes[source.path] = colours
        return self._palettes[source.path]

    def _flattened(self, samples: Any, alpha: Any) -> Any:
        """Return translucent pixels on the nodata colour."""
        if (alpha == 255).all():
            return samples
        part = alpha[:, :, np.newaxis] / 255.0
        return as_samples(samples * part + np.array(self._type.nodata) * (1 - part), samples.dtype)


def _with_colours(samples: Any, colours: int) -> Any:
    if samples.shape[2] == colours:
        return samples
    if samples.shape[2] == 1:
        return np.repeat(samples, 3, axis=2)
    weights = np.array([0.2125, 0.7154, 0.0721])
    return np.trunc(samples @ weights).astype(samples.dtype)[:, :, np.newaxis]


def _averaged(raster: Raster, factor: int, *, has_alpha: bool) -> Raster:
    """Return the means of the valid pixels in cells of ``factor`` x ``factor``."""
    rows, columns = (size // factor for size in raster.valid.shape)
    shape = rows, factor, columns, factor

    def total(values: Any) -> Any:
        return values.reshape(shape).sum(axis=(1, 3), dtype=np.float64)

    count = total(raster.valid)
    samples = raster.samples
    if has_alpha:
        alpha = samples[:, :, -1].astype(np.float64)
        weights = total(alpha)
        sums = [total(samples[:, :, k] * alpha) for k in range(samples.shape[2] - 1)]
        means = [one / np.where(weights > 0, weights, 1) for one in sums]
        means.append(weights / np.maximum(count, 1))
    else:
        means = [total(samples[:, :, k]) / np.maximum(count, 1) for k in range(samples.shape[2])]
    return Raster(as_samples(np.stack(means, axis=-1), samples.dtype), count * 2 >= factor * factor)
