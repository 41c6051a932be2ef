"""Access lines: what they contain and what they hide."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba_server.log.lines import JSONFormatter, LineFormatter
from mastaba_server.web.masking import masked

OpenApplication = Callable[..., Any]
TILE = "/tiles/RGB_JPG/normal/4/5/9"


@pytest.fixture
def open_logged(
    tmp_path: Path, open_application: OpenApplication, caplog: pytest.LogCaptureFixture
) -> Callable[..., Client]:
    caplog.set_level(logging.INFO, "mastaba.access")

    def open_it(access: str | None, *, debug: bool = False, level: str = "info") -> Client:
        logger = {"level": level} | ({} if access is None else {"access": access})
        server_json = tiny_installation(
            tmp_path / "own",
            services=["health"],
            services_overrides={"tiles": {"enabled": True}},
            server_overrides={"logger": logger, "debug": debug},
        )
        return Client(open_application(server_json))

    return open_it


def fields(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """Return what the access lines written so far say."""
    records = [record for record in caplog.records if record.name == "mastaba.access"]
    return [json.loads(JSONFormatter().format(record)) for record in records]


def test_no_line_by_default(
    open_logged: Callable[..., Client], caplog: pytest.LogCaptureFixture
) -> None:
    open_logged("off").get(TILE)
    assert fields(caplog) == []


def test_a_line_of_json(
    open_logged: Callable[..., Client], caplog: pytest.LogCaptureFixture
) -> None:
    client = open_logged("json")
    size = len(client.get(f"{TILE}?a=b").data)
    client.get("/nowhere")
    first, second = fields(caplog)
    assert first.pop("seconds") > 0
    assert set(first) == {
        *("time", "process", "thread", "severity"),
        *("client", "method", "path", "query", "status", "bytes", "cache"),
    }
    assert first["process"] == os.getpid()
    assert (first["method"], first["path"], first["query"]) == ("GET", TILE, "a=b")
    assert (first["status"], first["bytes"]) == (200, size)
    assert second["status"] == 404


def test_a_line_of_text(
    open_logged: Callable[..., Client], caplog: pytest.LogCaptureFixture
) -> None:
    client = open_logged("text")
    client.head(f"{TILE}?a=b", environ_overrides={"REMOTE_ADDR": "192.0.2.1"})
    (record,) = [record for record in caplog.records if record.name == "mastaba.access"]
    words = record.getMessage().split()
    assert words[:5] == ["192.0.2.1", "HEAD", f"{TILE}?a=b", "200", "0"]
    assert float(words[5]) > 0
    assert words[6:] == ["miss"]
    assert len(LineFormatter().format(record).split("\t")) == 5


def test_hits_and_misses_of_the_index_cache(
    open_logged: Callable[..., Client], caplog: pytest.LogCaptureFixture
) -> None:
    client = open_logged("json")
    for path in (TILE, TILE, "/healthcheck"):
        client.get(path)
    assert [line["cache"] for line in fields(caplog)] == ["miss", "hit", "-"]


def test_steps_only_with_debug(
    open_logged: Callable[..., Client], caplog: pytest.LogCaptureFixture
) -> None:
    open_logged("json", debug=True).get(TILE)
    (line,) = fields(caplog)
    assert set(line["steps"]) == {"index", "read"}
    assert all(0 < seconds <= line["seconds"] for seconds in line["steps"].values())


def test_secrets_are_not_written(
    open_logged: Callable[..., Client], caplog: pytest.LogCaptureFixture
) -> None:
    client = open_logged("json")
    caplog.set_level(logging.INFO)
    client.get(f"{TILE}?Access_Token=hidden&a=b", headers={"X-Mastaba-Secret": "hidden"})
    client.get("/tiles/x?PASSWORD=hidden")
    assert fields(caplog)[0]["query"] == "Access_Token=***&a=b"
    assert "hidden" not in caplog.text


def test_control_characters_cannot_forge_a_line(
    open_logged: Callable[..., Client], caplog: pytest.LogCaptureFixture
) -> None:
    open_logged("text").get("/tiles/%0A%1B%5B31mx")
    (record,) = [record for record in caplog.records if record.name == "mastaba.access"]
    for formatter in (LineFormatter(), JSONFormatter()):
        line = formatter.format(record)
        assert "\n" not in line
        assert "\x1b" not in line


def test_one_line_by_default_and_none_above_info(
    open_logged: Callable[..., Client], caplog: pytest.LogCaptureFixture
) -> None:
    client = open_logged(None)
    caplog.set_level(logging.INFO)
    client.get(TILE)
    assert [record.name for record in caplog.records] == ["mastaba.access"]
    caplog.clear()
    open_logged(None, level="warn").get(TILE)
    assert caplog.records == []


def test_debug_header_names_the_place_of_a_tile(open_logged: Callable[..., Client]) -> None:
    client = open_logged("off", debug=True)
    found = client.get(TILE).headers["X-Mastaba-Tile"]
    assert re.fullmatch(
        r'stored; slab="/.*/RGB_JPG/DATA/4/00/00/42.tif"; tile=3; offset=\d+; size=\d+; .*', found
    )
    outside = client.get(TILE.replace("4/5/9", "4/0/9"))
    assert outside.status_code == 404
    found = outside.headers["X-Mastaba-Tile"]
    assert found.startswith("outside-limits; ")
    assert found.endswith('RGB_JPG.json: $.levels[2].tile_limits"')
    assert "X-Mastaba-Tile" not in client.get("/healthcheck").headers


def test_debug_names_worker_and_generation(open_logged: Callable[..., Client]) -> None:
    response = open_logged("off", debug=True).get(TILE)
    assert response.headers["X-Mastaba-Worker"] == str(os.getpid())
    assert response.headers["X-Mastaba-Generation"] == "1.0"


def test_without_debug_nothing_is_shown(open_logged: Callable[..., Client]) -> None:
    headers = open_logged("json").get(TILE).headers
    assert not [name for name, _ in headers if name.startswith("X-Mastaba")]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ""),
        ("a=b&c", "a=b&c"),
        ("token=x", "token=***"),
        ("a=1&TOKEN=x%26y&b=2", "a=1&TOKEN=***&b=2"),
        ("%74oken=x", "%74oken=***"),
        ("my_secret=x&secretly=y", "my_secret=***&secretly=***"),
        ("token", "token"),
        ("layers=token&a=%20", "layers=token&a=%20"),
        ("token==x=y", "token=***"),
        ("api_key=1&LAYER=DESIGN", "api_key=***&LAYER=DESIGN"),
        ("LAYER=KEYS&Sig=1", "LAYER=KEYS&Sig=***"),
    ],
)
def test_masking(query: str, expected: str) -> None:
    assert masked(query) == expected
