"""What a client wants of a coverage, in no protocol's words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from mastaba.api.web import printable
from mastaba.errors import InvalidParameterError
from mastaba_coverage.codecs import COMPRESSIONS, PREDICTORS, offered_compressions
from mastaba_server.web.parameters import integer, whole_number

if TYPE_CHECKING:
    from mastaba.api.catalogue import CRS

_SIDES: Final = range(128, 1025, 16)
"""Cells of a side of a tile that a client may choose."""
_PAD: Final = 4096
_OVERVIEWS: Final = 64


class Interval(NamedTuple):
    """A closed interval on an axis.

    Attributes:
        low, high: limits; None is an open end.
    """

    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Trim:
    """A part of the ground.

    Attributes:
        crs: of the coordinates.
        x, y: intervals of east or longitude, and of north or latitude. In degrees, ``x`` may run
            from a larger to a smaller longitude: across the antimeridian.
    """

    crs: CRS
    x: Interval
    y: Interval


@dataclass(frozen=True, slots=True)
class Scaling:
    """The size of the answer. One of three kinds is given.

    Attributes:
        width, height: cells; one may be None: cells are square then.
        resolution: width and height of a cell, units of the CRS of the answer.
        factor: number of cells of the answer for each cell of the finest level, on x and y.
    """

    width: int | None = None
    height: int | None = None
    resolution: tuple[float, float] | None = None
    factor: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class TiffOptions:
    """How a GeoTIFF is written.

    Attributes:
        compression: ``stored``, or one of `COMPRESSIONS`. ``stored`` copies stored tiles if the
            first cell is the corner of one, and deflates otherwise. What a COG cannot copy, it has
            uncompressed then.
        predictor: ``none``, ``horizontal`` or ``floating-point``; None for the usual one.
        is_tiled: whether the image has tiles; strips otherwise.
        tile_width, tile_height: cells; None for the size of the stored tiles.
        is_exact: whether a COG has exactly the requested cells. It is not copied then.
        pad: tiles that may precede the first one of a COG, so that overviews can be copied; None
            for a few.
        overviews: most overviews of a COG, others have none; None for all.
        is_sparse: whether a COG leaves out tiles of which nothing is stored. Simple readers do not
            know such files.
        mask: whether the file also says which cells have data, as the mask slabs do.
    """

    compression: str = "stored"
    predictor: str | None = None
    is_tiled: bool = True
    tile_width: int | None = None
    tile_height: int | None = None
    is_exact: bool = False
    pad: int | None = None
    overviews: int | None = None
    is_sparse: bool = True
    mask: bool = False

    @classmethod
    def read(cls, values: Mapping[str, str]) -> TiffOptions:
        """Return the options in the parameters of a request.

        Args:
            values: by name in lower case; other parameters are ignored.

        Raises:
            InvalidParameterError: naming the parameter that has an invalid value.
        """
        _choice(values, "interleave", "pixel", ("pixel",))
        return cls(
            _choice(values, "compression", "stored", ("stored", *offered_compressions())),
            _choice(values, "predictor", "", ("", *PREDICTORS)) or None,
            _choice(values, "tiling", "true", ("true", "false")) == "true",
            _side(values, "tile-width", "tilewidth"),
            _side(values, "tile-height", "tileheight"),
            _choice(values, "fit", "tiles", ("tiles", "exact")) == "exact",
            _count(values, "pad", _PAD),
            _count(values, "overview-count", _OVERVIEWS),
            _choice(values, "sparse", "true", ("true", "false")) == "true",
            _choice(values, "mask", "false", ("true", "false")) == "true",
        )


@dataclass(frozen=True, slots=True)
class CoverageRequest:
    """What a client wants of a coverage.

    Attributes:
        trim: the area; None for all of it.
        level: identifier of a stored level; None for the finest one.
        fields: names in order; None for all.
        crs: of the answer; None for that of the layer.
        scaling: the size; None for stored cells.
        kernel: name of the resampling kernel; None for that of the layer.
        is_cog: whether to write whole tiles, and overviews.
        is_fixed: whether extent and size are exactly the numbers of the request, as in WCS 1.0.0:
            ``trim`` has all limits, and ``scaling`` width and height. Stored values are sent if the
            extent is within 1/256 cell of cells of a level.
        format: ``tiff``, or the name of an encoder of pictures: ``png``, ``jpeg``, ``webp``.
        tiff: options of a GeoTIFF.
    """

    trim: Trim | None = None
    level: str | None = None
    fields: tuple[str, ...] | None = None
    crs: CRS | None = None
    scaling: Scaling | None = None
    kernel: str | None = None
    is_cog: bool = False
    is_fixed: bool = False
    format: str = "tiff"
    tiff: TiffOptions = field(default_factory=TiffOptions)


def _choice(values: Mapping[str, str], name: str, default: str, allowed: tuple[str, ...]) -> str:
    text = values.get(name, default)
    if text.lower() not in allowed:
        known = COMPRESSIONS if name == "compression" else ()
        missing = ": mastaba-coverage[codecs] is not installed" if text.lower() in known else ""
        raise InvalidParameterError(
            f"{name} {printable(text)} is not offered{missing}; use {', '.join(allowed)}", name
        )
    return text.lower()


def _side(values: Mapping[str, str], *names: str) -> int | None:
    name = next((name for name in names if name in values), None)
    if name is None:
        return None
    text = values[name]
    number = whole_number(text)
    if number not in _SIDES:
        raise InvalidParameterError(f"{name} must be a multiple of 16 from 128 to 1024", name)
    return number


def _count(values: Mapping[str, str], name: str, most: int) -> int | None:
    text = values.get(name)
    return None if text is None else integer(text, name, 0, most)
