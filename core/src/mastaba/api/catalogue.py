"""What is published: layers, pyramids, tile matrix sets, styles, CRSs and boxes.

All objects are immutable and belong to one configuration.
"""

from mastaba.api._deprecated import former_names
from mastaba.catalogue import Catalogue
from mastaba.model.bbox import WORLD, BoundingBox
from mastaba.model.crs import (
    CRS,
    CRS84,
    WGS84,
    Equivalences,
    bbox_in_degrees,
    geographic_bbox,
    poles_in,
    transform_points,
)
from mastaba.model.digest import digest_of
from mastaba.model.extent import bbox_in, geographic_extent, pyramid_bbox, whole_view
from mastaba.model.format import MASK_FORMAT, TILE_FORMATS, Codec, TileFormat
from mastaba.model.layer import Attribution, FeatureInfo, Layer, Logo, Metadata
from mastaba.model.pyramid import Attribute, Level, Pyramid, RasterSpecification, Table, Update
from mastaba.model.style import Legend, Palette, PaletteEntry, Style
from mastaba.model.surrogate_keys import DOCUMENTS_KEY, keys_within, layer_key
from mastaba.model.tile_matrix_set import PIXEL_SIZE, TileLimits, TileMatrix, TileMatrixSet
from mastaba.model.tile_matrix_set_link import TileMatrixSetLink, link_to, links

__all__ = [
    "CRS",
    "CRS84",
    "DOCUMENTS_KEY",
    "MASK_FORMAT",
    "PIXEL_SIZE",
    "TILE_FORMATS",
    "WGS84",
    "WORLD",
    "Attribute",
    "Attribution",
    "BoundingBox",
    "Catalogue",
    "Codec",
    "Equivalences",
    "FeatureInfo",
    "Layer",
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
    "bbox_in_degrees",
    "digest_of",
    "geographic_bbox",
    "geographic_extent",
    "keys_within",
    "layer_key",
    "link_to",
    "links",
    "poles_in",
    "pyramid_bbox",
    "transform_points",
    "whole_view",
]

__getattr__ = former_names(
    __name__,
    {
        "CRS84_URI": ("mastaba_ows.crs.CRS84_URI", "2.0"),
        "CRSOffer": ("mastaba_render.api.crs.CRSOffer", "2.0"),
        "LayerCRS": ("mastaba_render.api.crs.LayerCRS", "2.0"),
        "crs_code": ("mastaba_ows.crs.crs_code", "2.0"),
        "crs_uri": ("mastaba_ows.crs.crs_uri", "2.0"),
        "generation_of": ("mastaba.api.catalogue.digest_of", "2.0"),
    },
)
