"""Histories of the values of dimensions: documents, feeds and webhooks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from tests.series import rewrite_layer, series_installation, write_value
from werkzeug.test import Client

from mastaba.api.catalogue import digest_of
from mastaba.api.services import LayerChange
from mastaba.api.tools import create_application
from mastaba.commands.main import main
from mastaba_history import values
from mastaba_history.webhooks import announce

OLD = "00000000000a"
YEARS = ("1950", "1975", "2023")


def write_history(descriptor: Path, month: int, message: str) -> str:
    """Write the history of a pyramid with two versions, and return its present generation."""
    current = digest_of(json.loads(descriptor.read_text()))
    versions = {
        str(number): {"generation": one, "built": "2026-01-01T00:00:00Z", "bbox": None}
        for number, one in enumerate((OLD, current), 1)
    }
    published = [
        {"generation": OLD, "from": f"2025-{month:02d}-01T00:00:00Z", "message": "old"},
        {"generation": current, "from": f"2026-{month:02d}-01T00:00:00Z", "message": message},
    ]
    document = {"versions": versions, "published": published}
    descriptor.with_name(f"{descriptor.stem}.history.json").write_text(json.dumps(document))
    return current


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An installation with three years; the first and the last one have a history."""
    rows = [{"time": year} for year in YEARS]
    series_installation(tmp_path, rows, services=["history", "tms"])
    write_history(tmp_path / "pyramids/value_0.json", 5, "corrected")
    write_history(tmp_path / "pyramids/value_2.json", 3, "new flight")
    return tmp_path


def client_of(folder: Path) -> Client:
    (file,) = folder.rglob("server.json")
    return Client(create_application(str(file)))


def test_check_reports_the_history_of_a_value(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file,) = folder.rglob("server.json")
    path = folder / "pyramids/value_0.history.json"
    path.write_text("{}")
    assert main(["check", "-f", str(file), "--format", "json"]) == 1
    faults = json.loads(capsys.readouterr().out)["faults"]
    assert [one["file"] for one in faults if one["severity"] == "error"] == [str(path)]


def test_a_value_has_a_history_of_its_own(folder: Path) -> None:
    client = client_of(folder)
    document = client.get("/history/ORTHO;time=1950").json
    assert (document["layer"], document["value"]) == ("ORTHO", {"time": "1950"})
    assert [row["message"] for row in document["published"]] == ["corrected", "old"]
    for row in document["published"]:
        path = urlsplit(row["href"]).path
        assert path.startswith("/history/ORTHO;time=1950/")
        version = client.get(path).json
        assert version["value"] == {"time": "1950"}
        (address,) = (link["href"] for link in version["links"] if link["rel"] == "tilejson")
        assert f"/ORTHO;time=1950~{row['generation']}/" in address
    timemap = client.get("/history/ORTHO;time=1950?f=timemap").text
    assert timemap.count('memento"') == 2
    assert "/history/ORTHO;time=1950/at>" in timemap
    gate = client.get("/history/ORTHO;time=1950/at?datetime=2025-12-01")
    assert gate.headers["Location"].endswith(f"/history/ORTHO;time=1950/{OLD}")
    # The default is a value too, and has an address of its own.
    assert client.get("/history/ORTHO").json["published"][0]["message"] == "new flight"
    assert "value" not in client.get("/history/ORTHO").json
    assert client.get("/history/ORTHO;time=1975").json["published"] == []
    assert client.get("/history/ORTHO;time=1950~0123456789ab").status_code == 404
    for name in ("ORTHO;time=1900", "ORTHO;time=x", "ORTHO;x=1", "none;time=1950"):
        assert client.get(f"/history/{name}").status_code in (400, 404), name


def facts(client: Client, address: str) -> list[tuple[Any, ...]]:
    items = client.get(address).json["items"]
    assert len({item["id"] for item in items}) == len(items)
    return [
        (one["date_published"][:7], one["_mastaba"].get("value", {}).get("time"))
        for one in items
        if urlsplit(one["url"]).path.startswith("/history/ORTHO")
    ]


def test_feeds_name_the_value(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [
        ("2026-05", "1950"),
        ("2026-03", "2023"),
        ("2026-03", None),
        ("2025-05", "1950"),
        ("2025-03", "2023"),
        ("2025-03", None),
    ]
    client = client_of(folder)
    opened = len(client.application.site.catalogue.opened.values())
    for address in ("/history/feed.json", "/history/ORTHO/feed.json"):
        assert facts(client, address) == expected
    # The feeds open no pyramid.
    assert len(client.application.site.catalogue.opened.values()) == opened
    only = facts(client, "/history/ORTHO;time=1950/feed.json")
    assert only == [expected[0], expected[3]]
    assert facts(client, "/history/feed.json?since=2026-04-01") == expected[:1]
    atom = client.get("/history/ORTHO/feed.atom").text
    assert "(1950): version 2<" in atom
    monkeypatch.setattr(values, "MOST_LISTED", 1)
    client = client_of(folder)
    assert [one for one in facts(client, "/history/feed.json") if one[1]] == [
        expected[0],
        expected[3],
    ]


def test_webhooks_name_the_value(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, Any]] = []

    def send(_url: str, _secret: bytes, body: bytes) -> None:
        sent.append(json.loads(body)["_mastaba"])

    monkeypatch.setattr("mastaba_history.webhooks._send", send)
    (file,) = folder.rglob("server.json")
    secret = folder / "secret"
    secret.write_text("correct horse")
    hooks = [
        {"url": "http://127.0.0.1:1/", "secret_file": str(secret), "layers": [name]}
        for name in ("ORTHO", "other")
    ]
    document = {**json.loads(file.read_text()), "plugins": {"history": {"webhooks": hooks}}}
    file.write_text(json.dumps(document))
    site = create_application(str(file)).site
    changes = [
        LayerChange("ORTHO", "a", "b", None, "ORTHO;time=1950"),
        LayerChange("ORTHO", "a", "b", None, "ORTHO;time=1975"),
        LayerChange("ORTHO", "a", None, None, "ORTHO;time=1900"),
        LayerChange("ORTHO", "a", "b", None, "ORTHO;time=1901"),
    ]
    announce(site, changes)
    assert [(one["value"], one["message"]) for one in sent] == [({"time": "1950"}, "corrected")]
    sent.clear()
    announce(site, [LayerChange("ORTHO", "a", "b"), *changes])
    assert [one.get("value") for one in sent] == [None, {"time": "1950"}]
    assert sent[0]["message"] == "new flight"


@pytest.fixture
def limited(folder: Path) -> Client:
    """A server that shows times until 1960, with two years whose versions can be opened."""
    (file,) = folder.rglob("server.json")
    rules = {"default": "allow", "rules": [{"name": "part", "limit": {"time": [1900, 1960]}}]}
    (folder / "rules.json").write_text(json.dumps(rules))
    plugins = {"access": {"rules": str(folder / "rules.json")}}
    file.write_text(json.dumps({**json.loads(file.read_text()), "plugins": plugins}))
    for number in (0, 2):
        descriptor = folder / f"pyramids/value_{number}.json"
        descriptor.with_name(f"value_{number}_2.json").write_bytes(descriptor.read_bytes())
    return client_of(folder)


def generation(folder: Path, number: int) -> str:
    return digest_of(json.loads((folder / f"pyramids/value_{number}.json").read_text()))


def test_of_a_layer_with_limited_times_only_the_shown_values_have_a_history(
    limited: Client, folder: Path
) -> None:
    shown, hidden = generation(folder, 0), generation(folder, 2)
    expected = [("2026-05", "1950"), ("2026-05", None), ("2025-05", "1950"), ("2025-05", None)]
    assert facts(limited, "/history/feed.json") == expected
    (entry,) = (one for one in limited.get("/history").json["layers"] if one["layer"] == "ORTHO")
    assert (entry["generation"], entry["publications"]) == (shown, 2)
    for name in ("ORTHO", "ORTHO;time=1950"):
        rows = limited.get(f"/history/{name}").json["published"]
        assert [row["message"] for row in rows] == ["corrected", "old"]
        assert limited.get(f"/history/{name}/{shown}").status_code == 200
        gate = limited.get(f"/history/{name}/at?datetime=2026-12-01")
        assert gate.headers["Location"].endswith(f"/history/{name}/{shown}")
        assert limited.get(f"/history/{name}/changes/{OLD}..{shown}").status_code == 200
    never = "0123456789ab"
    for template in (
        "/history/ORTHO/{token}",
        "/history/ORTHO/changes/00000000000a..{token}",
        "/history/ORTHO;time={year}",
        "/history/ORTHO;time={year}/{token}",
        "/history/ORTHO;time={year}/at",
        "/history/ORTHO;time={year}/feed.json",
    ):
        answers = [
            limited.get(template.format(token=token, year=year))
            for token, year in ((hidden, "2023"), (never, "2024"))
        ]
        texts = [one.text.replace(hidden, never).replace("2023", "2024") for one in answers]
        assert texts[0] == texts[1], template
        assert answers[0].status_code == answers[1].status_code >= 400, template


def test_of_a_layer_with_limited_times_only_the_shown_values_have_versions(
    limited: Client, folder: Path
) -> None:
    shown, hidden = generation(folder, 0), generation(folder, 2)
    tile = "/tms/1.0.0/{}/2/2/1.png"
    expected = limited.get(tile.format("ORTHO;time=1950"))
    assert expected.status_code == 200
    for name in ("ORTHO", "ORTHO;time=1950"):
        found = limited.get(tile.format(f"{name}~{shown}"))
        assert (found.status_code, found.data) == (200, expected.data), name
        links = limited.get(f"/tms/1.0.0/{name}~{shown}/metadata.json").headers.getlist("Link")
        assert any('rel="timegate"' in link for link in links)
        moved = limited.get(tile.format(f"{name}~2026-12-01T00:00:00Z"))
        assert unquote(moved.headers["Location"]).endswith(tile.format(f"{name}~{shown}"))
    never = "0123456789ab"
    for name, other in (
        (f"ORTHO~{hidden}", f"ORTHO~{never}"),
        (f"ORTHO;time=1950~{hidden}", f"ORTHO;time=1950~{never}"),
        (f"ORTHO;time=2023~{hidden}", f"ORTHO;time=2024~{hidden}"),
        (f"ORTHO;time=2023~{shown}", f"ORTHO;time=2024~{shown}"),
        (f"ORTHO~{hidden}", f"ORTHO~{never}"),
    ):
        for path in (tile, "/tms/1.0.0/{}/metadata.json"):
            answers = [limited.get(path.format(one)) for one in (name, other)]
            texts = [one.text.replace(hidden, never).replace("2023", "2024") for one in answers]
            assert texts[0] == texts[1], name
            assert answers[0].status_code == answers[1].status_code >= 400, name


def test_a_variant_in_another_place_is_found(folder: Path, tmp_path: Path) -> None:
    path = write_value(tmp_path / "other", "value", (1, 2, 3))
    (file,) = folder.rglob("layers/ORTHO.json")
    document = json.loads(file.read_text())
    document["variants"][1]["pyramids"] = [{"path": str(path)}]
    rewrite_layer(folder, "ORTHO", document)
    write_history(path, 7, "moved")
    newest = facts(client_of(folder), "/history/feed.json")[0]
    assert newest == ("2026-07", "1975")
