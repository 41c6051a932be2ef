"""Addresses that a person opens in a browser: pages with links instead of error reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from lxml import html
from tests.tiny import tiny_installation
from werkzeug.test import Client, TestResponse

from mastaba.api.web import Request, Response
from mastaba.services.root import for_people

OpenClient = Callable[[Path], Client]

BROWSERS = {
    "Chromium": "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,"
    "image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7",
    "Firefox": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "plain": "text/html",
}
PROGRAMS = {
    "none": None,
    "anything": "*/*",
    "xml": "text/xml",
    "json": "application/json, text/html;q=0.5",
    "image": "image/avif,image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5",
    "java": "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2",
}
UNKNOWN = [
    "/nothing",
    "/nothing/below",
    "/wms/x",
    "/wmts/1.0.0/NO_LAYER/normal/PM/0/0/0.png",
    "/tms/1.0.0/NO_LAYER",
    "/tms/1.0.0/NO_LAYER/0/0/0.png",
    "/ogcapi/collections/NO_LAYER",
]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient) -> Client:
    services = ["wms", "wmts", "tms", "ogcapi", "viewer"]
    return open_client(tiny_installation(tmp_path_factory.mktemp("tiny"), services=services))


def ask(client: Client, path: str, accept: str | None) -> TestResponse:
    return client.get(path, headers={} if accept is None else {"Accept": accept})


@pytest.mark.parametrize("accept", BROWSERS.values(), ids=BROWSERS)
@pytest.mark.parametrize("path", UNKNOWN)
def test_browsers_get_a_page_for_what_is_unknown(client: Client, path: str, accept: str) -> None:
    response = ask(client, path, accept)
    assert response.status_code == 404
    assert response.content_type == "text/html; charset=utf-8"
    assert response.headers["Cache-Control"] == "no-store"
    assert "Accept" in response.headers["Vary"]
    page = html.fromstring(response.data)
    links = [str(link.get("href")) for link in page.iter("a")]
    for service in ("wms", "wmts", "tms", "ogcapi", "viewer"):
        assert any(f"/{service}" in link for link in links)
    reason = page.findtext(".//main/p") or ""
    assert reason
    assert "NO_LAYER" in reason or "NO_LAYER" not in path


@pytest.mark.parametrize("accept", BROWSERS.values(), ids=BROWSERS)
@pytest.mark.parametrize("service", ["wms", "wmts"])
def test_a_service_without_a_request_offers_its_links(
    client: Client, service: str, accept: str
) -> None:
    for path in (f"/{service}", f"/{service}/", f"/{service}?"):
        response = ask(client, path, accept)
        assert response.status_code == 200
        assert response.content_type == "text/html; charset=utf-8"
        page = html.fromstring(response.data)
        links = [str(link.get("href")) for link in page.iter("a")]
        assert f"/{service}?SERVICE={service.upper()}" in links[0]
        assert "REQUEST=GetCapabilities" in links[0]
        assert any(link.endswith("/viewer") for link in links)
        assert any(link.endswith("/ogcapi") for link in links)
        assert "missing" not in response.get_data(as_text=True)


@pytest.mark.parametrize("accept", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("path", ["/wms", "/wmts", *UNKNOWN])
def test_programs_get_reports(client: Client, path: str, accept: str | None) -> None:
    response, usual = ask(client, path, accept), client.get(path)
    assert response.status_code == usual.status_code >= 400
    assert response.data == usual.data
    assert response.headers == usual.headers
    assert "html" not in (response.content_type or "")


@pytest.mark.parametrize(
    "path",
    [
        "/wms?SERVICE=WMS&REQUEST=GetMap&LAYERS=NO_LAYER",
        "/wmts?SERVICE=WMTS&REQUEST=GetTile&LAYER=NO_LAYER",
        "/ogcapi/collections/NO_LAYER?f=json",
    ],
)
def test_requests_with_parameters_get_reports_also_in_browsers(client: Client, path: str) -> None:
    response, usual = ask(client, path, BROWSERS["Firefox"]), client.get(path)
    assert response.data == usual.data
    assert response.content_type == usual.content_type


def test_what_a_client_sends_is_escaped(client: Client) -> None:
    response = ask(client, "/tms/1.0.0/%3Cscript%3Ealert(1)", BROWSERS["Firefox"])
    assert response.status_code == 404
    assert b"<script" not in response.data
    assert b"&lt;script" in response.data


def test_pages_of_a_service_stay() -> None:
    page = Response(404, [("Content-Type", "text/html; charset=utf-8")], b"its own")
    request = Request("GET", "/x", "", {"HTTP_ACCEPT": BROWSERS["Firefox"]})
    assert for_people(page, "unknown", request, cast(Any, None), None) is page


def test_post_requests_get_reports(client: Client) -> None:
    headers = {"Accept": BROWSERS["Firefox"]}
    assert "xml" in (client.post("/wms", headers=headers).content_type or "")
