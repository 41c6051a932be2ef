"""EXCEPTIONS=INIMAGE and BLANK (W-39, W-40)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from werkzeug.test import Client, TestResponse

MapQuery = Callable[..., dict[str, str]]
ReadImage = Callable[[TestResponse], NDArray[Any]]
FORMATS = ["image/png", "image/jpeg", "image/tiff", "image/geotiff"]


@pytest.fixture(scope="module")
def ask(client: Client, map_query: MapQuery) -> Callable[..., TestResponse]:
    return lambda **changes: client.get(
        "/wms", query_string=map_query(STYLES="no", WIDTH=300, HEIGHT=100) | changes
    )


Ask = Callable[..., TestResponse]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("way", ["INIMAGE", "BLANK", "inimage", "application/vnd.ogc.se_blank"])
def test_report_has_format_and_size_of_the_map(
    ask: Ask, image: ReadImage, way: str, name: str
) -> None:
    response = ask(EXCEPTIONS=way, FORMAT=name)
    assert response.content_type == name
    assert image(response).shape[:2] == (100, 300)
    assert response.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("name", ["image/x-bil;bits=32", "text/asc"])
def test_report_in_a_format_for_numbers_has_those_of_the_colour(ask: Ask, name: str) -> None:
    response = ask(EXCEPTIONS="BLANK", FORMAT=name, BGCOLOR="0x202020")
    assert response.content_type == name
    if name == "text/asc":
        assert response.text.splitlines()[-1] == " ".join(["32"] * 300)
    else:
        assert (np.frombuffer(response.data, "<f4") == 32).all()


def test_blank_report_is_the_background(ask: Ask, image: ReadImage) -> None:
    assert (image(ask(EXCEPTIONS="BLANK")) == 255).all()
    red = image(ask(EXCEPTIONS="BLANK", BGCOLOR="0xFF0000"))
    assert (red == (255, 0, 0)).all()
    clear = image(ask(EXCEPTIONS="BLANK", TRANSPARENT="TRUE"))
    assert clear.shape[2] == 4
    assert (clear[:, :, 3] == 0).all()


def test_text_is_drawn_on_the_background(ask: Ask, image: ReadImage) -> None:
    pixels = image(ask(EXCEPTIONS="INIMAGE", BGCOLOR="0x00FF00"))
    ground = (pixels == (0, 255, 0)).all(axis=2)
    assert 0.5 < ground.mean() < 1
    over_nothing = image(ask(EXCEPTIONS="INIMAGE", TRANSPARENT="TRUE"))
    assert (over_nothing[:, :, 3] == 0).any()
    assert (over_nothing[:, :, 3] == 255).any()


def test_text_depends_on_the_error(ask: Ask) -> None:
    one, other = ask(EXCEPTIONS="INIMAGE"), ask(EXCEPTIONS="INIMAGE", LAYERS="nowhere")
    assert one.data != other.data


@pytest.mark.parametrize(("width", "height"), [(1, 1), (8, 5), (1, 768), (1024, 1)])
def test_report_of_any_size_is_drawn(ask: Ask, image: ReadImage, width: int, height: int) -> None:
    response = ask(EXCEPTIONS="INIMAGE", WIDTH=width, HEIGHT=height, LAYERS="x" * 5000)
    assert image(response).shape[:2] == (height, width)


@pytest.mark.parametrize(
    "changes",
    [
        {"EXCEPTIONS": None},
        {"EXCEPTIONS": "XML"},
        {"EXCEPTIONS": ""},
        {"EXCEPTION": "XML", "EXCEPTIONS": None},
        {"EXCEPTIONS": "bogus"},
        {"EXCEPTIONS": "BLANK", "WIDTH": "0"},
        {"EXCEPTIONS": "BLANK", "HEIGHT": ""},
        {"EXCEPTIONS": "BLANK", "WIDTH": "1000000000"},
        {"EXCEPTIONS": "BLANK", "FORMAT": "image/bogus"},
        {"EXCEPTIONS": "INIMAGE", "BGCOLOR": "red"},
        {"EXCEPTIONS": "INIMAGE", "TRANSPARENT": "maybe"},
        {"EXCEPTIONS": "INIMAGE", "REQUEST": "GetFeatureInfo"},
    ],
)
def test_report_is_xml_unless_another_form_is_requested_and_possible(
    ask: Ask, changes: dict[str, str | None]
) -> None:
    query: dict[str, Any] = {
        name: "" if value is None else value for name, value in changes.items()
    }
    response = ask(**query)
    assert (response.status_code, response.content_type) == (400, "text/xml")


def test_unexpected_failure_can_be_blank_too(
    ask: Ask, image: ReadImage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise RuntimeError("the secret")

    monkeypatch.setattr("mastaba_wms.getmap.EncodedMap", fail)
    assert (image(ask(STYLES="", EXCEPTIONS="BLANK")) == 255).all()


def test_error_in_a_posted_request_is_drawn_as_well(
    client: Client, map_query: MapQuery, image: ReadImage
) -> None:
    query = map_query(STYLES="no", EXCEPTIONS="BLANK", BGCOLOR="0x0000FF")
    response = client.post("/wms", data=query)
    assert (image(response) == (0, 0, 255)).all()
