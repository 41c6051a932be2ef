"""Tables of variants: what the values of dimensions, such as times, mean for a layer."""

from mastaba.errors import InvalidDimensionError, MissingDimensionError, NoSuchValueError
from mastaba.variants import NO_VALUE, Resolved, VariantSource, VariantTable

__all__ = [
    "NO_VALUE",
    "InvalidDimensionError",
    "MissingDimensionError",
    "NoSuchValueError",
    "Resolved",
    "VariantSource",
    "VariantTable",
]
