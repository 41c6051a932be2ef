"""Dimensions of layers, such as time: their values, the layers they mean, and tables of them."""

from mastaba.catalogue import Resolved
from mastaba.errors import InvalidDimensionError, MissingDimensionError, NoSuchValueError
from mastaba.model.dimension import Dimension, DimensionValues, Note
from mastaba.model.tile_matrix_set import TileLimits
from mastaba.variants import Choice, OpenVariants, Variant, VariantSource, VariantTable

__all__ = [
    "Choice",
    "Dimension",
    "DimensionValues",
    "InvalidDimensionError",
    "MissingDimensionError",
    "NoSuchValueError",
    "Note",
    "OpenVariants",
    "Resolved",
    "TileLimits",
    "Variant",
    "VariantSource",
    "VariantTable",
]
