"""Tiles of a real installation, as the existing server answered them behind nginx."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.live import fronts
from tests.live.client import Answer, ask
from tests.live.processes import SHARED_DATA, Mastaba, changed, public_folder

pytestmark = [pytest.mark.live, pytest.mark.shared_data]

GROUPS = ("tms.tile", "wmts.gettile")
PNG_END = b"IEND\xaeB`\x82"


def _recorded() -> list[Any]:
    index = SHARED_DATA / "alps-answers" / "index.json"
    if not index.exists():
        return [pytest.param("none", id="absent")]
    entries = json.loads(index.read_text(encoding="utf-8"))
    return [pytest.param(e["id"], id=e["id"]) for e in entries if e["group"] in GROUPS]


@pytest.fixture(scope="module")
def url(shared_data: Path) -> Iterator[str]:
    alps = shared_data / "alps"
    with public_folder() as folder:
        sock = str(folder / "mastaba.sock")
        file = changed(alps / "conf" / "server.json", folder / "server.json", port=sock)
        way = fronts.fastcgi(sock, keep=True)
        with Mastaba(file, folder, cwd=alps), fronts.nginx(folder, [way]) as front:
            yield front.urls[0]


@pytest.mark.parametrize("number", _recorded())
def test_same_answer(url: str, shared_data: Path, number: str) -> None:
    folder = shared_data / "alps-answers"
    record = json.loads((folder / f"{number}.json").read_text(encoding="utf-8"))
    expected = (folder / f"{number}.body").read_bytes()
    request, response = record["request"], record["response"]
    # Clients that take no coding get the tile decoded, which the existing server does not do.
    headers = {"Accept-Encoding": "deflate", **request["headers"]}
    answer = ask(url, request["path"], method=request["method"], headers=headers)
    if _out_of_limits(request["path"], response["status"], answer):
        return
    recorded = {name.lower(): value for name, value in response["headers"].items()}
    expected_status = response["status"]
    if expected_status == 400 and request["path"].startswith(("/tms", "/ogcapi")):
        # A path that leads nowhere is 404 here.
        assert answer.status in (400, 404)
        return
    assert answer.status == expected_status
    if answer.status != 200:
        # Error reports tell the same in other words.
        return
    for name in ("content-type", "content-encoding"):
        assert answer.headers.get(name) == recorded.get(name)
    assert answer.body == _without_stray_byte(expected)


def _out_of_limits(path: str, status: int, answer: Answer) -> bool:
    """Whether it is a tile out of the limits over WMTS: the standard asks for status 400."""
    if not (path.startswith("/wmts") and status == 404 and answer.status == 400):
        return False
    assert b"TileOutOfRange" in answer.body
    return True


def _without_stray_byte(body: bytes) -> bytes:
    """A PNG without the byte that the existing server sends behind the end of palette tiles."""
    return body[:-1] if body[:-1].endswith(PNG_END) else body


def test_there_are_answers_of_each_group(shared_data: Path) -> None:
    index: list[Mapping[str, Any]] = json.loads(
        (shared_data / "alps-answers" / "index.json").read_text(encoding="utf-8")
    )
    assert {entry["group"] for entry in index} >= set(GROUPS)
