"""A style in the pixels of a pyramid: applied after resampling, as the server does."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mastaba.api.catalogue import Style
from mastaba.api.documents import Faults, FileFaults, UnusableError
from mastaba.tooling.documents import make_style
from mastaba_build.errors import PlanError
from mastaba_build.plugins import PluginSet
from mastaba_build.samples import PixelType, Raster, as_samples, flattened

_FLOAT_NODATA = -99999.0


@dataclass(frozen=True, slots=True)
class Styling:
    """A style and the pixels that it is applied to.

    Attributes:
        source: pixels before the style.
        is_float, channels: samples after the style.
        margin: pixels that it needs on each side.
        encodes_numbers: whether its colours encode numbers, which have no mean.
    """

    style: Style
    source: PixelType
    is_float: bool
    channels: int
    margin: int
    encodes_numbers: bool

    def apply(
        self, raster: Raster, target: PixelType, cell_size: float, *, is_geographic: bool
    ) -> Raster:
        """Return a raster in the style, without the margin.

        Args:
            raster: pixels of `source`, with the margin.
            target: pixels of the result.
            cell_size: size of a pixel in CRS units; ``is_geographic``: whether these are degrees.
        """
        from mastaba_render.api.maps import MapImage, styled

        valid = None if raster.valid.all() else raster.valid
        image = styled(
            self.style,
            MapImage(self.source.stored(raster), valid, self.source.nodata),
            cell_size,
            cell_size,
            is_geographic=is_geographic,
        )
        found = np.ones(image.pixels.shape[:2], bool) if image.valid is None else image.valid
        pixels = as_samples(image.pixels, target.dtype)
        if self.channels in (2, 4) and not target.has_alpha:
            alpha = pixels[:, :, -1]
            found = found & (alpha > 0)
            pixels = flattened(pixels[:, :, :-1], alpha, target.nodata)
        elif target.has_alpha and self.channels in (1, 3):
            opaque = np.full((*found.shape, 1), 255, pixels.dtype)
            pixels = np.concatenate([pixels, opaque], axis=2)
        if target.channels >= 3 and pixels.shape[2] <= 2:
            pixels = np.concatenate([pixels[:, :, :1].repeat(3, axis=2), pixels[:, :, 1:]], axis=2)
        pixels[~found] = 0
        return Raster(np.ascontiguousarray(pixels), found)


def load_styling(path: Path, plugins: PluginSet, *, is_float: bool) -> Styling:
    """Return the style in a file of the server.

    Args:
        is_float: whether the sources are not 8-bit images.

    Raises:
        PlanError: the file is missing or invalid.
    """
    # Imported here, because it loads what answers requests; few builds have a style.
    from mastaba_render.api.maps import MapImage, relief_name, styled

    try:
        document = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise PlanError(f"{path}: the style cannot be read: {error}") from None
    for where, reason in plugins.problems("style", document):
        raise PlanError(f"{path}: {where}: {reason}")
    faults = Faults()
    try:
        style = make_style(path.stem, document, FileFaults(faults, str(path)))
    except UnusableError:
        raise PlanError("\n".join(f"{path}: {fault.reason}" for fault in faults.errors)) from None
    is_relief = relief_name(style) is not None
    channels = 1
    if "colorize" in style.processing:
        channels = len(style.processing["colorize"].get("source", (255, 255, 255)))
    if (is_float or is_relief) and channels == 1:
        source = PixelType("TIFF_RAW_FLOAT32", 1, (_FLOAT_NODATA,))
    else:
        source = PixelType("TIFF_RAW_UINT8", channels, (0.0,) * channels)
    sample = MapImage(np.zeros((3, 3, channels), source.dtype), None, source.nodata)
    result = styled(style, sample, 1, 1, is_geographic=False)
    return Styling(
        style,
        source,
        result.pixels.dtype != np.uint8,
        result.pixels.shape[2],
        1 if is_relief else 0,
        result.encodes_numbers,
    )
