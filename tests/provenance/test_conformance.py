"""The conformance tests of services, with hidden and locked layers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from mastaba_conformance.services import ServiceTests
from mastaba_conformance.services.kit import tiny_layers
from mastaba_provenance.service import ProvenanceService


class TestProvenanceService(ServiceTests):
    service_class = ProvenanceService
    layer_settings: ClassVar[dict[str, Any]] = {}
    paths = (
        "",
        "/RGB_PNG",
        "/RGB_PNG/at?lon=2&lat=48",
        "/RGB_PNG/view?bbox=1,47,3,49",
        "/RGB_PNG/sources",
        "/RGB_PNG/sources.geojson",
        "/RGB_PNG/sources.csv",
        "/RGB_PNG/attribution.json",
    )
    invalid_paths = (
        "/none",
        "/none/at?lon=2&lat=48",
        "/RGB_PNG/none",
        "/RGB_PNG/at",
        "/RGB_PNG/view?bbox=1,47,3",
        "/RGB_PNG/sources?limit=1000000",
    )
    error_types = ("application/problem+json",)
    layer = "RGB_PNG"

    @pytest.fixture(scope="module", autouse=True)
    @classmethod
    def table(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        """Write a table of sources beside the pyramid of heights, which are their numbers."""
        document = tiny_layers(tmp_path_factory)["FLOAT32_ZIP"]
        descriptor = Path(document["pyramids"][0]["path"])
        row = {"number": 1, "id": "a.tif", "pixels": 5, "box": [1, 47, 3, 49], "date": "2023"}
        table = {"version": 1, "pyramid": descriptor.name, "next": 2, "sources": [row]}
        path = descriptor.with_name("tiny.sources.json")
        path.write_text(json.dumps(table))
        cls.layer_settings["provenance"] = str(path)
