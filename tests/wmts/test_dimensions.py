"""Dimensions of layers over WMTS (OGC 07-057r7 clause 7.1.1.2.2; time.md section 2.2)."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np
import pytest
from lxml import etree
from PIL import Image
from tests.series import colour_of, series_document, series_installation
from tests.test_tile_path import noted_calls
from werkzeug.test import Client, TestResponse

OpenClient = Callable[[Path], Client]
Fault = Callable[[TestResponse], tuple[int, str, list[str | None]]]

TIMES = ("1950", "1975", "2023-05")
RUNS = [
    {"reference_time": f"2024-01-0{run}", "time": f"2024-01-0{day}"}
    for run, day in ((1, 1), (1, 2), (2, 2))
]
TILE = "PM/3/2/4.png"


@dataclass
class Asker:
    """Asks for tiles of one installation."""

    client: Client

    def kvp(self, layer: str = "ORTHO", **changes: str) -> TestResponse:
        query = {
            "SERVICE": "WMTS",
            "VERSION": "1.0.0",
            "REQUEST": "GetTile",
            "LAYER": layer,
            "STYLE": "normal",
            "FORMAT": "image/png",
            "TILEMATRIXSET": "PM",
            "TILEMATRIX": "3",
            "TILEROW": "2",
            "TILECOL": "4",
        }
        return self.client.get("/wmts", query_string=query | changes)

    def path(self, *segments: str, layer: str = "ORTHO", tile: str = TILE) -> TestResponse:
        return self.client.get("/".join(("/wmts/1.0.0", layer, "normal", *segments, tile)))

    def post(self, **values: str) -> TestResponse:
        items = "".join(
            f'<DimensionNameValue name="{name}">{text}</DimensionNameValue>'
            for name, text in values.items()
        )
        body = (
            '<GetTile xmlns="http://www.opengis.net/wmts/1.0" service="WMTS" version="1.0.0">'
            f"<Layer>ORTHO</Layer><Style>normal</Style><Format>image/png</Format>{items}"
            "<TileMatrixSet>PM</TileMatrixSet><TileMatrix>3</TileMatrix>"
            "<TileRow>2</TileRow><TileCol>4</TileCol></GetTile>"
        )
        return self.client.post("/wmts", data=body, content_type="text/xml")


def colour(response: TestResponse) -> tuple[int, ...]:
    """Return the only colour of a tile."""
    assert response.status_code == 200, response.text
    pixels = np.asarray(Image.open(io.BytesIO(response.data))).reshape(256 * 256, -1)
    assert (pixels == pixels[0]).all()
    return tuple(int(channel) for channel in pixels[0])


@pytest.fixture(scope="module")
def tiles(tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient) -> Asker:
    """An installation with ORTHO of three times, and further layers.

    FORECAST has two dimensions; EXACT needs a time; NEAREST answers with the nearest one.
    """
    directory = tmp_path_factory.mktemp("times")
    values = [{"time": text} for text in TIMES]
    info = {"get_feature_info": {"type": "PYRAMID"}}
    runs = [{"name": "reference_time"}, {"name": "time"}]

    def others(name: str, rows: Any, **fields: Any) -> dict[str, Any]:
        return series_document(directory / name, rows, **fields)

    server_json = series_installation(
        directory,
        values,
        services=("wmts",),
        names={"template": "ORTHO_{time}", "listed": True},
        **info,
        others={
            "FORECAST": others("runs", RUNS, dimensions=runs, **info),
            "EXACT": others("exact", values, dimensions=[{"name": "time", "default": "none"}]),
            "NEAREST": others("nearest", values, dimensions=[{"name": "time", "nearest": True}]),
        },
    )
    return Asker(open_client(server_json))


def of(text: str) -> tuple[int, ...]:
    return colour_of(TIMES.index(text))


# ---------------------------------------------------------------- documents


def described(tiles: Asker, layer: str) -> Any:
    document = etree.fromstring(tiles.client.get("/wmts?SERVICE=WMTS&REQUEST=GetCapabilities").data)
    layers = document.iter("{*}Contents").__next__().iterfind("{*}Layer")
    return next(one for one in layers if one.findtext("{*}Identifier") == layer)


def test_capabilities_declare_dimensions_in_the_order_of_the_schema(tiles: Asker) -> None:
    layer = described(tiles, "ORTHO")
    (time,) = layer.iterfind("{*}Dimension")
    assert [(etree.QName(one).localname, one.text) for one in time] == [
        *(("Identifier", "Time"), ("UOM", "ISO8601"), ("Default", "2023-05-01")),
        *(("Current", "false"), ("Value", "1950-01-01"), ("Value", "1975-01-01")),
        ("Value", "2023-05-01"),
    ]
    names = [etree.QName(one).localname for one in layer]
    assert names[names.index("Dimension") - 1 : names.index("Dimension") + 2] == [
        *("InfoFormat", "Dimension", "TileMatrixSetLink")
    ]
    exact = described(tiles, "EXACT").find("{*}Dimension")
    assert exact.findtext("{*}Default") == "2023-05-01"
    assert described(tiles, "ORTHO_1950").find("{*}Dimension") is None


def test_templates_contain_the_values_after_the_style(tiles: Asker) -> None:
    def templates(layer: str) -> list[str]:
        return [one.get("template") for one in described(tiles, layer).iterfind("{*}ResourceURL")]

    end = "{TileMatrixSet}/{TileMatrix}/{TileRow}/{TileCol}"
    assert templates("ORTHO")[0].endswith(f"/1.0.0/ORTHO/{{style}}/{{Time}}/{end}.png")
    forecast = templates("FORECAST")
    assert forecast[0].endswith(f"/FORECAST/{{style}}/{{reference_time}}/{{Time}}/{end}.png")
    assert forecast[-1].endswith(f"/{{reference_time}}/{{Time}}/{end}/{{J}}/{{I}}.json")
    assert templates("ORTHO_1950")[0].endswith(f"/ORTHO_1950/{{style}}/{end}.png")


@pytest.mark.shared_data
def test_documents_with_dimensions_are_valid(tiles: Asker, shared_data: Path) -> None:
    path = shared_data / "schemas/wmts/1.0/wmtsGetCapabilities_response.xsd"
    from tests.wmts.test_schemas import _Offline

    parser = etree.XMLParser()
    parser.resolvers.add(_Offline(shared_data / "schemas"))
    schema = etree.XMLSchema(etree.parse(str(path), parser))
    data = tiles.client.get("/wmts?SERVICE=WMTS&REQUEST=GetCapabilities").data
    schema.assertValid(etree.fromstring(data))


# ---------------------------------------------------------------- tiles


def test_a_value_selects_its_tile_in_every_binding(tiles: Asker) -> None:
    for text in TIMES:
        for spelt in (text, f"{text}-01-01"[:10], f"{text}-01-01"[:10] + "T00:00:00.000Z"):
            assert colour(tiles.kvp(TIME=spelt)) == of(text)
            assert colour(tiles.path(spelt)) == of(text)
            assert colour(tiles.post(Time=spelt)) == of(text)
        assert colour(tiles.kvp(tImE=text)) == colour(tiles.kvp(DIM_TIME=text)) == of(text)
        assert colour(tiles.path(layer=f"ORTHO;time={text}")) == of(text)
        assert colour(tiles.kvp(f"ORTHO;time={text}", TIME=text)) == of(text)
    assert colour(tiles.path(layer="ORTHO_1950")) == of("1950")
    # Several values: the newest.
    assert colour(tiles.kvp(TIME="1950/1980")) == of("1975")
    assert colour(tiles.kvp(TIME="1975,1950")) == of("1975")


INTERVALS = ("2000/2010", "2000-01-01/2000-06-30", "2019-04/2019-09", "2019-07", "2019-08-15")


def test_each_interval_that_documents_list_has_its_tile(
    tmp_path: Path, open_client: OpenClient
) -> None:
    """Of two intervals with an equal start, the later one in the list is written in full."""
    rows = [{"time": text} for text in INTERVALS]
    asker = Asker(open_client(series_installation(tmp_path, rows, services=("wmts", "wms"))))
    (time,) = described(asker, "ORTHO").iterfind("{*}Dimension")
    listed = [one.text for one in time.iterfind("{*}Value")]
    assert len(set(listed)) == len(INTERVALS)
    found = [colour(asker.kvp(Time=text)) for text in listed]
    assert sorted(found) == sorted(colour_of(number) for number in range(len(INTERVALS)))
    for text, expected in zip(listed, found, strict=True):
        assert colour(asker.post(Time=text)) == expected
        if "/" not in text:
            assert colour(asker.path(text)) == expected
        assert colour(asker.path(layer=f"ORTHO;time={quote(text, safe='')}")) == expected
    for version in ("1.3.0", "1.1.1"):
        query = f"/wms?SERVICE=WMS&REQUEST=GetCapabilities&VERSION={version}"
        document = etree.fromstring(asker.client.get(query).data)
        name = "Dimension" if version == "1.3.0" else "Extent"
        (extent,) = (one.text for one in document.iterfind(f".//{{*}}{name}") if one.text)
        assert len(set(extent.split(","))) == len(INTERVALS)


@pytest.mark.parametrize("text", ["", "default", "current", "undefined"])
def test_a_request_without_a_value_means_the_default(tiles: Asker, text: str) -> None:
    assert colour(tiles.kvp(TIME=text)) == of("2023-05")
    if text:
        assert colour(tiles.path(text)) == of("2023-05")
    assert colour(tiles.path()) == of("2023-05")
    assert colour(tiles.kvp(ELEVATION="7")) == of("2023-05")


def test_paths_of_two_dimensions_have_both_values_or_none(tiles: Asker) -> None:
    for position, row in enumerate(RUNS):
        expected = colour_of(position)
        assert colour(tiles.path(*row.values(), layer="FORECAST")) == expected
        asked = {"REFERENCE_TIME": row["reference_time"], "TIME": row["time"]}
        assert colour(tiles.kvp("FORECAST", **asked)) == expected
        assert (
            colour(tiles.kvp("FORECAST", **{f"DIM_{k}": v for k, v in asked.items()})) == expected
        )
    assert colour(tiles.path(layer="FORECAST")) == colour_of(2)
    assert tiles.path("2024-01-01", layer="FORECAST").status_code == 404


@pytest.mark.parametrize(
    ("layer", "text", "restful", "code"),
    [
        ("ORTHO", "1960", 404, "InvalidParameterValue"),
        ("ORTHO", "x", 400, "InvalidParameterValue"),
        ("EXACT", "default", 400, "MissingParameterValue"),
    ],
)
def test_values_are_refused(
    tiles: Asker, fault: Fault, layer: str, text: str, restful: int, code: str
) -> None:
    for _ in range(2):  # The second time, the tile table has been asked.
        assert fault(tiles.kvp(layer, TIME=text)) == (400, code, ["Time"])
        assert fault(tiles.path(text, layer=layer)) == (restful, code, ["Time"])


@pytest.mark.parametrize(
    ("layer", "count"), [("ORTHO", 3), ("NEAREST", 3), ("EXACT", 3), ("FORECAST", 3)]
)
def test_announced_dimensions_are_those_of_requests(
    tiles: Asker, fault: Fault, layer: str, count: int
) -> None:
    """What a conformance suite checks, which knows no more than the capabilities."""
    element = described(tiles, layer)
    dimensions = element.findall("{*}Dimension")
    names = [one.findtext("{*}Identifier") for one in dimensions]
    template = urlsplit(element.find("{*}ResourceURL[@resourceType='tile']").get("template")).path
    place = {"style": "normal", "TileMatrixSet": "PM", "TileMatrix": 3, "TileRow": 2, "TileCol": 4}

    def both(*values: str) -> tuple[TestResponse, TestResponse]:
        asked = dict(zip(names, values, strict=True))
        return tiles.kvp(layer, **asked), tiles.client.get(template.format(**place, **asked))

    listed = [[value.text for value in one.iterfind("{*}Value")] for one in dimensions]
    found = {values: both(*values) for values in product(*listed)}
    statuses = [(kvp.status_code, path.status_code) for kvp, path in found.values()]
    # Of two dimensions, some pairs may have no tiles.
    assert statuses.count((200, 200)) == count
    assert set(statuses) <= ({(200, 200)} if len(names) == 1 else {(200, 200), (400, 404)})
    tile_of = {values: colour(kvp) for values, (kvp, _) in found.items() if kvp.status_code == 200}
    assert len(set(tile_of.values())) == count
    for values, expected in tile_of.items():
        assert colour(found[values][1]) == expected
    last = tuple(one.findtext("{*}Default") for one in dimensions)
    for word in ("default", "current"):
        for response in both(*[word] * len(names)):
            if (layer, word) == ("EXACT", "default"):
                assert fault(response) == (400, "MissingParameterValue", names)
            else:
                assert colour(response) == tile_of[last]
    for number, name in enumerate(names):
        wrong = (*last[:number], "nonsense", *last[number + 1 :])
        for response in both(*wrong):
            assert fault(response) == (400, "InvalidParameterValue", [name])
    others = dict(zip(names, last, strict=True))
    assert colour(tiles.kvp(layer, UNKNOWN="1", **others)) == tile_of[last]


def test_qualified_names_that_mean_nothing_are_unknown_layers(tiles: Asker, fault: Fault) -> None:
    for name in ("ORTHO;height=5", "ORTHO~4f0c1d2e3a4b", "ORTHO_1960"):
        assert fault(tiles.kvp(name)) == (400, "InvalidParameterValue", ["Layer"])
        assert tiles.path(layer=name).status_code == 404


def test_feature_info_answers_for_each_value(tiles: Asker) -> None:
    info = {"REQUEST": "GetFeatureInfo", "I": "3", "J": "4", "INFOFORMAT": "application/json"}

    def pixels(response: TestResponse) -> list[Any]:
        assert response.status_code == 200, response.text
        return [one["properties"]["pixel"] for one in response.get_json()["features"]]

    assert pixels(tiles.kvp(TIME="1950", **info)) == [list(of("1950"))]
    assert pixels(tiles.kvp(TIME="1950/1980", **info)) == [list(of("1975")), list(of("1950"))]
    point = "PM/3/2/4/4/3.json"
    assert pixels(tiles.path("1950", tile=point)) == [list(of("1950"))]
    assert pixels(tiles.path(tile=point)) == [list(of("2023-05"))]
    row = RUNS[0]
    assert pixels(tiles.path(*row.values(), layer="FORECAST", tile=point)) == [list(colour_of(0))]
    # The segments after the style are the values of a tile.
    assert tiles.path(layer="FORECAST", tile=point).status_code == 400


# ---------------------------------------------------------------- the tile table


def test_tiles_with_a_value_are_in_the_tile_table(tiles: Asker) -> None:
    """They are answered without a call of the service; what may change later is not."""
    stored_tile: Any = tiles.client.application.stored_tile

    def is_known(path: str, query: str) -> bool:
        return stored_tile(path, query, {}) is not None

    base = "/wmts/1.0.0/{}/normal{}/PM/3/2/4.png"
    query = (
        "SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetTile&LAYER={}&STYLE=normal&FORMAT=image/png"
        "&TILEMATRIXSET=PM&TILEMATRIX=3&TILEROW=2&TILECOL=4{}"
    )
    for layer, text, expected in (
        *(("ORTHO", "1950", True), ("ORTHO", "1950-01-01T00:00:00Z", True), ("ORTHO", "", True)),
        *(("NEAREST", "1951", False), ("NEAREST", "1950", True), ("ORTHO;time=1975", "", True)),
        *(("ORTHO_1950", "", True), ("EXACT", "", False), ("EXACT", "1975", True)),
    ):
        segment, item = (f"/{text}", f"&TIME={text}") if text else ("", "")
        assert is_known(base.format(layer, segment), "") is expected
        assert is_known("/wmts", query.format(layer, item)) is expected
    assert colour(tiles.path("1951", layer="NEAREST")) == of("1950")


def test_a_stored_tile_costs_the_same_with_a_value(tiles: Asker) -> None:
    stored_tile: Any = tiles.client.application.stored_tile
    counts = []
    for segment in ("", "/1950"):
        path = f"/wmts/1.0.0/ORTHO/normal{segment}/PM/3/2/4.png"
        stored_tile(path, "", {})
        attempts = []
        # Now and then, one also looks whether a file has changed, or garbage is collected.
        for _ in range(5):
            with noted_calls() as calls:
                assert stored_tile(path, "", {}) is not None
            attempts.append(calls)
        calls = min(attempts, key=len)
        counts.append(len(calls))
    assert counts[0] == counts[1] > 0
