"""The native routes: points, profiles and statistics (elevation.md 1.5, 1.6, 3.3)."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.elevation.conftest import VERTICAL, OpenClient, post, read
from tests.elevation.world import ALPS, plain_sample
from tests.test_tile_path import noted_calls
from werkzeug.test import Client, create_environ

from mastaba.wsgi import create_application
from mastaba_conformance.tiny_installation import tiny_installation
from mastaba_elevation.queries.ground import GEOD
from mastaba_writer.installation import layer_document, write_installation

ROOT = "/elevation"
HERE = (900400.0, 6599700.0)


def line(*points: tuple[float, float]) -> dict[str, Any]:
    return {"type": "LineString", "coordinates": [list(point) for point in points]}


@pytest.fixture(scope="module")
def fine(
    ridge_pyramid: Path, tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient
) -> Client:
    """Return a client of heights whose cells have 27 m on the ground."""
    return open_client(
        write_installation(
            tmp_path_factory.mktemp("ridge"),
            layers={"ridge": layer_document(ridge_pyramid)},
            services=["elevation"],
        )
    )


def test_start_lists_datasets_and_protocols(client: Client) -> None:
    content = read(client.get(ROOT))
    assert [item["id"] for item in content["datasets"]] == ["stack", "alps", "merc", "world"]
    assert content["datasets"][1]["vertical"]["crs"] == "EPSG:5720"
    assert {"href": "http://maps.example/elevation/edr", "rel": "item"} in content["links"]


def test_point_has_its_height_layer_and_cell(client: Client) -> None:
    x, y = HERE
    content = read(client.get(f"{ROOT}/points?dataset=alps&crs=EPSG:2154&coords=POINT({x} {y})"))
    height, level = plain_sample(ALPS, x, y)
    assert height is not None
    assert content["results"] == [
        {
            "x": x,
            "y": y,
            "elevation": round(height, 2),
            "layer": "alps",
            "level": level,
            "resolution": 10.0,
        }
    ]
    assert content["vertical"]["accuracy"] == VERTICAL["accuracy"]
    assert content["vertical"]["name"] == "NGF-IGN69 height"
    assert content["crs"] == "http://www.opengis.net/def/crs/EPSG/0/2154"


def test_post_takes_geojson_or_an_object(client: Client) -> None:
    points = {"type": "MultiPoint", "coordinates": [list(HERE), [900500, 6599600]]}
    query = "dataset=alps&crs=EPSG:2154&interpolation=nearest"
    bare = read(post(client, f"{ROOT}/points?{query}", points))
    whole = {"dataset": "alps", "crs": "EPSG:2154", "interpolation": "nearest", "geometry": points}
    assert read(post(client, f"{ROOT}/points", whole)) == bare
    feature = {"type": "Feature", "geometry": points, "properties": {}}
    assert read(post(client, f"{ROOT}/points?{query}", feature)) == bare
    text = json.dumps(points)
    form = {"geometry": text, "dataset": "alps", "crs": "EPSG:2154", "interpolation": "nearest"}
    assert read(client.post(f"{ROOT}/points", data=form)) == bare


def test_shortest_decimals_are_those_of_single_precision(open_with: Any) -> None:
    client = open_with({"decimals": -1})
    x, y = HERE
    query = f"dataset=alps&crs=EPSG:2154&interpolation=nearest&coords=POINT({x} {y})"
    found = read(client.get(f"{ROOT}/points?{query}"))["results"][0]["elevation"]
    wanted, _ = plain_sample(ALPS, x, y, "nearest")
    assert wanted is not None
    assert np.float32(found) == np.float32(wanted)
    assert len(repr(found)) < len(repr(wanted))


def test_profile_is_straight_and_has_both_ends(client: Client) -> None:
    points = [(900100.0, 6599900.0), (900700.0, 6599500.0), (900900.0, 6599400.0)]
    body = {
        "dataset": "alps",
        "crs": "EPSG:2154",
        "geometry": line(*points),
        "points": 31,
        "mode": "even",
    }
    content = read(post(client, f"{ROOT}/profile", body))
    results = content["results"]
    assert len(results) == 31
    assert (results[0]["x"], results[0]["y"]) == points[0]
    assert (results[-1]["x"], results[-1]["y"]) == points[-1]
    distances = [item["distance"] for item in results]
    assert distances == sorted(distances)
    steps = np.diff(distances)
    # A step around the corner is shorter than along the line.
    assert np.isclose(steps, steps.max(), rtol=1e-3).sum() >= len(steps) - 1
    for item in results:
        height, _ = plain_sample(ALPS, item["x"], item["y"])
        assert (item["elevation"] is None) == (height is None)
        if height is not None:
            assert item["elevation"] == pytest.approx(height, abs=0.005001)
    heights = np.array([item["elevation"] for item in results], float)
    changes = np.diff(heights)
    changes = changes[~np.isnan(changes)]
    assert content["ascent"] == pytest.approx(changes[changes > 0].sum(), abs=0.5)
    assert content["descent"] == pytest.approx(-changes[changes < 0].sum(), abs=0.5)


def test_ascent_has_all_decimals_that_heights_have(open_with: Any) -> None:
    client = open_with({"decimals": -1})
    points = [(900100.0, 6599900.0), (900700.0, 6599500.0)]
    body = {"dataset": "alps", "crs": "EPSG:2154", "geometry": line(*points), "points": 31}
    content = read(post(client, f"{ROOT}/profile", body | {"mode": "even"}))
    wanted = [plain_sample(ALPS, item["x"], item["y"])[0] for item in content["results"]]
    changes = np.diff(np.array(wanted, float))
    changes = changes[~np.isnan(changes)]
    assert content["ascent"] == pytest.approx(changes[changes > 0].sum(), abs=1e-6)
    assert content["descent"] == pytest.approx(-changes[changes < 0].sum(), abs=1e-6)
    assert content["ascent"] != round(content["ascent"], 2)


def test_filled_profile_keeps_all_vertices(client: Client) -> None:
    points = [(900100.0, 6599900.0), (900700.0, 6599500.0), (900710.0, 6599490.0)]
    body = {"dataset": "alps", "crs": "EPSG:2154", "geometry": line(*points), "points": 12}
    results = read(post(client, f"{ROOT}/profile", body | {"mode": "fill"}))["results"]
    assert len(results) == 12
    assert [
        (item["x"], item["y"]) for item in results if (item["x"], item["y"]) in points
    ] == points


def test_long_profile_keeps_peaks(client: Client) -> None:
    """By default the summit of the finest walk is in the answer."""
    ends = [(900005.0, 6599995.0), (901200.0, 6598800.0)]
    body = {"dataset": "alps", "crs": "EPSG:2154", "geometry": line(*ends)}
    fine = read(post(client, f"{ROOT}/profile", body | {"points": 170, "mode": "even"}))
    short = read(post(client, f"{ROOT}/profile", body | {"points": 20}))["results"]
    plain = read(post(client, f"{ROOT}/profile", body | {"points": 20, "mode": "even"}))
    heights = [item["elevation"] for item in fine["results"] if item["elevation"] is not None]
    kept = [item["elevation"] for item in short if item["elevation"] is not None]
    assert len(short) <= 20
    assert max(kept) == pytest.approx(max(heights), abs=0.011)
    assert min(kept) == pytest.approx(min(heights), abs=0.011)
    resampled = [item["elevation"] for item in plain["results"] if item["elevation"] is not None]
    assert max(kept) > max(resampled)


def test_simplified_profile_is_close_to_the_whole(client: Client) -> None:
    ends = [(900005.0, 6599995.0), (900400.0, 6599995.0)]
    body = {"dataset": "alps", "crs": "EPSG:2154", "geometry": line(*ends), "points": 100}
    whole = read(post(client, f"{ROOT}/profile", body | {"mode": "even"}))["results"]
    less = read(post(client, f"{ROOT}/profile", body | {"mode": "even", "simplify": 15}))["results"]
    assert 2 < len(less) < 60
    there = [item["distance"] for item in less]
    heights = np.array([item["elevation"] for item in less], float)
    for item in whole:
        if item["elevation"] is not None:
            shown = np.interp(item["distance"], there, heights)
            assert np.isnan(shown) or abs(shown - item["elevation"]) <= 15.1


def test_geodesic_path_and_distance(client: Client) -> None:
    from mastaba_elevation.queries.ground import GEOD

    body = {"dataset": "world", "geometry": line((0, 50), (90, 50)), "points": 3, "mode": "even"}
    bent = read(post(client, f"{ROOT}/profile", body | {"path": "geodesic"}))["results"]
    straight = read(post(client, f"{ROOT}/profile", body))["results"]
    _, _, length = GEOD.inv(0, 50, 90, 50)
    assert bent[1]["y"] > 58
    assert bent[1]["x"] == pytest.approx(45, abs=1e-9)
    assert bent[2]["distance"] == pytest.approx(length, rel=1e-6)
    assert (straight[1]["x"], straight[1]["y"]) == (45, 50)
    assert straight[2]["distance"] > length


def test_line_across_the_antimeridian_goes_the_short_way(client: Client) -> None:
    body = {"dataset": "world", "geometry": line((179, 0), (-179, 0)), "points": 3, "mode": "even"}
    results = read(post(client, f"{ROOT}/profile", body))["results"]
    assert results[1]["x"] == pytest.approx(180)
    assert results[2]["distance"] == pytest.approx(222_639, abs=1)


def polygon(*rings: list[tuple[float, float]]) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": [[list(point) for point in ring] for ring in rings]}


SQUARE = [(900100, 6599900), (900400, 6599900), (900400, 6599600), (900100, 6599600)]
HOLE = [(900200, 6599800), (900300, 6599800), (900300, 6599700), (900200, 6599700)]


def brute(i0: int, i1: int, j0: int, j1: int, hole: tuple[int, int, int, int] | None) -> np.ndarray:
    values = []
    for j in range(j0, j1):
        for i in range(i0, i1):
            if hole and hole[0] <= i < hole[1] and hole[2] <= j < hole[3]:
                continue
            value = ALPS.pixel("2", i, j)
            values.append(np.nan if value is None else value)
    return np.array(values)


@pytest.mark.parametrize("hole", [False, True])
def test_statistics_are_those_of_the_pixels(client: Client, hole: bool) -> None:
    area = polygon(SQUARE, HOLE) if hole else polygon(SQUARE)
    body = {
        "dataset": "alps",
        "crs": "EPSG:2154",
        "geometry": area,
        "plane": 2000,
        "histogram": 4,
        "percentiles": "0,10,50,100",
    }
    found = read(post(client, f"{ROOT}/statistics", body))["statistics"]
    pixels = brute(10, 40, 10, 40, (20, 30, 20, 30) if hole else None)
    known = pixels[~np.isnan(pixels)]
    assert found["count"] == len(pixels)
    assert found["area"] == pytest.approx(100 * len(pixels), rel=1e-12)
    assert found["valid"] == pytest.approx(len(known) / len(pixels), rel=1e-12)
    assert found["mean"] == pytest.approx(known.mean(), rel=1e-9)
    assert found["std"] == pytest.approx(known.std(), rel=1e-9)
    assert found["min"]["value"] == known.min()
    assert found["max"]["value"] == known.max()
    shares = np.percentile(known, [0, 10, 50, 100])
    assert list(found["percentiles"].values()) == pytest.approx(list(shares), rel=1e-9)
    off = (known - 2000) * 100
    assert found["volume"]["above"] == pytest.approx(off[off > 0].sum(), rel=1e-6)
    assert found["volume"]["below"] == pytest.approx(-off[off < 0].sum(), rel=1e-6)
    counts, edges = np.histogram(known, 4)
    assert found["histogram"]["area"] == pytest.approx(list(counts * 100.0))
    assert found["histogram"]["edges"] == pytest.approx(list(edges))
    x, y = found["max"]["x"], found["max"]["y"]
    assert plain_sample(ALPS, x, y, "nearest")[0] == known.max()


def test_small_area_has_a_value(client: Client) -> None:
    """A parcel smaller than a pixel has the height of the pixels that it covers."""
    parcel = [(900118, 6599856), (900122, 6599856), (900122, 6599852), (900118, 6599852)]
    body = {"dataset": "alps", "crs": "EPSG:2154", "geometry": polygon(parcel)}
    found = read(post(client, f"{ROOT}/statistics", body))["statistics"]
    pair = [ALPS.pixel("2", 11, 14), ALPS.pixel("2", 12, 14)]
    assert None not in pair
    # The plane of the CRS is the documented rule for this one.
    assert found["area"] == pytest.approx(16, rel=1e-6)
    assert min(pair) <= found["mean"] <= max(pair)  # type: ignore[type-var,operator]


def plot(west: float, south: float, side: float) -> tuple[list[tuple[float, float]], float]:
    """Return a plot whose sides have about so many metres, and its area on the ellipsoid."""
    up = side / 111_000
    across = up / np.cos(np.radians(south))
    east, north = west + across, south + up
    area, _ = GEOD.polygon_area_perimeter(*belt_of(west, south, east, north))
    return [(west, south), (east, south), (east, north), (west, north)], area


@pytest.mark.parametrize("side", [1.0, 10.0, 30.0, 300.0, 30_000.0])
@pytest.mark.parametrize("dataset", ["merc", "world"])
def test_area_of_a_plot_is_that_of_the_ellipsoid(client: Client, dataset: str, side: float) -> None:
    """However small it is beside the pixels."""
    ring, wanted = plot(10.1, 52.1, side)
    body = {"dataset": dataset, "geometry": polygon(ring)}
    found = read(post(client, f"{ROOT}/statistics", body))["statistics"]
    # The scale of a row is that of its middle; a cell of the world is 1.4 degrees high.
    assert found["area"] == pytest.approx(wanted, rel=0.02)
    assert found["count"] >= 1
    whole = {"dataset": dataset, "geometry": polygon([(0, 40), (20, 40), (20, 60), (0, 60)])}
    large = read(post(client, f"{ROOT}/statistics", whole))["statistics"]
    belt, _ = GEOD.polygon_area_perimeter(*belt_of(0, 40, 20, 60))
    if dataset == "world":
        assert large["area"] == pytest.approx(abs(belt), rel=2e-3)


@pytest.mark.parametrize("side", [1.0, 10.0, 300.0, 3000.0])
def test_area_of_a_plot_over_fine_cells_is_exact(fine: Client, side: float) -> None:
    ring, wanted = plot(6.52, 45.05, side)
    body = {"dataset": "ridge", "geometry": polygon(ring)}
    found = read(post(fine, f"{ROOT}/statistics", body))["statistics"]
    assert found["level"] == "12"
    assert found["area"] == pytest.approx(wanted, rel=1e-4)


def belt_of(west: float, south: float, east: float, north: float) -> tuple[Any, Any]:
    """Return longitudes and latitudes of a box whose edges follow parallels."""
    x = np.linspace(west, east, 1000)
    return [*x, *x[::-1]], [*[south] * 1000, *[north] * 1000]


def test_area_across_the_antimeridian(client: Client) -> None:
    ring = [(170, 10), (190, 10), (190, -10), (170, -10)]
    body = {"dataset": "world", "geometry": polygon(ring)}
    found = read(post(client, f"{ROOT}/statistics", body))["statistics"]
    assert found["valid"] == 1 or found["valid"] > 0.5
    # A belt of the Earth: 20 degrees of longitude, between 10 degrees south and north.
    assert found["area"] == pytest.approx(4.93e12, rel=0.05)


def test_holes_of_an_area_are_filled_from_the_next_layer(client: Client) -> None:
    """The gap in the alps is filled from the world, so the whole area has heights."""
    ring = [(900480, 6599520), (900640, 6599520), (900640, 6599360), (900480, 6599360)]
    body = {"crs": "EPSG:2154", "geometry": polygon(ring)}
    alone = read(post(client, f"{ROOT}/statistics", body | {"dataset": "alps"}))["statistics"]
    stack = read(post(client, f"{ROOT}/statistics", body | {"dataset": "stack"}))["statistics"]
    assert alone["valid"] == 0
    assert stack["valid"] == pytest.approx(1)


def test_area_beyond_the_first_layer_is_counted(client: Client) -> None:
    """Half of the area is west of the alps, where the world has heights."""
    ring = [(899700, 6599900), (900300, 6599900), (900300, 6599500), (899700, 6599500)]
    body = {"crs": "EPSG:2154", "geometry": polygon(ring)}
    stack = read(post(client, f"{ROOT}/statistics", body | {"dataset": "stack"}))["statistics"]
    assert stack["layer"] == "alps"
    assert stack["area"] == pytest.approx(600 * 400)
    assert stack["valid"] == pytest.approx(1)
    box = "899700,6599500,900300,6599900"
    cube = f"/elevation/edr/collections/stack/cube?crs=EPSG:2154&bbox={box}"
    found = json.loads(client.get(cube).data)["ranges"]["elevation"]
    assert found["shape"] == [40, 60]
    assert None not in found["values"]


def box_of(west: float, east: float) -> dict[str, Any]:
    return polygon([(west, 45), (east, 45), (east, 50), (west, 50)])


def test_area_beside_a_layer_whose_set_goes_around_the_earth(client: Client) -> None:
    """Only what is inside the limits of a single layer counts, as in sets that do not repeat."""
    of_merc = {"dataset": "merc"}
    whole, part = (
        read(post(client, f"{ROOT}/statistics", of_merc | {"geometry": box_of(*ends)}))[
            "statistics"
        ]
        for ends in ((-60, 80), (-22.5, 45))
    )
    assert {key: whole[key] for key in ("level", "count")} == {
        key: part[key] for key in ("level", "count")
    }
    assert whole["area"] == pytest.approx(part["area"], rel=1e-6)
    assert whole["valid"] == pytest.approx(part["valid"], rel=1e-6)
    # Wider than the Earth, and around it from one side of the layer to the other.
    for ends in ((-181, 180), (0, 360), (10, 371)):
        found = read(post(client, f"{ROOT}/statistics", of_merc | {"geometry": box_of(*ends)}))
        assert found["statistics"]["area"] == pytest.approx(part["area"], rel=5e-3)
        assert found["statistics"]["valid"] == pytest.approx(part["valid"], rel=5e-3)
    sides = read(post(client, f"{ROOT}/statistics", of_merc | {"geometry": box_of(20, 350)}))
    assert sides["statistics"]["area"] == pytest.approx(part["area"] * 37.5 / 67.5, rel=1e-2)
    for ends in ((60, 80), (-70, -30), (170, 200)):
        beside = {"geometry": box_of(*ends)}
        assert read(post(client, f"{ROOT}/statistics", of_merc | beside))["statistics"] is None
        stack = read(post(client, f"{ROOT}/statistics", {"dataset": "stack"} | beside))
        assert stack["statistics"]["layer"] == "world"


def test_area_without_any_layer_is_null(client: Client) -> None:
    ring = [(0, 0), (1, 0), (1, 1), (0, 1)]
    body = {"dataset": "alps", "geometry": polygon(ring)}
    assert read(post(client, f"{ROOT}/statistics", body))["statistics"] is None


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("points", {"dataset": "none", "geometry": line((0, 0), (1, 1))}, 404),
        ("points", {"dataset": "colour", "geometry": line((0, 0), (1, 1))}, 404),
        ("points", {"geometry": line((0, 0), (1, 1))}, 400),
        ("points", {"dataset": "alps"}, 400),
        ("points", {"dataset": "alps", "crs": "EPSG:27700", "geometry": line((0, 0), (1, 1))}, 400),
        ("points", {"dataset": "alps", "geometry": polygon(SQUARE)}, 400),
        ("points", {"dataset": "alps", "geometry": line((0, 0), (1, 1)), "resolution": -1}, 400),
        ("points", {"dataset": "alps", "geometry": line((0, 0), (1, 1)), "strict": "x"}, 400),
        ("profile", {"dataset": "alps", "geometry": line((0, 0))}, 400),
        ("profile", {"dataset": "alps", "geometry": line((0, 0), (1, 1)), "points": 1}, 400),
        ("profile", {"dataset": "alps", "geometry": line((0, 0), (1, 1)), "points": 10**9}, 400),
        ("profile", {"dataset": "alps", "geometry": line((0, 0), (1, 1)), "mode": "x"}, 400),
        ("statistics", {"dataset": "alps", "geometry": line((0, 0), (1, 1))}, 400),
        (
            "statistics",
            {"dataset": "alps", "geometry": polygon(SQUARE), "percentiles": "1,200"},
            400,
        ),
        ("statistics", {"dataset": "alps", "geometry": polygon(SQUARE), "histogram": [3, 2]}, 400),
        ("points/x", {"dataset": "alps"}, 404),
    ],
)
def test_invalid_requests_are_reported(
    client: Client, path: str, body: dict[str, Any], status: int
) -> None:
    content = read(post(client, f"{ROOT}/{path}", body), status)
    assert content["error"]["status"] == status
    assert content["error"]["message"]


def test_other_bodies_are_415(client: Client) -> None:
    response = client.post(f"{ROOT}/points", data="<a/>", content_type="text/xml")
    assert read(response, 415)["error"]["status"] == 415


def test_hidden_layer_is_no_dataset(open_with: Any) -> None:
    client = open_with({}, alps={"elevation": {"enabled": False}})
    assert [item["id"] for item in read(client.get(ROOT))["datasets"]] == ["merc", "world"]


def test_cors_is_on_and_post_is_allowed(client: Client) -> None:
    response = client.get(ROOT, headers={"Origin": "http://other.example"})
    assert response.headers["Access-Control-Allow-Origin"] == "*"
    asked = {
        "Origin": "http://other.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type",
    }
    preflight = client.options(f"{ROOT}/points", headers=asked)
    assert preflight.status_code == 204
    assert "POST" in preflight.headers["Access-Control-Allow-Methods"]
    assert preflight.headers["Access-Control-Allow-Headers"] == "*"
    error = client.get(f"{ROOT}/points", headers={"Origin": "http://other.example"})
    assert error.headers["Access-Control-Allow-Origin"] == "*"


MOST_CHANGES = 53


def test_the_height_of_a_point_seldom_changes_the_module(tmp_path: Path) -> None:
    application = create_application(str(tiny_installation(tmp_path, services=["elevation"])))
    path = f"{ROOT}/points?dataset=FLOAT32_RAW&coords=POINT(40+40)"
    environ = create_environ(path)
    body = Client(application).get(path).data  # index and tile are cached from here on
    with noted_calls() as calls:
        assert b"".join(application(environ, lambda status, headers: None)) == body
    assert "mastaba_elevation.queries.taps:heights_of" in calls
    modules = [call.partition(":")[0] for call in calls]
    changes = [pair for pair in pairwise(modules) if len(set(pair)) > 1]
    assert len(changes) <= MOST_CHANGES, changes
    application.site.catalogue.storages.close()
