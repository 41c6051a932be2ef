"""The services of swisstopo: a test for each row of the tables (elevation.md 3.2)."""

from __future__ import annotations

import csv
import json
from typing import Any

import numpy as np
import pytest
from tests.elevation.conftest import Open, post, read
from tests.elevation.world import ALPS, WORLD, plain_sample
from werkzeug.test import Client

ROOT = "/elevation/rest/services"
LINE = {
    "type": "LineString",
    "coordinates": [[900100, 6599900], [900300, 6599700], [900350, 6599700]],
}
GEOM = json.dumps(LINE)


def profile(client: Client, status: int = 200, **parameters: Any) -> Any:
    query = {"geom": GEOM, "sr": "2154", **parameters}
    given = {key: value for key, value in query.items() if value is not None}
    return read(client.get(f"{ROOT}/profile.json", query_string=given), status)


def error(content: Any) -> str:
    assert content["success"] is False
    assert set(content["error"]) == {"code", "message"}
    message: str = content["error"]["message"]
    return message


@pytest.mark.parametrize("names", [("easting", "northing"), ("lon", "lat")])
def test_height_is_a_text(client: Client, names: tuple[str, str]) -> None:
    place = dict(zip(names, ("900400", "6599700"), strict=True))
    found = read(client.get(f"{ROOT}/height", query_string=place | {"sr": "2154"}))
    height, _ = plain_sample(ALPS, 900400, 6599700)
    assert found == {"height": f"{height:.1f}"}


def test_crs_is_guessed(client: Client) -> None:
    with_crs = profile(client)
    assert profile(client, sr=None) == with_crs
    assert profile(client, sr=None, projection="2154") == with_crs
    assert "cannot be guessed" in error(
        profile(client, 400, sr=None, geom='{"type":"Point","coordinates":[1e9,1e9]}')
    )


@pytest.mark.parametrize("sr", ["27700", "abc", "2154.5", "nan"])
def test_other_crs_is_400(client: Client, sr: str) -> None:
    assert profile(client, 400, sr=sr)["error"]["code"] == 400


def test_swiss_boxes_are_known(open_with: Open) -> None:
    client = open_with({"facades": {"swisstopo": {"dataset": "world"}}})
    query = {"easting": "2600000", "northing": "1200000"}
    here = read(client.get(f"{ROOT}/height", query_string=query))
    old = {"easting": "600000", "northing": "200000"}
    assert (
        abs(
            float(read(client.get(f"{ROOT}/height", query_string=old))["height"])
            - float(here["height"])
        )
        < 1
    )
    assert here == read(client.get(f"{ROOT}/height", query_string=query | {"sr": "2056"}))


def test_profile_entries(client: Client) -> None:
    found = profile(client, nb_points="9")
    assert set(found[0]) == {"alts", "dist", "easting", "northing"}
    assert set(found[0]["alts"]) == {"COMB", "DTM2", "DTM25"}
    assert (found[0]["easting"], found[0]["northing"], found[0]["dist"]) == (900100, 6599900, 0)
    for entry in found:
        height, _ = plain_sample(ALPS, entry["easting"], entry["northing"])
        assert height is not None
        assert entry["alts"]["COMB"] == pytest.approx(height, abs=0.1)
    assert found[-1]["dist"] == pytest.approx(np.hypot(200, 200) + 50, abs=0.1)


def test_number_of_points_follows_the_formula_of_the_service(client: Client) -> None:
    """Per segment, max(1, round((n - 1) · share)) intervals."""
    for count in (2, 5, 9, 50, 200):
        lengths = np.array([np.hypot(200, 200), 50])
        intervals = np.maximum(1, np.round((count - 1) * lengths / lengths.sum()))
        complete = intervals.sum() + 1 == count
        found = profile(client, 200 if complete else 203, nb_points=str(count))
        assert len(found) == intervals.sum() + 1
    assert len(profile(client)) == 200


def test_names_of_the_number_of_points(client: Client) -> None:
    assert len(profile(client, nbPoints="50")) == len(profile(client, nb_points="50"))


@pytest.mark.parametrize("count", ["1", "0", "-3", "5001", "x"])
def test_invalid_number_of_points(client: Client, count: str) -> None:
    assert profile(client, 400, nb_points=count)["error"]["code"] == 400


def test_distinct_points_keep_vertices(client: Client) -> None:
    found = profile(client, nb_points="7", distinct_points="true")
    assert len(found) == 7
    assert [
        entry["easting"] for entry in found if entry["easting"] in (900100, 900300, 900350)
    ] == [
        900100,
        900300,
        900350,
    ]


def test_only_requested_points_are_the_vertices(client: Client) -> None:
    assert len(profile(client, only_requested_points="true")) == 3


def test_smart_filling_steps_are_no_smaller_than_cells(client: Client) -> None:
    found = profile(client, smart_filling="true")
    steps = np.diff([entry["dist"] for entry in found])
    assert steps.min() >= 9.9


def test_offset_smooths(client: Client) -> None:
    plain = [entry["alts"]["COMB"] for entry in profile(client, nb_points="100")]
    smooth = [entry["alts"]["COMB"] for entry in profile(client, nb_points="100", offset="3")]
    assert np.abs(np.diff(smooth)).max() < np.abs(np.diff(plain)).max()
    middle = sum(plain[50 + k] / (abs(k) + 1) for k in range(-3, 4)) / sum(
        1 / (abs(k) + 1) for k in range(-3, 4)
    )
    assert smooth[50] == pytest.approx(middle, abs=0.2)


def test_points_without_height_are_left_out(client: Client) -> None:
    """Heights of 0 and below are kept; the distance goes on over a hole."""
    geom = json.dumps({"type": "LineString", "coordinates": [[899900, 6599895], [900300, 6599895]]})
    found = profile(client, 203, geom=geom, nb_points="41")
    assert len(found) < 41
    assert found[0]["dist"] > 90
    assert all(entry["easting"] >= 900000 for entry in found)


def test_heights_below_zero_are_kept(open_with: Open) -> None:
    client = open_with({"facades": {"swisstopo": {"dataset": "world", "crs": [4326]}}})
    geom = json.dumps({"type": "LineString", "coordinates": [[-60, 30], [60, 30]]})
    found = read(client.get(f"{ROOT}/profile.json", query_string={"geom": geom}))
    assert min(entry["alts"]["COMB"] for entry in found) < 0


def test_csv(client: Client) -> None:
    query = {"geom": GEOM, "sr": "2154", "nb_points": "9"}
    response = client.get(f"{ROOT}/profile.csv", query_string=query)
    assert response.content_type.startswith("text/csv")
    assert response.text.startswith('"Distance";"Altitude";"Easting";"Northing"\r\n"0.0";"')
    rows = list(csv.reader(response.text.splitlines(), delimiter=";"))
    wanted = profile(client, nb_points="9")
    assert [float(row[1]) for row in rows[1:]] == [entry["alts"]["COMB"] for entry in wanted]


def test_post(client: Client) -> None:
    wanted = profile(client, nb_points="9")
    query = "sr=2154&nb_points=9"
    assert read(post(client, f"{ROOT}/profile.json?{query}", LINE)) == wanted
    form = {"geom": GEOM, "sr": "2154", "nb_points": "9"}
    assert read(client.post(f"{ROOT}/profile.json", data=form)) == wanted
    other = client.post(f"{ROOT}/profile.json", data="x", content_type="text/plain")
    assert read(other, 415)["error"]["code"] == 415


def test_callback(client: Client) -> None:
    query = {"geom": GEOM, "sr": "2154", "callback": "jQuery1.cb"}
    response = client.get(f"{ROOT}/profile.json", query_string=query)
    assert response.content_type == "application/javascript"
    assert response.text.startswith("jQuery1.cb([")
    assert profile(client, 400, callback="alert(1)//")["success"] is False
    assert client.get(f"{ROOT}/profile.csv", query_string=query).status_code == 400


@pytest.mark.parametrize(
    ("geom", "text"),
    [
        (None, "No 'geom' given, cannot create a profile without coordinates"),
        ("{", "Invalid geom parameter, must be a GEOJSON"),
        ("[]", "Invalid geom parameter, must be a GEOJSON"),
        ('{"type":"LineString","coordinates":[[1]]}', "Invalid geom parameter, must be a GEOJSON"),
        (
            '{"type":"Polygon","coordinates":[]}',
            "geom parameter must be a LineString/Point GEOJSON",
        ),
    ],
)
def test_texts_of_errors(client: Client, geom: str | None, text: str) -> None:
    assert error(profile(client, 400, geom=geom)) == text


def test_texts_of_height_errors(client: Client) -> None:
    missing = read(client.get(f"{ROOT}/height?northing=1"), 400)
    assert error(missing) == "Missing parameter 'easting'/'lon'"
    missing = read(client.get(f"{ROOT}/height?easting=1"), 400)
    assert error(missing) == "Missing parameter 'northing'/'lat'"
    outside = read(client.get(f"{ROOT}/height?easting=100000&northing=6500000&sr=2154"), 400)
    assert error(outside) == "Query is out of bounds"


def test_too_many_vertices_are_413(client: Client) -> None:
    many = {"type": "LineString", "coordinates": [[900100 + n / 100, 6599900] for n in range(5001)]}
    assert error(read(post(client, f"{ROOT}/profile.json?sr=2154", many), 413))


def test_default_dataset_is_the_first(open_with: Open) -> None:
    several = {"datasets": [{"id": "best", "layers": ["alps", "world"]}]}
    client = open_with({"facades": {"swisstopo": True}, **several})
    response = client.get("/elevation/rest/services/height?lon=20.5&lat=10.25&sr=4326")
    height, _ = plain_sample(WORLD, 20.5, 10.25)
    assert height is not None
    assert json.loads(response.data) == {"height": f"{height:.1f}"}
