"""A hidden layer behind the doors of the services that have no conformance tests of their own."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from mastaba.services.health import HealthService
from mastaba_access.auth.service import AuthService
from mastaba_admin.service import AdminService
from mastaba_conformance.services import HidingTests
from mastaba_metrics.service import MetricsService
from mastaba_usage.service import UsageService
from mastaba_viewer.service import Viewer

_DIRECTORY = TemporaryDirectory()


class TestViewer(HidingTests):
    service_class = Viewer
    hidden_layer = "RGB_PNG"
    paths = ("", "/RGB_PNG", "/data/layers/RGB_PNG.json")
    invalid_paths = ("/none", "/RGB_PNG/none")
    doors = (
        "?lang=fr",
        "/RGB_JPG",
        "/compare/RGB_JPG/RGB_PNG",
        "/data/stored/RGB_PNG/PM/3/2/4",
        "/data/requests/RGB_PNG",
    )


class TestHealth(HidingTests):
    service_class = HealthService
    hidden_layer = "RGB_PNG"
    paths = ("/live", "/ready")
    doors = ("", "/info", "/depends", "/threads")


class TestMetrics(HidingTests):
    service_class = MetricsService
    hidden_layer = "RGB_PNG"
    paths = ("",)


class TestUsage(HidingTests):
    service_class = UsageService
    hidden_layer = "RGB_PNG"
    paths = ("",)
    doors = ("?by=layer", "?where=layer=RGB_PNG")
    server_settings: ClassVar = {"plugins": {"usage": {"directory": str(Path(_DIRECTORY.name))}}}


class TestAdmin(HidingTests):
    service_class = AdminService
    settings: ClassVar = {"secret": "unknown to the client"}
    hidden_layer = "RGB_PNG"
    paths = ()
    doors = ("", "/layers/RGB_PNG", "/layers")


class TestAuth(HidingTests):
    service_class = AuthService
    hidden_layer = "RGB_PNG"
    # The gate of the kit takes the place of these rules.
    server_settings: ClassVar = {"plugins": {"access": {"rules": "rules.json"}}}
    paths = ()
    doors = ("", "/check", "/check/wmts/1.0.0/RGB_PNG/normal/PM/3/2/4.png", "/session", "/sign")
