"""Tiles of older values, for those that a value does not have (time.md section 1.5)."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.access.test_views import rules, view
from tests.dimensions.conftest import MakeSeries, RefusedError
from tests.series import LEVELS, colour_of
from werkzeug.test import Client

from mastaba.api.catalogue import Catalogue, Layer
from mastaba.api.tools import create_application
from mastaba_access.gate import RulesGate
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

YEARS = ("1950", "1975", "1999", "2023")
HAS = {
    "1950": {(2, 4), (2, 5), (3, 4)},
    "1975": {(2, 4), (2, 5)},
    "1999": {(2, 4)},
    # Its limits are only one tile.
    "2023": {(2, 4)},
}
TILES = {
    "WMTS": "/wmts?SERVICE=WMTS&REQUEST=GetTile&VERSION=1.0.0&LAYER=ORTHO&STYLE=normal"
    "&FORMAT=image/png&TILEMATRIXSET=PM&TILEMATRIX=3&TILEROW={row}&TILECOL={column}&TIME={year}",
    "TMS": "/tms/1.0.0/ORTHO;time={year}/3/{column}/{row}.png",
    "OGC": "/ogcapi/collections/ORTHO/map/tiles/PM/3/{row}/{column}?datetime={year}",
}


def installation(
    folder: Path, *, channels: int = 3, styles: Sequence[str] = ("normal",), **dimension: Any
) -> Path:
    """Write a layer of four years, each of which has fewer tiles than the one before."""
    (folder / "pyramids").mkdir(parents=True)
    variants = []
    for position, year in enumerate(YEARS):
        pixels = np.full((256, 256, channels), colour_of(position)[:channels], np.uint8)

        def tile(level: str, row: int, column: int, year: str = year, pixels: Any = pixels) -> Any:
            return pixels if level == "2" or (row, column) in HAS[year] else None

        levels = LEVELS if year != "2023" else (LEVELS[0], LevelPlan("3", 2, 2, 4, 4))
        write_pyramid(
            folder / "pyramids",
            year,
            tile_matrix_set=web_mercator(),
            format="TIFF_PNG_UINT8",
            channels=channels,
            levels=levels,
            tile=tile,
            tables=(),
            tiles_per_width=1,
            tiles_per_height=1,
        )
        path = str(folder / f"pyramids/{year}.json")
        final = {"final": True} if year == "1999" else {}
        variants.append({"at": {"time": year}, "pyramids": [{"path": path}], **final})
    document = dict(layer_document(folder / "pyramids/2023.json"))
    document |= {"dimensions": [{"name": "time", **dimension}], "variants": variants}
    document["styles"] = list(styles)
    document["get_feature_info"] = {"type": "PYRAMID"}
    caching = {"layers": "max-age=60", "surrogate_keys": True}
    return write_installation(
        folder,
        layers={"ORTHO": document},
        services=("wmts", "tms", "ogcapi"),
        services_overrides={"global": {"caching": caching}},
    )


@pytest.fixture(scope="module")
def client(
    tmp_path_factory: pytest.TempPathFactory, open_client: Callable[[Path], Client]
) -> Client:
    return open_client(installation(tmp_path_factory.mktemp("previous"), fallback="previous"))


def shown(response: Any) -> str | None:
    """Return the year that a tile shows; None for a missing one."""
    if response.status_code != 200:
        # 400: outside the limits of a year.
        assert response.status_code in (204, 400, 404), response.text
        return None
    image = np.asarray(Image.open(io.BytesIO(response.data)).convert("RGB"))
    assert (image == image[0, 0]).all()
    colours = [colour_of(position) for position in range(len(YEARS))]
    return YEARS[colours.index(tuple(image[0, 0].tolist()))]


def address(protocol: str, row: int, column: int, year: str) -> str:
    return TILES[protocol].format(row=row, column=column, year=year)


@pytest.mark.parametrize("protocol", TILES)
def test_the_newest_older_value_that_has_a_tile_answers(client: Client, protocol: str) -> None:
    for year in YEARS:
        for row, column in ((2, 4), (2, 5), (3, 4), (3, 5)):
            older = [one for one in YEARS if one <= year and (row, column) in HAS[one]]
            for _ in range(2):  # the second time perhaps from the table
                response = client.get(address(protocol, row, column, year))
                expected = older[-1] if older else None
                assert shown(response) == expected
                if expected is not None:
                    interval = f"{expected}-01-01T00:00:00Z/{expected}-12-31T23:59:59Z"
                    assert response.headers.getlist("OGCAPI-datetime") == [interval]


def test_the_default_falls_back_too(client: Client) -> None:
    path = "/tms/1.0.0/ORTHO/3/4/3.png"
    assert shown(client.get(path)) == "1950"


def test_caches_keep_a_passing_answer_as_long_as_the_layer(client: Client) -> None:
    """A tile that 1999 does not have may come with an update of it, though it says `final`."""
    own = client.get(address("WMTS", 2, 4, "1999"))
    assert "s-maxage=31536000" in own.headers["Cache-Control"]
    passing = client.get(address("WMTS", 2, 5, "1999"))
    assert passing.headers.getlist("Cache-Control") == ["max-age=60"]
    assert passing.headers["ETag"] == client.get(address("WMTS", 2, 5, "1975")).headers["ETag"]
    (keys,) = passing.headers.getlist("Surrogate-Key")
    expected = ("layer-ORTHO", *(f"layer-ORTHO%3Btime%3D{year}" for year in ("1975", "1999")))
    slabs = (f"slab-ORTHO%3Btime%3D{year}/3/5/2" for year in ("1975", "1999"))
    assert {*expected, *slabs} <= set(keys.split())
    assert len(keys.split()) == len(set(keys.split()))
    fresh = client.get(
        address("WMTS", 2, 5, "1999"), headers={"If-None-Match": passing.headers["ETag"]}
    )
    assert fresh.status_code == 304


def test_feature_info_is_of_the_tile_that_is_shown(client: Client) -> None:
    path = address("WMTS", 2, 5, "1999").replace("GetTile", "GetFeatureInfo")
    answer = client.get(f"{path}&INFOFORMAT=application/json&I=3&J=3")
    assert answer.status_code == 200, answer.text
    (feature,) = json.loads(answer.data)["features"]
    assert list(colour_of(1)) in feature["properties"].values()


def test_the_style_is_that_of_the_request(
    tmp_path: Path, open_client: Callable[[Path], Client]
) -> None:
    """Styles without a palette share their tiles, the default may have one."""
    server = installation(tmp_path, channels=1, styles=("ember", "normal"), fallback="previous")
    client = open_client(server)
    for style, mode in (("normal", "L"), ("ember", "P")):
        for year in ("1999", "1975"):
            path = address("WMTS", 2, 5, year).replace("STYLE=normal", f"STYLE={style}")
            assert Image.open(io.BytesIO(client.get(path).data)).mode == mode


class Rows(list[Any]):
    """The rows of a table, and how often they are read."""

    read = 0

    def __getitem__(self, position: Any) -> Any:
        self.read += 1
        return super().__getitem__(position)


def test_a_view_does_not_keep_what_it_does_not_show(make_series: MakeSeries) -> None:
    series = make_series(["1990", "1991", "1992", "1993"], {"name": "time", "fallback": "previous"})
    table = series._table
    assert list(table.older(3, "time")) == [2, 1, 0]
    assert table.default_position == 3
    other = series._of(table.rows[1:3])
    assert list(other._table.older(1, "time")) == [0]
    assert other._table.default_position == 1


def test_a_missing_tile_does_not_cost_more_with_more_values(
    make_series: MakeSeries, monkeypatch: pytest.MonkeyPatch
) -> None:
    years = [str(year) for year in range(1900, 2000)]
    series = make_series(years, {"name": "time", "fallback": "previous"})
    opened = []

    def get(variant: Any, _refresh: Any) -> Layer:
        opened.append(variant.at["time"])
        return series.layer

    monkeypatch.setattr(series.opener, "get", get)
    list(series.previous(series.layer))
    assert opened == years[-2:-17:-1]
    rows = Rows(series._table.rows)
    series._table.rows = rows
    list(series.previous(series.layer))
    assert len(opened) == 30
    assert rows.read <= 100


def test_without_fallback_a_missing_tile_is_missing(
    tmp_path: Path, open_client: Callable[[Path], Client]
) -> None:
    client = open_client(installation(tmp_path))
    assert shown(client.get(address("WMTS", 2, 5, "2023"))) is None
    assert "OGCAPI-datetime" not in client.get(address("WMTS", 2, 4, "2023")).headers


def limited(folder: Path, limit: Any) -> tuple[Any, Catalogue]:
    server = installation(folder, fallback="previous")
    file = folder / "access.json"
    file.write_text(json.dumps(rules({"limit": limit}, {"allow": {}})))
    site = create_application(str(server)).site
    site.plugin_settings = {"access": {"rules": str(file)}}
    return site, view(RulesGate(site, site.plugin_settings["access"]), site, "wmts")


def test_hidden_values_do_not_answer(tmp_path: Path) -> None:
    site, found = limited(tmp_path, {"time": ["1975", ""]})
    whole = site.catalogue
    for catalogue, years in ((whole, ["1999", "1975", "1950"]), (found, ["1999", "1975"])):
        layer = catalogue.resolve("ORTHO", {"time": "2023"}).layer
        assert [one.at["time"] for one in catalogue.previous(layer)] == years


def test_a_view_of_an_area_shows_older_tiles_as_its_own(tmp_path: Path) -> None:
    site, found = limited(tmp_path, {"scale": [1, 1e8]})
    layer = found.resolve("ORTHO", {"time": "2023"}).layer
    older = list(found.previous(layer))
    assert [list(one.pyramid.levels) for one in older] == [["3"]] * 3
    (again,) = site.catalogue.resolve("ORTHO", {"time": "1999"}).layers
    assert older[0].readers is not again.readers


@pytest.mark.parametrize(
    ("dimensions", "key"),
    [
        ([{"name": "elevation", "fallback": "previous"}], "$.dimensions[0].fallback"),
        (
            [{"name": one, "fallback": "previous"} for one in ("time", "reference_time")],
            "$.dimensions",
        ),
    ],
)
def test_only_one_time_has_previous_values(
    make_series: MakeSeries, dimensions: list[dict[str, str]], key: str
) -> None:
    row = {one["name"]: "2000" for one in dimensions}
    with pytest.raises(RefusedError) as raised:
        make_series([row], *dimensions)
    assert raised.value.args[0] == key


def test_older_values_have_the_same_other_values(make_series: MakeSeries) -> None:
    rows = [
        {"time": year, "elevation": height}
        for year, height in (("2000", "5"), ("1990", "5"), ("1980", "0"), ("1970", "5"))
    ]
    series = make_series(rows, {"name": "time", "fallback": "previous"}, {"name": "elevation"})
    table = series._table
    assert [table.at(one)["time"] for one in table.older(0, "time")] == ["1990", "1970"]
    assert table.older(2, "time") == []
