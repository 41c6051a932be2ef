"""Containers: archives whose tiles are published like those of slab pyramids."""

from mastaba.containers.base import Container, Context, MakeReader, OpenedContainer, Source
from mastaba.containers.index_cache import IndexCache
from mastaba.containers.reader import BlockKey, Decoder, Delivery, StoredTile, TileReader, may_retry
from mastaba.containers.tile_index import TileIndex
from mastaba.errors import ContainerFormatError
from mastaba.model.digest import digest_of
from mastaba.model.format import AVIF, JPEG_GRAY, MLT, TILE_FORMATS, WEBP, Codec, TileFormat
from mastaba.model.pyramid import Attribute, Level, Pyramid, RasterSpecification, Table
from mastaba.model.tile_matrix_set import TileLimits, TileMatrix, TileMatrixSet

__all__ = [
    "AVIF",
    "JPEG_GRAY",
    "MLT",
    "TILE_FORMATS",
    "WEBP",
    "Attribute",
    "BlockKey",
    "Codec",
    "Container",
    "ContainerFormatError",
    "Context",
    "Decoder",
    "Delivery",
    "IndexCache",
    "Level",
    "MakeReader",
    "OpenedContainer",
    "Pyramid",
    "RasterSpecification",
    "Source",
    "StoredTile",
    "Table",
    "TileFormat",
    "TileIndex",
    "TileLimits",
    "TileMatrix",
    "TileMatrixSet",
    "TileReader",
    "digest_of",
    "may_retry",
]
