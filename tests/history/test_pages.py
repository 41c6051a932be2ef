"""The pages of histories in browsers."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from lxml import html
from tests.history.conftest import BROKEN, LAYER, MIDDLE, OLD
from tests.support.pages import allows_its_style
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.api.tools import create_application
from mastaba_history.pages import layer_page

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


def page(client: Client, path: str) -> Any:
    response = client.get(path, headers=BROWSER)
    assert response.status_code == 200, response.text
    assert response.mimetype == "text/html"
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert allows_its_style(response.text, policy)
    return html.fromstring(response.data)


def links(found: Any) -> dict[str, list[str]]:
    texts: dict[str, list[str]] = {}
    for one in found.iter("a"):
        texts.setdefault(one.text, []).append(one.get("href"))
    return texts


def test_browsers_get_pages_and_programs_json(client: Client) -> None:
    for path in ("/history", f"/history/{LAYER}", f"/history/{LAYER}/{OLD}"):
        for accept in (None, "*/*", "application/json"):
            headers = {"Accept": accept} if accept else {}
            assert client.get(path, headers=headers).mimetype == "application/json"
        assert client.get(f"{path}?f=json", headers=BROWSER).mimetype == "application/json"
        assert client.get(f"{path}?f=html").mimetype == "text/html"
        assert "Accept" in client.get(path, headers=BROWSER).headers["Vary"]


def test_each_page_leads_to_the_next_and_to_the_same_as_json(client: Client, current: str) -> None:
    found = page(client, "/history")
    (shown,) = links(found)[LAYER]
    found = page(client, urlsplit(shown).path)
    rows = [[one.text for one in row.iter("td")] for row in found.iter("tr")][1:]
    assert [row[1] for row in rows] == [current, BROKEN, OLD, MIDDLE, OLD]
    assert rows[3][3] == 'a < b & "c"'
    assert rows[1][4].strip() == "withdrawn"
    assert len(links(found)["Changes"]) == 4
    for href in chain.from_iterable(links(found)[name] for name in ("Changes", "JSON", "Atom")):
        assert client.get(href.replace("http://localhost", "")).status_code == 200
    # A version that is not kept has no page.
    assert len(links(found)["Version"]) == len([row for row in rows if not row[4].strip()])
    assert {client.get(urlsplit(one).path).status_code for one in links(found)["Version"]} == {200}
    feeds = [one.get("type") for one in found.iter("link")]
    assert feeds == ["application/atom+xml", "application/feed+json"]
    found = page(client, urlsplit(links(found)["Version"][0]).path)
    assert current in found.findtext(".//h1")
    (form,) = links(found)["TileJSON"]
    assert f"{LAYER}~{current}" in unquote(form)


def test_a_layer_without_a_history_says_so(client: Client) -> None:
    assert "no history" in page(client, "/history/RGB_JPG").text_content()


def test_versions_that_are_kept_are_linked_to_the_map(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    write()
    server = tiny_installation(tmp_path, services=["history", "tms", "viewer"])
    descriptor = (tmp_path / f"pyramids/{LAYER}.json").read_bytes()
    (tmp_path / f"pyramids/{LAYER}_3.json").write_bytes(descriptor)
    client = Client(create_application(str(server)))
    found = links(page(client, f"/history/{LAYER}"))
    # The others are withdrawn, or the first one of its kind.
    assert (len(found["Map"]), len(found["Compare"])) == (4, 2)
    assert found["Compare"][0].count(f"{LAYER}~") == 2
    assert client.get(urlsplit(found["Map"][0]).path).status_code == 200
    layer = tmp_path / f"layers/{LAYER}.json"
    layer.write_text(json.dumps({**json.loads(layer.read_text()), "viewer": {"enabled": False}}))
    found = links(page(Client(create_application(str(server))), f"/history/{LAYER}"))
    assert "Map" not in found


def test_values_have_their_names() -> None:
    rows = [
        {"generation": token, "from": "2026-01-01T00:00:00.000Z", "until": None, "state": "kept"}
        | {"message": "", "by": "build", "href": "/h"}
        for token in ("0a", "0b")
    ]
    rows[0]["changes"] = "/changes"
    document = {"layer": "ORTHO", "value": {"time": "1950"}, "title": "", "links": []}
    found = links(html.fromstring(layer_page({**document, "published": rows}, "/h", "/viewer")))
    assert found["Map"] == ["/viewer/ORTHO;time=1950~0a", "/viewer/ORTHO;time=1950~0b"]
    assert found["Compare"] == ["/viewer/compare/ORTHO;time=1950~0b/ORTHO;time=1950~0a"]
