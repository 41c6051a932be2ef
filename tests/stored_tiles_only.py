"""Serves an installation without mastaba-render, and prints what it answers, as JSON.

usage: python stored_tiles_only.py SERVER.JSON [hidden]; ``hidden`` if mastaba-render is installed
"""

import json
import sys
from importlib.metadata import entry_points
from wsgiref.util import setup_testing_defaults

if sys.argv[2:] == ["hidden"]:
    sys.modules["mastaba_render"] = None  # type: ignore[assignment]

from mastaba.api.tools import Plugins, create_application

NEEDED = {"wmts", "tms"}
WMTS = (
    "/wmts?SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetTile&LAYER=RGB_PNG&STYLE=normal"
    "&TILEMATRIXSET={}&TILEMATRIX={}&TILEROW=2&TILECOL=4&FORMAT={}"
)
ADDRESSES = {
    "stored": WMTS.format("PM", 3, "image/png"),
    "other set": WMTS.format("4326", 3, "image/png"),
    "other format": WMTS.format("PM", 3, "image/jpeg"),
    "capabilities": "/wmts?SERVICE=WMTS&REQUEST=GetCapabilities",
    "tms stored": "/tms/1.0.0/RGB_PNG/3/4/2.png",
    "tms other set": "/tms/1.0.0/RGB_PNG@4326/3/4/2.png",
    "tms other format": "/tms/1.0.0/RGB_PNG/3/4/2.jpg",
    "tms list": "/tms/1.0.0",
}


def main() -> None:
    installed = {point.name for point in entry_points(group="mastaba")}
    application = create_application(sys.argv[1], Plugins(installed - NEEDED))
    answers = {}
    for name, address in ADDRESSES.items():
        path, _, query = address.partition("?")
        environ = {"PATH_INFO": path, "QUERY_STRING": query}
        setup_testing_defaults(environ)
        heads: list[str] = []
        body = b"".join(application(environ, lambda *head, heads=heads: heads.append(head[0])))
        answers[name] = [heads[0], body.decode("latin-1")]
    loaded = {name.partition(".")[0] for name, module in sys.modules.items() if module}
    print(json.dumps({"answers": answers, "loaded": sorted(loaded)}))


main()
