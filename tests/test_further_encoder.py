"""The encoder of another distribution: all services offer its format, and answer in it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from PIL import features
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba import hookimpl
from mastaba.errors import ConfigurationError
from mastaba.plugins.manager import Plugins
from mastaba.wsgi import create_application
from mastaba_render.encoding.bil import BilEncoder

EXAMPLE = Path(__file__).resolve().parent.parent / "examples/avif/src"
AVIF = "image/avif"
SERVICES = ["wms", "wmts", "tms", "ogcapi", "viewer"]
GET_MAP = "VERSION=1.3.0&REQUEST=GetMap&LAYERS=RGB_RAW&STYLES=&CRS=EPSG:3857&WIDTH=64&HEIGHT=64"
BBOX = "0,0,5000000,5000000"
IN_DEGREES = "bbox=0,0,40,40&width=64&height=64"
GET_TILE = "VERSION=1.0.0&REQUEST=GetTile&LAYER=RGB_RAW&STYLE=normal&TILEMATRIXSET=PM"

pytestmark = pytest.mark.skipif(not features.check("avif"), reason="Pillow has no AVIF")


@pytest.fixture(scope="module")
def plugins() -> Iterator[Plugins]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLE))
        yield Plugins(extra={"avif": import_module("mastaba_avif")})


def installed(folder: Path, formats: dict[str, Any]) -> str:
    return str(tiny_installation(folder, services=SERVICES, services_overrides={"global": formats}))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, plugins: Plugins) -> Client:
    """Return a client of a server whose only pictures are AVIF."""
    formats = {"map": {"formats": [AVIF]}, "tile": {"formats": [AVIF]}}
    server_json = installed(tmp_path_factory.mktemp("avif"), formats)
    return Client(create_application(server_json, plugins))


@pytest.mark.parametrize(
    "address",
    [
        f"/wms?SERVICE=WMS&{GET_MAP}&BBOX={BBOX}&FORMAT={AVIF}",
        f"/wmts?SERVICE=WMTS&{GET_TILE}&TILEMATRIX=3&TILEROW=2&TILECOL=4&FORMAT={AVIF}",
        "/wmts/1.0.0/RGB_RAW/normal/PM/3/2/4.avif",
        "/tms/1.0.0/RGB_RAW/3/4/2.avif",
        "/ogcapi/collections/RGB_RAW/map/tiles/PM/3/2/4?f=avif",
        f"/ogcapi/collections/RGB_RAW/map?f=avif&{IN_DEGREES}",
        f"/ogcapi/map?collections=RGB_RAW&f=avif&{IN_DEGREES}",
    ],
)
def test_it_is_answered(client: Client, address: str) -> None:
    response = client.get(address)
    assert (response.status_code, response.content_type) == (200, AVIF), response.data
    assert response.headers["Content-Disposition"] == 'inline; filename="image.avif"'
    assert response.data[4:12] == b"ftypavif"


@pytest.mark.parametrize(
    ("address", "offer"),
    [
        ("/wms?SERVICE=WMS&REQUEST=GetCapabilities", "<Format>image/avif</Format>"),
        ("/wmts?SERVICE=WMTS&REQUEST=GetCapabilities", "<Format>image/avif</Format>"),
        ("/ogcapi/collections/RGB_RAW/map/tiles/PM?f=json", "f=avif"),
        ("/ogcapi/collections/RGB_RAW?f=json", AVIF),
        ("/ogcapi/api?f=json", '"avif"'),
        ("/viewer/RGB_RAW", "image/avif"),
    ],
)
def test_it_is_offered(client: Client, address: str, offer: str) -> None:
    response = client.get(address)
    assert response.status_code == 200, response.data
    assert offer in response.text


def test_tiles_are_pictures(tmp_path: Path) -> None:
    class GridEncoder(BilEncoder):
        name, media_type, extension = "grid", "application/x-grid", "grid"

    class Plugin:
        @hookimpl
        def register_encoders(self) -> list[type[BilEncoder]]:
            return [GridEncoder]

    server_json = installed(tmp_path, {"tile": {"formats": ["application/x-grid"]}})
    with pytest.raises(ConfigurationError, match="is not a format of pictures"):
        create_application(server_json, Plugins(extra={"grid": Plugin()}))
