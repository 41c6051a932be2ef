"""The conformance tests of services, with one of the core."""

from __future__ import annotations

from mastaba.services.health import HealthService
from mastaba_conformance.services import ServiceTests


class TestHealthService(ServiceTests):
    service_class = HealthService
    paths = ("", "/info", "/depends", "/live")
    invalid_paths = ("/nothing",)
    error_types = ("application/json",)
    has_etags = False
