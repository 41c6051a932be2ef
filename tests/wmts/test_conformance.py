"""The conformance tests of services."""

from __future__ import annotations

from mastaba_conformance.services import ServiceTests
from mastaba_wmts.service import WMTSService

_TILE = (
    "?service=WMTS&version=1.0.0&request=GetTile&layer=RGB_PNG&style=normal&tilematrixset=PM"
    "&tilematrix=3&tilerow=2&tilecol=4&format=image/png"
)


class TestWMTSService(ServiceTests):
    service_class = WMTSService
    paths = ("?service=WMTS&request=GetCapabilities", _TILE)
    invalid_paths = (
        "?service=WMTS&request=None",
        _TILE.replace("RGB_PNG", "none"),
        _TILE.replace("tilerow=2", "tilerow=99"),
        _TILE.replace("tilecol=4", "tilecol=x"),
    )
    doors = (
        "/1.0.0/WMTSCapabilities.xml",
        "/1.0.0/RGB_PNG/normal/PM/3/2/4.png",
        f"{_TILE.replace('GetTile', 'GetFeatureInfo')}&i=1&j=1&infoformat=application/json",
    )
    error_types = ("text/xml",)
    layer = "RGB_PNG"
