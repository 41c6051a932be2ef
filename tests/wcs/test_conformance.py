"""The conformance tests of services."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from mastaba_conformance.services import ServiceTests
from mastaba_wcs.service import WCSService

_COVERAGE = "?service=WCS&version=2.0.1&request=GetCoverage&coverageId=FLOAT32_ZIP"
_OLD = (
    "?service=WCS&version=1.0.0&request=GetCoverage&coverage=FLOAT32_ZIP&crs=EPSG:3857"
    "&bbox=5009377,7514065,7514065,10018754&width=32&height=32&format=GeoTIFF"
)


class TestWCSService(ServiceTests):
    service_class = WCSService
    layer_settings: ClassVar[Mapping[str, Any]] = {"wcs": {"enabled": True}}
    paths = (
        "?service=WCS&request=GetCapabilities",
        "?service=WCS&version=2.0.1&request=DescribeCoverage&coverageId=FLOAT32_ZIP",
        f"{_COVERAGE}&scaleSize=i(16),j(16)",
        _OLD,
    )
    invalid_paths = (
        "?service=WCS&request=None",
        _COVERAGE.replace("FLOAT32_ZIP", "none"),
        f"{_COVERAGE}&subset=E(x,y)",
        f"{_COVERAGE}&scaleFactor=nan",
        _OLD.replace("width=32", "width=x"),
        _OLD.replace("bbox=5009377", "bbox=nan"),
    )
    doors = (
        "?service=WCS&version=1.0.0&request=GetCapabilities",
        "?service=WCS&version=1.0.0&request=DescribeCoverage",
        "?service=WCS&version=1.0.0&request=DescribeCoverage&coverage=FLOAT32_ZIP",
    )
    error_types = ("text/xml", "application/vnd.ogc.se_xml")
    layer = "FLOAT32_ZIP"
