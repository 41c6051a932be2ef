"""Hostile values, qualified names and versions in all protocols (time.md sections 6 and 7)."""

from __future__ import annotations

import json
import random
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from tests.series import series_document, write_value
from tests.sizes import sized
from werkzeug.test import Client

from mastaba_writer.installation import write_installation

OpenClient = Callable[[Path], Client]

SERVICES = ("wms", "wmts", "tms", "ogcapi", "elevation", "history", "provenance", "viewer")
YEARS = ("1950", "1975", "2023")
MIB = 1 << 20
COUNT = sized(1000, 10_000)
"""Requests of the thorough tests; 10,000 were tried."""
LONGEST_PATH = 4000
"""Longer texts go into queries: no server passes on longer paths."""

TIMES = (
    *("P0D", "1950/2023/P0D", "1950/2023/PT0S", "1950/2023/-P1D", "1950/2023/P", "1950/2023/P1"),
    *("1950/1000001950/P1Y", "0001/9999/PT0.00001S", "-9999/9999/PT1S", "1950/9999/P1000000000Y"),
    *("1000000000", "-1000000000", "1950/1000000000", "9999-99-99", "2023-02-30", "1950-01-01T25"),
    *("1950/", "/1950", "/", "//", "../..", "..", "1950/..", "../1950", "1950/1950/1950/1950"),
    *("~", "~~", "ORTHO~", "~0123456789ab", ";time=1950", ";;", "=", "a=b;c", "%00", "%", "%zz"),
    *("nan", "inf", "-inf", "1e308", "1e-400", "0x10", "١٩٥٠", "１９５０", "1950\x00", "\x7f", "𝟙"),
    *("current/..", "../current", "current/current", "default/1950", "null", "undefined", "now"),
    *(
        '"1950"',
        '("1950")',
        "*",
        "*:*",
        '"1950":"1900"',
        "'; DROP TABLE",
        "<a>",
        "${7*7}",
        "../../x",
    ),
)


class Ask(NamedTuple):
    """A request with one text in it."""

    path: str
    query: dict[str, str]
    body: bytes | None = None


class Hostile:
    """Makes requests by seed."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._long: list[str] = []

    def text(self) -> str:
        """Return a text that should not be a value, mostly."""
        dice = self._dice
        kind = dice.random()
        if kind < 0.35:
            return dice.choice(TIMES)
        if kind < 0.5:
            # Distinct values: nothing may grow with their number.
            return f"1950-01-01T00:00:00.{dice.randrange(10**6):06d}Z"
        if kind < 0.6:
            return str(dice.uniform(-1e6, 1e6))
        if kind < 0.7:
            return "".join(chr(dice.choice((dice.randrange(128), 233, 0x1F30D))) for _ in range(20))
        if kind < 0.8:
            return dice.choice(
                (";time=1950", "~0123456789ab", ";time=", "~", ",")
            ) * dice.randrange(90)
        if kind < 0.9:
            one, other = dice.choice(TIMES), dice.choice(TIMES)
            return dice.choice(("{}/{}", "{},{}", "{}/{}/P1Y", "{}~{}", "{};time={}")).format(
                one, other
            )
        return ",".join(dice.choice(YEARS) for _ in range(dice.choice((17, 500, 1000))))

    def request(self) -> Ask:
        text = self.text()
        if self._dice.random() < 0.5:
            return self._dice.choice(tuple(of_value(text)))
        return self._dice.choice(tuple(of_name(f"ORTHO{self._dice.choice('~;')}{text}")))


def of_value(text: str) -> Iterator[Ask]:
    """Yield requests for a value."""
    box = "0,0,5009377,5009377"
    for version, crs in (("1.3.0", "CRS"), ("1.1.1", "SRS")):
        for name in ("TIME", "ELEVATION", "DIM_TIME"):
            yield Ask("/wms", get_map("ORTHO", version, crs) | {name: text})
    info = {"REQUEST": "GetFeatureInfo", "QUERY_LAYERS": "ORTHO", "INFO_FORMAT": "application/json"}
    yield Ask("/wms", get_map("ORTHO") | info | {"I": "1", "J": "1", "TIME": text})
    yield Ask("/wmts", get_tile("ORTHO") | {"TIME": text})
    yield Ask(f"/wmts/1.0.0/ORTHO/normal/{in_path(text)}/PM/3/2/4.png", {})
    yield Ask("/tms/1.0.0/ORTHO/metadata.json", {"time": text})
    for path in ("/map", "/map/tiles/PM/3/2/4"):
        address = f"/ogcapi/collections/ORTHO{path}"
        yield Ask(address, {"datetime": text})
        yield Ask(address, {"subset": f'time("{text}")'})
        yield Ask(address, {"subset": f"time({text}:*)", "datetime": "1950"})
    edr = "/elevation/edr/collections/DEM"
    yield Ask(f"{edr}/position", {"coords": "POINT(20 40)", "datetime": text})
    yield Ask(f"{edr}/area", {"coords": "POLYGON((20 40,21 40,21 41,20 40))", "datetime": text})
    yield Ask("/elevation/points", {"dataset": "DEM", "coords": "POINT(20 40)", "time": text})
    yield Ask("/history/ORTHO/at", {"datetime": text})
    yield Ask(f"/history/ORTHO/{in_path(text)}", {})
    yield Ask(f"/history/ORTHO/changes/{in_path(text)}..{in_path(text)}", {})
    yield Ask("/history/feed.json", {"since": text})
    yield Ask("/provenance/ORTHO/sources", {"datetime": text, "bbox": box})
    body = json.dumps({"type": "Point", "coordinates": [text, text], "crs": text}).encode()
    yield Ask("/provenance/ORTHO/at", {}, body)
    document = f'<GetTile xmlns="http://www.opengis.net/wmts/1.0"><a>{text}</a></GetTile>'
    yield Ask("/wmts", {}, document.encode("utf-8", "replace"))


def of_name(name: str) -> Iterator[Ask]:
    """Yield requests that name a layer."""
    yield Ask("/wms", get_map(name))
    yield Ask("/wms", get_map(f"{name},ORTHO,{name}") | {"TIME": "1950"})
    yield Ask("/wmts", get_tile(name))
    for path in (
        "/wmts/1.0.0/{}/normal/PM/3/2/4.png",
        "/tms/1.0.0/{}",
        "/tms/1.0.0/{}/3/4/2.png",
        "/tms/1.0.0/{}/metadata.json",
        "/ogcapi/collections/{}",
        "/ogcapi/collections/{}/map",
        "/ogcapi/collections/{}/map/tiles/PM/3/2/4",
        "/elevation/edr/collections/{}/position",
        "/history/{}",
        "/provenance/{}/sources",
        "/provenance/{}/at",
        "/viewer/{}",
        "/viewer/compare/{0}/{0}",
    ):
        yield Ask(path.format(in_path(name)), {"coords": "POINT(20 40)"})


def in_path(text: str) -> str:
    return quote(text[: LONGEST_PATH // 4], safe="~;=", errors="replace")


def get_map(layer: str, version: str = "1.3.0", crs: str = "CRS") -> dict[str, str]:
    return {
        "SERVICE": "WMS",
        "VERSION": version,
        "REQUEST": "GetMap",
        "LAYERS": layer,
        "STYLES": "",
        crs: "EPSG:3857",
        "BBOX": "0,0,5009377,5009377",
        "WIDTH": "8",
        "HEIGHT": "8",
        "FORMAT": "image/png",
    }


def get_tile(layer: str) -> dict[str, str]:
    return {
        "SERVICE": "WMTS",
        "REQUEST": "GetTile",
        "VERSION": "1.0.0",
        "LAYER": layer,
        "STYLE": "normal",
        "FORMAT": "image/png",
        "TILEMATRIXSET": "PM",
        "TILEMATRIX": "3",
        "TILEROW": "2",
        "TILECOL": "4",
    }


def huge() -> Iterator[Ask]:
    """Yield requests of a MiB, and lists of a million items."""
    for text in ("1" * MIB, "1950," * (MIB // 5), "," * 10**6, "1950/" * 10**5, ";time=1" * 10**5):
        yield Ask("/wms", get_map("ORTHO") | {"TIME": text})
        yield Ask("/wms", get_map(f"ORTHO~{text}"))
        yield Ask("/wmts", get_tile("ORTHO") | {"TIME": text})
        yield Ask("/ogcapi/collections/ORTHO/map", {"datetime": text})
        yield Ask("/ogcapi/collections/ORTHO/map", {"subset": f"time({text})"})
        yield Ask("/tms/1.0.0/ORTHO/metadata.json", {"time": text})
        edr = "/elevation/edr/collections/DEM/position"
        yield Ask(edr, {"coords": "POINT(20 40)", "datetime": text})
        yield Ask("/provenance/ORTHO/sources", {"datetime": text})


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient) -> Client:
    """A client of ORTHO, which has three years, and DEM, which has as many."""
    folder = tmp_path_factory.mktemp("hostile")
    rows = [{"time": year} for year in YEARS]
    info = {"get_feature_info": {"type": "PYRAMID"}}
    nearest = [{"name": "time", "nearest": True}]
    ortho = series_document(folder / "ortho", rows, dimensions=nearest, **info)
    dem = series_document(folder / "dem", rows)
    for number, variant in enumerate(dem["variants"]):
        name, height = f"heights_{number}", (number,)
        path = write_value(folder / "dem", name, height, format="TIFF_ZIP_FLOAT32")
        variant["pyramids"] = [{"path": str(path)}]
    dem["pyramids"] = [{**dem["pyramids"][0], **dem["variants"][-1]["pyramids"][0]}]
    layers = {"ORTHO": ortho, "DEM": dem}
    server_json = write_installation(folder, layers=layers, services=SERVICES)
    return open_client(server_json)


def answered(client: Client, ask: Ask) -> Any:
    """Return the response to a request, which is no failure of the server."""
    if ask.body is None:
        response = client.get(ask.path, query_string=ask.query)
    else:
        response = client.post(ask.path, data=ask.body, content_type="application/json")
    shown = (ask.path, str(ask.query)[:300], response.data[:300])
    assert response.status_code < 500, shown
    assert b"Traceback" not in response.data, shown
    return response


@pytest.mark.parametrize(
    "ask",
    [
        Ask("/wms", get_map("ORTHO;time=1950")),
        Ask("/wms", get_map("ORTHO;time=1950", "1.1.1", "SRS")),
        Ask("/wmts", get_tile("ORTHO;time=1950")),
        Ask("/tms/1.0.0/ORTHO;time=1950/metadata.json", {}),
        Ask("/ogcapi/collections/ORTHO;time=1950/map", {}),
        Ask("/ogcapi/collections/ORTHO;time=1950/map/tiles/PM/3/2/4", {}),
        Ask("/elevation/edr/collections/DEM;time=1950/position", {"coords": "POINT(20 40)"}),
        Ask("/elevation/points", {"dataset": "DEM;time=1950", "coords": "POINT(20 40)"}),
    ],
    ids=lambda ask: ask.path,
)
def test_a_value_that_contradicts_the_name_is_refused(client: Client, ask: Ask) -> None:
    names = ("datetime",) if "collections" in ask.path else ("TIME", "time")
    for name in names:
        for text, expected in (
            *(("1950", 200), ("1950-06-01", 200), ("2023", 400), ("1950/2023", 400)),
            *(("1960", 400), ("x", 400)),
        ):
            answer = client.get(ask.path, query_string=ask.query | {name: text})
            # A time that no value has is 204 or 404 in some protocols, but never another value.
            allowed = (expected,) if text != "1960" else (200, 204, 400, 404)
            assert answer.status_code in allowed, (name, text, answer.data[:300])
            if text == "2023":
                assert b"has another value" in answer.data
    assert client.get(ask.path, query_string=ask.query).status_code == 200


@pytest.mark.parametrize("count", [60, pytest.param(COUNT, marks=pytest.mark.thorough)])
def test_hostile_requests_are_answered_in_bounded_memory(client: Client, count: int) -> None:
    hostile = Hostile(seed=3)
    # Modules are loaded, and caches filled, by the first ones.
    for ask in (*of_value("1950"), *of_name("ORTHO;time=1950"), *huge()):
        answered(client, ask)
    for _ in range(count // 10):
        answered(client, hostile.request())
    opened = client.application.site.catalogue.opened
    known = len(opened.values())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(count):
        answered(client, hostile.request())
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (after - before) * 1024 < 32 * MIB
    assert len(opened.values()) <= known + 2 * len(YEARS)


@pytest.mark.thorough
def test_distinct_values_leave_nothing_behind(client: Client) -> None:
    """Tiles of the nearest value, which the tile table could keep by their texts."""
    dice = random.Random(7)

    def ask() -> None:
        text = f"{dice.randrange(1900, 2100)}-01-01T00:00:00.{dice.randrange(10**6):06d}Z"
        status = client.get("/wmts", query_string=get_tile("ORTHO") | {"TIME": text}).status_code
        assert status == 200, text

    for _ in range(COUNT):
        ask()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(9 * COUNT):
        ask()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (after - before) * 1024 < 32 * MIB
