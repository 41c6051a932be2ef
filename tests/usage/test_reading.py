"""What the meter counts of a request, and who may read it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest
from PIL import Image
from tests.key_gate import KeyGate, Rights
from tests.series import series_installation
from tests.support.memory import peak_of, small_pieces
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.api.access import GRANT, Grant, Principal
from mastaba.api.services import Site
from mastaba.api.web import OPERATION, Request, Response
from mastaba.commands.main import main
from mastaba.errors import UnknownCredentialError
from mastaba.services.views import Views
from mastaba.wsgi import create_application
from mastaba_usage.blocks import Block
from mastaba_usage.cells import HEAT_SUFFIX, SUFFIX
from mastaba_usage.database import NUMBERS, Database
from mastaba_usage.heat import opacity
from mastaba_usage.heat_tiles import TileAddress, tile
from mastaba_usage.meter import UsageMeter
from mastaba_usage.process import Counters
from mastaba_usage.reading import DEFAULT
from mastaba_usage.roll_up import roll_up

EVER = "from=2000-01-01&to=2100-01-01"
PARTNER = Grant(Principal("7f3k9q2d", "key", "Town of Colmar"))

Rows = list[dict[str, Any]]


class Group(NamedTuple):
    """What the meter reads of a group of tiles."""

    layer: str
    level: str


@pytest.fixture
def server_json(tmp_path: Path) -> Path:
    path = tiny_installation(tmp_path)
    services = tmp_path / "services.json"
    section = {"enabled": True, "endpoint_uri": "http://localhost/usage", "root_path": "/usage"}
    document = json.loads(services.read_text())
    services.write_text(json.dumps(document | {"usage": section}))
    document = json.loads(path.read_text())
    settings = {"usage": {"directory": str(tmp_path / "usage"), "heat": True}}
    path.write_text(json.dumps(document | {"plugins": settings}))
    return path


@pytest.fixture
def site(server_json: Path) -> Site:
    return create_application(str(server_json)).site


@pytest.fixture
def counted(site: Site, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Rows]:
    """Return a function that counts a request, and returns all rows."""
    directory = site.plugin_settings["usage"]["directory"]
    files = {suffix: Counters(Path(directory), suffix) for suffix in (SUFFIX, HEAT_SUFFIX)}
    monkeypatch.setattr("mastaba_usage.meter.counters", lambda _, suffix=SUFFIX: files[suffix])
    (meter,) = [one for one in [_meter(site)] if one is not None]

    def it(path: str = "", status: int = 200, size: int | None = 10, **environ: Any) -> Rows:
        path, _, query = path.partition("?")
        service, below = "", ""
        if path:
            _, service, *rest = path.split("/")
            below = "".join(f"/{one}" for one in rest)
        meter.request(
            {
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "mastaba.service": (service, below),
                OPERATION: "answer",
                **environ,
            },
            status,
            size,
        )
        return rows(directory)

    it.meter = meter  # type: ignore[attr-defined]
    return it


def _meter(site: Site) -> UsageMeter | None:
    from mastaba_usage import request_meters

    return request_meters(site)  # type: ignore[return-value]


def rows(directory: str) -> Rows:
    database = Database(Path(directory))
    roll_up(Path(directory), database)
    columns = ("service", "virtual", "layer", "level", "ability", "key", "label", "status")
    return list(database.sums("0000-00-00", "9999-99-99", columns))


def test_what_adds_up_runs_on_while_nothing_changes(site: Site) -> None:
    """The supervisor asks each second, and replaces processes whose functions are others."""
    service = site.services["usage"]
    assert len(service.companions()) == 1
    assert service.companions() == service.companions()


def test_a_map_counts_once_and_uses_each_of_its_layers(counted: Callable[..., Rows]) -> None:
    found = counted("/wms?SERVICE=WMS&REQUEST=GetMap&LAYERS=RGB_PNG,nowhere,RGB_PNG", status=400)
    assert [(row["layer"], row["hits"], row["bytes"], row["uses"]) for row in found] == [
        ("RGB_PNG", 1, 10, 1),
        ("unknown", 0, 0, 1),
    ]
    assert {(row["service"], row["status"], row["key"]) for row in found} == {
        ("wms", "error", "anonymous")
    }


@pytest.mark.parametrize(
    ("path", "layer"),
    [
        ("/wmts?LAYER=RGB_PNG&TILEMATRIX=1", "RGB_PNG"),
        ("/wmts?layer=%52GB_PNG", "RGB_PNG"),
        ("/ogcapi/collections/RGB_PNG/map", "RGB_PNG"),
        ("/ogcapi/collections/secret/map", ""),
        ("/ogcapi/collections/RGB_PNG;time=1950/map", "RGB_PNG"),
        ("/wms?LAYERS=RGB_PNG;time=1950,RGB_PNG~4f0c1d2e3a4b", "RGB_PNG"),
        ("/tms/1.0.0/RGB_PNG;time=1950~4f0c1d2e3a4b/metadata.json", "RGB_PNG"),
        ("/viewer/data/layers/RGB_PNG.json", "RGB_PNG"),
        ("/wmts?LAYER=secret", "unknown"),
        ("/wmts?LAYER=secret;time=1950", "unknown"),
        ("/wmts?%zz=&&&=%ff", ""),
        ("/caf\xc3\xa9/\xff", ""),
    ],
)
def test_layers_are_those_of_the_catalogue(
    path: str, layer: str, counted: Callable[..., Rows]
) -> None:
    (row,) = counted(path)
    assert (row["layer"], row["hits"]) == (layer, 1)


@pytest.mark.parametrize(
    ("path", "layer"),
    [
        ("/wmts?LAYER=RGB_PNG&TILEMATRIX=1", "unknown"),
        ("/wmts?LAYER=nowhere&TILEMATRIX=1", "unknown"),
        ("/tms/1.0.0/RGB_PNG", ""),
        ("/tms/1.0.0/nowhere", ""),
        ("/tms/1.0.0/RGB_JPG", "RGB_JPG"),
    ],
)
def test_a_hidden_layer_counts_as_one_that_does_not_exist(
    path: str, layer: str, counted: Callable[..., Rows], site: Site
) -> None:
    """Whoever asks for it reads so in its own usage."""
    gate = KeyGate(classes={"": Rights(hidden=frozenset(("RGB_PNG",)))})
    site.gate = gate
    site.views = Views(site)
    (row,) = counted(path, **{GRANT: PARTNER}, status=404)
    assert row["layer"] == layer


def test_the_key_is_that_of_the_grant(counted: Callable[..., Rows]) -> None:
    counted("/wms", **{GRANT: PARTNER})
    counted("/wms", **{GRANT: ValueError("refused")}, status=401, size=None)
    found = counted("", **{"mastaba.virtual": "partners"})
    assert {(row["key"], row["virtual"], row["status"], row["bytes"]) for row in found} == {
        ("7f3k9q2d", "", "ok", 10),
        ("anonymous", "", "refused", 0),
        ("anonymous", "partners", "ok", 10),
    }


def test_tiles_and_documents_of_the_table_are_counted(
    counted: Callable[..., Rows], site: Site
) -> None:
    meter: UsageMeter = counted.meter  # type: ignore[attr-defined]
    group = Group("RGB_PNG", "1")
    for _ in range(3):
        meter.tile(PARTNER, group, Response(200, [], b"12345"), "wmts", "")
    meter.tile(None, group, Response(304, []), "wmts", "")
    meter.tile(None, None, Response(200, [], b"12"), "wms", "")
    found = rows(site.plugin_settings["usage"]["directory"])
    assert [
        (*map(row.get, ("service", "layer", "level", "ability", "key", "status", "hits", "bytes")),)
        for row in found
    ] == [
        ("wms", "", "", "documents", "anonymous", "ok", 1, 2),
        ("wmts", "RGB_PNG", "1", "tiles", "7f3k9q2d", "ok", 3, 15),
        ("wmts", "RGB_PNG", "1", "tiles", "anonymous", "unchanged", 1, 0),
    ]


def test_principals_read_their_own_usage_only(
    counted: Callable[..., Rows], site: Site, server_json: Path
) -> None:
    counted("/wms", **{GRANT: PARTNER})
    counted("/wms")
    client = Client(create_application(str(server_json)))
    path = f"/usage?{EVER}&by=key,service"
    assert client.get(path).status_code == 404
    anonymous = Grant(Principal("anonymous", "anonymous"))
    assert client.get(path, environ_overrides={GRANT: anonymous}).status_code == 404
    own = client.get(path, environ_overrides={GRANT: PARTNER})
    assert own.headers["Cache-Control"] == "private, no-store"
    assert [(row["key"], row["hits"]) for row in own.json["usage"]] == [("7f3k9q2d", 1)]
    other = client.get(f"{path}&where=key=anonymous", environ_overrides={GRANT: PARTNER})
    assert [row["key"] for row in other.json["usage"]] == ["7f3k9q2d"]
    all_of_it = Grant(Principal("boss", "user"), abilities=frozenset(("usage",)))
    found = client.get(path, environ_overrides={GRANT: all_of_it}).json["usage"]
    assert {row["key"] for row in found} == {"7f3k9q2d", "anonymous"}
    table = client.get(f"{path}&f=csv", environ_overrides={GRANT: PARTNER})
    assert table.text == "key,service,hits,bytes,cost,uses\r\n7f3k9q2d,wms,1,10,1,0\r\n"


def test_signed_addresses_count_for_whom_they_are_and_read_nothing(
    counted: Callable[..., Rows], server_json: Path
) -> None:
    """Whoever gets one must not read what its issuer, or others with the same secret, have used."""
    key = Principal("7f3k9q2d", "key", "Town of Colmar")
    of_key = Grant(Principal("main", "signed", issuer=key))
    of_nobody = Grant(Principal("main", "signed"))
    counted("/wms", **{GRANT: of_key})
    found = counted("/wmts", **{GRANT: of_nobody})
    assert {(row["service"], row["key"], row["label"]) for row in found} == {
        ("wms", "7f3k9q2d", "Town of Colmar"),
        ("wmts", "signed:main", ""),
    }
    client = Client(create_application(str(server_json)))
    for path in ("/usage", "/usage/slots"):
        for grant in (of_key, of_nobody):
            assert client.get(path, environ_overrides={GRANT: grant}).status_code == 404


@pytest.mark.parametrize(
    "name", ["7f3k9q2d", "anonymous", "signed:main", "unknown", "removed", "other"]
)
def test_a_user_with_the_name_of_another_reads_nothing_of_it(
    name: str, counted: Callable[..., Rows], server_json: Path
) -> None:
    counted("/wms")
    for one in (PARTNER, Grant(Principal("main", "signed"))):
        counted("/wms", **{GRANT: one})
    user = Grant(Principal(name, "user"))
    counted("/wmts", **{GRANT: user})
    client = Client(create_application(str(server_json)))
    own = client.get(f"/usage?{EVER}&by=key,service", environ_overrides={GRANT: user})
    assert [(row["key"], row["service"]) for row in own.json["usage"]] == [(f"user:{name}", "wmts")]


def test_cost_is_what_rates_would_take(counted: Callable[..., Rows], site: Site) -> None:
    size = "CRS=EPSG:3857&WIDTH=1024&HEIGHT=1024"
    path = f"/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=RGB_PNG&{size}"
    request = Request("GET", "", path.partition("?")[2], {})
    cost = site.services["wms"].cost(request)
    assert cost > 1
    counted(path)
    counted(path, REQUEST_METHOD="HEAD")
    for status, environ in (
        (429, {}),
        (401, {GRANT: ValueError("refused")}),
        (204, {"REQUEST_METHOD": "OPTIONS"}),
    ):
        counted(path, status, **environ)
    counted("", 404)
    meter: UsageMeter = counted.meter  # type: ignore[attr-defined]
    meter.tile(None, Group("RGB_PNG", "1"), Response(200, [], b"12"), "wmts", "")
    found = counted("/health")
    costs = {(row["service"], row["status"], row["cost"]) for row in found if row["hits"]}
    assert ("wms", "ok", 2 * cost) in costs
    assert {one for one in costs if one[2]} == {("wms", "ok", 2 * cost), ("wmts", "ok", 1)}


@pytest.mark.parametrize("service", ["wms", "wmts"])
def test_bodies_of_refused_requests_are_not_read(
    service: str, counted: Callable[..., Rows]
) -> None:
    body = BytesIO(b"REQUEST=GetMap&%61=%62")
    posted = {
        "REQUEST_METHOD": "POST",
        "CONTENT_TYPE": "application/x-www-form-urlencoded",
        "CONTENT_LENGTH": str(len(body.getvalue())),
        "wsgi.input": body,
    }
    counted(f"/{service}", 401, **posted, **{GRANT: ValueError("refused")})
    found = counted(f"/{service}", 403, **posted)
    assert body.tell() == 0
    assert {(row["service"], row["ability"]) for row in found} == {(service, "documents")}


def test_what_a_service_has_read_of_a_body_counts(server_json: Path, site: Site) -> None:
    size = "CRS=EPSG:3857&BBOX=0,0,9e6,9e6&WIDTH=1024&HEIGHT=1024&STYLES=&FORMAT=image/png"
    given = f"SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=RGB_PNG&{size}"
    client = Client(create_application(str(server_json)))
    form = {"content_type": "application/x-www-form-urlencoded"}
    assert client.post("/wms", data=given, **form).status_code == 200
    (row,) = (row for row in rows(site.plugin_settings["usage"]["directory"]) if row["hits"])
    cost = site.services["wms"].cost(Request("GET", "", given, {}))
    assert cost > 1
    assert (row["ability"], row["cost"]) == ("maps", cost)


def test_names_of_values_count_as_their_layer(tmp_path: Path) -> None:
    usage = {"enabled": True, "endpoint_uri": "http://localhost/usage", "root_path": "/usage"}
    path = series_installation(
        tmp_path,
        names="OLD_{time}",
        services=["wms", "wmts", "tms", "ogcapi"],
        services_overrides={"usage": usage},
        server_overrides={"plugins": {"usage": {"directory": str(tmp_path / "usage")}}},
    )
    client = Client(create_application(str(path)))
    box = "CRS=EPSG:3857&BBOX=0,0,9,9&WIDTH=9&HEIGHT=9&FORMAT=image/png&STYLES="
    wms = f"/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&{box}&LAYERS="
    assert client.get(f"{wms}OLD_1950").status_code == 200
    assert client.get(f"{wms}OLD_1800").status_code == 400
    assert client.get(f"{wms}ORTHO,OLD_1975").status_code == 400  # two values of one layer
    assert client.get("/tms/1.0.0/OLD_1950").status_code == 200
    refused = {GRANT: UnknownCredentialError("the credential is unknown")}
    client.get(f"{wms}OLD_1950", environ_overrides=refused)
    found = {
        (row["service"], row["layer"], row["status"]): row["hits"]
        for row in rows(str(tmp_path / "usage"))
    }
    assert found == {
        ("wms", "ORTHO", "ok"): 1,
        ("wms", "ORTHO", "error"): 1,
        ("wms", "unknown", "error"): 1,
        ("tms", "ORTHO", "ok"): 1,
        ("wms", "unknown", "refused"): 1,
    }


def test_keys_have_their_labels(
    counted: Callable[..., Rows], site: Site, server_json: Path
) -> None:
    meter: UsageMeter = counted.meter  # type: ignore[attr-defined]
    meter.tile(PARTNER, Group("RGB_PNG", "1"), Response(200, [], b"1"), "wmts", "")
    counted("/wms", **{GRANT: PARTNER})
    named = Grant(Principal("7f3k9q2d", "key", "City of Colmar"))
    found = counted("/wms", **{GRANT: named})
    assert {(row["key"], row["label"]) for row in found} == {("7f3k9q2d", "City of Colmar")}
    database = Database(Path(site.plugin_settings["usage"]["directory"]))
    (row,) = database.sums("2000-01-01", "2100-01-01", ["label"], {"label": "City of Colmar"})
    assert row["hits"] == 3
    assert database.forget("7f3k9q2d")
    found = counted("/wms", **{GRANT: named})
    assert {(row["key"], row["label"]) for row in found} == {("removed", "")}


def test_browsers_get_a_page_of_their_own_usage(
    counted: Callable[..., Rows], server_json: Path
) -> None:
    script = "<script>alert(1)</script>"
    hostile = Grant(Principal("7f3k9q2d", "key", script))
    path = "/wms?LAYERS=RGB_PNG"
    counted(path, size=1234, **{GRANT: hostile})
    counted("/wmts", size=77, **{GRANT: Grant(Principal("other", "key"))})
    client = Client(create_application(str(server_json)))
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    own = client.get("/usage", headers=browser, environ_overrides={GRANT: hostile})
    assert own.headers["Content-Type"] == "text/html; charset=utf-8"
    assert own.headers["Cache-Control"] == "private, no-store"
    assert "default-src 'none'" in own.headers["Content-Security-Policy"]
    assert '<th scope="row">RGB_PNG</th><td>1</td><td>1,234</td><td>1</td>' in own.text
    assert script not in own.text
    assert "&lt;script&gt;" in own.text
    assert "wmts" not in own.text
    stranger = client.get("/usage", headers=browser)
    assert (stranger.status_code, stranger.mimetype) == (404, "text/html")
    everything = Grant(Principal("boss", "user"), abilities=frozenset(("usage",)))
    of_all = client.get("/usage?f=html", environ_overrides={GRANT: everything})
    assert '<th scope="row">other</th><td>1</td><td>77</td>' in of_all.text
    assert client.get("/usage", environ_overrides={GRANT: hostile}).mimetype == "application/json"


@pytest.mark.parametrize(
    "query",
    [
        "from=yesterday",
        "from=2026-02-30",
        "from=2026-02-02&to=2026-01-01",
        "by=secret",
        "by=day;drop",
        "where=service",
        "where=x=1",
    ],
)
def test_invalid_questions_are_client_errors(query: str, server_json: Path) -> None:
    client = Client(create_application(str(server_json)))
    response = client.get(f"/usage?{query}", environ_overrides={GRANT: PARTNER})
    assert response.status_code == 400
    assert "Traceback" not in response.text


def test_command_shows_the_same(
    counted: Callable[..., Rows], server_json: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counted("/wms", **{GRANT: PARTNER})
    arguments = ["usage", "-f", str(server_json), "--by", "key", "--where", "service=wms"]
    assert main([*arguments, "--format", "csv"]) == 0
    assert capsys.readouterr().out == "key,hits,bytes,cost,uses\r\n7f3k9q2d,1,10,1,0\r\n"
    assert main([*arguments, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["usage"][0]["hits"] == 1
    assert main(arguments) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["7f3k9q2d", "1", "10", "1", "0"]
    assert main(["usage", "forget", "-f", str(server_json), "7f3k9q2d"]) == 0
    capsys.readouterr()
    assert main([*arguments, "--format", "csv"]) == 0
    assert "removed" in capsys.readouterr().out
    assert main([*arguments, "merge", "/nowhere.sqlite"]) == 1
    assert "there is no database" in capsys.readouterr().err
    assert main([*arguments[:-2], "--by", "secret"]) == 2


def test_blocks_of_tiles_make_a_heat_map(
    counted: Callable[..., Rows],
    site: Site,
    server_json: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    meter: UsageMeter = counted.meter  # type: ignore[attr-defined]
    for level, place, times in (
        ("3", (2, 4), 7),
        ("3", (7, 0), 3),  # the same block
        ("2", (1, 2), 9),  # too few
        ("gone", (1, 2), 20),
    ):
        for _ in range(times):
            meter.tile(PARTNER, Group("RGB_JPG", level), Response(200, [], b"1"), "w", "", place)
    meter.tile(None, Group("RGB_JPG", "3"), Response(404, [], b"1"), "w", "", (2, 4))
    assert sum(row["hits"] for row in rows(site.plugin_settings["usage"]["directory"])) == 40
    client = Client(create_application(str(server_json)))
    boss = {GRANT: Grant(Principal("boss", "user"), abilities=frozenset(("usage",)))}
    answer = client.get("/usage/heat/RGB_JPG", environ_overrides=boss)
    assert answer.mimetype == "application/geo+json"
    (feature,) = answer.json["features"]
    assert feature["properties"] == {"level": "3", "hits": 10}
    # All 8 × 8 tiles of the level: the block ends where the matrix does.
    west, south = feature["geometry"]["coordinates"][0][0]
    east, north = feature["geometry"]["coordinates"][0][2]
    assert (west, east) == (-180, 180)
    assert south == pytest.approx(-85.0511288)
    assert north == pytest.approx(85.0511288)
    assert client.get("/usage/heat/RGB_JPG?level=2", environ_overrides=boss).json["features"] == []
    page = client.get("/usage/heat/RGB_JPG?f=html", environ_overrides=boss)
    assert '<path d="M-180.000000 85.051129L' in page.text
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert "/usage/heat/RGB_JPG?f=html" in client.get("/usage?f=html", environ_overrides=boss).text
    picture = client.get("/usage/heat/RGB_JPG/1/0/1.png", environ_overrides=boss)
    assert picture.mimetype == "image/png"
    with Image.open(BytesIO(picture.data)) as shown:
        assert (shown.size, shown.getcolors()) == ((256, 256), [(65536, (0xC2, 0x57, 0x1A, 255))])
    for path, grant in (
        ("RGB_JPG", PARTNER),
        ("nowhere", boss[GRANT]),
        ("", boss[GRANT]),
        ("RGB_JPG/0/0/0.png", PARTNER),
        ("RGB_JPG/0/0/1.png", boss[GRANT]),
        ("RGB_JPG/29/0/1.png", boss[GRANT]),
        ("nowhere/0/0/0.png", boss[GRANT]),
    ):
        assert (
            client.get(f"/usage/heat/{path}", environ_overrides={GRANT: grant}).status_code == 404
        )
    arguments = ["usage", "heatmap", "-f", str(server_json)]
    assert main([*arguments, "RGB_JPG", "--format", "geojson"]) == 0
    assert json.loads(capsys.readouterr().out) == answer.json
    assert main([*arguments, "nowhere"]) == 1


def test_tiles_of_the_table_come_with_their_place(server_json: Path, site: Site) -> None:
    application = create_application(str(server_json))
    for _ in range(10):
        # TMS counts rows from below.
        assert application.stored_tile("/tms/1.0.0/RGB_JPG/3/4/2.jpg", "", {}) is not None
    directory = Path(site.plugin_settings["usage"]["directory"])
    database = Database(directory)
    roll_up(directory, database)
    (block,) = database.blocks("0000-00-00", "9999-99-99", "RGB_JPG")
    assert block == ("3", 0, 0, 10)


@pytest.mark.parametrize("segment", ["/", "/a", "/tms"])
def test_long_paths_are_looked_up_in_few_steps(segment: str, server_json: Path) -> None:
    """Clients choose the number of segments: the work must not grow with its square."""
    application = create_application(str(server_json))
    joined: list[str] = []

    def note(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and called.__name__ == "join":
            joined.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        application.stored_tile(segment * 3000, "", {})
    finally:
        sys.setprofile(None)
    assert len(joined) < 50


def test_the_last_day_is_shown_by_five_minutes(
    counted: Callable[..., Rows], server_json: Path
) -> None:
    counted("/wms", **{GRANT: PARTNER})
    counted("/wms")
    client = Client(create_application(str(server_json)))
    for query in ("", "?from=2026-01-01", "?from=2026-01-01&where=key=anonymous"):
        own = client.get(f"/usage/slots{query}", environ_overrides={GRANT: PARTNER}).json
        assert [(slot["hits"], slot["bytes"]) for slot in own["slots"]] == [(1, 10)]
        assert own["seconds"] == 300
    assert client.get("/usage/slots").status_code == 404
    page = client.get("/usage?f=html", environ_overrides={GRANT: PARTNER}).text
    assert page.count("<rect ") == 1
    assert ": 1</title>" in page


@pytest.mark.parametrize("form", ["json", "csv"])
def test_long_answers_take_little_memory(
    server_json: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """They are in a file until the client has read them; they once were kept several times."""
    row = dict.fromkeys(DEFAULT.split(","), "a" * 20) | dict.fromkeys(NUMBERS, 1)
    rows = (dict(row, day=str(number)) for number in range(5000))
    small_pieces(monkeypatch)
    monkeypatch.setattr(Database, "sums", lambda *_: rows)
    client = Client(create_application(str(server_json)))
    boss = {GRANT: Grant(Principal("boss", "user"), abilities=frozenset(("usage",)))}
    address = f"/usage?f={form}"
    answer, peak = peak_of(lambda: client.get(address, environ_overrides=boss, buffered=False))
    assert len(answer.data) > 550_000
    assert answer.data.count(b"a" * 20) == 5000 * (len(DEFAULT.split(",")) - 1)
    assert peak < 300_000
    answer.close()


def test_heat_maps_of_many_blocks_take_little_memory(
    server_json: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Blocks of a level of which a block is a tile of the finest one.
    monkeypatch.setattr("mastaba_usage.heat.SHIFT", 0)
    monkeypatch.setattr("mastaba_usage.heat._STRAIGHT", "")
    blocks = [Block("8", row, col, 10) for row in range(20) for col in range(50)]
    monkeypatch.setattr(Database, "blocks", lambda *_: blocks)
    small_pieces(monkeypatch)
    client = Client(create_application(str(server_json)))
    boss = {GRANT: Grant(Principal("boss", "user"), abilities=frozenset(("usage",)))}
    path = "/usage/heat/RGB_JPG"
    answer, peak = peak_of(lambda: client.get(path, environ_overrides=boss, buffered=False))
    assert len(answer.data) > 600_000
    assert len(answer.json["features"]) == len(blocks)
    assert peak < 300_000
    answer.close()


def test_tiles_of_heat_maps_show_blocks_where_they_are(site: Site) -> None:
    """A block of level 8 is the tile of zoom 2 at its place."""
    layer = site.catalogue.layers["RGB_JPG"]
    blocks = [Block("8", 1, 2, 100), Block("8", 3, 0, 10)]

    def alpha(z: int, x: int, y: int) -> list[list[int]]:
        """Return the opacity in the middle of each quarter, by rows."""
        with Image.open(BytesIO(tile(layer, blocks, TileAddress(z, x, y)))) as picture:
            channel = picture.getchannel("A")
            return [
                [channel.getpixel((64 + 128 * i, 64 + 128 * j)) for i in (0, 1)] for j in (0, 1)
            ]

    assert alpha(2, 2, 1) == [[255, 255], [255, 255]]
    assert alpha(2, 1, 1) == alpha(2, 2, 2) == [[0, 0], [0, 0]]
    low = round(255 * opacity(10, 100))
    assert alpha(1, 1, 0) == [[0, 0], [255, 0]]
    assert alpha(1, 0, 1) == [[0, 0], [low, 0]]
    assert alpha(5, 23, 15) == [[255, 255], [255, 255]]
    assert alpha(5, 24, 15) == [[0, 0], [0, 0]]
    with Image.open(BytesIO(tile(layer, blocks, TileAddress(1, 1, 0)))) as picture:
        assert picture.getchannel("A").getbbox() == (0, 128, 128, 256)
