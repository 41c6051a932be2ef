"""Installations that the tests of WMTS ask for tiles and documents, and readers of the answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lxml import etree
from tests.tiny import tiny_installation
from werkzeug.test import Client, TestResponse

from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import geographic, web_mercator

PUBLIC_URL = "http://maps.example"
NAMESPACES = {
    "wmts": "http://www.opengis.net/wmts/1.0",
    "ows": "http://www.opengis.net/ows/1.1",
    "xlink": "http://www.w3.org/1999/xlink",
}

OpenClient = Callable[[Path], Client]
Find = Callable[..., list[Any]]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient) -> Client:
    """Return a client of the tiny installation."""
    directory = tmp_path_factory.mktemp("tiny")
    return open_client(tiny_installation(directory, services=["wmts"], public_url=PUBLIC_URL))


@pytest.fixture(scope="module")
def rich_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return server.json of an installation with the special cases of capabilities and tiles.

    Layers: ``world`` fills every matrix, ``gap`` lacks level 3 of 2 to 4 and all of row 2,
    ``geo`` is in EPSG:4326, ``tints`` has palettes, ``heights`` has a palette only and stores
    numbers, ``a & b's {é}`` has texts that XML cannot take as they are, ``hidden`` is not in
    WMTS, ``inspired`` meets the conditions of INSPIRE.
    """
    directory = tmp_path_factory.mktemp("rich")
    pixels = np.zeros((256, 256, 1), np.uint8)
    floats = np.zeros((256, 256, 1), np.float32)

    def pyramid(name: str, levels: list[LevelPlan], **options: Any) -> Path:
        settings: dict[str, Any] = {
            "tile_matrix_set": web_mercator(),
            "format": "TIFF_PNG_UINT8",
            "channels": 1,
            "levels": levels,
            "tile": lambda level, row, col: pixels,
        } | options
        return write_pyramid(directory / "pyramids", name, **settings)

    small = [LevelPlan("2", 1, 1, 2, 2), LevelPlan("3", 2, 3, 4, 5)]
    plain = pyramid("plain", small)
    gap = pyramid(
        "gap",
        [LevelPlan("2", 1, 1, 2, 2), LevelPlan("4", 5, 7, 9, 10)],
        tile=lambda level, row, col: None if row == 6 else pixels,
        tiles_per_width=1,
        tiles_per_height=1,
    )
    record = {"format": "application/xml", "type": "ISO19115:2003", "url": "http://r.example/?a&b"}
    texts = {"title": "<T & \x01>", "abstract": 'A "quoted" text', "keywords": ["k<1>", "k&2"]}
    layers: dict[str, Path | dict[str, Any]] = {
        "world": pyramid("world", [LevelPlan("0", 0, 0, 0, 0), LevelPlan("1", 0, 1, 0, 1)]),
        "gap": gap,
        "geo": layer_document(
            pyramid("geo", [LevelPlan("3", 2, 3, 4, 5)], tile_matrix_set=geographic())
        ),
        "tints": layer_document(plain, styles=["ember", "normal"]),
        "heights": layer_document(
            pyramid("heights", small, format="TIFF_RAW_FLOAT32", tile=lambda *_: floats),
            styles=["ember"],
        ),
        "a & b's {é}": layer_document(plain, **texts),
        "hidden": layer_document(plain, wmts={"enabled": False}),
        "inspired": layer_document(plain, keywords=["Elevation"], metadata=[record]),
    }
    matrices = web_mercator()["tileMatrices"]
    legend = {"format": "image/png", "url": "http://maps.example/l.png?a&b", "height": 0}
    denominator = matrices[2]["scaleDenominator"]
    normal = {
        "identifier": "normal",
        "title": "Stored data",
        "abstract": "",
        "keywords": [],
        "legend": legend
        | {"width": 20, "min_scale_denominator": 1234.5, "max_scale_denominator": denominator},
    }
    return write_installation(
        directory,
        layers=layers,
        services=["wmts"],
        public_url=PUBLIC_URL,
        styles={"normal": normal},
        services_overrides={
            "global": {
                "provider": "P & Q",
                "site": "http://p.example/",
                "contact": {"name": "N", "city": "C", "email": "e@p.example"},
            },
            "wmts": {
                "title": "Tiles & more",
                "abstract": "About",
                "keywords": ["one", "two"],
                "metadata": {"format": "text/xml", "type": "simple", "url": "http://r.example/"},
            },
        },
    )


@pytest.fixture(scope="module")
def rich(rich_path: Path, open_client: OpenClient) -> Client:
    return open_client(rich_path)


@pytest.fixture
def find() -> Find:
    """Return a function that evaluates XPath on an answer, with the usual prefixes."""

    def evaluate(response: TestResponse, path: str) -> list[Any]:
        result = etree.fromstring(response.data).xpath(path, namespaces=NAMESPACES)
        return result if isinstance(result, list) else [result]

    return evaluate


@pytest.fixture
def fault(find: Find) -> Callable[[TestResponse], tuple[int, str, list[str | None]]]:
    """Return a function that reads status, code and locators of an exception report."""

    def read(response: TestResponse) -> tuple[int, str, list[str | None]]:
        assert response.headers["Content-Type"] == "text/xml"
        assert find(response, "name(/*)") == ["ows:ExceptionReport"]
        assert find(response, "string(/*/@version)") == ["1.1.0"]
        exceptions = find(response, "/ows:ExceptionReport/ows:Exception")
        assert exceptions
        assert all(exception.findtext("{*}ExceptionText") for exception in exceptions)
        (code,) = {exception.get("exceptionCode") for exception in exceptions}
        return response.status_code, code, [e.get("locator") for e in exceptions]

    return read


@pytest.fixture
def tile_query() -> Callable[..., dict[str, str]]:
    """Return a function that makes the parameters of a tile of the tiny installation.

    Parameters given as None are left out.
    """

    def query(**changes: str | None) -> dict[str, str]:
        parameters: dict[str, str | None] = {
            "SERVICE": "WMTS",
            "VERSION": "1.0.0",
            "REQUEST": "GetTile",
            "LAYER": "RGB_JPG",
            "STYLE": "normal",
            "FORMAT": "image/jpeg",
            "TILEMATRIXSET": "PM",
            "TILEMATRIX": "4",
            "TILEROW": "5",
            "TILECOL": "9",
        } | changes
        return {name: value for name, value in parameters.items() if value is not None}

    return query
