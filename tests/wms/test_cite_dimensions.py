"""The checks of the dimension groups of the WMS 1.3.0 suite, one by one (docs/conformance.md)."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lxml import etree
from numpy.typing import NDArray
from PIL import Image
from tests.wms.cite_layers import AUTOS, write
from werkzeug.test import Client, TestResponse

OpenClient = Callable[[Path], Client]
WMS = "{http://www.opengis.net/wms}"
TIMES = tuple(AUTOS)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient) -> Client:
    return open_client(write(tmp_path_factory.mktemp("cite")))


def ask(client: Client, layers: str, box: str, size: tuple[int, int], **more: str) -> TestResponse:
    query = {
        "ReQuEsT": "GetMap",
        "VeRsIoN": "1.3.0",
        "StYlEs": "",
        "FoRmAt": "image/png",
        "LaYeRs": layers,
        "CrS": "CRS:84",
        "BbOx": box,
        "WiDtH": str(size[0]),
        "HeIgHt": str(size[1]),
        **more,
    }
    return client.get("/wms", query_string=query)


def picture(response: TestResponse, mode: str) -> NDArray[np.uint8]:
    assert response.status_code == 200, response.text
    return np.asarray(Image.open(io.BytesIO(response.data)).convert(mode))


def window(image: NDArray[Any], x: int, y: int, width: int, height: int) -> NDArray[Any]:
    return image[y : y + height, x : x + width]


def code_of(response: TestResponse) -> str:
    (error,) = etree.fromstring(response.data).iter("{http://www.opengis.net/ogc}ServiceException")
    code: str = error.get("code")
    return code


def dimension(client: Client, layer: str) -> tuple[dict[str, str], str]:
    """Return attributes and extent of the only dimension of a layer."""
    text = client.get("/wms?SERVICE=WMS&REQUEST=GetCapabilities&VERSION=1.3.0").data
    for element in etree.fromstring(text).iter(f"{WMS}Layer"):
        if element.findtext(f"{WMS}Title") == layer:
            (found,) = element.findall(f"{WMS}Dimension")
            return dict(found.attrib), f",{found.text},"
    raise AssertionError(layer)


# ---------------------------------------------------------------- raster_elevation


def transparent(client: Client, **more: str) -> NDArray[np.bool_]:
    response = ask(
        client, "cite:Terrain", "-0.5,-0.5,0.5,0.5", (600, 600), TrAnSpArEnT="TRUE", **more
    )
    return picture(response, "RGBA")[:, :, 3] == 0


def test_declaration_of_terrain(client: Client) -> None:
    found, extent = dimension(client, "cite:Terrain")
    assert (found["units"], found["unitSymbol"]) == ("CRS:88", "m")
    assert (found["multipleValues"], found["nearestValue"]) == ("1", "0")
    assert ",0/425/1," in extent


HIGH, LOW = (0, 0, 150, 150), (450, 450, 150, 150)


@pytest.mark.parametrize(
    ("text", "high", "low", "everywhere"),
    [
        ("0/200", 22_500, 0, 337_500),
        ("200/335", 22_500, 22_500, 45_000),
        ("335/425", 0, 22_500, 337_500),
        ("0/200,335/425", 0, 0, 315_000),
    ],
)
def test_ranges_of_terrain(client: Client, text: str, high: int, low: int, everywhere: int) -> None:
    hidden = transparent(client, ElEvAtIoN=text)
    for expected, where in ((high, HIGH), (low, LOW), (everywhere, (0, 0, 600, 600))):
        assert window(hidden, *where).sum() == expected


def test_values_of_terrain(client: Client) -> None:
    hidden = transparent(client, ElEvAtIoN="0/200,250")
    assert window(hidden, *HIGH).sum() == 22_500
    assert window(hidden, *LOW).sum() == 0
    assert 22_500 < hidden.sum() < 337_500
    assert 45_000 < transparent(client, ElEvAtIoN="250").sum() < 360_000
    box, size = "-0.5,-0.5,0.5,0.5", (600, 600)
    invalid = ask(client, "cite:Terrain", box, size, ElEvAtIoN="1000")
    assert code_of(invalid) == "InvalidDimensionValue"
    default = ask(client, "cite:Terrain", box, size, TrAnSpArEnT="TRUE")
    assert default.headers["Warning"].startswith("99 Default value used: elevation=0/425")
    assert (picture(default, "RGBA")[:, :, 3] > 0).any()
    both = ask(client, "cite:BasicPolygons,cite:Terrain", "-1,-1,1,1", size, ElEvAtIoN="0/425")
    picture(both, "RGB")


# ---------------------------------------------------------------- vector_elevation

LAKE_BOX, LAKE_SIZE = "0,-0.002,0.004,0", (200, 100)
# White windows, and windows without white, of each elevation.
LAKES = {
    "480": ([(0, 0, 50, 100), (100, 0, 100, 100)], [(65, 35, 10, 30)]),
    "490": (
        [(0, 0, 40, 100), (100, 0, 100, 50), (130, 50, 70, 50)],
        [(60, 30, 15, 45), (60, 60, 60, 10)],
    ),
    "500": ([(0, 0, 20, 100), (170, 0, 30, 100)], [(50, 30, 35, 50), (85, 55, 55, 20)]),
}


def test_declaration_of_lakes(client: Client) -> None:
    found, extent = dimension(client, "cite:Lakes")
    assert (found["units"], found["unitSymbol"], found["default"]) == ("CRS:88", "m", "500")
    assert (found["multipleValues"], found["nearestValue"]) == ("0", "1")
    assert all(f",{text}," in extent for text in ("500", "490", "480"))


@pytest.mark.parametrize(
    ("text", "shown", "warning"),
    [
        ("480", "480", None),
        ("490", "490", None),
        ("500", "500", None),
        ("492", "490", "99 Nearest value used: elevation=490"),
        (None, "500", "99 Default value used: elevation=500"),
    ],
)
def test_elevations_of_lakes(
    client: Client, text: str | None, shown: str, warning: str | None
) -> None:
    more = {} if text is None else {"ElEvAtIoN": text}
    response = ask(client, "cite:Lakes", LAKE_BOX, LAKE_SIZE, **more)
    white = (picture(response, "RGB") == 255).all(axis=2)
    around, inside = LAKES[shown]
    assert all(window(white, *one).all() for one in around)
    assert not any(window(white, *one).any() for one in inside)
    found = response.headers.get("Warning")
    assert found is None if warning is None else found.startswith(warning)


def test_several_elevations_of_lakes(client: Client) -> None:
    response = ask(client, "cite:Lakes", LAKE_BOX, LAKE_SIZE, ElEvAtIoN="500,480")
    assert code_of(response) == "InvalidDimensionValue"
    both = ask(client, "cite:BasicPolygons,cite:Lakes", LAKE_BOX, LAKE_SIZE, ElEvAtIoN="480")
    picture(both, "RGB")


# ---------------------------------------------------------------- time

AUTO_BOX, AUTO_SIZE = "-0.0042,-0.0024,0.0042,0.0024", (420, 240)


def corner(place: tuple[float, float]) -> tuple[int, int]:
    """Return the upper left pixel of the window of 10 x 10 pixels around a car."""
    return round((place[0] + 0.0042) / 2e-5) - 5, round((0.0024 - place[1]) / 2e-5) - 5


# Two cars have one place, and one is at the border of the map, beyond which the suite looks too.
WINDOWS = tuple(dict.fromkeys(corner(place) for places in AUTOS.values() for place in places))


def seconds(first: int, last: int) -> tuple[str, ...]:
    return TIMES[first // 5 : last // 5 + 1]


def check_autos(client: Client, text: str, times: Iterable[str]) -> None:
    response = ask(client, "cite:Autos", AUTO_BOX, AUTO_SIZE, TiMe=text)
    white = (picture(response, "RGB") == 255).all(axis=2)
    expected = {corner(place) for time in times for place in AUTOS[time]}
    found = {one for one in WINDOWS if not window(white, *one, 10, 10).all()}
    assert found == expected


def test_declaration_of_autos(client: Client) -> None:
    found, extent = dimension(client, "cite:Autos")
    assert found["units"] == "ISO8601"
    assert (found["multipleValues"], found["nearestValue"]) == ("1", "1")
    assert ",2000-01-01T00:00:00Z/2000-01-01T00:01:00Z/PT5S," in extent
    assert len(WINDOWS) == 18


@pytest.mark.parametrize("time", TIMES)
def test_each_instant_of_autos(client: Client, time: str) -> None:
    check_autos(client, time, [time])


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("{50}/{60}", seconds(50, 60)),
        ("{0},{50}/{60}", (*seconds(0, 0), *seconds(50, 60))),
        ("{0}/{10},{50}/{60}", (*seconds(0, 10), *seconds(50, 60))),
        ("{0},{60}", (*seconds(0, 0), *seconds(60, 60))),
    ],
)
def test_intervals_and_lists_of_autos(client: Client, text: str, times: tuple[str, ...]) -> None:
    for second in (60, 50, 10, 0):
        text = text.replace(f"{{{second}}}", TIMES[second // 5])
    check_autos(client, text, times)


def test_default_of_autos_and_other_layers(client: Client) -> None:
    default = dimension(client, "cite:Autos")[0]["default"]
    response = ask(client, "cite:Autos", AUTO_BOX, AUTO_SIZE)
    assert response.headers["Warning"].startswith(f"99 Default value used: time={default}")
    layers = "cite:Lakes,cite:Autos,cite:BasicPolygons"
    picture(ask(client, layers, AUTO_BOX, AUTO_SIZE, TiMe=TIMES[6]), "RGB")


# ---------------------------------------------------------------- recommended


def test_recommendations(client: Client) -> None:
    """Those that concern layers; provider and formats are in other tests."""
    text = client.get("/wms?SERVICE=WMS&REQUEST=GetCapabilities&VERSION=1.3.0").data
    root = etree.fromstring(text)
    named = [one for one in root.iter(f"{WMS}Layer") if one.find(f"{WMS}Name") is not None]
    assert len(named) >= 4
    for layer in named:
        assert layer.findtext(f"{WMS}Abstract")
        assert layer.find(f"{WMS}KeywordList") is not None
        codes = {one.text for one in layer.iter(f"{WMS}CRS")}
        codes |= {one.text for one in root.find(f".//{WMS}Layer").findall(f"{WMS}CRS")}
        assert codes & {"CRS:84", "EPSG:4326"}
    for one in root.iter(f"{WMS}Dimension"):
        assert " " not in one.get("name")
        assert one.get("default")
