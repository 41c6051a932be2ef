"""The altimetry service of IGN: a test for each row of the tables (elevation.md 3.1)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from lxml import etree
from tests.elevation.conftest import Open, post, read
from tests.elevation.world import ALPS, plain_sample
from werkzeug.test import Client

from mastaba.api.catalogue import CRS, WGS84, transform_points

REST = "/elevation/1.0/calcul/alti/rest"


def degrees(*points: tuple[float, float]) -> tuple[list[float], list[float]]:
    import numpy as np

    x, y = (np.array(values, float) for values in zip(*points, strict=True))
    lon, lat = transform_points(CRS.from_code("EPSG:2154"), WGS84, x, y)
    return lon.tolist(), lat.tolist()


PLACES = ((900400.0, 6599700.0), (900500.0, 6599600.0), (900600.0, 6599650.0))
LON, LAT = degrees(*PLACES)
LONS, LATS = "|".join(map(repr, LON)), "|".join(map(repr, LAT))


def ask(client: Client, name: str, status: int = 200, **parameters: Any) -> Any:
    given = {"lon": LONS, "lat": LATS, "resource": "alps", **parameters}
    query = {key: value for key, value in given.items() if value is not None}
    return read(client.get(f"{REST}/{name}.json", query_string=query), status)


def test_points_have_z_and_accuracy(client: Client) -> None:
    found = ask(client, "elevation")
    assert set(found) == {"elevations"}
    for entry, (x, y), lon, lat in zip(found["elevations"], PLACES, LON, LAT, strict=True):
        height, _ = plain_sample(ALPS, x, y)
        assert height is not None
        assert entry == {
            "lon": lon,
            "lat": lat,
            "z": pytest.approx(height, abs=0.02),
            "acc": 0.5,
        }
        assert round(entry["z"], 2) == entry["z"]


def test_second_path_and_post_give_the_same(client: Client) -> None:
    wanted = ask(client, "elevation")
    body = {"lon": LONS, "lat": LATS, "resource": "alps", "delimiter": "|", "indent": "false"}
    other = "/elevation/calcul/alti/rest/elevation.json"
    assert read(post(client, f"{REST}/elevation.json", body)) == wanted
    assert read(post(client, other, body)) == wanted
    real = {"lon": LON, "lat": LAT, "resource": "alps", "zonly": False}
    assert read(post(client, other, real)) == wanted
    assert read(client.post(other, data=body)) == wanted


def test_zonly_has_numbers_only(client: Client) -> None:
    whole = [entry["z"] for entry in ask(client, "elevation")["elevations"]]
    assert ask(client, "elevation", zonly="true") == {"elevations": whole}


@pytest.mark.parametrize("delimiter", ["|", ";", ","])
def test_delimiters(client: Client, delimiter: str) -> None:
    lon, lat = LONS.replace("|", delimiter), LATS.replace("|", delimiter)
    found = ask(client, "elevation", lon=lon, lat=lat, delimiter=delimiter)
    assert found == ask(client, "elevation")


def test_measures_have_an_entry_per_layer(client: Client) -> None:
    found = ask(client, "elevation", resource="stack", measures="true")["elevations"][0]
    sources = [measure["source_name"] for measure in found["measures"]]
    assert sources == ["survey", "merc", "world"]
    first = found["measures"][0]
    assert set(first) == {"z", "source_name", "source_measure", "acc", "title"}
    assert first["source_measure"] == "Fixed value"
    assert (found["z"], found["acc"]) == (first["z"], first["acc"])


def test_no_data_is_a_number(client: Client) -> None:
    found = ask(client, "elevation", lon="0|0", lat="0|80")
    assert [entry["z"] for entry in found["elevations"]] == [-99999, -99999]


def test_default_resource_and_aliases(client: Client) -> None:
    wanted = ask(client, "elevation", resource="stack")
    assert ask(client, "elevation", resource=None) == wanted
    assert ask(client, "elevation", resource="ign_rge_alti_wld") == wanted


def test_crs_of_old_clients_is_ignored(client: Client) -> None:
    assert ask(client, "elevation", crs="'CRS:84'") == ask(client, "elevation")


def test_line_returns_the_vertices_by_default(client: Client) -> None:
    found = ask(client, "elevationLine")
    assert [entry["lon"] for entry in found["elevations"]] == LON
    z = [entry["z"] for entry in found["elevations"]]
    up = sum(max(b - a, 0) for a, b in pairwise(z))
    down = sum(max(a - b, 0) for a, b in pairwise(z))
    assert found["height_differences"]["positive"] == pytest.approx(up, abs=0.011)
    assert found["height_differences"]["negative"] == pytest.approx(down, abs=0.011)


def test_points_at_thirds_of_a_segment(client: Client) -> None:
    """Straight in degrees: a third of the way is a third of both differences."""
    found = ask(client, "elevationLine", lon="6|9", lat="45|46.5", sampling="4", resource="world")
    assert [entry["lon"] for entry in found["elevations"]] == pytest.approx([6, 7, 8, 9], abs=0.02)
    inner = found["elevations"][1]
    assert inner["lat"] - 45 == pytest.approx((inner["lon"] - 6) / 2, abs=1e-9)


@pytest.mark.parametrize(
    ("sampling", "mode", "count"),
    [
        (0, "simple", 3),
        (1, "simple", 3),
        (2, "simple", 2),
        (7, "simple", 7),
        (4, "accurate", 8),
        (5000, "simple", 5000),
    ],
)
def test_sampling(client: Client, sampling: int, mode: str, count: int) -> None:
    found = ask(client, "elevationLine", sampling=sampling, profile_mode=mode)["elevations"]
    assert len(found) == count
    lons = [entry["lon"] for entry in found]
    assert (lons[0], lons[-1]) == (LON[0], LON[-1])
    # All vertices are kept if there are enough points.
    assert count < 3 or LON[1] in lons


def test_xml(client: Client) -> None:
    query = {"lon": LONS, "lat": LATS, "resource": "alps"}
    response = client.get(f"{REST}/elevation.xml", query_string=query | {"measures": "true"})
    assert response.content_type == "application/xml"
    root = etree.fromstring(response.data)
    assert root.tag == "elevations"
    assert [child.tag for child in root[0]] == ["lon", "lat", "z", "acc", "measures"]
    assert root[0].findtext("measures/measure/source_measure") == "Fixed value"
    only = etree.fromstring(
        client.get(f"{REST}/elevation.xml", query_string=query | {"zonly": "true"}).data
    )
    assert [child.tag for child in only] == ["z", "z", "z"]
    line = etree.fromstring(client.get(f"{REST}/elevationLine.xml", query_string=query).data)
    assert float(line.findtext("height_differences/positive") or "x") >= 0


def test_csv(client: Client) -> None:
    query = {"lon": LONS, "lat": LATS, "resource": "alps"}
    response = client.get(f"{REST}/elevation.csv", query_string=query)
    lines = response.text.split("\r\n")
    assert lines[0] == "lon;lat;z;acc"
    assert len(lines) == 5
    assert lines[1].split(";")[0] == repr(LON[0])


@pytest.mark.parametrize(
    ("parameters", "code", "text"),
    [
        ({"lon": None}, "MISSING_PARAMETER", "lon"),
        ({"lat": "45"}, "BAD_PARAMETER", "lat"),
        ({"lon": "181|6|6"}, "BAD_PARAMETER", "180"),
        ({"lat": "91|6|6"}, "BAD_PARAMETER", "90"),
        ({"lon": "a|6|6"}, "BAD_PARAMETER", "lon"),
        ({"lon": "nan|6|6"}, "BAD_PARAMETER", "lon"),
        ({"lon": "|".join(["6"] * 5001)}, "BAD_PARAMETER", "5000"),
        ({"delimiter": "x"}, "BAD_PARAMETER", "delimiter"),
        ({"zonly": "perhaps"}, "BAD_PARAMETER", "zonly"),
        ({"resource": "none"}, "BAD_PARAMETER", "none is not an accepted resource"),
    ],
)
def test_errors_have_both_levels(
    client: Client, parameters: dict[str, Any], code: str, text: str
) -> None:
    found = ask(client, "elevation", 400, **parameters)
    assert found["code"] == code
    assert text in found["description"]
    assert found["error"] == {"code": code, "description": found["description"]}
    query = {"lon": LONS, "lat": LATS, "resource": "alps", **parameters}
    given = {key: value for key, value in query.items() if value is not None}
    response = client.get(f"{REST}/elevation.xml", query_string=given)
    root = etree.fromstring(response.data)
    assert (root.tag, root.findtext("code")) == ("error", code)


@pytest.mark.parametrize(
    "parameters", [{"sampling": "5001"}, {"profile_mode": "x"}, {"lon": "6", "lat": "45"}]
)
def test_errors_of_lines(client: Client, parameters: dict[str, Any]) -> None:
    assert ask(client, "elevationLine", 400, **parameters)["code"] == "BAD_PARAMETER"


def test_missing_resource_without_default(open_with: Open) -> None:
    client = open_with({"facades": {"ign": True}})
    assert ask(client, "elevation", 400, resource=None)["code"] == "MISSING_PARAMETER"


def test_resources(client: Client, open_with: Open) -> None:
    found = read(client.get("/elevation/resources"))["resources"]
    assert [item["id"] for item in found] == ["stack", "alps", "merc", "world"]
    assert found[1]["used_data"] == [{"title": "alps", "source": "survey", "accuracy": 0.5}]
    one = read(client.get("/elevation/resources/alps"))
    assert one == found[1]
    assert read(client.get("/elevation/resources/none"), 404)["code"] == "NOT_FOUND"
    words = {"keywords": ["dem", "France"]}
    other = open_with({"facades": {"ign": True}}, alps=words, world={"keywords": ["dem"]})
    both = read(other.get("/elevation/resources?keywords=dem&keywords=france"))["resources"]
    assert [item["id"] for item in both] == ["alps"]
    assert read(other.get("/elevation/resources?keywords=x"))["resources"] == []


def test_off_by_default(open_with: Open) -> None:
    client = open_with({})
    assert client.get(f"{REST}/elevation.json?lon=1&lat=2&resource=alps").status_code == 404
