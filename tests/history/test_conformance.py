"""The conformance tests of services."""

from __future__ import annotations

from mastaba_conformance.services import ServiceTests
from mastaba_history.service import HistoryService


class TestHistoryService(ServiceTests):
    service_class = HistoryService
    paths = ("", "/RGB_PNG", "/feed.atom", "/feed.json", "/RGB_PNG/feed.atom")
    invalid_paths = (
        "/none",
        "/RGB_PNG/at",
        "/RGB_PNG/0123456789ab",
        "/RGB_PNG/changes/a..b",
        "/RGB_PNG/a/b",
        "/feed.atom?since=yesterday",
    )
    error_types = ("application/problem+json",)
    layer = "RGB_PNG"
