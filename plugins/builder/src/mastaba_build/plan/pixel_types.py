"""The pixels that a pyramid stores: those of the options, the style and the sources."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mastaba_build.config.configuration import AUTO, Configuration
from mastaba_build.errors import PlanError
from mastaba_build.plan.styling import Styling, load_styling
from mastaba_build.samples import PixelType
from mastaba_build.sources.source import Source
from mastaba_writer.descriptor import nodata_values
from mastaba_writer.tile_encoder import TILE_FORMATS, TileFormat

_FORMATS = {
    name.lower(): f"TIFF_{name}" for name in ("RAW", "ZIP", "LZW", "PKB", "PNG", "JPG", "JPG90")
}


def _is_float(source: Source) -> bool:
    return source.dtype != "uint8" and source.scale is None and not source.palette


def styling_of(configuration: Configuration, sources: Sequence[Source]) -> Styling | None:
    """Return the style of a configuration, or None.

    Raises:
        PlanError: it does not fit the sources or the options.
    """
    if configuration.style is None:
        return None
    styling = load_styling(
        configuration.style,
        configuration.access.plugins,
        is_float=any(map(_is_float, sources)),
    )
    if styling.source.channels == 1:
        for source in sources:
            if source.colours > 1:
                raise PlanError(f"{source.path}: the style needs one band; choose it with --bands")
    if styling.encodes_numbers and configuration.decimation == "average":
        raise PlanError(
            f"{configuration.style}: its colours encode numbers, which have no mean; "
            "use --decimation nn"
        )
    return styling


def pixel_type_of(
    configuration: Configuration, sources: Sequence[Source], styling: Styling | None
) -> PixelType:
    """Return the stored pixels of a configuration.

    Raises:
        PlanError: its format cannot store the pixels of the sources, or of the style.
    """
    if styling is None:
        is_float = any(map(_is_float, sources))
        has_alpha = any(source.alpha for source in sources)
    else:
        is_float, has_alpha = styling.is_float, styling.channels in (2, 4)
    name = configuration.format
    if name == AUTO:
        name = "zip" if is_float else "png" if has_alpha else "jpg"
    name, properties = format_named(name, is_float=is_float)
    if properties.dtype == np.uint8 and styling is None:
        for source in sources:
            if _is_float(source):
                raise PlanError(
                    f"{source.path}: samples of type {source.dtype} do not fit into {name}; state "
                    "the values that become 0 and 255 with --scale MIN,MAX, or use --format zip"
                )
    if properties.dtype == np.float32 and styling is None:
        for source in sources:
            if source.colours > 1:
                raise PlanError(
                    f"{source.path}: has 3 colours of type {source.dtype}, and {name} stores one "
                    "value per pixel; choose a band, as with --bands 1, or state the values that "
                    "become 0 and 255 with --scale MIN,MAX"
                )
    channels = configuration.channels or (
        _channels(sources, properties.channels)
        if styling is None
        else _nearest(styling.channels, properties.channels)
    )
    return type_of(configuration, name, channels)


def format_named(name: str, *, is_float: bool) -> tuple[str, TileFormat]:
    """Return the full name of a format of images, and its properties.

    Raises:
        PlanError: it is unknown.
    """
    if name in _FORMATS:
        suffix = "FLOAT32" if is_float and name not in ("png", "jpg", "jpg90") else "UINT8"
        name = f"{_FORMATS[name]}_{suffix}"
    properties = TILE_FORMATS.get(name)
    if properties is None or properties.dtype is None:
        raise PlanError(f"unknown format {name!r}; use {', '.join(_FORMATS)} or a full name")
    return name, properties


def type_of(configuration: Configuration, name: str, channels: int) -> PixelType:
    """Return the stored pixels of a format, with the options of a configuration.

    Raises:
        PlanError: they do not fit.
    """
    properties = TILE_FORMATS[name]
    if channels not in properties.channels:
        allowed = ", ".join(map(str, sorted(properties.channels)))
        raise PlanError(f"{name} cannot store {channels} channels; use {allowed}")
    try:
        nodata = nodata_values(name, channels, configuration.nodata)
    except ValueError as error:
        raise PlanError(f"nodata: {error}") from None
    if configuration.nodata is None and channels in (2, 4):
        nodata = [0] * channels
    if properties.dtype == np.uint8 and not all(0 <= value <= 255 for value in nodata):
        raise PlanError(f"nodata: {name} stores values from 0 to 255")
    if configuration.protect_nodata and (
        properties.dtype != np.uint8 or channels in (2, 4) or "JPG" in name
    ):
        raise PlanError(
            "--protect-nodata is for PNG, ZIP and other lossless formats of 8 bits without alpha; "
            f"{name} with {channels} channels is not one"
        )
    return PixelType(name, channels, tuple(map(float, nodata)), configuration.protect_nodata)


def _channels(sources: Sequence[Source], allowed: frozenset[int]) -> int:
    colours = max(source.colours for source in sources)
    alpha = any(source.alpha for source in sources)
    wanted = colours + 1 if alpha and colours + 1 in allowed else colours
    return _nearest(wanted, allowed)


def _nearest(wanted: int, allowed: frozenset[int]) -> int:
    return min(allowed, key=lambda one: abs(one - wanted))
