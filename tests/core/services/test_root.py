from __future__ import annotations

import io
import json
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from typing import Any
from xml.etree import ElementTree

import pytest
from lxml import html
from PIL import Image
from werkzeug.test import Client

from mastaba.services.base import RootEntry
from mastaba.services.root import services_xml

OpenClient = Callable[..., Client]
UNKNOWN = {"error": "Not Found", "error_description": "Unknown request path"}


def test_xml_lists_enabled_services_by_rank(open_client: OpenClient) -> None:
    response = open_client(["aaa", "unlisted", "zzz"]).get("/")
    assert response.status_code == 200
    assert response.content_type == "application/xml"
    root = ElementTree.fromstring(response.data)
    assert root.tag == "Services"
    assert [(line.tag, line.attrib) for line in root] == [
        (
            "Early",
            {"title": "A title", "version": "1.3.0", "href": "http://maps.example/zzz?A=1&B=2"},
        ),
        ("Late", {"title": "A title", "version": "1.0", "href": "http://maps.example/aaa"}),
    ]


def test_nothing_enabled_gives_an_empty_list(open_client: OpenClient) -> None:
    root = ElementTree.fromstring(open_client().get("/").data)
    assert root.tag == "Services"
    assert len(root) == 0


def test_json_contains_the_same_services(open_client: OpenClient) -> None:
    response = open_client(["aaa", "zzz"]).get("/?f=json")
    assert response.status_code == 200
    assert response.content_type == "application/json"
    assert response.json == {
        "title": "Mastaba",
        "description": "",
        "links": [
            {
                "href": "http://maps.example/zzz?A=1&B=2",
                "rel": "data",
                "type": "application/xml",
                "title": "A title",
            },
            {
                "href": "http://maps.example/aaa/collections?f=json",
                "rel": "data",
                "type": "application/json",
                "title": "A title",
            },
        ],
    }


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("application/json", "application/json"),
        ("application/json, application/xml;q=0.5", "application/json"),
        ("application/xml, application/json;q=0.9", "application/xml"),
        ("text/xml, application/json;q=0.9", "application/xml"),
        (
            "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            "text/html; charset=utf-8",
        ),
        ("text/html", "text/html; charset=utf-8"),
        ("*/*", "application/xml"),
        ("image/png", "application/xml"),
        ("rubbish", "application/xml"),
    ],
)
def test_accept_selects_the_format(open_client: OpenClient, accept: str, expected: str) -> None:
    response = open_client().get("/", headers={"Accept": accept})
    assert response.status_code == 200
    assert response.content_type == expected


@pytest.mark.parametrize("value", ["gif", "HTML", "JSON", "", "json%20"])
def test_other_forms_are_refused(open_client: OpenClient, value: str) -> None:
    response = open_client().get(f"/?f={value}")
    assert response.status_code == 400
    assert response.json is not None
    assert response.json["error"] == "Bad Request"


@pytest.mark.parametrize("path", ["/nowhere", "/zz", "/zzzz", "/zzz.x", "/a/b/c", "/a//", "/%00"])
def test_unknown_path_is_reported_as_json(open_client: OpenClient, path: str) -> None:
    response = open_client(["zzz"]).get(path)
    assert response.status_code == 404
    assert response.content_type == "application/json"
    assert response.json == UNKNOWN


def test_disabled_service_is_unknown(open_client: OpenClient) -> None:
    response = open_client(["aaa"]).get("/zzz")
    assert response.status_code == 404
    assert response.json == UNKNOWN


def test_turned_off_services_are_unavailable(open_client: OpenClient) -> None:
    client = open_client(["zzz"], enabled=False)
    for path in ("/", "/zzz"):
        response = client.get(path)
        assert response.status_code == 503
        assert response.json is not None
        assert response.json["error"] == "Service unavailable"
        assert "Retry-After" not in response.headers


def test_head_sends_no_body(open_client: OpenClient) -> None:
    client = open_client(["zzz"])
    response = client.head("/")
    assert response.status_code == 200
    assert response.data == b""
    assert int(response.headers["Content-Length"]) == len(client.get("/").data)


def test_options_lists_the_methods(open_client: OpenClient) -> None:
    response = open_client().options("/")
    assert response.status_code == 204
    assert response.headers["Allow"] == "HEAD, OPTIONS, GET"


def test_list_is_revalidated(open_client: OpenClient) -> None:
    client = open_client(["zzz"])
    etag = client.get("/").headers["ETag"]
    assert client.get("/", headers={"If-None-Match": etag}).status_code == 304


@pytest.mark.parametrize(
    ("f", "media_type"),
    [("xml", "application/xml"), ("json", "application/json"), ("html", "text/html")],
)
def test_f_chooses_before_accept(open_client: OpenClient, f: str, media_type: str) -> None:
    for accept in ("text/html", "application/json", "application/xml"):
        response = open_client().get(f"/?f={f}", headers={"Accept": accept})
        assert response.content_type.partition(";")[0] == media_type


def test_page_links_to_every_service(open_client: OpenClient) -> None:
    response = open_client(["aaa", "unlisted", "zzz", "paged"]).get("/?f=html")
    page = html.fromstring(response.text)
    assert [link.get("href") for link in page.findall(".//main//a")] == [
        "http://maps.example/paged",
        "http://maps.example/zzz?A=1&B=2",
        "http://maps.example/aaa/collections?f=json",
    ]
    assert [link.get("href") for link in page.findall(".//footer//a")] == ["?f=xml", "?f=json"]
    # The policy allows the style that the page has.
    digest = sha256(page.findtext(".//style").encode()).digest()
    assert b64encode(digest).decode() in response.headers["Content-Security-Policy"]


def test_page_without_services(open_client: OpenClient) -> None:
    assert "No service is enabled" in open_client().get("/?f=html").text


def test_icon(open_client: OpenClient) -> None:
    client = open_client()
    response = client.get("/favicon.ico")
    assert (response.status_code, response.content_type) == (200, "image/vnd.microsoft.icon")
    with Image.open(io.BytesIO(response.data)) as icon:
        assert icon.info["sizes"] == {(16, 16), (32, 32)}
    etag = response.headers["ETag"]
    assert client.get("/favicon.ico", headers={"If-None-Match": etag}).status_code == 304


def test_titles_are_escaped(open_client: OpenClient) -> None:
    title = '<b> "R&D" \x01 é'
    client = open_client(["zzz"], title=title)
    assert ElementTree.fromstring(client.get("/").data)[0].get("title") == '<b> "R&D" \ufffd é'
    answer: Any = client.get("/?f=json").json
    assert answer["links"][0]["title"] == title
    assert html.fromstring(client.get("/?f=html").text).findtext(".//h2") == '<b> "R&D" \ufffd é'


def test_unexpected_error_reveals_no_details(make_site: Callable[..., Any]) -> None:
    service = make_site().services["root"]
    response = service.error_response(RuntimeError("/etc/secret"), None)
    assert response.status == 500
    assert json.loads(response.body)["error"] == "Internal issue"
    assert b"secret" not in response.body


def test_services_xml_contains_any_title() -> None:
    title = "L'\"<a> & b\n\x01"
    services = ElementTree.fromstring(
        services_xml([(title, RootEntry(0, "A", "1", "http://x?a&b"))])
    )
    (entry,) = services
    assert entry.attrib == {
        "title": title.replace("\x01", "\ufffd"),
        "version": "1",
        "href": "http://x?a&b",
    }


def test_services_xml_keeps_the_given_order() -> None:
    lines = [(name, RootEntry(0, name, "1", "http://x")) for name in ("B", "A")]
    assert [e.tag for e in ElementTree.fromstring(services_xml(lines))] == ["B", "A"]
