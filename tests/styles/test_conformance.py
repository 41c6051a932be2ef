"""The conformance tests of services."""

from __future__ import annotations

from typing import Any, ClassVar

from mastaba_conformance.services import ServiceTests
from mastaba_styles.service import StylesService


class TestStylesService(ServiceTests):
    service_class = StylesService
    other_services: ClassVar[dict[str, Any]] = {
        "tms": {"enabled": True, "endpoint_uri": "https://public.example/tms"}
    }
    paths = ("", "/VECTOR.json", "/RGB_PNG.json")
    invalid_paths = (
        "/none.json",
        "/VECTOR",
        "/VECTOR/none.json",
        "/FLOAT32_ZIP.json",
        "/sprites/none.png",
        "/glyphs/Noto Sans Regular/1-2.pbf",
    )
    error_types = ("application/json",)
    layer = "VECTOR"
