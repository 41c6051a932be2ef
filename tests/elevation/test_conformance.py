"""The conformance tests of services, for the native routes and for each protocol."""

from __future__ import annotations

from typing import ClassVar

from mastaba_conformance.services import ServiceTests
from mastaba_elevation.service import ElevationService
from mastaba_elevation.terrain.service import TerrainService

PLACE = "POINT(40+40)"


class TestNative(ServiceTests):
    service_class = ElevationService
    paths = (
        "",
        f"/points?dataset=FLOAT32_RAW&coords={PLACE}",
        "/profile?dataset=FLOAT32_ZIP&coords=LINESTRING(40+40,41+41)&points=5",
        "/statistics?dataset=FLOAT32_ZIP&coords=POLYGON((40+40,41+41,41+40,40+40))",
    )
    invalid_paths = (
        "/points?dataset=RGB_PNG&coords=POINT(1+2)",
        "/points?dataset=FLOAT32_RAW&coords=POINT(x)",
    )
    error_types = ("application/json",)
    layer = "FLOAT32_RAW"


class TestEdr(ServiceTests):
    thorough = ("test_many_threads",)
    service_class = ElevationService
    paths = (
        "/edr",
        "/edr/conformance",
        "/edr/api",
        "/edr/collections",
        "/edr/collections/FLOAT32_RAW",
        f"/edr/collections/FLOAT32_RAW/position?coords={PLACE}",
        "/edr/collections/FLOAT32_RAW/area?coords=POLYGON((40+40,41+41,41+40,40+40))",
    )
    invalid_paths = ("/edr/collections/none", "/edr/collections/FLOAT32_RAW/position")
    error_types = ("application/json",)
    layer = "FLOAT32_RAW"


class TestFacades(ServiceTests):
    thorough = ("test_many_threads",)
    service_class = ElevationService
    settings: ClassVar = {
        "facades": {
            "edr": False,
            "ign": True,
            "google": {"dataset": "FLOAT32_RAW"},
            "swisstopo": {"dataset": "FLOAT32_RAW"},
            "tileserver": True,
        }
    }
    paths = (
        "/1.0/calcul/alti/rest/elevation.json?lon=40&lat=40&resource=FLOAT32_RAW",
        "/1.0/calcul/alti/rest/elevation.xml?lon=40&lat=40&resource=FLOAT32_RAW",
        "/v1/FLOAT32_RAW?locations=40,40",
        "/rest/services/height?lon=40&lat=40&sr=4326",
        "/data/FLOAT32_RAW/elevation/4/40.5/40.5",
    )
    invalid_paths = (
        "/1.0/calcul/alti/rest/elevation.json",
        "/v1/none?locations=40,40",
        "/rest/services/height",
        "/data/none/elevation/4/40.5/40.5",
    )
    error_types = ("application/json", "application/xml", "text/plain")
    layer = "FLOAT32_RAW"


class TestTerrain(ServiceTests):
    thorough = ("test_many_threads",)
    service_class = TerrainService
    paths = (
        "",
        "/FLOAT32_RAW/mapbox.json",
        "/FLOAT32_RAW/terrarium.json?size=512&format=webp",
        "/FLOAT32_RAW/style.json",
        "/FLOAT32_RAW/mesh/layer.json",
        "/FLOAT32_RAW/mesh/0/0/0.terrain?extensions=octvertexnormals",
        "/FLOAT32_RAW/contours.json",
    )
    invalid_paths = (
        "/none/mapbox.json",
        "/FLOAT32_RAW",
        "/FLOAT32_RAW/mapbox/0/0/x.png",
        "/FLOAT32_RAW/mapbox/0/0/0.png?fill=x",
        "/FLOAT32_RAW/mesh/0/0/x.terrain",
        "/FLOAT32_RAW/contours/0/0/0.png",
    )
    error_types = ("application/json",)
    layer = "FLOAT32_RAW"
