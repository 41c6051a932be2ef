"""Dimensions of layers over WMS (OGC 06-042 annex C; time.md section 2.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lxml import etree
from numpy.typing import NDArray
from tests.series import colour_of, series_installation, write_value
from werkzeug.test import Client, TestResponse

from mastaba.api.web import Request
from mastaba_writer.installation import layer_document
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

OpenClient = Callable[[Path], Client]
MapQuery = Callable[..., dict[str, str]]
Fault = Callable[[TestResponse], tuple[int, str, str | None]]
Find = Callable[..., list[Any]]
ReadImage = Callable[[TestResponse], NDArray[Any]]
Pixels = NDArray[Any]

YEARS = ("1950", "1975", "2000", "2023")
HALF = 20037508.342789244
PIXEL = HALF / 1024
INSIDE = ",".join(str(HALF * 3 / 8 + n * PIXEL) for n in (-4, -4, 4, 4))
"""Extent in EPSG:3857 where all pyramids of `tests.series` have data."""
FLOATS = {"format": "TIFF_RAW_FLOAT32"}


def halves(directory: Path, name: str, colour: tuple[int, ...], half: str) -> Path:
    """Write a pyramid of one colour, with data in the western or the eastern half only."""

    def tile(_level: str, _row: int, col: int) -> Any:
        if (col % 2 == 0) != (half == "west"):
            return None
        return np.broadcast_to(np.array(colour, np.uint8), (256, 256, 3))

    return write_pyramid(
        directory / "pyramids",
        name,
        tile_matrix_set=web_mercator(),
        format="TIFF_PNG_UINT8",
        channels=3,
        levels=[LevelPlan("3", 2, 3, 4, 5)],
        tile=tile,
        tables=(),
    )


def heights(directory: Path) -> Path:
    """Write a float pyramid whose values grow from 0 to 255 eastward in each tile."""

    def tile(_level: str, _row: int, _col: int) -> Any:
        return np.broadcast_to(np.arange(256, dtype=np.float32), (256, 256)).copy()

    return write_pyramid(
        directory / "pyramids",
        "heights",
        tile_matrix_set=web_mercator(),
        format="TIFF_RAW_FLOAT32",
        channels=1,
        levels=[LevelPlan("3", 2, 3, 4, 5)],
        tile=tile,
        tables=(),
    )


def years_document(directory: Path, files: Mapping[str, Path], **fields: Any) -> dict[str, Any]:
    """Return the descriptor of a layer with a pyramid for each year; the last is the default."""
    variants = [
        {"at": {"time": year}, "pyramids": [{"path": str(path)}]} for year, path in files.items()
    ]
    document = dict(layer_document(list(files.values())[-1]))
    return {**document, "dimensions": [{"name": "time"}], "variants": variants, **fields}


@dataclass
class Asker:
    """Asks for maps of one installation."""

    client: Client
    query: MapQuery
    read: ReadImage

    def ask(self, headers: Mapping[str, str] | None = None, **changes: Any) -> TestResponse:
        defaults = {"LAYERS": "ORTHO", "BBOX": INSIDE, "WIDTH": 8, "HEIGHT": 8}
        return self.client.get(
            "/wms", query_string=self.query(**(defaults | changes)), headers=dict(headers or {})
        )

    def colour(self, **changes: Any) -> tuple[int, ...]:
        """Return the only colour of a map."""
        pixels = self.read(self.ask(**changes)).reshape(64, -1)
        assert (pixels == pixels[0]).all()
        return tuple(int(channel) for channel in pixels[0])


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("years")


@pytest.fixture(scope="module")
def maps(directory: Path, open_client: OpenClient, map_query: MapQuery, image: ReadImage) -> Asker:
    """An installation with the layer ORTHO of four years, and further layers.

    PLAIN has no dimensions; HALVES shows west in 1950 and east in 1975; HEIGHTS has elevations of
    pixels; LAKES three elevations with a nearest value; EXACT needs a time; FLOATS has three times
    of other values.
    """
    plain = write_value(directory, "plain", (1, 2, 3))
    lakes = {
        text: write_value(directory, f"lake_{text}", (int(text) % 256, 0, 0))
        for text in ("500", "490", "480")
    }
    floats = {
        year: write_value(directory, f"float_{year}", (value,), **FLOATS)
        for year, value in (("1950", 10), ("1975", 900))
    }
    lake = layer_document(lakes["500"])
    others = {
        "PLAIN": layer_document(plain),
        "HALVES": years_document(
            directory,
            {
                "1950": halves(directory, "west", (200, 0, 0), "west"),
                "1975": halves(directory, "east", (0, 200, 0), "east"),
            },
        ),
        "HEIGHTS": {
            **layer_document(heights(directory)),
            "resampling": "nn",
            "dimensions": [
                {
                    "name": "elevation",
                    "of": "pixels",
                    "units": "CRS:88",
                    "values": "0/255/1",
                    "default": "0/255",
                }
            ],
        },
        "LAKES": {
            **lake,
            "dimensions": [
                {
                    "name": "elevation",
                    "units": "CRS:88",
                    "default": "500",
                    "nearest": True,
                    "multiple": False,
                }
            ],
            "variants": [
                {"at": {"elevation": text}, "pyramids": [{"path": str(path)}]}
                for text, path in lakes.items()
            ],
        },
        "EXACT": years_document(
            directory,
            {"1950": plain, "1975": lakes["500"]},
            dimensions=[{"name": "time", "default": "none"}],
        ),
        "FLOATS": years_document(directory, floats),
    }
    server_json = series_installation(
        directory,
        [{"time": year} for year in YEARS],
        services=("wms",),
        dimensions=[{"name": "time", "nearest": True, "tolerance": "P5Y"}],
        names={"template": "ORTHO_{time}", "listed": True},
        get_feature_info={"type": "PYRAMID"},
        others=others,
        services_overrides={"global": {"map": {"limits": {"layers_count": 2}}}},
    )
    return Asker(open_client(server_json), map_query, image)


def year(text: str) -> tuple[int, ...]:
    return colour_of(YEARS.index(text))


# ---------------------------------------------------------------- documents


def elements(maps: Asker, version: str, layer: str, *names: str) -> list[Any]:
    document = etree.fromstring(
        maps.client.get(f"/wms?SERVICE=WMS&REQUEST=GetCapabilities&VERSION={version}").data
    )
    (found,) = (one for one in document.iter("{*}Layer") if one.findtext("{*}Name") == layer)
    return [one for one in found if etree.QName(one).localname in names]


def test_capabilities_declare_the_dimensions_of_each_layer(maps: Asker) -> None:
    (time,) = elements(maps, "1.3.0", "ORTHO", "Dimension")
    assert time.text == "1950,1975,2000,2023"
    assert dict(time.attrib) == {
        "name": "time",
        "units": "ISO8601",
        "default": "2023",
        "multipleValues": "1",
        "nearestValue": "1",
        "current": "0",
    }
    (lake,) = elements(maps, "1.3.0", "LAKES", "Dimension")
    assert lake.text == "500,490,480"
    assert dict(lake.attrib) == {
        "name": "elevation",
        "units": "CRS:88",
        "unitSymbol": "m",
        "default": "500",
        "multipleValues": "0",
        "nearestValue": "1",
        "current": "0",
    }
    (pixels,) = elements(maps, "1.3.0", "HEIGHTS", "Dimension")
    assert (pixels.text, pixels.get("default")) == ("0/255/1", "0/255")
    (exact,) = elements(maps, "1.3.0", "EXACT", "Dimension")
    assert exact.get("default") is None
    assert not elements(maps, "1.3.0", "PLAIN", "Dimension")
    names = [etree.QName(one).localname for one in time.getparent()]
    assert names[names.index("Dimension") - 1] == "BoundingBox"


def test_extents_follow_all_dimensions_in_1_1_1(maps: Asker) -> None:
    dimension, extent = elements(maps, "1.1.1", "LAKES", "Dimension", "Extent")
    assert dict(dimension.attrib) == {"name": "elevation", "units": "CRS:88", "unitSymbol": "m"}
    assert (extent.text, dict(extent.attrib)) == (
        "500,490,480",
        # The document type has no other attributes.
        {"name": "elevation", "default": "500", "nearestValue": "1"},
    )


def test_listed_names_are_layers_without_dimensions(maps: Asker) -> None:
    for version in ("1.3.0", "1.1.1"):
        assert not elements(maps, version, "ORTHO_1950", "Dimension")
    assert maps.colour(LAYERS="ORTHO_1950") == year("1950")


@pytest.mark.shared_data
def test_documents_with_dimensions_are_valid(maps: Asker, shared_data: Path) -> None:
    from tests.wms.test_schemas import WMS_130, Local, schema

    parser = etree.XMLParser(no_network=True)
    parser.resolvers.add(Local(shared_data / "schemas"))
    path = "/wms?SERVICE=WMS&REQUEST=GetCapabilities&VERSION="
    document = etree.fromstring(maps.client.get(f"{path}1.3.0").data)
    schema(lambda text: etree.ElementTree(etree.fromstring(text, parser)), WMS_130).assertValid(
        etree.ElementTree(document)
    )
    dtd = etree.DTD(str(shared_data / "schemas" / "wms" / "1.1.1" / "WMS_MS_Capabilities.dtd"))
    dtd.assertValid(etree.fromstring(maps.client.get(f"{path}1.1.1").data))


# ---------------------------------------------------------------- maps


def test_a_value_selects_its_pyramid(maps: Asker) -> None:
    for text in YEARS:
        assert maps.colour(TIME=text) == year(text)
        assert maps.colour(time=f"{text}-01-01T00:00:00.000Z") == year(text)
        assert maps.colour(DIM_TIME=text, CRS="EPSG:4326", BBOX="50,60,51,61") == year(text)
        assert maps.colour(LAYERS=f"ORTHO;time={text}", TIME=text) == year(text)
    assert maps.colour() == maps.colour(TIME="current") == year("2023")
    one = {"VERSION": "1.1.1", "SRS": "EPSG:3857", "CRS": None, "TIME": "1975"}
    assert maps.colour(**one) == year("1975")


def test_layers_without_the_dimension_ignore_it(maps: Asker) -> None:
    assert maps.colour(LAYERS="PLAIN", TIME="1950") == (1, 2, 3)
    assert maps.colour(LAYERS="ORTHO,PLAIN", TIME="1950") == (1, 2, 3)
    assert maps.colour(LAYERS="PLAIN,ORTHO", TIME="1950", ELEVATION="7") == year("1950")


def test_the_newest_value_is_on_top(maps: Asker) -> None:
    assert maps.colour(TIME="1975,1950") == year("1975")
    assert maps.colour(TIME="1950/2000") == year("2000")
    whole = {"LAYERS": "HALVES", "BBOX": f"0,0,{HALF / 2},{HALF / 2}", "TRANSPARENT": "TRUE"}
    west = maps.read(maps.ask(TIME="1950", **whole))
    east = maps.read(maps.ask(TIME="1975", **whole))
    both = maps.read(maps.ask(TIME="1950,1975", **whole))
    assert west[..., 3].any()
    assert east[..., 3].any()
    assert np.array_equal(both, np.where(east[..., 3:] > 0, east, west))


def test_values_count_as_one_layer_but_not_in_lists_of_names(maps: Asker, fault: Fault) -> None:
    assert maps.colour(LAYERS="PLAIN,ORTHO", TIME="1950/2023") == year("2023")
    status, code, locator = fault(maps.ask(LAYERS="PLAIN,ORTHO,PLAIN", TIME="1950"))
    assert (status, code, locator) == (400, "InvalidParameterValue", "LAYERS")
    # A value that is listed often is one.
    assert maps.colour(TIME=",".join(["1950"] * 500)) == year("1950")


@pytest.mark.parametrize(
    ("changes", "code", "locator"),
    [
        ({"TIME": "1960"}, "InvalidDimensionValue", "time"),
        ({"TIME": "x"}, "InvalidDimensionValue", "time"),
        ({"TIME": "1950,1800"}, "InvalidDimensionValue", "time"),
        ({"LAYERS": "LAKES", "ELEVATION": "500,480"}, "InvalidDimensionValue", "elevation"),
        ({"LAYERS": "HEIGHTS", "ELEVATION": "300"}, "InvalidDimensionValue", "elevation"),
        ({"LAYERS": "EXACT"}, "MissingDimensionValue", "time"),
        ({"LAYERS": "ORTHO;height=5"}, "LayerNotDefined", "LAYERS"),
        ({"LAYERS": "ORTHO~token"}, "LayerNotDefined", "LAYERS"),
        ({"LAYERS": "ORTHO;time=1975", "TIME": "1950"}, "InvalidDimensionValue", "time"),
    ],
)
def test_values_are_refused(
    maps: Asker, fault: Fault, changes: dict[str, str], code: str, locator: str
) -> None:
    assert fault(maps.ask(**changes)) == (400, code, locator)
    for exceptions in ("INIMAGE", "BLANK"):
        response = maps.ask(EXCEPTIONS=exceptions, **changes)
        assert maps.read(response).shape[:2] == (8, 8)
        assert response.headers["Cache-Control"] == "no-store"


def test_warnings_name_the_values_used(maps: Asker) -> None:
    def warned(**changes: Any) -> list[str]:
        response = maps.ask(**changes)
        found = response.headers.getlist("Warning")
        tag = {"If-None-Match": response.headers["ETag"]}
        again = maps.ask(tag, **changes)
        assert (again.status_code, again.headers.getlist("Warning")) == (304, found)
        return found

    assert warned() == ["99 Default value used: time=2023 ISO8601"]
    assert warned(TIME="1952") == ["99 Nearest value used: time=1950 ISO8601"]
    assert warned(LAYERS="LAKES", ELEVATION="485") == ["99 Nearest value used: elevation=490 m"]
    assert warned(TIME="1950") == warned(LAYERS="PLAIN", TIME="1952") == []


def test_values_have_etags_of_their_own(maps: Asker) -> None:
    tags = [maps.ask(TIME=text).headers["ETag"] for text in (*YEARS, "1950,1975", "1950/2000")]
    assert len(set(tags)) == len(tags)
    tags = [maps.ask(LAYERS="HEIGHTS", ELEVATION=text).headers["ETag"] for text in ("0/9", "1/9")]
    assert tags[0] != tags[1]


def test_warnings_can_be_turned_off(
    tmp_path: Path, open_client: OpenClient, map_query: MapQuery, image: ReadImage
) -> None:
    overrides = {"wms": {"warnings": False}}
    path = series_installation(tmp_path, services=("wms",), services_overrides=overrides)
    maps = Asker(open_client(path), map_query, image)
    assert "Warning" not in maps.ask().headers


def test_a_value_that_cannot_be_opened_is_unavailable(
    tmp_path: Path, open_client: OpenClient, map_query: MapQuery, image: ReadImage
) -> None:
    path = series_installation(tmp_path, services=("wms",))
    maps = Asker(open_client(path), map_query, image)
    (tmp_path / "pyramids" / "value_0.json").write_text("{}")
    response = maps.ask(TIME="1950")
    assert response.status_code == 503
    assert "Retry-After" in response.headers
    assert maps.colour(TIME="1975") == colour_of(1)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("0/255", [(0, 255)]),
        ("10/20", [(10, 20)]),
        ("40", [(40, 40)]),
        ("40,60/70", [(40, 40), (60, 70)]),
        (None, [(0, 255)]),
    ],
)
@pytest.mark.parametrize("format", ["image/png", "image/x-bil;bits=32"])
def test_values_of_pixels_hide_other_pixels(
    maps: Asker, text: str | None, shown: list[tuple[int, int]], format: str
) -> None:
    size = HALF / 4
    box = f"0,{size},{size},{2 * size}"
    response = maps.ask(
        LAYERS="HEIGHTS",
        ELEVATION=text,
        BBOX=box,
        FORMAT=format,
        WIDTH=256,
        HEIGHT=4,
        TRANSPARENT="TRUE",
    )
    expected = np.zeros(256, bool)
    for low, high in shown:
        expected[low : high + 1] = True
    if format == "image/png":
        visible = maps.read(response)[0, :, -1] > 0
    else:
        assert response.status_code == 200, response.text
        values = np.frombuffer(response.data, "<f4").reshape(4, 256)[0]
        visible = values != -99999
        assert np.array_equal(values[visible], np.arange(256)[visible])
    assert np.array_equal(visible, expected)


# ---------------------------------------------------------------- feature info and legends


def test_feature_info_answers_for_each_value(maps: Asker) -> None:
    info = {
        "REQUEST": "GetFeatureInfo",
        "QUERY_LAYERS": "ORTHO",
        "I": 3,
        "J": 3,
        "INFO_FORMAT": "application/json",
    }

    def pixels(**changes: Any) -> list[Any]:
        features = maps.ask(**(info | changes)).get_json()["features"]
        return [(one["properties"].get("layer"), one["properties"]["pixel"]) for one in features]

    assert pixels(TIME="1950") == [(None, list(year("1950")))]
    assert pixels(TIME="1950/2000") == [
        (f"ORTHO;time={text}", list(year(text))) for text in ("2000", "1975", "1950")
    ]
    response = maps.ask(**info)
    assert response.headers["Warning"] == "99 Default value used: time=2023 ISO8601"
    qualified = {"LAYERS": "ORTHO;time=1950", "QUERY_LAYERS": "ORTHO;time=1950"}
    assert pixels(**qualified) == [(None, list(year("1950")))]


def test_legends_show_the_values_of_a_time(maps: Asker) -> None:
    def legend(**changes: str) -> TestResponse:
        query = {"SERVICE": "WMS", "REQUEST": "GetLegendGraphic", "VERSION": "1.3.0"}
        return maps.client.get("/wms", query_string={**query, **changes})

    newest, oldest = legend(LAYER="FLOATS"), legend(LAYER="FLOATS", TIME="1950")
    assert newest.status_code == oldest.status_code == 200
    assert newest.data != oldest.data
    assert legend(LAYER="FLOATS;time=1950").data == oldest.data
    # The address in documents has no time.
    assert legend(LAYER="EXACT").status_code == 200
    assert legend(LAYER="FLOATS", TIME="1800").status_code == 400
    assert legend(LAYER="FLOATS~x").status_code == 400


def test_the_clock_moves_the_default_in_documents(
    tmp_path: Path, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = series_installation(
        tmp_path,
        [{"time": "2024-01-01T00:00:00Z"}, {"time": "2024-01-01T06:00:00Z"}],
        services=("wms", "wmts"),
        dimensions=[{"name": "time", "default": "now"}],
    )
    client = open_client(path)
    for moment, default in ((1704067201, "T00:00:00Z"), (1704090000, "T06:00:00Z")):
        monkeypatch.setattr("mastaba_dimensions.table.time.time", lambda moment=moment: moment)
        for service in ("wms", "wmts"):
            for _ in range(2):
                data = client.get(f"/{service}?SERVICE={service}&REQUEST=GetCapabilities").data
                document = etree.fromstring(data)
                (one,) = document.iter("{*}Dimension")
                assert (one.get("default") or one.findtext("{*}Default")) == f"2024-01-01{default}"


@pytest.mark.parametrize(
    ("query", "cost"),
    [
        ("LAYERS=ORTHO", 1),
        ("LAYERS=ORTHO&TIME=1950", 1),
        ("LAYERS=ORTHO,PLAIN&TIME=1950,1975,2000", 4),
        ("LAYERS=PLAIN&TIME=1950/2000", 1),
        ("LAYERS=ORTHO&TIME=1950/2000", 16),
        ("LAYERS=ORTHO;time=1950&TIME=1,2", 2),
        ("LAYERS=NONE&TIME=1950/2000", 1),
    ],
)
def test_each_value_of_a_map_costs_as_a_layer(maps: Asker, query: str, cost: int) -> None:
    application: Any = maps.client.application
    service = application.site.services["wms"]
    map_of = "REQUEST=GetMap&CRS=EPSG:3857&WIDTH=256&HEIGHT=256&"
    assert service.cost(Request("GET", "", map_of + query, {})) == cost
