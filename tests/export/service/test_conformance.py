"""The conformance tests of services."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import pytest

from mastaba.api.tools import Application
from mastaba_conformance.services import ServiceTests
from mastaba_export.service.service import ExportService

_DIRECTORY = TemporaryDirectory()


class TestExportService(ServiceTests):
    thorough = ("test_many_threads",)
    service_class = ExportService
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

    @pytest.fixture(scope="class")
    @classmethod
    def application(cls, open_application: Callable[..., Application]) -> Application:
        """The tested server; the switch of layers is off by default."""
        return open_application(cls.settings, {"export": {"enabled": True}})
