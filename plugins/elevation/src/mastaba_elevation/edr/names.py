"""Names that several documents of the API use."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from mastaba.api.catalogue import CRS84
from mastaba_elevation.queries.datasets import Dataset

COVERAGE: Final = "CoverageJSON"
GEOJSON: Final = "GeoJSON"
CSV: Final = "CSV"
GEOTIFF: Final = "GeoTIFF"

MEDIA_TYPES: Final = {
    COVERAGE: "application/vnd.cov+json",
    GEOJSON: "application/geo+json",
    CSV: "text/csv",
    GEOTIFF: "image/tiff",
}
"""Media type of each output format."""

POSITION: Final = "position"
RADIUS: Final = "radius"
AREA: Final = "area"
CUBE: Final = "cube"
TRAJECTORY: Final = "trajectory"
CORRIDOR: Final = "corridor"

OUTPUT: Final = {
    POSITION: (COVERAGE, GEOJSON, CSV),
    RADIUS: (COVERAGE, GEOJSON, CSV, GEOTIFF),
    AREA: (COVERAGE, GEOJSON, CSV, GEOTIFF),
    CUBE: (COVERAGE, GEOJSON, CSV, GEOTIFF),
    TRAJECTORY: (COVERAGE, GEOJSON, CSV),
    CORRIDOR: (COVERAGE, GEOJSON, CSV, GEOTIFF),
}
"""Output formats of each query, the default first."""

UNITS: Final = {"m": 1.0, "km": 1000.0, "mi": 1609.344, "ft": 0.3048}
"""Metres of each unit of ``within-units`` and ``width-units``."""

ELEVATION: Final = "elevation"
DISTANCE: Final = "distance"
RESOLUTION: Final = "resolution"
LAYER: Final = "layer"
SOURCE: Final = "source"
SOURCE_DATE: Final = "source_date"
PARAMETERS: Final = (ELEVATION, DISTANCE, RESOLUTION, LAYER)
SOURCES: Final = (SOURCE, SOURCE_DATE)
"""Further parameters of collections whose sources are known."""


def collection_uri(uri: str, dataset: Dataset) -> str:
    """Return the address of a collection below the API."""
    return f"{uri}/collections/{quote(dataset.id, safe='')}"


def crs_names(dataset: Dataset) -> list[str]:
    """Return the CRSs of a collection, ``CRS84`` last: test suites take the last they know."""
    codes = [code for code in dataset.crs if code not in (CRS84, "EPSG:4326")]
    return [*codes, "EPSG:4326", "CRS84"]
