"""The conformance tests of services."""

from __future__ import annotations

from mastaba_conformance.services import ServiceTests
from mastaba_tms.service import TileMapServer


class TestTMSService(ServiceTests):
    service_class = TileMapServer
    paths = (
        "/1.0.0",
        "/1.0.0/RGB_PNG",
        "/1.0.0/RGB_PNG/3/4/2.png",
        "/1.0.0/VECTOR/metadata.json",
    )
    invalid_paths = (
        "/1.0.0/none",
        "/1.0.0/RGB_PNG/3/x/2.png",
        "/1.0.0/RGB_PNG/3/99/2.png",
    )
    error_types = ("application/xml", "text/xml")
    layer = "RGB_PNG"
