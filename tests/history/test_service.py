"""Histories over HTTP: documents, TimeGate, feeds and changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from lxml import etree
from tests.history import feed_schemas
from tests.history.conftest import BOX, BROKEN, LAYER, MIDDLE, OLD, history_of
from tests.sizes import sized
from tests.support.memory import peak_of, small_pieces
from werkzeug.test import Client

from mastaba.api.catalogue import CRS, BoundingBox, digest_of
from mastaba.api.tools import create_application
from mastaba.commands.main import main
from mastaba_history import changes
from mastaba_history.changes import MOST_POLYGONS
from mastaba_history.layers import geographic
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import synthetic

MINUTE = timedelta(minutes=1)
ATOM = "{http://www.w3.org/2005/Atom}"
GEORSS_BOX = "{http://www.georss.org/georss}box"


def place(response: Any) -> str:
    return urlsplit(response.headers["Location"]).path.rpartition("/")[2]


def http_date(instant: datetime) -> str:
    # Independent of the service; the days have English names in the C locale.
    return instant.strftime("%a, %d %b %Y %H:%M:%S GMT")


def test_the_history_of_a_layer(client: Client, current: str) -> None:
    (listed,) = client.get("/history").json["layers"]
    assert (listed["layer"], listed["generation"], listed["publications"]) == (LAYER, current, 5)
    document = client.get(f"/history/{LAYER}").json
    rows = document["published"]
    assert [row["generation"] for row in rows] == [current, BROKEN, OLD, MIDDLE, OLD]
    assert [row["state"] for row in rows] == ["kept", "withdrawn", "kept", "kept", "kept"]
    assert [row["until"] for row in rows] == [None, *(row["from"] for row in rows[:-1])]
    # Nothing of the third version differs from the one before it; the rollback undid the second.
    assert "bbox" not in rows[0]
    assert rows[2]["native_bbox"] == rows[3]["native_bbox"] == BOX
    assert rows[4]["native_bbox"] != BOX
    for row in rows:
        status = client.get(urlsplit(row["href"]).path).status_code
        assert status == (410 if row["generation"] == BROKEN else 200)
    assert client.get("/history/RGB_JPG").json["published"] == []
    assert client.get("/history/none").status_code == 404


def test_a_version(client: Client) -> None:
    response = client.get(f"/history/{LAYER}/{OLD}")
    assert response.headers["Memento-Datetime"] == "Thu, 01 Jan 2026 12:00:00 GMT"
    assert 'rel="timegate"' in response.headers["Link"]
    spans = response.json["published"]
    assert [one["message"] for one in spans] == ["first", "back"]
    gone = client.get(f"/history/{LAYER}/{BROKEN}")
    assert gone.status_code == 410
    assert "the next version is" in gone.json["detail"]
    for token in ("0123456789ab", f"{OLD}.{OLD}", "x" * 5000):
        assert client.get(f"/history/{LAYER}/{token}").status_code == 404


def test_what_was_published_at_many_instants(client: Client, current: str) -> None:
    times = [
        (datetime(2026, 1, 1, 12, tzinfo=UTC), OLD),
        (datetime(2026, 2, 1, 12, 0, 0, 500_000, tzinfo=UTC), MIDDLE),
        (datetime(2026, 2, 2, tzinfo=UTC), OLD),
        (datetime(2026, 2, 3, tzinfo=UTC), BROKEN),
        (datetime(2026, 3, 1, 12, tzinfo=UTC), current),
    ]
    instants = [one + step for one, _ in times for step in (-MINUTE, timedelta(0), MINUTE)]
    instants += [times[0][0] + timedelta(days=day) for day in range(-3, 90)]
    for instant in instants:
        before = [token for since, token in times if since <= instant]
        text = instant.isoformat()
        gate = client.get(f"/history/{LAYER}/at", query_string={"datetime": text})
        assert (gate.status_code, place(gate)) == (302, before[-1] if before else OLD), text
        assert gate.headers["Vary"].lower() == "accept-datetime"
        token = client.get(f"/history/{LAYER}/{instant:%Y-%m-%dT%H:%M:%S.%f}Z")
        if before:
            assert (token.status_code, place(token)) == (307, before[-1])
            assert token.headers["Cache-Control"] == "max-age=60"
        else:
            assert token.status_code == 404
            assert OLD in token.json["detail"]
        whole = instant.replace(microsecond=0)
        before = [token for since, token in times if since <= whole]
        header = {"Accept-Datetime": http_date(whole)}
        gate = client.get(f"/history/{LAYER}/at", headers=header)
        assert (gate.status_code, place(gate)) == (302, before[-1] if before else OLD), header
    assert place(client.get(f"/history/{LAYER}/at")) == current


@pytest.mark.parametrize(
    "text",
    [
        "yesterday",
        "2026-02-30",
        "Thu, 32 Jan 2026 12:00:00 GMT",
        "Mon, 01 Mar 2026 12:00:00 GMT",  # a Sunday
        "",
        "2" * 10000,
    ],
)
def test_malformed_instants_are_client_errors(client: Client, text: str) -> None:
    for headers, query in (({"Accept-Datetime": text}, {}), ({}, {"datetime": text})):
        response = client.get(f"/history/{LAYER}/at", headers=headers, query_string=query)
        assert response.status_code == 400, response.data
    assert client.get("/history/feed.json", query_string={"since": text}).status_code == 400


def test_the_timemap_lists_all_versions(client: Client, current: str) -> None:
    header = {"Accept": "application/link-format"}
    response = client.get(f"/history/{LAYER}", headers=header)
    assert response.mimetype == "application/link-format"
    assert response.text == client.get(f"/history/{LAYER}?f=timemap").text
    links = [link.split(";", 1) for link in response.text.split(",\n")]
    mementos = [place_ for place_, words in links if "memento" in words]
    assert [one.strip("<>").rpartition("/")[2] for one in mementos] == [
        OLD,
        MIDDLE,
        OLD,
        BROKEN,
        current,
    ]
    assert 'rel="first memento";datetime="Thu, 01 Jan 2026 12:00:00 GMT"' in links[3][1]
    assert 'rel="last memento"' in links[-1][1]
    assert f"/history/{LAYER}?f=timemap" in client.get("/history?f=timemap").text


def check_atom(data: bytes) -> list[dict[str, str]]:
    """Check a feed as RFC 4287 section 4 describes it; return its entries."""
    feed_schemas.check_atom(data)
    feed = etree.fromstring(data)
    assert [link.get("href") for link in feed.findall(f"{ATOM}link") if link.get("rel") == "self"]
    entries = []
    for entry in feed.findall(f"{ATOM}entry"):
        found = {}
        for name in ("id", "title", "updated", "published", "summary"):
            (child,) = entry.findall(f"{ATOM}{name}")
            found[name] = child.text or ""
            assert not len(child)
        for name in ("updated", "published"):
            assert datetime.fromisoformat(found[name]).tzinfo is not None
        assert urlsplit(found["id"]).scheme
        assert any(link.get("rel") == "alternate" for link in entry.findall(f"{ATOM}link"))
        for box in entry.findall(GEORSS_BOX):
            south, west, north, east = map(float, (box.text or "").split())
            assert -90 <= south < north <= 90
            assert -180 <= west < east <= 180
            found["box"] = box.text or ""
        entries.append(found)
    assert len({entry["id"] for entry in entries}) == len(entries)
    assert [entry["updated"] for entry in entries] == sorted(
        (entry["updated"] for entry in entries), reverse=True
    )
    return entries


def test_feeds_have_an_entry_for_each_publication(client: Client, current: str) -> None:
    for start in ("/history", f"/history/{LAYER}"):
        entries = check_atom(client.get(f"{start}/feed.atom").data)
        assert [one["summary"] for one in entries] == [
            "third",
            "published by build",
            "back",
            'a < b & "c"',
            "first",
        ]
        assert ["box" in one for one in entries] == [False, True, True, True, True]
        feed = client.get(f"{start}/feed.json").json
        feed_schemas.check_json(feed)
        assert feed["version"] == "https://jsonfeed.org/version/1.1"
        assert feed["title"]
        assert feed["feed_url"].endswith("feed.json")
        items = feed["items"]
        assert [item["id"] for item in items] == [one["id"] for one in entries]
        for item, one in zip(items, entries, strict=True):
            assert item["content_text"] == one["summary"]
            assert item["date_published"] == one["updated"]
            assert ("bbox" in item["_mastaba"]) == ("box" in one)
        assert items[0]["_mastaba"]["generation"] == current
        later = client.get(f"{start}/feed.json?since=2026-02-02T00:00:00Z").json["items"]
        assert later == items[:2]
    assert client.get("/history/RGB_JPG/feed.json").json["items"] == []
    check_atom(client.get("/history/RGB_JPG/feed.atom").data)


def test_changed_tiles_are_polygons(client: Client) -> None:
    response = client.get(f"/history/{LAYER}/changes/{OLD}..{MIDDLE}")
    assert response.mimetype == "application/geo+json"
    tiles = {}
    for feature in response.json["features"]:
        ring = feature["geometry"]["coordinates"][0]
        assert ring[0] == ring[-1]
        area = sum(a[0] * b[1] - b[0] * a[1] for a, b in pairwise(ring))
        assert area > 0, "counterclockwise"
        wide = 360 / 16
        columns = sorted({round((point[0] + 180) / wide, 6) for point in ring})
        properties = feature["properties"]
        tiles[tuple(columns)] = properties
        assert (properties["from"], properties["to"], properties["level"]) == (OLD, MIDDLE, "4")
    # The tile beyond the limits of the layer is not shown; two rows are one polygon.
    assert {key: one["added"] for key, one in tiles.items()} == {(9, 10): False, (10, 11): True}
    back = client.get(f"/history/{LAYER}/changes/{MIDDLE}..{OLD}").json["features"]
    assert [one["properties"]["removed"] for one in back].count(True) == 1
    assert client.get(f"/history/{LAYER}/changes/{OLD}..{OLD}").json["features"] == []
    # Its document is gone: the box of what has changed, if the layer has data there.
    assert client.get(f"/history/{LAYER}/changes/{OLD}..{BROKEN}").status_code == 200


@pytest.mark.thorough
@pytest.mark.parametrize("more", [0, 1])
def test_the_most_polygons_of_changes_take_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    """One tile more, and the polygons are those of slabs."""
    most = sized(5000, MOST_POLYGONS)
    monkeypatch.setattr(changes, "MOST_POLYGONS", most)
    origin, count = (600000.0, 6800000.0), most + more
    lambert = synthetic(
        "LAMB", crs="EPSG:2154", origin=origin, cell_sizes=[1.0], matrix_sizes=[(400, 400)]
    )
    descriptor = write_pyramid(
        tmp_path / "pyramids",
        "wide",
        tile_matrix_set=lambert,
        format="TIFF_PNG_UINT8",
        channels=3,
        levels=[LevelPlan("0", 0, 399, 0, 399)],
        tile=lambda level, row, col: None,
        tiles_per_width=16,
        tiles_per_height=16,
    )
    history = history_of(digest_of(json.loads(descriptor.read_text())))
    (tmp_path / "pyramids/wide.history.json").write_text(json.dumps(history))
    # No two of them share a side, so each is a polygon of its own.
    places = [(row, col) for row in range(0, 400, 2) for col in range(row // 2 % 2, 400, 2)]
    tiles = [[row, col, col] for row, col in places[:count]]
    changed = {"since": OLD, "level": "0", "tiles": tiles, "added": [], "removed": [], "slabs": {}}
    (tmp_path / "pyramids/wide_2.changes.json").write_text(json.dumps(changed))
    sets = {"LAMB": lambert}
    server_json = write_installation(
        tmp_path,
        layers={"wide": layer_document(descriptor, tile_matrix_sets=sets)},
        tile_matrix_sets=sets,
        services=["history"],
    )
    client = Client(create_application(str(server_json)))
    path = f"/history/wide/changes/{OLD}..{MIDDLE}"
    assert client.get(f"/history/wide/changes/{OLD}..{OLD}").json["features"] == []
    small_pieces(monkeypatch)
    response, peak = peak_of(lambda: client.get(path, buffered=False))
    features = response.json["features"]
    if more:
        assert 0 < len(features) < most
    else:
        assert len(features) == most
        assert peak < 2 * len(response.data), peak / len(response.data)
    response.close()


def test_a_history_that_cannot_be_used_is_none(
    write: Callable[..., Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = write()
    path = tmp_path / f"pyramids/{LAYER}.history.json"
    document = json.loads(path.read_text())
    damaged: list[Any] = [[], {"versions": {}, "published": [{}]}, {**document, "versions": {}}]
    damaged.append({**document, "published": document["published"][:2]})
    document["versions"]["1"]["bbox"] = [1, 2]
    damaged.append(document)
    for one in damaged:
        path.write_text(json.dumps(one))
        client = Client(create_application(str(file)))
        assert client.get(f"/history/{LAYER}").json["published"] == []
        assert client.get(f"/history/{LAYER}/{OLD}").status_code == 404
    path.write_text("{")
    Client(create_application(str(file)))
    assert "cannot be used" in caplog.text


def test_check_reports_histories_that_cannot_be_used(
    write: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write()
    assert main(["check", "-f", str(file)]) == 0
    capsys.readouterr()
    path = tmp_path / f"pyramids/{LAYER}.history.json"
    path.write_text(path.read_text()[:-9])
    assert main(["check", "-f", str(file), "--format", "json"]) == 1
    shown = json.loads(capsys.readouterr().out)
    (found,) = [one for one in shown["faults"] if one["severity"] == "error"]
    assert (found["file"], found["path"]) == (str(path), "$")
    assert found["reason"].startswith("the history cannot be used: ")
    assert "backup" in found["remedy"]
    path.unlink()
    path.mkdir()
    # Whether it exists is not known.
    assert main(["check", "-f", str(file), "--format", "json"]) == 0
    (found,) = [
        one for one in json.loads(capsys.readouterr().out)["faults"] if one["file"] == str(path)
    ]
    assert (found["severity"], "storage" in found["remedy"]) == ("warning", True)


NORTH, SOUTH = CRS.from_code("EPSG:3413"), CRS.from_code("EPSG:3031")


def test_a_box_around_a_pole_contains_it() -> None:
    found = geographic(BoundingBox(-1e6, -1e6, 1e6, 1e6), NORTH)
    assert found is not None
    assert (found[0], found[2], found[3]) == (-180.0, 180.0, 90.0)


@pytest.mark.parametrize(
    ("box", "edges"),
    [
        # The pole in a corner, on a side, and on a side that is not divided there.
        ((-1e6, 0.0, 0.0, 1e6), [(135, 77, 180, 90), (-180, 77, -135, 90)]),
        ((0.0, 0.0, 1e6, 1e6), [(45, 77, 135, 90)]),
        ((-1e6, -1e6, 0.0, 0.0), [(-135, 77, -45, 90)]),
        ((-1e6, 0.0, 1e6, 1e6), [(45, 77, 180, 90), (-180, 77, -135, 90)]),
        ((-1e6, -1e6, 1e6, 0.0), [(-135, 77, 45, 90)]),
        ((-1e6, -1e6, 0.1e6, 0.0), [(-135, 77, 45, 90)]),
        ((-1e6, 0.0, 0.1e6, 1e6), [(45, 77, 180, 90), (-180, 77, -135, 90)]),
    ],
)
def test_changes_with_a_pole_on_the_border_do_not_go_around_it(box: Any, edges: Any) -> None:
    (feature,) = changes._geojson([BoundingBox(*box)], NORTH, [{}])
    geometry = feature["geometry"]
    parts = geometry["coordinates"]
    found = []
    for (ring,) in [parts] if geometry["type"] == "Polygon" else parts:
        longitudes, latitudes = zip(*ring, strict=True)
        found.append((min(longitudes), min(latitudes), max(longitudes), max(latitudes)))
    assert [pytest.approx(one, abs=0.6) for one in edges] == found


@pytest.mark.parametrize(
    ("box", "edges"),
    [
        # Around the pole, across the antimeridian, and on both sides of it.
        ((-1e6, -1e6, 1e6, 1e6), [(-180, -90, 180)]),
        ((-1e6, -4e6, 1e6, -2e6), [(153.4, -72, 180), (-180, -72, -153.4)]),
        ((0.0, -4e6, 1e6, -2e6), [(153.4, -72, 180)]),
        ((-1e6, -4e6, 0.0, -2e6), [(-180, -72, -153.4)]),
        ((0.0, 2e6, 1e6, 4e6), [(0, -72, 26.6)]),
    ],
)
def test_changes_at_the_antimeridian_do_not_go_around_the_earth(box: Any, edges: Any) -> None:
    (feature,) = changes._geojson([BoundingBox(*box)], SOUTH, [{}])
    geometry = feature["geometry"]
    parts = geometry["coordinates"]
    if geometry["type"] == "Polygon":
        parts = [parts]
    found = []
    for (ring,) in parts:
        longitudes, latitudes = zip(*ring, strict=True)
        found.append((min(longitudes), min(latitudes), max(longitudes)))
    assert [pytest.approx(one, abs=0.6) for one in edges] == found
