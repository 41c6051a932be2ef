"""Tile formats: the twelve of slab pyramids, and further ones of containers (slab.md section 4)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Codec(StrEnum):
    """Encoding of a stored tile.

    Attributes:
        RAW: samples without compression.
        ZIP: samples compressed with deflate (RFC 1950).
        LZW: samples compressed with LZW (TIFF 6, section 13).
        PACKBITS: samples compressed with PackBits (TIFF 6, section 9).
        JPEG: a JPEG image.
        PNG: a PNG image.
        MVT: a Mapbox vector tile, compressed with gzip or not.
        WEBP: a WebP image.
        AVIF: an AVIF image.
        MLT: a MapLibre tile, compressed with gzip or not.
    """

    RAW = "raw"
    ZIP = "zip"
    LZW = "lzw"
    PACKBITS = "packbits"
    JPEG = "jpeg"
    PNG = "png"
    MVT = "mvt"
    WEBP = "webp"
    AVIF = "avif"
    MLT = "mlt"


@dataclass(frozen=True, slots=True)
class TileFormat:
    """A tile format of a pyramid.

    Attributes:
        name: name in the descriptor, for example ``TIFF_ZIP_FLOAT32``.
        codec: encoding of the stored tiles.
        sample: ``uint8``, ``float32``, or None for vector tiles.
        media_type: Content-Type of a tile, and the only FORMAT that clients may request.
        extension: file extension in tile URLs of TMS and RESTful WMTS.
        extension_aliases: other accepted extensions.
        content_encoding: HTTP content coding of the stored tiles, or None.
        channels: allowed numbers of channels.
    """

    name: str
    codec: Codec
    sample: str | None
    media_type: str
    extension: str
    extension_aliases: tuple[str, ...] = ()
    content_encoding: str | None = None
    channels: tuple[int, ...] = (1, 2, 3, 4)

    @property
    def is_vector(self) -> bool:
        """Whether tiles contain features instead of pixels."""
        return self.sample is None

    @property
    def is_picture(self) -> bool:
        """Whether browsers show a stored tile as an image."""
        return self.codec in (Codec.PNG, Codec.JPEG, Codec.WEBP, Codec.AVIF)

    @property
    def short_name(self) -> str:
        """Name of the format of stored tiles in OGC API: jpg, tiff, mvt, or the extension."""
        short = {"jpeg": "jpg", "tif": "tiff", "pbf": "mvt", "zbil": "bil"}
        return short.get(self.extension, self.extension)

    @property
    def needs_tiff_header(self) -> bool:
        """Whether a stored tile needs a TIFF header in front to be a valid image."""
        return self.media_type == "image/tiff"


_BIL: Final = "image/x-bil;bits=32"


_JPEG: Final = (Codec.JPEG, "uint8", "image/jpeg", "jpeg", ("jpg",), None, (3,))
_TIFF_UINT8: Final = ("uint8", "image/tiff", "tif", ("tiff",))
_TIFF_FLOAT32: Final = ("float32", "image/tiff", "tif", ("tiff",), None, (1,))

TILE_FORMATS: Final = MappingProxyType(
    {
        tile_format.name: tile_format
        for tile_format in (
            TileFormat("TIFF_RAW_UINT8", Codec.RAW, *_TIFF_UINT8),
            TileFormat("TIFF_JPG_UINT8", *_JPEG),
            TileFormat("TIFF_JPG90_UINT8", *_JPEG),
            TileFormat("TIFF_PNG_UINT8", Codec.PNG, "uint8", "image/png", "png"),
            TileFormat("TIFF_LZW_UINT8", Codec.LZW, *_TIFF_UINT8),
            TileFormat("TIFF_ZIP_UINT8", Codec.ZIP, *_TIFF_UINT8),
            TileFormat("TIFF_PKB_UINT8", Codec.PACKBITS, *_TIFF_UINT8),
            TileFormat("TIFF_RAW_FLOAT32", Codec.RAW, "float32", _BIL, "bil", (), None, (1,)),
            TileFormat("TIFF_LZW_FLOAT32", Codec.LZW, *_TIFF_FLOAT32),
            TileFormat("TIFF_ZIP_FLOAT32", Codec.ZIP, "float32", _BIL, "zbil", (), "deflate", (1,)),
            TileFormat("TIFF_PKB_FLOAT32", Codec.PACKBITS, *_TIFF_FLOAT32),
            TileFormat("TIFF_PBF_MVT", Codec.MVT, None, "application/x-protobuf", "pbf", ("mvt",)),
        )
    }
)
"""The formats of pyramid descriptors by name."""

MASK_FORMAT: Final = "TIFF_ZIP_UINT8"
"""The format of mask slabs; others are ignored (pyramid.md)."""

JPEG_GRAY: Final = TileFormat("JPEG_GRAY", *_JPEG[:-1], (1,))
"""JPEG with one channel, of containers."""
WEBP: Final = TileFormat("WEBP", Codec.WEBP, "uint8", "image/webp", "webp", (), None, (3, 4))
"""WebP, of containers."""
AVIF: Final = TileFormat("AVIF", Codec.AVIF, "uint8", "image/avif", "avif", (), None, (3, 4))
"""AVIF, of containers."""
MLT: Final = TileFormat("MLT", Codec.MLT, None, "application/vnd.maplibre-tile", "mlt")
"""MapLibre tiles, of containers."""
