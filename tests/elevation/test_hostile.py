"""Requests that want too much, or make no sense (elevation.md 8 row 7)."""

from __future__ import annotations

import json
import random
import resource
import sys
import tracemalloc
from types import FrameType
from typing import Any

import pytest
from tests.elevation.conftest import Open, post
from werkzeug.test import Client

from mastaba.errors import InvalidParameterError
from mastaba_elevation.errors import TooMuchError
from mastaba_elevation.facades.locations import locations_of
from mastaba_elevation.web.parameters import Parameters
from mastaba_elevation.web.wkt import read_wkt

MIB = 1024 * 1024
BASE = "/elevation/edr/collections/world"
NATIVE = "/elevation"
WORLD = [[-180, -90], [180, -90], [180, 90], [-180, 90], [-180, -90]]


def zigzag(count: int) -> list[list[float]]:
    return [[-170 + n * 340 / count, 80 if n % 2 else -80] for n in range(count)]


def geometry(kind: str, coordinates: Any, **more: Any) -> dict[str, Any]:
    return {"dataset": "world", "geometry": {"type": kind, "coordinates": coordinates}, **more}


def wkt_of(points: list[list[float]]) -> str:
    return "LINESTRING(" + ",".join(f"{x} {y}" for x, y in points) + ")"


def corridor(line: str, width: float) -> dict[str, Any]:
    return {"coords": line, "corridor-width": width, "width-units": "km"}


IGN = "/elevation/1.0/calcul/alti/rest"
PROFILE = "/elevation/rest/services/profile.json?sr=2154"


def bodies() -> list[tuple[str, Any]]:
    """Return paths and bodies. They take megabytes, and collection does not need them."""
    return [
        (f"{BASE}/position", {"coords": "POINT" + "(" * 500_000}),
        (f"{BASE}/position", {"coords": "A" * 900_000}),
        (f"{BASE}/position", {"coords": "A" * 30 + " " * 900_000 + "("}),
        (f"{BASE}/area", {"coords": "POLYGON(" + "(" * 400_000 + ")" * 400_000}),
        (f"{BASE}/area", {"coords": "POLYGON((" + "1 2," * 200_000 + "1 2))"}),
        (f"{BASE}/area", {"coords": "POLYGON((" + "1e308 -1e308," * 50_000 + "1 2))"}),
        (f"{BASE}/area", {"coords": "POLYGON((" + "9" * 500_000 + " 1,2 2,3 3))"}),
        (f"{BASE}/corridor", corridor("LINESTRING(" + "1 2," * 90_000 + "1 2)", 1)),
        (f"{BASE}/corridor", corridor("LINESTRING(-180 0,180 0)", 10_000)),
        (f"{BASE}/corridor", corridor(wkt_of(zigzag(5000)), 1)),
        (f"{BASE}/corridor", corridor(wkt_of(zigzag(100)), 20_000)),
        (f"{BASE}/corridor", corridor("LINESTRING(0 90,0 90)", 5)),
        (f"{BASE}/corridor", corridor("LINESTRING(1 2,1e308 3)", 5)),
        (f"{BASE}/trajectory", {"coords": "LINESTRING(" + "1 2," * 100_000 + "1 2)"}),
        (
            f"{BASE}/trajectory",
            {"coords": "MULTILINESTRING(" + "(1 2,3 4)," * 40_000 + "(1 2,3 4))"},
        ),
        (f"{BASE}/position", {"coords": "MULTIPOINT(" + "1 2," * 90_000 + "1 2)"}),
        (f"{BASE}/position", {"coords": ["POINT(1 2)"]}),
        (f"{BASE}/position", {"coords": {"a": 1}}),
        (f"{BASE}/position", {"coords": "POINT(1 2)", "parameter-name": ["x"] * 100_000}),
        (f"{BASE}/cube", {"bbox": [1] * 100_000}),
        (f"{BASE}/cube", {"bbox": [-1e308, -1e308, 1e308, 1e308]}),
        (f"{BASE}/cube", {"bbox": "-180,-90,180,90", "resolution-x": 10**9, "resolution-y": 10**9}),
        (f"{BASE}/cube", {"bbox": "0,0,1e-300,1e-300"}),
        (f"{BASE}/radius", {"coords": "POINT(0 90)", "within": 1e7, "within-units": "m"}),
        (f"{BASE}/radius", {"coords": "POINT(0 0)", "within": "9" * 5000, "within-units": "km"}),
        (f"{NATIVE}/points", geometry("Point", [1e308, 0])),
        (f"{NATIVE}/points", geometry("Point", [True, 0])),
        (f"{NATIVE}/points", geometry("Point", ["1", 0])),
        (f"{NATIVE}/points", geometry("Point", [10**400, 0])),
        (
            f"{NATIVE}/points",
            {"dataset": "world", "geometry": {"type": ["Point"], "coordinates": 1}},
        ),
        (f"{NATIVE}/points", geometry("MultiPolygon", [[[[]]]])),
        (f"{NATIVE}/points", {"dataset": ["world"], "geometry": 1}),
        (f"{NATIVE}/profile", geometry("LineString", zigzag(40_000))),
        (f"{NATIVE}/statistics", geometry("Polygon", [zigzag(40_000)])),
        (f"{NATIVE}/statistics", geometry("Polygon", [WORLD])),
        (f"{NATIVE}/statistics", geometry("Polygon", [WORLD]) | {"dataset": "stack"}),
        (f"{NATIVE}/statistics", geometry("Polygon", [WORLD]) | {"dataset": "alps"}),
        (f"{NATIVE}/statistics", geometry("Polygon", [WORLD], histogram=10**9)),
        (f"{NATIVE}/statistics", geometry("Polygon", [WORLD], histogram=[1e308, 2e308])),
        (f"{IGN}/elevation.json", {"lon": "1|" * 300_000, "lat": "1", "resource": "world"}),
        (f"{IGN}/elevation.json", {"lon": [None], "lat": [{}], "resource": "world"}),
        (f"{IGN}/elevationLine.json", {"lon": "1|2", "lat": "1|2", "sampling": 1e300}),
        ("/elevation/v1/world", {"locations": "_" * 900_000}),
        ("/elevation/v1/world", {"locations": "1,2|" * 200_000}),
        ("/elevation/v1/world", {"locations": [[1, 2]] * 10}),
        ("/elevation/data/world/elevation", {"points": [{"lon": 1, "lat": 1, "z": 1}] * 20_000}),
        (PROFILE, {"type": "LineString", "coordinates": [[1e308, 1], [2, 2]]}),
        (PROFILE, {"type": "LineString", "coordinates": [[0, 0]] * 3}),
    ]


@pytest.fixture(scope="module")
def warm(client: Client) -> Client:
    client.get(f"{NATIVE}/points?dataset=world&coords=POINT(1 2)")
    return client


@pytest.mark.thorough
@pytest.mark.usefixtures("usual_collections")
def test_hostile_bodies_are_answered_in_bounded_memory(warm: Client) -> None:
    requests = bodies()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for path, body in requests:
        response = warm.post(path, data=json.dumps(body), content_type="application/json")
        status = response.status_code
        assert status in (200, 203, 204) or 400 <= status < 500, (path, response.data[:300])
        if status >= 400:
            assert b"Traceback" not in response.data
            assert response.content_type.partition(";")[0] in ("application/json", "text/plain")
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (after - before) * 1024 < 256 * MIB


@pytest.mark.parametrize(
    "coordinates", [["x" * 5000, *[""] * 5000], [[1, 2], ["x" * 5000, 3], *[[4, 5]] * 2500]]
)
def test_texts_among_coordinates_take_no_memory(warm: Client, coordinates: list[Any]) -> None:
    """An array of texts has the length of the longest one for each: here 100 MB."""
    tracemalloc.start()
    try:
        response = post(warm, f"{NATIVE}/points", geometry("MultiPoint", coordinates))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert response.status_code == 400
    assert most < 8 * MIB


def test_a_geometry_has_a_limit_of_parts(client: Client) -> None:
    ring = [[1, 2], [3, 4], [5, 2], [1, 2]]
    response = post(client, f"{NATIVE}/statistics", geometry("MultiPolygon", [[ring]] * 10_001))
    assert response.status_code == 413
    text = ",".join(["((1 2,3 4,5 2,1 2))"] * 10_001)
    response = post(client, f"{BASE}/area", {"coords": f"MULTIPOLYGON({text})"})
    assert response.status_code == 413


def test_well_known_text_has_the_limits_of_geojson() -> None:
    rings = ",".join(["((1 2,3 4,5 2,1 2))"] * 10_000)
    assert len(read_wkt(f"MULTIPOLYGON({rings})").parts) == 10_000
    rings = ",".join(["(1 2,3 4,5 2,1 2)"] * 10_001)
    for text in (f"POLYGON({rings})", f"MULTILINESTRING({rings})", f"MULTIPOLYGON(({rings}))"):
        with pytest.raises(TooMuchError, match="10000 lines or rings"):
            read_wkt(text)
    points = ",".join(["(1 2)"] * 20_001)
    assert len(read_wkt(f"MULTIPOINT({points})").x) == 20_001
    with pytest.raises(TooMuchError, match="100000 points"):
        read_wkt("MULTIPOINT(" + ",".join(["(1 2)"] * 100_001) + ")")
    with pytest.raises(TooMuchError, match="100000 points"):
        read_wkt("MULTIPOINT(" + ",".join(["1 2"] * 100_001) + ")")


def _calls_of(text: str) -> int:
    """Return how many functions are called to read a text."""
    found = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal found
        found += event.endswith("call")

    sys.setprofile(count)
    try:
        read_wkt(text)
    finally:
        sys.setprofile(None)
    return found


def test_brackets_around_points_cost_nothing() -> None:
    plain = "MULTIPOINT(" + ",".join(["1 2"] * 1000) + ")"
    bracketed = "MULTIPOINT(" + ",".join(["(1 2)"] * 1000) + ")"
    assert _calls_of(bracketed) < _calls_of(plain) + 100


@pytest.mark.parametrize("text", ["((1 2),(3 4))", " ( ( 1 2 ) , (3 4) ) ", "(1 2,3 4)"])
def test_points_may_have_brackets(text: str) -> None:
    found = read_wkt(f"MULTIPOINT{text}")
    assert (found.x.tolist(), found.y.tolist()) == ([1.0, 3.0], [2.0, 4.0])


@pytest.mark.parametrize(
    "text",
    [
        "((1 2)(3 4))",
        "((1 2),3 4)",
        "(1 2,(3 4))",
        "((1 2) 3,(4 5))",
        "((1 2),())",
        "(())",
        "((1 2),,(3 4))",
        "((1 2),(,3 4))",
        "((1 2),(3 4 5))",
        "(((1 2)))",
        "((1 2)",
        "((1 2)))",
        "((1 2),)",
        "((1 2)),(3 4)",
        "((1 2)) 3",
    ],
)
def test_misplaced_brackets_around_points_are_refused(text: str) -> None:
    with pytest.raises(InvalidParameterError, match="not valid well-known text"):
        read_wkt(f"MULTIPOINT{text}")


def test_a_polyline_contains_the_character_between_locations() -> None:
    settings = {"locations": "enc:" + "|@|@" * 60}
    latitudes, _ = locations_of(Parameters(settings), "locations", 100)
    assert len(latitudes) == 60
    with pytest.raises(TooMuchError):
        locations_of(Parameters(settings), "locations", 59)


def test_locations_are_counted_before_they_are_read(client: Client) -> None:
    for locations in ("x,y|" * 6000, "enc:" + "!" * 80_000):
        response = post(client, "/elevation/v1/world", {"locations": locations})
        assert response.status_code == 400
        assert b"more than" in response.data


def test_points_of_several_zooms_share_the_limit_of_tiles(open_with: Open) -> None:
    points = [{"lon": 5.61830, "lat": 46.46190, "z": zoom} for zoom in (25, 0)]
    for most, status in ((8, 200), (1, 413)):
        client = open_with({"limits": {"tiles": most}, "facades": {"tileserver": True}})
        for some, expected in ((points[:1], 200), (points[1:], 200), (points, status)):
            response = post(client, "/elevation/data/alps/elevation", {"points": some})
            assert response.status_code == expected


@pytest.mark.parametrize(
    "path",
    [
        f"{BASE}/position",
        f"{NATIVE}/points",
        "/elevation/1.0/calcul/alti/rest/elevation.json",
        "/elevation/v1/world",
        "/elevation/rest/services/profile.json",
        "/elevation/data/world/elevation",
    ],
)
def test_bodies_beyond_the_limit(client: Client, path: str) -> None:
    for data in (b"[" * (MIB + 1), b"[" * 200_000, b"\xff", b"", b"null", b'"x"', b"[]", b"1"):
        response = client.post(path, data=data, content_type="application/json")
        assert 400 <= response.status_code < 500
        if len(data) > MIB:
            assert response.status_code == 413


@pytest.mark.thorough
def test_random_numbers_in_every_place(client: Client) -> None:
    """No combination of strange numbers is a server error."""
    dice = random.Random(7)
    words = [
        "nan",
        "inf",
        "-inf",
        "1e308",
        "-1e308",
        "1e-320",
        "0",
        "-0",
        "180",
        "-180",
        "90",
        "x",
        "",
        " ",
        "181",
        "1e9",
        "0x10",
        "1_0",
        "٣",
        "9" * 400,
        "--1",
        "1,2",
        "NaN",
        "+5",
    ]
    codes = ["CRS:84", "EPSG:4326", "EPSG:3857", "EPSG:2154", "x", ""]
    for _ in range(400):
        a, b, c, d = (dice.choice(words) for _ in range(4))
        crs, name = dice.choice(codes), dice.choice(["world", "stack", "alps", "none"])
        path, query = dice.choice(
            [
                (f"/edr/collections/{name}/position", {"coords": f"POINT({a} {b})", "crs": crs}),
                (f"/edr/collections/{name}/cube", {"bbox": f"{a},{b},{c},{d}", "crs": crs}),
                (
                    f"/edr/collections/{name}/radius",
                    {"coords": f"POINT({a} {b})", "within": c, "within-units": "km", "crs": crs},
                ),
                (
                    f"/edr/collections/{name}/trajectory",
                    {"coords": f"LINESTRINGM({a} {b} {c},{b} {a} {d})", "crs": crs},
                ),
                (
                    f"/edr/collections/{name}/area",
                    {"coords": f"POLYGON(({a} {b},{c} {d},{b} {c}))", "crs": crs, "stats": "true"},
                ),
                (
                    "/profile",
                    {"dataset": name, "coords": f"LINESTRING({a} {b},{c} {d})", "crs": crs},
                ),
                ("/points", {"dataset": name, "coords": f"POINT({a} {b})", "resolution": c}),
                ("/1.0/calcul/alti/rest/elevation.json", {"lon": a, "lat": b, "resource": name}),
                ("/rest/services/height", {"easting": a, "northing": b, "sr": c}),
                (f"/v1/{name}", {"locations": f"{a},{b}|{c},{d}", "samples": c}),
                (f"/data/{name}/elevation/{a}/{b}/{c}", {}),
            ]
        )
        response = client.get(f"/elevation{path}", query_string=query)
        assert response.status_code < 500, (path, query, response.data[:300])


def test_area_of_a_continent_is_bounded_before_anything_is_read(open_with: Any) -> None:
    from mastaba_conformance.counting_storage import count_calls

    client = open_with({"limits": {"tiles": 1}})
    storage = count_calls(client.application.site.catalogue, "merc")
    body = {"dataset": "merc", "geometry": {"type": "Polygon", "coordinates": [WORLD]}}
    assert post(client, f"{NATIVE}/statistics", body).status_code in (200, 413)
    storage.clear()
    zigzags = {"coords": wkt_of(zigzag(5000)), "corridor-width": 1, "width-units": "km"}
    response = post(client, "/elevation/edr/collections/merc/corridor", zigzags)
    assert response.status_code == 413
    assert storage.reads == []
    fine = body | {"resolution": 1}
    assert post(client, f"{NATIVE}/statistics", fine).status_code == 413
    points = [[x / 10, y / 10 + 50] for x in range(0, 200, 10) for y in range(0, 100, 10)]
    many = {"dataset": "merc", "geometry": {"type": "MultiPoint", "coordinates": points}}
    storage.clear()
    assert post(client, f"{NATIVE}/points", many).status_code == 413
    assert storage.reads == []


NUMBERS = ("nan", "inf", "-1e308", "1e308", "1e-320", "0", "180", "-90", "6.9", "45.8", "9e15", "x")
ROUTES = (
    *(f"/edr/collections/{{name}}/{query}" for query in ("position", "area", "trajectory")),
    *(f"/edr/collections/{{name}}/{query}" for query in ("radius", "cube", "corridor")),
    *("/points", "/profile", "/statistics", "/v1/{name}", "/maps/api/elevation/json"),
    *("/1.0/calcul/alti/rest/elevation.json", "/1.0/calcul/alti/rest/elevationLine.xml"),
    *("/rest/services/height", "/rest/services/profile.json", "/rest/services/profile.csv"),
    *("/data/{name}/elevation", "/data/{name}/elevation/3/1/2", "/resources", "/datasets", ""),
)
DEPTHS = {"Point": 0, "MultiPoint": 1, "LineString": 1, "Polygon": 2, "MultiPolygon": 3}


class Hostile:
    """Requests to every route with values that make no sense, or want too much."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)

    def request(self) -> tuple[str, dict[str, Any]]:
        """Return a path and parameters."""
        dice = self._dice
        route = dice.choice(ROUTES).format(name=self._name())
        parameters: dict[str, Any] = {
            "dataset": self._name(),
            "resource": self._name(),
            "coords": self._wkt(),
            "crs": dice.choice(("CRS84", "EPSG:4326", "EPSG:3857", "EPSG:2154", "x", "")),
            "bbox": ",".join(self._number() for _ in range(dice.choice((4, 4, 6, 3)))),
            "geom": json.dumps(self._geojson()),
            "lon": self._list("|"),
            "lat": self._list("|"),
            "locations": "|".join(f"{self._number()},{self._number()}" for _ in range(3)),
            "sr": dice.choice(("2154", "4326", "x")),
        }
        names = ("points", "within", "corridor-width", "resolution", "simplify", "hysteresis")
        names += ("percentiles", "histogram", "plane", "samples", "sampling", "nb_points", "offset")
        names += ("resolution-x", "resolution-y", "easting", "northing", "decimals")
        for name in dice.sample(names, 6):
            parameters[name] = self._number()
        parameters |= {"within-units": "km", "width-units": "km", "stats": dice.choice("tf10")}
        if dice.random() < 0.3:
            parameters["geometry"] = self._geojson()
        for name in dice.sample(sorted(parameters), 3):
            if not name.endswith("units"):
                parameters[name] = dice.choice((None, True, [], {}, [[]], "", 1e308, "9" * 500))
        return f"/elevation{route}", parameters

    def _name(self) -> str:
        return self._dice.choice(("world", "stack", "alps", "merc", "none"))

    def _number(self) -> str:
        dice = self._dice
        return dice.choice(NUMBERS) if dice.random() < 0.3 else f"{dice.uniform(-180, 180):.3f}"

    def _list(self, joint: str) -> str:
        return joint.join(self._number() for _ in range(self._dice.choice((1, 2, 2, 6000))))

    def _count(self) -> int:
        return self._dice.choice((1, 2, 3, 4, 5, 5001, 20_000))

    def _wkt(self) -> str:
        dice = self._dice
        if dice.random() < 0.03:
            return dice.choice(("POINT(", "((", "POLYGON((", ",", "1 2,")) * dice.choice(
                (9, 100_000)
            )
        kind = dice.choice(("POINT", "MULTIPOINT", "LINESTRING", "LINESTRINGM", "POLYGON"))
        size = 3 if kind.endswith("M") else 2
        count = 1 if kind == "POINT" else self._count()
        points = ",".join(" ".join(self._number() for _ in range(size)) for _ in range(count))
        return f"{kind}(({points}))" if kind == "POLYGON" else f"{kind}({points})"

    def _geojson(self) -> dict[str, Any]:
        kind = self._dice.choice(tuple(DEPTHS))
        value: Any = [self._json_number(), self._json_number()]
        for depth in range(DEPTHS[kind]):
            value = [value] * (self._count() if depth == 0 else 1)
        return {"type": kind, "coordinates": value}

    def _json_number(self) -> Any:
        return self._dice.choice((0, 6.9, 45.8, 180, -180.5, 1e308, 1e-300, None, "1", 10**30))


def check_hostile(client: Client, count: int, seed: int) -> None:
    """Send hostile requests, by GET if they are short: no server error, little memory."""
    hostile, before = Hostile(seed), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(count):
        path, parameters = hostile.request()
        texts = {name: str(value) for name, value in parameters.items() if value is not None}
        if sum(map(len, texts.values())) < 5000:
            response = client.get(path, query_string=texts)
        else:
            response = post(client, path, parameters)
        assert response.status_code < 500, (path, str(parameters)[:500], response.data[:300])
        assert b"Traceback" not in response.data
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (after - before) * 1024 < 256 * MIB


@pytest.mark.usefixtures("usual_collections")
@pytest.mark.parametrize("count", [10, pytest.param(100, marks=pytest.mark.thorough)])
def test_hostile_requests_to_every_route(warm: Client, count: int) -> None:
    check_hostile(warm, count, seed=1)


@pytest.mark.live
@pytest.mark.usefixtures("usual_collections")
def test_many_hostile_requests(warm: Client, request: pytest.FixtureRequest) -> None:
    # One of them costs as much as many requests for tiles.
    check_hostile(warm, request.config.getoption("random_requests") // 20, seed=2)
