from mastaba_conformance.services import ServiceTests
from mastaba_slippy_tiles.service import SlippyTiles


class TestSlippyTiles(ServiceTests):
    service_class = SlippyTiles
    settings = {"max_zoom": 8}
    paths = ("", "/RGB_PNG/3/4/2.png", "/RGB_JPG/4/8/5.png")  # answered with 200
    invalid_paths = ("/a", "/RGB_PNG/3/x/2.png", "/RGB_PNG/3/99/2.png", "/RGB_PNG/9/0/0.png")
    error_types = ("text/plain",)  # media types of error reports
    layer = "RGB_PNG"  # must no longer be answered when it is hidden
