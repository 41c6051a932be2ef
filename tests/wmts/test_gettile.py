"""GetTile over KVP (wmts.md section 3)."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from werkzeug.test import Client, TestResponse

from mastaba_conformance.tiny_installation import (
    TINY_LEVELS,
    tiny_float_tile,
    tiny_installation,
    tiny_integer_tile,
)

Fault = Callable[[TestResponse], tuple[int, str, list[str | None]]]
Find = Callable[..., list[Any]]
OpenClient = Callable[[Path], Client]
TileQuery = Callable[..., dict[str, str]]

LIMITS = [(level.id, level) for level in TINY_LEVELS]
LOCATORS = {
    "LAYER": "Layer",
    "STYLE": "Style",
    "FORMAT": "Format",
    "TILEMATRIXSET": "TileMatrixSet",
    "TILEMATRIX": "TileMatrix",
    "TILEROW": "TileRow",
    "TILECOL": "TileCol",
}
BIL = "image/x-bil;bits=32"
FORMATS = {
    "RGB_JPG": "image/jpeg",
    "RGB_PNG": "image/png",
    "RGBA_PNG": "image/png",
    "GREY_PNG": "image/png",
    "RGB_RAW": "image/tiff",
    "GREYA_ZIP": "image/tiff",
    "FLOAT32_ZIP": BIL,
    "FLOAT32_RAW": BIL,
}


# ---------------------------------------------------------------- tiles


@pytest.mark.parametrize("tile_matrix_set", ["PM", "PM_2_4"])
@pytest.mark.parametrize(("matrix", "limits"), LIMITS)
def test_every_corner_of_the_limits_has_a_tile(
    tiny: Client, tile_query: TileQuery, tile_matrix_set: str, matrix: str, limits: Any
) -> None:
    # M-20
    for row in (limits.min_row, limits.max_row):
        for col in (limits.min_col, limits.max_col):
            query = tile_query(
                LAYER="RGB_PNG",
                FORMAT="image/png",
                TILEMATRIXSET=tile_matrix_set,
                TILEMATRIX=matrix,
                TILEROW=str(row),
                TILECOL=str(col),
            )
            response = tiny.get("/wmts", query_string=query)
            assert response.status_code == 200
            image = np.asarray(Image.open(io.BytesIO(response.data)))
            expected = tiny_integer_tile(3)(matrix, row, col)
            assert np.array_equal(image, expected)


@pytest.mark.parametrize(("layer", "media_type"), FORMATS.items())
def test_content_type_is_the_format(
    tiny: Client, tile_query: TileQuery, layer: str, media_type: str
) -> None:
    # M-24
    response = tiny.get("/wmts", query_string=tile_query(LAYER=layer, FORMAT=media_type))
    assert response.status_code == 200
    assert response.headers["Content-Type"] == media_type
    assert int(response.headers["Content-Length"]) == len(response.data)
    if media_type != BIL:
        assert Image.open(io.BytesIO(response.data)).size == (256, 256)


def test_format_is_compared_without_case(tiny: Client, tile_query: TileQuery) -> None:
    query = tile_query(FORMAT="Image/JPEG")
    assert tiny.get("/wmts", query_string=query).status_code == 200


def test_parameters_in_any_case_and_order_give_the_same_tile(
    tiny: Client, tile_query: TileQuery
) -> None:
    # M-5
    query = tile_query()
    expected = tiny.get("/wmts", query_string=query)
    mixed = {name.swapcase(): value for name, value in reversed(query.items())}
    mixed |= {"BoGuS": "ignored", "time": "2020"}
    assert tiny.get("/wmts", query_string=mixed).data == expected.data
    del query["VERSION"]
    assert tiny.get("/wmts", query_string=query).data == expected.data


def test_numbers_are_stored_values(tiny: Client, tile_query: TileQuery) -> None:
    expected = tiny_float_tile("4", 5, 9)
    raw = tiny.get("/wmts", query_string=tile_query(LAYER="FLOAT32_RAW", FORMAT=BIL))
    assert np.array_equal(np.frombuffer(raw.data, "<f4").reshape(256, 256), expected)
    deflated = tiny.get("/wmts", query_string=tile_query(LAYER="FLOAT32_ZIP", FORMAT=BIL))
    assert deflated.headers["Content-Encoding"] == "deflate"
    assert zlib.decompress(deflated.data) == raw.data


def test_style_with_a_palette_colours_a_grey_png(tiny: Client, tile_query: TileQuery) -> None:
    # M-25
    names = {"LAYER": "GREY_PNG", "FORMAT": "image/png"}
    grey = tiny.get("/wmts", query_string=tile_query(**names))
    ember = tiny.get("/wmts", query_string=tile_query(STYLE="ember", **names))
    assert Image.open(io.BytesIO(grey.data)).mode == "L"
    coloured = Image.open(io.BytesIO(ember.data))
    assert coloured.mode == "P"
    assert coloured.convert("RGBA").getpixel((0, 0))[3] < 255
    assert grey.headers["ETag"] != ember.headers["ETag"]


def test_empty_style_is_the_default_one(rich: Client, tile_query: TileQuery) -> None:
    names = {"LAYER": "tints", "FORMAT": "image/png", "TILEMATRIX": "3"}
    names |= {"TILEROW": "2", "TILECOL": "4"}
    answers = [
        rich.get("/wmts", query_string=tile_query(**names, STYLE=style))
        for style in ("", "ember", "normal")
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert answers[0].data == answers[1].data != answers[2].data


def test_known_tile_is_not_sent_again(tiny: Client, tile_query: TileQuery) -> None:
    etag = tiny.get("/wmts", query_string=tile_query()).headers["ETag"]
    response = tiny.get("/wmts", query_string=tile_query(), headers={"If-None-Match": etag})
    assert (response.status_code, response.data) == (304, b"")


def test_file_name_makes_an_attachment(tiny: Client, tile_query: TileQuery) -> None:
    response = tiny.get("/wmts", query_string=tile_query(FILENAME="my.jpg"))
    assert response.headers["Content-Disposition"] == 'attachment; filename="my.jpg"'
    plain = tiny.get("/wmts", query_string=tile_query())
    assert plain.headers["Content-Disposition"] == 'inline; filename="image.jpg"'


def test_cache_control_and_missing_status_of_the_layer_apply(
    tmp_path: Path, open_client: OpenClient, tile_query: TileQuery
) -> None:
    path = tiny_installation(tmp_path, services=["wmts"])
    descriptor = tmp_path / "layers" / "RGB_JPG.json"
    text = descriptor.read_text().rstrip()[:-1]
    descriptor.write_text(text + ', "cache_control": "max-age=60", "missing_tile": "204"}')
    for slab in (tmp_path / "pyramids" / "RGB_JPG" / "DATA" / "3").rglob("*.tif"):
        slab.unlink()
    client = open_client(path)
    tile = client.get("/wmts", query_string=tile_query())
    assert tile.headers["Cache-Control"] == "max-age=60"
    query = tile_query(TILEMATRIX="3", TILEROW="2", TILECOL="4")
    assert client.get("/wmts", query_string=query).status_code == 204


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("name", "value"),
    # An empty STYLE is the default style.
    [(name, value) for name in LOCATORS for value in (None, "") if (name, value) != ("STYLE", "")],
)
def test_missing_parameter_is_reported_with_its_name(
    tiny: Client, tile_query: TileQuery, fault: Fault, name: str, value: str | None
) -> None:
    # M-21
    response = tiny.get("/wmts", query_string=tile_query(**{name: value}))
    assert fault(response) == (400, "MissingParameterValue", [LOCATORS[name]])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LAYER", "unknown"),
        ("LAYER", "rgb_jpg"),
        ("LAYER", "VECTOR"),
        ("LAYER", "RGB_JPG,RGB_PNG"),
        ("LAYER", "RGB_JPG\0"),
        ("LAYER", "../RGB_JPG"),
        ("LAYER", "é" * 1000),
        ("TILEMATRIXSET", "unknown"),
        ("TILEMATRIXSET", "4326"),
        ("TILEMATRIXSET", "PM_2_3"),
        ("TILEMATRIXSET", "pm"),
        ("TILEMATRIX", "unknown"),
        ("TILEMATRIX", "22"),
        ("TILEMATRIX", "04"),
        ("STYLE", "unknown"),
        ("STYLE", "ember"),
        ("FORMAT", "image/tiff"),
        ("FORMAT", "image/jpg"),
        ("FORMAT", "jpeg"),
        ("FORMAT", " image/jpeg"),
    ],
)
def test_unknown_value_is_reported_with_its_parameter(
    tiny: Client, tile_query: TileQuery, fault: Fault, name: str, value: str
) -> None:
    # M-22
    response = tiny.get("/wmts", query_string=tile_query(**{name: value}))
    assert fault(response) == (400, "InvalidParameterValue", [LOCATORS[name]])


def test_layer_switched_off_is_unknown(rich: Client, tile_query: TileQuery, fault: Fault) -> None:
    response = rich.get("/wmts", query_string=tile_query(LAYER="hidden"))
    assert fault(response) == (400, "InvalidParameterValue", ["Layer"])


@pytest.mark.parametrize("name", ["TILEROW", "TILECOL"])
@pytest.mark.parametrize(
    "value",
    ["x", "+5", " 5", "5 ", "5.0", "0x5", "1e1", "１２", "5\0", "5\n", "--5", "-", "5_0", "٣"],
)
def test_index_that_is_no_integer_is_invalid(
    tiny: Client, tile_query: TileQuery, fault: Fault, name: str, value: str
) -> None:
    response = tiny.get("/wmts", query_string=tile_query(**{name: value}))
    assert fault(response) == (400, "InvalidParameterValue", [LOCATORS[name]])


@pytest.mark.parametrize(
    ("row", "col", "locators"),
    [
        ("4", "9", ["TileRow"]),
        ("7", "9", ["TileRow"]),
        ("-1", "9", ["TileRow"]),
        ("2147483648", "9", ["TileRow"]),
        ("9" * 5000, "9", ["TileRow"]),
        ("9" * 1_000_000, "9", ["TileRow"]),
        ("5", "8", ["TileCol"]),
        ("5", "11", ["TileCol"]),
        ("5", "-9", ["TileCol"]),
        ("5", "-" + "9" * 1_000_000, ["TileCol"]),
        ("7", "11", ["TileRow", "TileCol"]),
    ],
)
def test_index_outside_the_limits_is_out_of_range(
    tiny: Client, tile_query: TileQuery, fault: Fault, row: str, col: str, locators: list[str]
) -> None:
    # M-23
    response = tiny.get("/wmts", query_string=tile_query(TILEROW=row, TILECOL=col))
    assert fault(response) == (400, "TileOutOfRange", locators)


def test_leading_zeros_do_not_change_an_index(tiny: Client, tile_query: TileQuery) -> None:
    query = tile_query(TILEROW="0005", TILECOL="0" * 100_000 + "9")
    assert tiny.get("/wmts", query_string=query).status_code == 200


@pytest.mark.parametrize("tile_matrix_set", ["PM", "PM_2_4"])
@pytest.mark.parametrize("matrix", ["1", "3", "5"])
def test_matrix_that_the_layer_lacks_is_out_of_range(
    rich: Client, tile_query: TileQuery, fault: Fault, tile_matrix_set: str, matrix: str
) -> None:
    query = tile_query(LAYER="gap", TILEMATRIXSET=tile_matrix_set, TILEMATRIX=matrix)
    assert fault(rich.get("/wmts", query_string=query)) == (400, "TileOutOfRange", ["TileMatrix"])


def test_tile_that_is_not_stored_is_not_found(
    rich: Client, tile_query: TileQuery, fault: Fault
) -> None:
    query = tile_query(LAYER="gap", FORMAT="image/png", TILEROW="6")
    assert fault(rich.get("/wmts", query_string=query)) == (404, "NoApplicableCode", [None])


@pytest.mark.parametrize(
    ("wrong", "code", "locators"),
    [
        ({}, "InvalidParameterValue", ["Layer"]),
        ({"LAYER": "RGB_JPG"}, "MissingParameterValue", ["TileMatrixSet"]),
        ({"TILEMATRIXSET": "PM"}, "InvalidParameterValue", ["TileMatrix"]),
        ({"TILEMATRIX": "4"}, "InvalidParameterValue", ["TileCol"]),
        ({"TILECOL": "0"}, "MissingParameterValue", ["TileRow"]),
        ({"TILEROW": "5"}, "TileOutOfRange", ["TileCol"]),
        ({"TILECOL": "9"}, "InvalidParameterValue", ["Format"]),
        ({"FORMAT": "image/jpeg"}, "MissingParameterValue", ["Style"]),
    ],
)
def test_first_error_in_the_order_of_the_names_is_reported(
    tiny: Client, fault: Fault, wrong: dict[str, str], code: str, locators: list[str]
) -> None:
    # Each line puts one more parameter right than the line before.
    query = {"SERVICE": "WMTS", "REQUEST": "GetTile", "LAYER": "none", "FORMAT": "image/x"}
    query |= {"TILEMATRIX": "none", "TILECOL": "x"}
    order = [
        {"LAYER": "RGB_JPG"},
        {"TILEMATRIXSET": "PM"},
        {"TILEMATRIX": "4"},
        {"TILECOL": "0"},
        {"TILEROW": "5"},
        {"TILECOL": "9"},
        {"FORMAT": "image/jpeg"},
    ]
    for right in order[: order.index(wrong) + 1 if wrong else 0]:
        query |= right
    assert fault(tiny.get("/wmts", query_string=query)) == (400, code, locators)


def test_repeated_parameter_counts_once(tiny: Client, tile_query: TileQuery) -> None:
    query = "&".join(f"{name}={value}" for name, value in tile_query().items())
    response = tiny.get(f"/wmts?{query}&LAYER=unknown&tilerow=x&Style=")
    assert response.status_code == 200


@pytest.mark.sampled(one_in=4)
@pytest.mark.parametrize("name", [*LOCATORS, "SERVICE", "REQUEST", "VERSION", "TIME"])
def test_very_long_value_is_answered(
    tiny: Client, tile_query: TileQuery, fault: Fault, name: str
) -> None:
    response = tiny.get("/wmts", query_string=tile_query(**{name: "%x" * 50_000}))
    if name == "TIME":
        assert response.status_code == 200
    else:
        status, code, locators = fault(response)
        assert (status, code) == (400, "InvalidParameterValue")
        assert locators == [LOCATORS.get(name, name.lower())]
        assert len(response.data) < 1000


# ---------------------------------------------------------------- trouble behind


@pytest.fixture
def damaged(tmp_path: Path, open_client: OpenClient) -> tuple[Client, Path]:
    """Return a client, and the slab that has tile row 5, column 9 of level 4 of RGB_JPG."""
    client = open_client(tiny_installation(tmp_path, services=["wmts"]))
    slabs = sorted((tmp_path / "pyramids" / "RGB_JPG" / "DATA" / "4").rglob("*.tif"))
    return client, slabs[0]


def test_damaged_slab_is_an_error_without_details(
    damaged: tuple[Client, Path], tile_query: TileQuery, fault: Fault, tmp_path: Path
) -> None:
    client, slab = damaged
    slab.write_bytes(slab.read_bytes()[:2060])
    response = client.get("/wmts", query_string=tile_query())
    assert fault(response) == (500, "NoApplicableCode", [None])
    assert slab.stem not in response.text
    assert str(tmp_path) not in response.text


def test_unreadable_storage_is_unavailable(
    damaged: tuple[Client, Path], tile_query: TileQuery, fault: Fault
) -> None:
    client, slab = damaged
    slab.unlink()
    slab.mkdir()  # opening it works, reading it does not
    response = client.get("/wmts", query_string=tile_query())
    assert fault(response) == (503, "NoApplicableCode", [None])


def test_absent_slab_is_a_missing_tile(
    damaged: tuple[Client, Path], tile_query: TileQuery, fault: Fault
) -> None:
    client, slab = damaged
    slab.unlink()
    response = client.get("/wmts", query_string=tile_query())
    assert fault(response) == (404, "NoApplicableCode", [None])


def test_unexpected_failure_is_an_internal_error_without_details(
    damaged: tuple[Client, Path],
    tile_query: TileQuery,
    fault: Fault,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("/secret/place")

    monkeypatch.setattr("mastaba.slab.reader.LevelReader.locate", fail)
    client, _ = damaged
    response = client.get("/wmts", query_string=tile_query())
    assert fault(response) == (500, "NoApplicableCode", [None])
    assert "secret" not in response.text
