"""The conformance tests of services."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from mastaba_conformance.services import ServiceTests
from mastaba_export.service.service import ExportService

_DIRECTORY = TemporaryDirectory()


class TestExportService(ServiceTests):
    thorough = ("test_many_threads",)
    service_class = ExportService
    layer_settings: ClassVar = {"export": {"enabled": True}}
    settings: ClassVar = {"directory": str(Path(_DIRECTORY.name, "export"))}
    paths = (
        "",
        "/conformance",
        "/api",
        "/processes",
        "/processes/export-coverage",
        "/processes/export-tiles",
        "/jobs",
        "/jobs?limit=5",
    )
    invalid_paths = (
        "/processes/none",
        "/processes/export-tiles/execution",
        "/jobs/none",
        f"/jobs/{'0' * 32}",
        f"/jobs/{'0' * 32}/results",
        f"/jobs/{'0' * 32}/files/x.tif",
        "/jobs?limit=x",
        "/api?f=pdf",
    )
    error_types = ("application/problem+json",)
    layer = "FLOAT32_ZIP"
    posts = tuple(
        (
            f"/processes/{process}/{action}",
            "application/json",
            b'{"inputs": {"layer": "%s"}}' % name,
        )
        for process, action, name in (
            ("export-coverage", "estimate", b"FLOAT32_ZIP"),
            ("export-coverage", "execution", b"FLOAT32_ZIP"),
        )
    )
