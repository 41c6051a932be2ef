"""Installations that the tests of WMS ask for maps and documents, and readers of the answers."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lxml import etree
from numpy.typing import NDArray
from PIL import Image
from werkzeug.test import Client, TestResponse

from mastaba_conformance.serving import running
from mastaba_conformance.tiny_installation import tiny_float_tile, tiny_integer_tile
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import geographic, web_mercator

PUBLIC_URL = "http://maps.example"
NAMESPACES = {
    "wms": "http://www.opengis.net/wms",
    "ogc": "http://www.opengis.net/ogc",
    "xlink": "http://www.w3.org/1999/xlink",
    "xsi": "http://www.w3.org/2001/XMLSchema-instance",
    "inspire_common": "http://inspire.ec.europa.eu/schemas/common/1.0",
    "inspire_vs": "http://inspire.ec.europa.eu/schemas/inspire_vs/1.0",
}
FORMATS = [
    "image/png",
    "image/jpeg",
    "image/tiff",
    "image/geotiff",
    "image/x-bil;bits=32",
    "text/asc",
]
LEVELS = [LevelPlan("2", 1, 1, 2, 2), LevelPlan("3", 2, 3, 4, 5), LevelPlan("4", 4, 7, 8, 11)]
NODATA = -99999.0

OpenClient = Callable[[Path], Client]
Find = Callable[..., list[Any]]
Answer = tuple[int, dict[str, str], bytes]
Upstream = Callable[[Callable[[str], Answer]], AbstractContextManager[str]]

STEPS = [
    {"value": value, "red": red, "green": green, "blue": 0, "alpha": alpha}
    for value, red, green, alpha in ((0, 0, 128, 0), (3000, 255, 255, 128), (4500, 255, 0, 255))
]


def install(directory: Path, public_url: str = PUBLIC_URL, **services: Any) -> Path:
    """Write the installation of most tests and return its server.json.

    Layers: ``ground`` (RGB), ``grey`` (styles normal and ember), ``cover`` (RGBA), ``heights``
    (floats, styles normal and steps; level 4 lacks tiles), ``geo`` (EPSG:4326), ``a & b's {é}``
    (texts that XML cannot take as they are), ``hidden`` (not in WMS), ``vector``; ``inspired``
    and ``OI.OrthoimageCoverage`` meet the conditions of INSPIRE, ``EL.Almost`` does not.
    """

    def pyramid(name: str, format: str, channels: int, tile: Any, **options: Any) -> Path:
        settings: dict[str, Any] = {
            "tile_matrix_set": web_mercator(),
            "format": format,
            "channels": channels,
            "levels": LEVELS,
            "tile": tile,
        } | options
        return write_pyramid(directory / "pyramids", name, **settings)

    def heights(level: str, row: int, col: int) -> Any:
        return None if level == "4" and (row, col) == (5, 9) else tiny_float_tile(level, row, col)

    ground = pyramid("ground", "TIFF_PNG_UINT8", 3, tiny_integer_tile(3))
    grey = pyramid("grey", "TIFF_RAW_UINT8", 1, tiny_integer_tile(1))
    record = {"format": "application/xml", "type": "ISO19115:2003", "url": "http://r.example/?a&b"}
    logo = {"format": "image/png", "url": "http://l.example/", "width": 20, "height": 10}
    queryable = {"get_feature_info": {"type": "PYRAMID"}}
    odd = {
        "title": "<T & \x01>",
        "abstract": 'A "quoted" text',
        "keywords": ["k<1>", "k&2"],
        "metadata": [record | {"type": "two words"}],
    }
    layers: dict[str, Any] = {
        "ground": layer_document(
            ground,
            abstract="The ground",
            keywords=["rgb", "ground"],
            metadata=[record],
            attribution={"title": "Owner & Co", "url": "http://o.example/", "logo": logo},
            extra_crs=["EPSG:32637", "EPSG:5070", "EPSG:3035", "IGNF:WGS84G", "EPSG:4326"],
            resampling="bicubic",
            **queryable,
        ),
        "grey": layer_document(grey, styles=["normal", "ember"], resampling="linear", **queryable),
        "cover": layer_document(pyramid("cover", "TIFF_PNG_UINT8", 4, tiny_integer_tile(4))),
        "heights": layer_document(
            pyramid("heights", "TIFF_ZIP_FLOAT32", 1, heights, nodata=[NODATA]),
            styles=["normal", "steps"],
            **queryable,
        ),
        "geo": layer_document(
            pyramid(
                "geo",
                "TIFF_PNG_UINT8",
                3,
                tiny_integer_tile(3),
                levels=[LevelPlan("3", 2, 3, 4, 5)],
                tile_matrix_set=geographic(),
            ),
            resampling="nn",
        ),
        "a & b's {é}": layer_document(ground, **odd),
        "hidden": layer_document(ground, wms={"enabled": False}),
        "inspired": layer_document(ground, styles=["default_style"], keywords=["Elevation"]),
        "OI.OrthoimageCoverage": layer_document(ground, styles=["ortho"], keywords=["Orthoimage"]),
        "EL.Almost": layer_document(ground, styles=["default_style"], keywords=["Elevation"]),
        "plain": layer_document(ground, styles=["default_style"]),
    }

    def style(identifier: str, **further: Any) -> dict[str, Any]:
        texts = {"title": f"The style {identifier}", "abstract": "", "keywords": []}
        return {"identifier": identifier} | texts | further

    legend = {
        "format": "image/png",
        "url": "http://maps.example/l.png?a&b",
        "width": 20,
        "height": 30,
        "min_scale_denominator": 0,
        "max_scale_denominator": 0,
    }
    steps = {
        "no_alpha": False,
        "rgb_continuous": False,
        "alpha_continuous": False,
        "colours": STEPS,
    }
    overrides = {
        "global": {
            "provider": "P & Q",
            "site": "http://p.example/",
            "contact": {"name": "N", "position": "Chief", "city": "C", "email": "e@p.example"},
            "map": {
                "formats": FORMATS,
                "crs": ["EPSG:3857"],
                "limits": {"layers_count": 3, "width": 1024, "height": 768, "tile_x": 3},
            },
        },
        "wms": {
            "title": "Maps & more",
            "abstract": "About",
            "keywords": ["one", "two"],
            "metadata": {"format": "text/xml", "type": "simple", "url": "http://r.example/"},
            "root_layer": {"title": "Everything", "abstract": "All there is"},
        },
    }
    overrides["global"] |= services.pop("general", {})
    return write_installation(
        directory,
        layers=layers | services.pop("layers", {}),
        services=["wms"],
        public_url=public_url,
        styles={
            "default_style": style("DEFAULT"),
            "ortho": style("OI.OrthoimageCoverage.Default", legend=legend),
            "steps": style("steps", palette=steps),
        },
        services_overrides=overrides,
    )


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient) -> Client:
    return open_client(install(tmp_path_factory.mktemp("wms")))


@pytest.fixture(scope="session")
def install_at() -> Callable[[Path, str], Path]:
    """Return a function that writes the installation of most tests for a public address."""
    return install


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> Upstream:
    """Return a function that serves what a function makes of each path; it gives the URL."""
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")

    @contextmanager
    def serve(answer: Callable[[str], Answer]) -> Iterator[str]:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, headers, body = answer(self.path)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        with running(server):
            yield f"http://127.0.0.1:{server.server_port}"

    return serve


@pytest.fixture(scope="session")
def find() -> Find:
    """Return a function that evaluates XPath on an answer, with the usual prefixes."""

    def evaluate(response: TestResponse, path: str) -> list[Any]:
        result = etree.fromstring(response.data).xpath(path, namespaces=NAMESPACES)
        return result if isinstance(result, list) else [result]

    return evaluate


@pytest.fixture(scope="session")
def fault(find: Find) -> Callable[[TestResponse], tuple[int, str, str | None]]:
    """Return a function that reads status, code and locator of an exception report of 1.3.0."""

    def read(response: TestResponse) -> tuple[int, str, str | None]:
        assert response.headers["Content-Type"] == "text/xml"
        assert find(response, "name(/*)") == ["ServiceExceptionReport"]
        assert find(response, "string(/*/@version)") == ["1.3.0"]
        (exception,) = find(response, "/ogc:ServiceExceptionReport/ogc:ServiceException")
        assert exception.text
        return response.status_code, exception.get("code"), exception.get("locator")

    return read


@pytest.fixture(scope="session")
def image() -> Callable[[TestResponse], NDArray[Any]]:
    """Return a function that reads a picture; shape (rows, columns, channels)."""

    def read(response: TestResponse) -> NDArray[Any]:
        assert response.status_code == 200, response.text
        with Image.open(io.BytesIO(response.data)) as picture:
            picture.load()
            pixels = np.asarray(picture)
        return pixels if pixels.ndim == 3 else pixels[:, :, np.newaxis]

    return read


def query_of(defaults: dict[str, str | None], changes: dict[str, Any]) -> dict[str, str]:
    parameters = defaults | changes
    return {name: str(value) for name, value in parameters.items() if value is not None}


@pytest.fixture(scope="session")
def map_query() -> Callable[..., dict[str, str]]:
    """Return a function that makes the parameters of a map; those given as None are left out."""

    def query(**changes: Any) -> dict[str, str]:
        defaults: dict[str, str | None] = {
            "SERVICE": "WMS",
            "VERSION": "1.3.0",
            "REQUEST": "GetMap",
            "LAYERS": "ground",
            "STYLES": "",
            "CRS": "EPSG:3857",
            "BBOX": "2600000,3000000,3400000,3600000",
            "WIDTH": "80",
            "HEIGHT": "60",
            "FORMAT": "image/png",
        }
        return query_of(defaults, changes)

    return query


@pytest.fixture(scope="session")
def info_query(map_query: Callable[..., dict[str, str]]) -> Callable[..., dict[str, str]]:
    """Return a function that makes the parameters of GetFeatureInfo."""

    def query(**changes: Any) -> dict[str, str]:
        layers = changes.get("LAYERS", "ground")
        defaults: dict[str, Any] = {
            "REQUEST": "GetFeatureInfo",
            "QUERY_LAYERS": layers,
            "INFO_FORMAT": "text/plain",
            "I": "10",
            "J": "20",
        }
        return map_query(**(defaults | changes))

    return query
