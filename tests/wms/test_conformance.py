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
    doors = (
        _MAP.replace("layers=RGB_PNG", "layers=RGB_JPG,RGB_PNG").replace("styles=", "styles=,"),
        "?service=WMS&version=1.3.0&request=GetLegendGraphic&layer=RGB_PNG&format=image/png",
        f"{_MAP.replace('GetMap', 'GetFeatureInfo')}&query_layers=RGB_PNG&i=1&j=1"
        "&info_format=application/json",
        "?service=WMS&version=1.1.1&request=GetCapabilities",
        _MAP.replace("RGB_PNG", "none") + "&exceptions=INIMAGE",
    )
    error_types = ("text/xml", "application/vnd.ogc.se_xml")
    layer = "RGB_PNG"
