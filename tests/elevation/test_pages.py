"""Pages for people: the starts of services and protocols, and errors."""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import sha256

import pytest
from lxml import html
from tests.elevation.conftest import PUBLIC_URL, Open, read
from werkzeug.test import Client, TestResponse

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
STARTS = ["/elevation", "/elevation/edr", "/terrain"]


@pytest.fixture(scope="module")
def both(terrain: Open) -> Client:
    facades = {"ign": True, "google": True, "swisstopo": True, "tileserver": True}
    settings = {"elevation": {"facades": facades}, "terrain": {}}
    return terrain(settings, ("elevation", "terrain"))


def page_of(response: TestResponse, status: int = 200) -> html.HtmlElement:
    assert response.status_code == status
    assert response.content_type == "text/html; charset=utf-8"
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    page = html.fromstring(response.text)
    digest = sha256(page.findtext(".//style").encode()).digest()
    assert b64encode(digest).decode() in policy
    assert "Accept" in response.headers["Vary"]
    assert response.headers["Access-Control-Allow-Origin"] == "*"
    return page


@pytest.mark.parametrize("path", STARTS)
def test_start_is_a_page_whose_links_work(both: Client, path: str) -> None:
    page = page_of(both.get(path, headers=BROWSER))
    assert page.xpath("string(//h1)")
    addresses = page.xpath("//a/@href")
    assert "?f=json" in addresses
    assert len(addresses) > 4
    for part in page.xpath("//ul"):
        texts = part.xpath(".//a/text()")
        assert len(texts) == len(set(texts))
    for address in addresses:
        below = address.removeprefix(PUBLIC_URL) if address.startswith("http") else path + address
        answer = both.get(below, headers=BROWSER)
        assert answer.status_code in (200, 204), address
    assert both.get(f"{path}?f=html").data == both.get(path, headers=BROWSER).data


@pytest.mark.parametrize(
    "path", ["collections", "collections?bbox=0,40,10,50", "collections/world", "conformance"]
)
def test_documents_of_edr_are_pages_for_browsers_only(both: Client, path: str) -> None:
    page = page_of(both.get(f"/elevation/edr/{path}", headers=BROWSER))
    assert page.xpath("string(//h1)")
    addresses = [text for text in page.xpath("//a/@href") if text.startswith(PUBLIC_URL)]
    assert len(addresses) >= 2
    for address in addresses:
        page_of(both.get(address.removeprefix(PUBLIC_URL), headers=BROWSER))
    assert read(both.get(f"/elevation/edr/{path}"))["links" if "coll" in path else "conformsTo"]


def test_page_of_collections_has_those_in_the_box(both: Client) -> None:
    found = []
    for query in ("", "?bbox=-170,-60,-160,-50"):
        path = f"/elevation/edr/collections{query}"
        titles = [item["title"] for item in read(both.get(path))["collections"]]
        found.append(titles)
        text = page_of(both.get(path, headers=BROWSER)).text_content()
        assert [title for title in found[0] if title in text] == titles
    assert 0 < len(found[1]) < len(found[0])


@pytest.mark.parametrize("path", STARTS)
@pytest.mark.parametrize("accept", ["", "*/*", "application/json", "application/json, text/html"])
def test_programs_get_json(both: Client, path: str, accept: str) -> None:
    assert read(both.get(path, headers={"Accept": accept}))["title"]
    assert read(both.get(f"{path}?f=json", headers=BROWSER))["title"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/elevation/nothing", 404),
        ("/elevation/points", 400),
        ("/elevation/points?coords=POINT(1+2)&dataset=<b>x", 404),
        ("/elevation/edr/collections/none", 404),
        ("/elevation/edr/collections/world/position", 400),
        ("/elevation/v1/none?locations=1,2", 400),
        ("/elevation/1.0/calcul/alti/rest/elevation.xml", 400),
        ("/elevation/rest/services/height", 400),
        ("/elevation/data/none/elevation/1/2/3", 404),
        ("/terrain/none", 404),
        ("/terrain/merc/mapbox/30/0/0.png", 404),
    ],
)
def test_error_is_a_page_for_browsers_only(both: Client, path: str, status: int) -> None:
    page = page_of(both.get(path, headers=BROWSER), status)
    plain = both.get(path)
    assert plain.status_code == status
    assert not plain.content_type.startswith("text/html")
    root = path.split("/")[1]
    assert page.xpath("//footer//a/@href") == [f"{PUBLIC_URL}/{root}"]
    text = page.xpath("string(//main/p)")
    assert text
    assert text.encode() in plain.data or text in json.dumps(json.loads(plain.data))
    assert not page.xpath("//b")
