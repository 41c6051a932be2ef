"""Exact extraction of the stored values of a layer, as GeoTIFF of any size.

Nothing is resampled, and no temporary file is written. Every offset of the file is known before its
first tile is read, so any part of it can be made on its own.
"""

from mastaba_coverage.answer import Answer, CoverageLimits, extract
from mastaba_coverage.cells import Cells, cells_between
from mastaba_coverage.errors import CoverageTooLargeError
from mastaba_coverage.grid import Coverage, CoverageGrid
from mastaba_coverage.layout import Field, TiffImage, TiffLayout
from mastaba_coverage.plan import CoveragePlan, ImagePlan
from mastaba_coverage.sources import TileSource

__all__ = [
    "Answer",
    "Cells",
    "Coverage",
    "CoverageGrid",
    "CoverageLimits",
    "CoveragePlan",
    "CoverageTooLargeError",
    "Field",
    "ImagePlan",
    "TiffImage",
    "TiffLayout",
    "TileSource",
    "cells_between",
    "extract",
]
