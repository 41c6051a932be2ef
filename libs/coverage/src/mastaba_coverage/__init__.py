"""Exact extraction of the stored values of a layer, as GeoTIFF of any size.

Stored values are copied or cut, and every offset of such a file is known before its first tile is
read, so any part of it can be made on its own, without a temporary file. What is compressed or
resampled is made before it is sent.

Modules are loaded when one of their names is used: limits and settings need no renderer.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mastaba_coverage.answer import Answer, extract
    from mastaba_coverage.cells import Cells, cells_between
    from mastaba_coverage.codecs import TileCodec, offered_compressions
    from mastaba_coverage.compressed import CompressedFile
    from mastaba_coverage.drawn import DrawnPlan
    from mastaba_coverage.errors import (
        CoverageTooLargeError,
        InvalidIntervalError,
        InvalidScalingError,
        NotCopyableError,
        OutsideCoverageError,
        UnknownFieldError,
        UnknownLevelError,
    )
    from mastaba_coverage.extractor import PICTURES, Extractor
    from mastaba_coverage.grid import Coverage, CoverageGrid
    from mastaba_coverage.layout import TiffImage, TiffLayout
    from mastaba_coverage.limits import LIMITS_SCHEMA, CoverageLimits, coverage_limits
    from mastaba_coverage.masks import mask_pyramid
    from mastaba_coverage.parts import side_of_parts
    from mastaba_coverage.plan import CoveragePlan, ImagePlan
    from mastaba_coverage.planning import Plan, file_name, masked, with_origin
    from mastaba_coverage.readers import has_masks
    from mastaba_coverage.request import CoverageRequest, Interval, Scaling, TiffOptions, Trim
    from mastaba_coverage.shape import TileShape
    from mastaba_coverage.sources import TileSource
    from mastaba_coverage.stored_values import StoredValues, located

_MODULES = {
    "answer": (
        "Answer",
        "extract",
    ),
    "cells": (
        "Cells",
        "cells_between",
    ),
    "codecs": (
        "TileCodec",
        "offered_compressions",
    ),
    "compressed": ("CompressedFile",),
    "drawn": ("DrawnPlan",),
    "errors": (
        *("CoverageTooLargeError", "InvalidIntervalError", "InvalidScalingError"),
        *("NotCopyableError", "OutsideCoverageError", "UnknownFieldError", "UnknownLevelError"),
    ),
    "extractor": (
        "PICTURES",
        "Extractor",
    ),
    "grid": (
        "Coverage",
        "CoverageGrid",
    ),
    "layout": (
        "TiffImage",
        "TiffLayout",
    ),
    "limits": (
        "LIMITS_SCHEMA",
        "CoverageLimits",
        "coverage_limits",
    ),
    "masks": ("mask_pyramid",),
    "parts": ("side_of_parts",),
    "plan": (
        "CoveragePlan",
        "ImagePlan",
    ),
    "planning": (
        "Plan",
        "file_name",
        "masked",
        "with_origin",
    ),
    "readers": ("has_masks",),
    "request": (
        "CoverageRequest",
        "Interval",
        "Scaling",
        "TiffOptions",
        "Trim",
    ),
    "shape": ("TileShape",),
    "sources": ("TileSource",),
    "stored_values": ("StoredValues", "located"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "LIMITS_SCHEMA",
    "PICTURES",
    "Answer",
    "Cells",
    "CompressedFile",
    "Coverage",
    "CoverageGrid",
    "CoverageLimits",
    "CoveragePlan",
    "CoverageRequest",
    "CoverageTooLargeError",
    "DrawnPlan",
    "Extractor",
    "ImagePlan",
    "Interval",
    "InvalidIntervalError",
    "InvalidScalingError",
    "NotCopyableError",
    "OutsideCoverageError",
    "Plan",
    "Scaling",
    "StoredValues",
    "TiffImage",
    "TiffLayout",
    "TiffOptions",
    "TileCodec",
    "TileShape",
    "TileSource",
    "Trim",
    "UnknownFieldError",
    "UnknownLevelError",
    "cells_between",
    "coverage_limits",
    "extract",
    "file_name",
    "has_masks",
    "located",
    "mask_pyramid",
    "masked",
    "offered_compressions",
    "side_of_parts",
    "with_origin",
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
