"""A GeoTIFF and its images: full resolution, overviews and masks (TIFF 6.0, GDAL)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from mastaba_cog.directories import Tiff

NONE, LZW, JPEG, DEFLATE, DEFLATE_OLD, PACKBITS = 1, 5, 7, 8, 32946, 32773
LERC, LZMA, ZSTD, WEBP = 34887, 34925, 50000, 50001
COMPRESSIONS: Final = MappingProxyType(
    {
        NONE: "none",
        LZW: "LZW",
        JPEG: "JPEG",
        DEFLATE: "DEFLATE",
        DEFLATE_OLD: "DEFLATE",
        PACKBITS: "PackBits",
        LERC: "LERC",
        LZMA: "LZMA",
        ZSTD: "ZSTD",
        WEBP: "WEBP",
    }
)
"""Names by value of the tag Compression, of those that can be read."""
WHITE_IS_ZERO, BLACK_IS_ZERO, RGB, PALETTE, MASK, YCBCR = 0, 1, 2, 3, 4, 6
UNSPECIFIED, ASSOCIATED, UNASSOCIATED = 0, 1, 2
UINT, INT, FLOAT = 1, 2, 3

LARGEST_TILE: Final = 64 * 1024 * 1024
"""Bytes of a stored tile."""


@dataclass(frozen=True, slots=True)
class TileArray:
    """Where the offsets, or the sizes, of all tiles of an image are.

    Attributes:
        offset: first byte in the file.
        count: number of values.
        size: bytes of a value: 2, 4 or 8.
    """

    offset: int
    count: int
    size: int


@dataclass(frozen=True, slots=True)
class Image:
    """One image in tiles.

    Attributes:
        width, height: pixels.
        tile_width, tile_height: pixels.
        bands: samples of a pixel.
        bits: of a sample.
        kind: `UINT`, `INT` or `FLOAT`.
        compression: a key of `COMPRESSIONS`.
        photometric: value of the tag.
        is_planar: whether each band has tiles of its own.
        predictor: 1, 2 or 3.
        extra: kinds of the last samples, as in the tag ExtraSamples.
        lerc: values of the tag LercParameters.
        palette: values of the tag ColorMap: red, green, blue.
    """

    width: int
    height: int
    tile_width: int
    tile_height: int
    bands: int
    bits: int
    kind: int
    compression: int
    photometric: int
    is_planar: bool
    predictor: int
    extra: tuple[int, ...]
    lerc: tuple[int, ...]
    palette: tuple[int, ...]

    @property
    def across(self) -> int:
        """Tiles in a row."""
        return -(-self.width // self.tile_width)

    @property
    def down(self) -> int:
        """Rows of tiles."""
        return -(-self.height // self.tile_height)

    @property
    def tile_count(self) -> int:
        """Tiles of one band, or of all bands if they are interleaved."""
        return self.across * self.down

    @property
    def planes(self) -> int:
        """Stored tiles for each place."""
        return self.bands if self.is_planar else 1

    @property
    def colours(self) -> int:
        """Samples that are not extra ones."""
        return self.bands - len(self.extra)

    @property
    def sample(self) -> str:
        """Name of the type of a sample, such as ``uint16``."""
        return (
            f"{'uint' if self.kind == UINT else 'int' if self.kind == INT else 'float'}{self.bits}"
        )


@dataclass(frozen=True, slots=True)
class Places:
    """What finds the tiles of an image in one version of a file.

    Attributes:
        offsets, sizes: of all tiles.
        tables: what precedes each JPEG tile, from the tag JPEGTables.
    """

    offsets: TileArray
    sizes: TileArray
    tables: bytes = b""


@dataclass(frozen=True, slots=True)
class Position:
    """The tags that say where the first image is on the ground; empty if absent.

    Attributes:
        scale, tiepoints, matrix: numbers of the tags 33550, 33922 and 34264.
        keys: of the GeoKey directory: numbers, or texts.
    """

    scale: tuple[float, ...]
    tiepoints: tuple[float, ...]
    matrix: tuple[float, ...]
    keys: Mapping[int, float | str]


@dataclass(frozen=True, slots=True)
class GeoTiff:
    """A file of tiles.

    Attributes:
        order: ``<`` or ``>``, as in `struct`.
        images: full resolution first, then overviews from fine to coarse.
        masks: of each image, or None.
        position: where it is.
        nodata: text of the tag of GDAL; empty if absent.
        metadata: GDAL_METADATA, as XML; empty if absent.
        title, attribution: the tags ImageDescription and Copyright.
        is_interleaved: whether each tile is followed by its mask.
    """

    order: str
    images: tuple[Image, ...]
    masks: tuple[Image | None, ...]
    position: Position
    nodata: str
    metadata: str
    title: str
    attribution: str
    is_interleaved: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """What depends on the version of a file.

    Attributes:
        places: of each image.
        mask_places: of each mask, or None.
        has_leaders: whether the size of each tile precedes it, and its last bytes are repeated.
        head: what has been read of the file.
    """

    places: tuple[Places, ...]
    mask_places: tuple[Places | None, ...]
    has_leaders: bool
    head: Tiff


_ITEM: Final = re.compile(r"<Item\s([^<>]{0,300})>([^<>]{0,300})</Item>")
_ATTRIBUTE: Final = re.compile(r'(?<!\w)(\w+)="([^"]*)"')


def comparable(geotiff: GeoTiff, *, ignores_masks: bool) -> GeoTiff:
    """Return a file without what may be different in a file that replaces it.

    These are texts and statistics; also masks that are not used.
    """
    known = scales_and_offsets(geotiff)
    metadata = repr([sorted(known.get(role, {}).items()) for role in ("scale", "offset")])
    masks = geotiff.masks
    if ignores_masks or masks[0] is None:
        masks = (None,) * len(masks)
    return replace(geotiff, metadata=metadata, title="", attribution="", masks=masks)


def scales_and_offsets(geotiff: GeoTiff) -> dict[str, dict[int, float]]:
    """Return numbers of GDAL_METADATA by role, and by number of the band from 0."""
    found: dict[str, dict[int, float]] = {}
    for match in _ITEM.finditer(geotiff.metadata):
        attributes = dict(_ATTRIBUTE.findall(match[1]))
        role = attributes.get("role") or attributes.get("name", "").lower()
        band = attributes.get("sample", "")
        try:
            found.setdefault(role, {})[int(band)] = float(match[2])
        except ValueError:
            continue
    return found
