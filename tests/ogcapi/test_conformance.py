"""The conformance tests of services."""

from __future__ import annotations

from mastaba_conformance.services import ServiceTests
from mastaba_ogcapi.service import OGCAPIService


class TestOGCAPIService(ServiceTests):
    service_class = OGCAPIService
    paths = (
        "",
        "/collections?f=json",
        "/collections/RGB_PNG?f=json",
        "/collections/RGB_PNG/map/tiles/PM/3/2/4?f=png",
        "/collections/RGB_PNG/map/tiles/PM/3/2/4",
    )
    invalid_paths = ("/collections/none?f=json", "/collections/RGB_PNG/map/tiles/PM/3/x/4")
    doors = (
        "/api?f=json",
        "/collections?f=html",
        "/map?collections=RGB_PNG,RGB_JPG&f=png",
        "/collections/RGB_PNG/map?f=png",
        "/collections/RGB_PNG/map/tiles?f=json",
    )
    error_types = ("application/json", "application/problem+json")
    layer = "RGB_PNG"
    ignores_unknown_parameters = False
