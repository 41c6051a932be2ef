"""The conformance tests of services."""

from __future__ import annotations

from mastaba_conformance.services import ServiceTests
from mastaba_wms.service import WMSService

_MAP = (
    "?service=WMS&version=1.3.0&request=GetMap&layers=RGB_PNG&styles=&crs=EPSG:3857"
    "&bbox=-10000000,0,0,10000000&width=64&height=64&format=image/png"
)


class TestWMSService(ServiceTests):
    service_class = WMSService
    paths = ("?service=WMS&request=GetCapabilities", _MAP)
    invalid_paths = (
        "?service=WMS&request=None",
        _MAP.replace("RGB_PNG", "none"),
        _MAP.replace("width=64", "width=x"),
        _MAP.replace("bbox=-10000000", "bbox=nan"),
    )
    error_types = ("text/xml", "application/vnd.ogc.se_xml")
    layer = "RGB_PNG"
