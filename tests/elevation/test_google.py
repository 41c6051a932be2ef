"""Google's and Open Topo Data's elevation API, and tileserver-gl (elevation.md 3.3)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.elevation.conftest import Open, OpenClient, post, read
from tests.elevation.world import WORLD, plain_sample
from werkzeug.test import Client

from mastaba_elevation.queries import queries
from mastaba_elevation.queries.ground import metres_per_unit
from mastaba_elevation.queries.sampling import level_for, levels_for
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import synthetic

V1 = "/elevation/v1"
MAPS = "/elevation/maps/api/elevation/json"


def test_results(client: Client) -> None:
    found = read(client.get(f"{V1}/world?locations=-43.5,172.5|10,20.25"))
    assert found["status"] == "OK"
    height, _ = plain_sample(WORLD, 172.5, -43.5)
    first = found["results"][0]
    assert first["elevation"] == pytest.approx(height, abs=1e-4)
    assert first["location"] == {"lat": -43.5, "lng": 172.5}
    assert first["dataset"] == "world"
    assert first["resolution"] == pytest.approx(156543.034 * 1, rel=0.01)


def test_first_value_of_several_datasets_wins(client: Client) -> None:
    found = read(client.get(f"{V1}/alps,world?locations=10,20"))
    assert found["results"][0]["dataset"] == "world"
    assert read(client.get(f"{V1}/alps?locations=10,20"))["results"][0]["elevation"] is None


@pytest.mark.parametrize("names", ["none", "alps,none", "alps,alps", ""])
def test_unknown_or_repeated_dataset(client: Client, names: str) -> None:
    response = client.get(f"{V1}/{names}?locations=1,2")
    content = read(response, 404 if not names else 400)
    assert content["status"] == ("NOT_FOUND" if not names else "INVALID_REQUEST")


def test_polyline(client: Client) -> None:
    """The usual example: (38.5, -120.2), (40.7, -120.95), (43.252, -126.453)."""
    text = "_p~iF~ps|U_ulLnnqC_mqNvxq`@"
    plain = "38.5,-120.2|40.7,-120.95|43.252,-126.453"
    wanted = read(client.get(f"{V1}/world", query_string={"locations": plain}))
    assert read(client.get(f"{V1}/world", query_string={"locations": text})) == wanted
    assert read(client.get(f"{V1}/world", query_string={"locations": f"enc:{text}"})) == wanted


def test_samples_are_at_equal_distances(client: Client) -> None:
    from mastaba_elevation.queries.ground import GEOD

    query = {"locations": "0,0|0,10|20,10", "samples": "6"}
    found = read(client.get(f"{V1}/world", query_string=query))["results"]
    places = [(item["location"]["lng"], item["location"]["lat"]) for item in found]
    assert len(places) == 6
    assert (places[0], places[-1]) == ((0, 0), (10, 20))
    total = GEOD.line_length([0, 10, 10], [0, 0, 20])
    along = GEOD.line_length(*zip(*places[:2], strict=True))
    assert along == pytest.approx(total / 5, rel=1e-6)
    assert (
        len(read(client.get(f"{V1}/world", query_string=query | {"samples": "2"}))["results"]) == 2
    )


@pytest.mark.parametrize("method", ["nearest", "bilinear", "cubic"])
def test_interpolation(client: Client, method: str) -> None:
    query = {"locations": "10.3,20.2", "interpolation": method}
    found = read(client.get(f"{V1}/world", query_string=query))["results"][0]["elevation"]
    if method != "cubic":
        wanted, _ = plain_sample(WORLD, 20.2, 10.3, method)
        assert found == pytest.approx(wanted, abs=1e-3)
    else:
        assert found is not None


@pytest.mark.parametrize(("text", "value"), [("null", None), ("nan", None), ("-9999", -9999)])
def test_nodata_value(client: Client, text: str, value: float | None) -> None:
    query = {"locations": "10,20", "nodata_value": text}
    found = read(client.get(f"{V1}/alps", query_string=query))
    assert found["results"][0]["elevation"] == value


def test_geojson(client: Client) -> None:
    found = read(client.get(f"{V1}/world?locations=10,20&format=geojson"))
    feature = found["features"][0]
    assert feature["geometry"]["coordinates"][:2] == [20, 10]
    assert len(feature["geometry"]["coordinates"]) == 3
    assert feature["properties"] == {"dataset": "world"}


def test_post(client: Client) -> None:
    wanted = read(client.get(f"{V1}/world?locations=10,20|11,21"))
    # The query of a POST is ignored.
    path = f"{V1}/world?locations=1,2"
    assert read(post(client, path, {"locations": "10,20|11,21"})) == wanted
    assert read(client.post(path, data={"locations": "10,20|11,21"})) == wanted


def test_google_form(client: Client) -> None:
    wanted = read(client.get(f"{V1}/stack?locations=10,20"))
    assert read(client.get(f"{MAPS}?locations=10,20")) == wanted
    path = read(client.get(f"{MAPS}?path=10,20|11,21&samples=5"))
    assert len(path["results"]) == 5
    many = "|".join(["1,2"] * 5001)
    assert read(client.get(MAPS, query_string={"locations": many}), 400)["status"] == (
        "OVER_QUERY_LIMIT"
    )


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"locations": ""},
        {"locations": "1"},
        {"locations": "91,0"},
        {"locations": "0,181"},
        {"locations": "1,2,3"},
        {"locations": "nan,1"},
        {"locations": "a,b"},
        {"locations": "é"},
        {"locations": "1,2", "samples": "1"},
        {"locations": "1,2", "samples": "5001"},
        {"locations": "1,2", "interpolation": "x"},
        {"locations": "1,2", "nodata_value": "x"},
        {"locations": "1,2", "format": "x"},
        {"locations": "|".join(["1,2"] * 5001)},
    ],
)
def test_invalid_requests(client: Client, query: dict[str, str]) -> None:
    content = read(client.get(f"{V1}/world", query_string=query), 400)
    assert content["status"] == "INVALID_REQUEST"
    assert content["error"]


def test_datasets(client: Client) -> None:
    found = read(client.get("/elevation/datasets"))
    assert found["status"] == "OK"
    assert found["results"][0] == {"name": "stack", "child_datasets": ["alps", "merc", "world"]}


def test_default_dataset_is_the_first(open_with: Open) -> None:
    hidden = {"elevation": {"enabled": False}}
    client = open_with({"facades": {"google": True}}, alps=hidden, merc=hidden)
    assert read(client.get(f"{MAPS}?locations=10,20"))["results"][0]["dataset"] == "world"
    several = {"datasets": [{"id": "best", "layers": ["alps", "world"]}]}
    other = open_with({"facades": {"google": True}, **several})
    assert read(other.get(f"{MAPS}?locations=10,20"))["results"][0]["dataset"] == "world"


# ---------------------------------------------------------------- tileserver-gl

DATA = "/elevation/data"


def test_place(client: Client) -> None:
    found = read(client.get(f"{DATA}/world/elevation/3/20.5/10.25"))
    assert set(found) == {"long", "lat", "elevation", "z", "x", "y", "pixelX", "pixelY"}
    assert (found["long"], found["lat"]) == (20.5, 10.25)
    across = (20.5 + 180) / 360 * 256 * 2 ** found["z"]
    assert found["x"] * 256 + found["pixelX"] == math.floor(across)


def test_zoom_is_clamped_to_the_levels(client: Client) -> None:
    finest = read(client.get(f"{DATA}/world/elevation/25/20.5/10.25"))
    wanted, _ = plain_sample(WORLD, 20.5, 10.25)
    assert finest["z"] < 5
    assert finest["elevation"] == pytest.approx(wanted, abs=0.0051)


def test_whole_numbers_are_a_tile(client: Client) -> None:
    """Tile 0/0/0 answers for its middle, a pair with a point for the place itself."""
    tile = read(client.get(f"{DATA}/world/elevation/0/0/0"))
    assert (tile["long"], tile["lat"]) == (0, 0)
    place = read(client.get(f"{DATA}/world/elevation/0/6.0/7.0"))
    assert (place["long"], place["lat"]) == (6, 7)


def test_no_data_is_204(client: Client) -> None:
    response = client.get(f"{DATA}/alps/elevation/10/20.5/10.25")
    assert (response.status_code, response.data) == (204, b"")


def test_several_points(client: Client) -> None:
    points = [{"lon": 20.5, "lat": 10.25, "z": 25}, {"lon": 6.5, "lat": -30.5, "z": 0}]
    found = read(post(client, f"{DATA}/world/elevation", {"points": points}))
    wanted, _ = plain_sample(WORLD, 20.5, 10.25)
    assert found[0] == pytest.approx(wanted, abs=0.0051)
    assert found[1] is not None
    assert read(post(client, f"{DATA}/alps/elevation", {"points": points})) == [None, None]


def test_the_height_of_a_point_does_not_depend_on_the_others(
    tmp_path: Path, open_client: OpenClient
) -> None:
    """Heights are the numbers of the levels: the finer one is read near the pole."""
    document = synthetic(
        "DEGREES",
        crs="EPSG:4326",
        origin=(-180, 90),
        cell_sizes=[1.0, 0.5],
        matrix_sizes=[(6, 3), (12, 6)],
        tile_size=(64, 64),
        geographic=True,
    )
    path = write_pyramid(
        tmp_path,
        "levels",
        tile_matrix_set=document,
        format="TIFF_ZIP_FLOAT32",
        channels=1,
        levels=[LevelPlan("0", 0, 2, 0, 5), LevelPlan("1", 0, 5, 0, 11)],
        tile=lambda level, row, col: np.full((64, 64), float(level), np.float32),
    )
    sets = {"DEGREES": document}
    client = open_client(
        write_installation(
            tmp_path,
            layers={"levels": layer_document(path, tile_matrix_sets=sets)},
            tile_matrix_sets=sets,
            services=["elevation"],
            services_overrides={"elevation": {"facades": {"tileserver": True}}},
        )
    )
    latitudes = (0.5, 80.5, 45.5, -80.5)
    alone = [
        read(client.get(f"{DATA}/levels/elevation/0/10.5/{y}"))["elevation"] for y in latitudes
    ]
    assert alone == [0, 1, 0, 1]
    points = [{"lon": 10.5, "lat": y, "z": 0} for y in latitudes]
    assert read(post(client, f"{DATA}/levels/elevation", {"points": points})) == alone


def test_points_of_many_zooms_wait_for_their_turn_once(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    admission = client.application.site.renderer.admission
    admitted = []

    @contextmanager
    def counted(cost: int) -> Iterator[None]:
        with original(cost):
            admitted.append(cost)
            yield

    original = admission.map
    monkeypatch.setattr(admission, "map", counted)
    monkeypatch.setattr(queries, "_LIGHT", 0)
    points = [
        {"lon": lon + 0.5, "lat": lat + 0.5, "z": zoom}
        for lon in range(-180, 180, 12)
        for lat in range(-80, 80, 8)
        for zoom in (0, 1, 2, 3, 25)
    ]
    found = read(post(client, f"{DATA}/stack/elevation", {"points": points}))
    assert len(admitted) == 1
    for number in range(7, len(points), 97):
        path = "{z}/{lon}/{lat}".format(**points[number])
        alone = client.get(f"{DATA}/stack/elevation/{path}")
        assert found[number] == (read(alone)["elevation"] if alone.status_code == 200 else None)


def test_levels_of_many_points_are_those_of_each(datasets: Any) -> None:
    dice = np.random.default_rng(5)
    latitudes, resolutions = dice.uniform(-89, 89, 500), 10 ** dice.uniform(0, 6, 500)
    for layer in datasets["stack"].layers:
        found = levels_for(layer, latitudes, resolutions).tolist()
        units = [float(metres_per_unit(layer.crs, latitude)) for latitude in latitudes.tolist()]
        places = zip(units, resolutions.tolist(), strict=True)
        assert found == [level_for(layer, unit, resolution) for unit, resolution in places]


@pytest.mark.parametrize(
    "path",
    [
        "none/elevation/1/2.5/3.5",
        "world/elevation/1/a/3",
        "world/elevation/1/200.5/3.5",
        "world/elevation/x/2.5/3.5",
        "world/elevation/1/9/9",
        "world/elevation",
    ],
)
def test_invalid_paths(client: Client, path: str) -> None:
    response = client.get(f"{DATA}/{path}")
    assert 400 <= response.status_code < 500
    assert response.content_type.startswith("text/plain")


@pytest.mark.parametrize(
    "body", [{}, {"points": []}, {"points": [1]}, {"points": [{"lon": 1}]}, [1], {"points": "x"}]
)
def test_invalid_bodies(client: Client, body: Any) -> None:
    response = post(client, f"{DATA}/world/elevation", body)
    assert response.status_code == 400
