"""Logs of front servers are counted as the server itself counts."""

from __future__ import annotations

import builtins
import gzip
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.key_gate import GatePlugin, KeyGate, Rights
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.commands.main import main
from mastaba.plugins.manager import Plugins
from mastaba.wsgi import create_application
from mastaba_usage.database import Database
from mastaba_usage.errors import UsageError
from mastaba_usage.front_logs import FORMATS, Line
from mastaba_usage.importing import Imported, LogCounter, import_log
from mastaba_usage.reading import as_parquet
from mastaba_usage.roll_up import roll_up

EVER = ("2000-01-01", "2100-01-01")
TILE = "/tms/1.0.0/RGB_PNG/3/4/2.png"
MAP = "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=RGB_PNG,GREY&CRS=CRS:84"
KVP = (
    "/wmts?SERVICE=WMTS&REQUEST=GetTile&VERSION=1.0.0&LAYER=RGB_PNG&STYLE=normal"
    "&TILEMATRIXSET=PM&TILEMATRIX=3&TILEROW=2&TILECOL=4&FORMAT=image/png"
)
COVERAGE = "SERVICE=WCS&VERSION=2.0.1&COVERAGEID=NOWHERE"


@pytest.fixture
def server_json(tmp_path: Path) -> Path:
    path = tiny_installation(tmp_path)
    services = tmp_path / "services.json"
    document = json.loads(services.read_text())
    section = {"enabled": True, "endpoint_uri": "http://localhost/usage", "root_path": "/usage"}
    document["tms"]["endpoint_uri"] = "https://maps.example/public/tms"
    further = {
        name: {**section, "endpoint_uri": f"http://localhost/{name}", "root_path": f"/{name}"}
        for name in ("usage", "wcs", "elevation", "terrain")
    }
    further["elevation"]["facades"] = {"ign": True}
    services.write_text(json.dumps(document | further))
    document = json.loads(path.read_text())
    settings = {"usage": {"directory": str(tmp_path / "usage")}}
    (tmp_path / "usage").mkdir()
    path.write_text(json.dumps(document | {"plugins": settings}))
    return path


@pytest.fixture
def counter(server_json: Path) -> LogCounter:
    return LogCounter(create_application(str(server_json)).site)


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "usage")


def line(target: str, status: int = 200, size: int = 10, **other: str) -> str:
    time = other.get("time", "24/Nov/2026:21:18:26 +0000")
    client, user = other.get("client", "192.0.2.1"), other.get("user", "-")
    method = other.get("method", "GET")
    return f'{client} - {user} [{time}] "{method} {target} HTTP/1.1" {status} {size} "-" "QGIS/3"\n'


def imported(
    path: Path, text: str, counter: LogCounter, database: Database, form: str = "nginx"
) -> Imported:
    path.write_text(text)
    return import_log(path, FORMATS[form](), counter, database)


def sums(database: Database, *by: str) -> dict[tuple[Any, ...], tuple[int, int]]:
    rows = database.sums(*EVER, by)
    return {tuple(row[name] for name in by): (row["hits"], row["bytes"]) for row in rows}


def test_addresses_mean_what_they_mean_to_the_server(
    tmp_path: Path, counter: LogCounter, database: Database
) -> None:
    text = "".join(
        [
            line(TILE),
            line("/public" + TILE, 304, 0),
            line(KVP, size=20),
            line(TILE, 404, 3),
            line(MAP, size=100),
            line("/wmts?LAYER=secret&TILEMATRIX=1&REQUEST=GetTile", 400),
            line("/nothing", 404),
            line(TILE, method="HEAD", size=0),
            # The log does not have what was posted.
            line("/wmts", method="POST"),
            line("/wms", method="POST"),
            line("/tms/1.0.0", 405, method="POST"),
        ]
    )
    assert imported(tmp_path / "log", text, counter, database) == Imported(lines=11)
    by = ("service", "layer", "level", "ability", "status")
    found = {key: counts for key, counts in sums(database, *by).items() if counts[0]}
    assert found == {
        ("tms", "RGB_PNG", "3", "tiles", "ok"): (1, 10),
        ("tms", "RGB_PNG", "3", "tiles", "unchanged"): (1, 0),
        ("tms", "RGB_PNG", "", "tiles", "missing"): (1, 3),
        ("tms", "RGB_PNG", "", "tiles", "ok"): (1, 0),
        ("wmts", "RGB_PNG", "3", "tiles", "ok"): (1, 20),
        ("wms", "RGB_PNG", "", "maps", "ok"): (1, 100),
        ("wmts", "unknown", "", "tiles", "error"): (1, 10),
        ("", "", "", "", "missing"): (1, 10),
        ("wmts", "", "", "documents", "ok"): (1, 10),
        ("wms", "", "", "documents", "ok"): (1, 10),
        ("tms", "", "", "", "error"): (1, 10),
    }
    uses = database.sums(*EVER, ["layer"], {"service": "wms"})
    used = {row["layer"]: row["uses"] for row in uses if row["uses"]}
    assert used == {"RGB_PNG": 1, "unknown": 1}


@pytest.mark.parametrize(
    ("target", "ability", "status"),
    [
        (TILE, "tiles", 200),
        # What a client adds so that no cache answers.
        (f"{TILE}?t=123", "tiles", 200),
        (KVP, "tiles", 200),
        (f"{KVP}&t=123", "tiles", 200),
        ("/wmts/1.0.0/RGB_PNG/normal/PM/3/2/4.png?t=123", "tiles", 200),
        ("/ogcapi/collections/RGB_PNG/map/tiles/PM/3/2/4", "tiles", 200),
        ("/ogcapi/collections/RGB_PNG/map/tiles/PM/3/2/4?t=123", "tiles", 200),
        ("/tms/1.0.0/RGB_PNG/17/1/1.png", "tiles", 404),
        (
            f"{MAP}&STYLES=&BBOX=-9,-9,9,9&WIDTH=8&HEIGHT=8&FORMAT=image/png".replace(",GREY", ""),
            "maps",
            200,
        ),
        (MAP, "maps", 400),
        ("/tms/1.0.0/RGB_PNG", "documents", 200),
        ("/tms/1.0.0/NOWHERE", "documents", 404),
        ("/wmts?SERVICE=WMTS&REQUEST=GetCapabilities", "documents", 200),
        ("/ogcapi/collections/RGB_PNG/map/tiles/PM", "documents", 200),
        ("/wcs?SERVICE=WCS&REQUEST=GetCapabilities", "documents", 200),
        (f"/wcs?{COVERAGE}&REQUEST=DescribeCoverage", "documents", 404),
        (f"/wcs?{COVERAGE}&REQUEST=getcoverage", "coverages", 404),
        ("/ogcapi/collections/RGB_PNG/zarr/.zmetadata", "documents", 404),
        ("/ogcapi/collections/RGB_PNG/zarr/nothing/0.0.0", "coverages", 404),
        ("/elevation", "documents", 200),
        ("/elevation/edr/collections", "documents", 200),
        ("/elevation/edr/collections/x/position?coords=POINT(0+0)", "heights", 404),
        ("/elevation/points", "heights", 400),
        ("/elevation/resources", "documents", 200),
        ("/terrain", "documents", 200),
        ("/terrain/x/style.json", "documents", 404),
        ("/terrain/x/mapbox/1/0/0.png", "terrain", 404),
        # A layer and a column may have any name.
        ("/ogcapi/collections/tiles/styles/S/map/tiles", "documents", 404),
        ("/ogcapi/collections/tiles/styles/S/map", "maps", 404),
        ("/ogcapi/collections/RGB_PNG/map/tiles/PM/3/2/map", "tiles", 400),
        ("/nothing", "", 404),
    ],
)
def test_table_general_path_and_front_count_the_same(
    target: str,
    ability: str,
    status: int,
    tmp_path: Path,
    server_json: Path,
    counter: LogCounter,
    database: Database,
) -> None:
    application = create_application(str(server_json))
    path, _, query = target.partition("?")
    client = Client(application)
    answer = client.get(target)
    assert answer.status_code == status
    # The table knows what was asked before.
    if application.stored_tile(path, query, {}) is None:
        client.get(target)
    assert client.head(target).status_code == status
    roll_up(tmp_path / "usage", database)
    by = ("service", "ability", "status")
    counted = sums(database, *by)
    assert {key[1] for key in counted} == {ability}
    text = line(target, status, len(answer.data)) * 2 + line(target, status, 0, method="HEAD")
    (tmp_path / "of the front").mkdir()
    other = Database(tmp_path / "of the front")
    imported(tmp_path / "log", text, counter, other)
    assert sums(other, *by) == counted


def test_days_are_utc(tmp_path: Path, counter: LogCounter, database: Database) -> None:
    text = line(TILE, time="01/Jan/2026:00:30:00 +0200")
    text += line(TILE, time="31/Dec/2025:20:30:00 -0700")
    imported(tmp_path / "log", text, counter, database)
    assert sums(database, "day") == {("2025-12-31",): (1, 10), ("2026-01-01",): (1, 10)}


def test_varnish_writes_whole_addresses(
    tmp_path: Path, counter: LogCounter, database: Database
) -> None:
    text = line(f"http://maps.example{TILE}") + line("http://maps.example")
    found = imported(tmp_path / "log", text, counter, database, "varnish")
    assert (found.lines, found.bad) == (2, 0)
    assert sums(database, "service", "layer")["tms", "RGB_PNG"] == (1, 10)


def test_cloudfront_names_its_fields(
    tmp_path: Path, counter: LogCounter, database: Database
) -> None:
    path, _, query = KVP.partition("?")
    names = "date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status"
    rows = [
        ("2026-11-24", "21:18:26", "CDG", "30", "192.0.2.1", "GET", "x", path, "200", query),
        ("2026-11-24", "21:18:27", "CDG", "9", "192.0.2.1", "GET", "x", TILE, "200", "-"),
        ("2026-11-24", "21:18:27", "CDG", "0", "192.0.2.1", "GET", "x", TILE, "000", "-"),
        ("2026-99-24", "21:18:27", "CDG", "9", "192.0.2.1", "GET", "x", TILE, "200", "-"),
    ]
    text = f"#Version: 1.0\n#Fields: {names} cs-uri-query\n"
    text += "".join("\t".join(row) + "\n" for row in rows) + "a\tb\n"
    found = imported(tmp_path / "log", text, counter, database, "cloudfront")
    assert (found.lines, found.bad) == (3, 2)
    assert sums(database, "service", "level", "status") == {
        ("tms", "3", "ok"): (1, 9),
        ("tms", "", "error"): (1, 0),
        ("wmts", "3", "ok"): (1, 30),
    }


def test_bad_lines_are_counted_and_stop_nothing(
    tmp_path: Path, counter: LogCounter, database: Database
) -> None:
    bad = ["\n", "x" * 200_000 + "\n", '1 - - [x] "GET / HTTP/1.1" 200 1\n']
    bad += [line("relative"), line(TILE, time="99/Nov/2026:21:18:26 +0000")]
    bad += [line(TILE, time="24/Xyz/2026:21:18:26 +0000")]
    bad += [line(TILE, time="01/Jan/0001:00:18:26 +0100"), line(TILE, size=10**20)]
    bad += [line(TILE, time="31/Dec/9999:23:18:26 -0100")]
    text = "".join([*bad, line(TILE), line(f"/tms/{'%ff' * 50}/~x?%zz&&=&a=%")])
    found = imported(tmp_path / "log", text, counter, database)
    assert (found.lines, found.bad) == (2, len(bad))
    assert sum(hits for hits, _ in sums(database, "service").values()) == 2


@pytest.mark.parametrize("size", ["9" * 20, "-5", "1.5", "x"])
def test_sizes_of_cloudfront_are_numbers(
    tmp_path: Path, counter: LogCounter, database: Database, size: str
) -> None:
    names = "date sc-bytes c-ip cs-method cs-uri-stem sc-status cs-uri-query"
    rows = [["2026-11-24", one, "192.0.2.1", "GET", TILE, "200", "-"] for one in (size, "7")]
    text = "".join([f"#Fields: {names}\n", *("\t".join(row) + "\n" for row in rows)])
    found = imported(tmp_path / "log", text, counter, database, "cloudfront")
    assert (found.lines, found.bad) == (1, 1)
    assert sums(database, "service") == {("tms",): (1, 7)}


def test_a_file_counts_once_and_what_is_added_counts(
    tmp_path: Path, counter: LogCounter, database: Database
) -> None:
    path, packed = tmp_path / "log", tmp_path / "log.gz"
    text = line(TILE) * 3
    assert imported(path, text + line(TILE)[:-10], counter, database).lines == 3
    assert imported(path, text, counter, database) == Imported(before=len(text))
    packed.write_bytes(gzip.compress(text.encode()))
    assert import_log(packed, FORMATS["nginx"](), counter, database).lines == 0
    assert imported(path, text + line(TILE), counter, database).lines == 1
    assert sums(database, "service") == {("tms",): (4, 40)}
    packed.write_bytes(gzip.compress((line(MAP) * 100).encode())[:-20])
    with pytest.raises(UsageError, match="cannot be read"):
        import_log(packed, FORMATS["nginx"](), counter, database)
    with pytest.raises(UsageError, match="cannot be read"):
        import_log(tmp_path / "nowhere", FORMATS["nginx"](), counter, database)
    assert imported(path, text + line(TILE) * 2, counter, database).lines == 1
    assert sums(database, "service") == {("tms",): (5, 50)}


def test_own_counts_of_days_of_the_front_are_not_added(
    tmp_path: Path, counter: LogCounter, database: Database
) -> None:
    from tests.usage.test_usage import DAY, count

    from mastaba_usage.cells import Cell

    file = count(tmp_path / "usage", (Cell("wms"), 1))
    roll_up(tmp_path / "usage", database)
    assert sums(database, "service") == {("wms",): (1, 1)}
    assert line(TILE).count("24/Nov/2026")
    assert DAY == "2026-11-24"
    imported(tmp_path / "log", line(TILE), counter, database)
    file.add(file.number(Cell("wms")), 1)
    roll_up(tmp_path / "usage", database)
    assert sums(database, "day", "service") == {(DAY, "tms"): (1, 10)}


def test_the_command_imports_and_reports(
    tmp_path: Path, server_json: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "access.log"
    path.write_text(line(TILE) + "nonsense\n")
    command = ["usage", "-f", str(server_json), "import", "--format", "nginx", str(path)]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "1 requests counted" in out
    assert "1 lines are not of the format nginx" in out
    assert main(command) == 0
    assert "0 requests counted" in capsys.readouterr().out
    assert main(["usage", "import", "-f", str(server_json), "--format", "nginx", "/nowhere"]) == 1
    assert "cannot be read" in capsys.readouterr().err


def test_parquet_has_the_same_rows() -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [{"day": "2026-11-24", "hits": 3}, {"day": "2026-11-25", "hits": 2**40}]
    table = parquet.read_table(io.BytesIO(as_parquet(rows, ["day", "hits"])))
    assert table.to_pylist() == rows
    assert as_parquet([], ["day", "hits"])[:4] == b"PAR1"


def test_parquet_says_what_is_missing(
    server_json: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False, raising=False)
    assert main(["usage", "-f", str(server_json), "--format", "parquet"]) == 1
    assert "pip install 'mastaba-usage[parquet]'" in capsys.readouterr().err


def test_a_hidden_layer_counts_as_one_that_does_not_exist(server_json: Path) -> None:
    gate = KeyGate(
        classes={"": Rights(), "few": Rights(hidden=frozenset(("RGB_PNG",)))}, keys={"k1": "few"}
    )
    plugins = Plugins(extra={"gate": GatePlugin(gate)})
    counter = LogCounter(create_application(str(server_json), plugins).site)
    for name in ("RGB_PNG", "NOWHERE", "RGB_JPG"):
        query = f"LAYER={name}&key=k1"
        counter.count(Line("2026-11-24", "GET", "/wmts", query, 404, 10, "192.0.2.1"))
    layers = {cell.layer for _, cell, _ in counter.taken()}
    assert layers == {"unknown", "RGB_JPG"}
