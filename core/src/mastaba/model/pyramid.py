"""Slab pyramids as described by their descriptors (pyramid.md section 2)."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mastaba.model.bbox import BoundingBox
from mastaba.model.format import Codec, TileFormat
from mastaba.model.tile_matrix_set import TileLimits, TileMatrix, TileMatrixSet

_LARGEST: Final = 3.4028234663852886e38  # of float32


@dataclass(frozen=True, slots=True)
class RasterSpecification:
    """Pixel properties of a raster pyramid.

    Attributes:
        channels: 1 to 4.
        nodata: one value per channel, rounded to float32 as pixels are.
        photometric: ``gray`` or ``rgb`` in practice; only informative, not used for decoding.
        registration: what a value of the finest level belongs to: ``area``, the square of its
            pixel, or ``post``, the point in the middle of it.
    """

    channels: int
    nodata: tuple[float, ...]
    photometric: str
    registration: str = "area"

    def __post_init__(self) -> None:
        nodata = (max(min(value, _LARGEST), -_LARGEST) for value in self.nodata)
        object.__setattr__(self, "nodata", tuple(array("f", nodata)))


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of a vector table.

    Attributes:
        name: key in the features.
        type: free text from the source.
        count: number of different values; None if unknown.
        values: the different values, if they are listed.
        minimum: least value; None if unknown.
        maximum: greatest value; None if unknown.
    """

    name: str
    type: str
    count: int | None = None
    values: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """One layer inside the vector tiles of a level.

    Attributes:
        name: name of the layer in the tiles.
        geometry: free text from the source, such as ``POLYGON``.
        attributes: of its features.
    """

    name: str
    geometry: str
    attributes: tuple[Attribute, ...] = ()


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a pyramid.

    Attributes:
        matrix: the grid of its tiles.
        tiles_per_width, tiles_per_height: size of a slab, or of a block of a container, tiles.
        limits: the tiles that may exist; nothing is read outside.
        tables: of vector levels.
        limits_from: file and key that set the limits, for operators.
        window: width and height of the data in pixels, from the corner of the matrix; None if all
            pixels of tiles may be data. What is beyond pads the tiles.
    """

    matrix: TileMatrix
    tiles_per_width: int
    tiles_per_height: int
    limits: TileLimits
    tables: tuple[Table, ...] = ()
    limits_from: str = ""
    window: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """The last change of a pyramid.

    Attributes:
        since: generation of the pyramid before the change.
        bbox: around everything that has changed since then; in the CRS of the tile matrix set.
    """

    since: str
    bbox: BoundingBox


class PyramidLevels(NamedTuple):
    """A slab pyramid of which a layer publishes a range of levels: path, generation, levels."""

    path: str
    generation: str
    bottom_level: str
    top_level: str


@dataclass(frozen=True, slots=True)
class Pyramid:
    """Levels with one tile format and one tile matrix set.

    Attributes:
        name: name of the pyramid.
        tile_matrix_set: grid of the levels.
        format: tile format of all levels.
        raster: pixel properties; None for vector pyramids.
        levels: by tile matrix identifier, coarse to fine.
        generation: 12 hexadecimal digits that change with the descriptor, and with each version
            that is published; equal on all nodes that read equal descriptors.
        update: as the descriptor says; None if unknown.
        bbox: around the data, in the CRS of the set; None if that is the box of the tiles.
        parts: of a layer whose levels are all from slab pyramids: these, in the order of its
            descriptor; otherwise empty.
    """

    name: str
    tile_matrix_set: TileMatrixSet
    format: TileFormat
    raster: RasterSpecification | None
    levels: Mapping[str, Level] = field(hash=False)
    generation: str = ""
    update: Update | None = None
    bbox: BoundingBox | None = None
    parts: tuple[PyramidLevels, ...] = ()

    @property
    def registration(self) -> str:
        """What a value of the finest level belongs to, ``area`` or ``post``."""
        return "area" if self.raster is None else self.raster.registration

    @property
    def finest(self) -> Level:
        """The level with the smallest cell size."""
        return next(reversed(self.levels.values()))  # type: ignore[call-overload,no-any-return]

    @property
    def coarsest(self) -> Level:
        """The level with the largest cell size."""
        return next(iter(self.levels.values()))

    @property
    def takes_palettes(self) -> bool:
        """Whether a palette can be inserted into stored tiles (one-channel PNG only)."""
        raster = self.raster
        return self.format.codec is Codec.PNG and raster is not None and raster.channels == 1
