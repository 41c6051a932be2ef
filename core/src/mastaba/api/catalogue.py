"""What is published: layers, pyramids, tile matrix sets, styles, CRSs and boxes.

All objects are immutable and belong to one configuration.
"""

from mastaba.api._deprecated import former_names
from mastaba.catalogue import Catalogue
from mastaba.model.bbox import WORLD, BoundingBox
from mastaba.model.crs import CRS, WGS84, Equivalences, transform_points
from mastaba.model.crs_offer import CRSOffer, LayerCRS
from mastaba.model.crs_uri import CRS84, CRS84_URI, crs_code, crs_uri
from mastaba.model.digest import digest_of
from mastaba.model.extent import bbox_in, geographic_extent, whole_view
from mastaba.model.format import TILE_FORMATS, Codec, TileFormat
from mastaba.model.layer import Attribution, FeatureInfo, Layer, Logo, Metadata
from mastaba.model.pyramid import Attribute, Level, Pyramid, RasterSpecification, Table, Update
from mastaba.model.style import Legend, Palette, PaletteEntry, Style
from mastaba.model.surrogate_keys import DOCUMENTS_KEY, keys_within, layer_key
from mastaba.model.tile_matrix_set import PIXEL_SIZE, TileLimits, TileMatrix, TileMatrixSet
from mastaba.model.tile_matrix_set_link import TileMatrixSetLink, link_to, links

__all__ = [
    "CRS",
    "CRS84",
    "CRS84_URI",
    "DOCUMENTS_KEY",
    "PIXEL_SIZE",
    "TILE_FORMATS",
    "WGS84",
    "WORLD",
    "Attribute",
    "Attribution",
    "BoundingBox",
    "CRSOffer",
    "Catalogue",
    "Codec",
    "Equivalences",
    "FeatureInfo",
    "Layer",
    "LayerCRS",
    "Legend",
    "Level",
    "Logo",
    "Metadata",
    "Palette",
    "PaletteEntry",
    "Pyramid",
    "RasterSpecification",
    "Style",
    "Table",
    "TileFormat",
    "TileLimits",
    "TileMatrix",
    "TileMatrixSet",
    "TileMatrixSetLink",
    "Update",
    "bbox_in",
    "crs_code",
    "crs_uri",
    "digest_of",
    "geographic_extent",
    "keys_within",
    "layer_key",
    "link_to",
    "links",
    "transform_points",
    "whole_view",
]

__getattr__ = former_names(__name__, {"generation_of": ("mastaba.api.catalogue.digest_of", "2.0")})
