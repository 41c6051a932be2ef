"""Representations by ``f`` and Accept, errors, and access from other origins (ogcapi.md 2)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.errors import StorageUnavailableError
from mastaba_ogcapi.errors import error_response
from mastaba_server.web.request import Request

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"
OPENAPI = "application/vnd.oai.openapi+json;version=3.0"
DOCUMENTS = [
    "",
    "/conformance",
    "/api/styles",
    "/collections",
    "/collections/a_world",
    "/collections/a_world/styles",
    "/collections/a_world/map/tiles",
    "/collections/a_world/map/tiles/PM",
    "/collections/a_world/styles/normal/map/tiles",
    "/collections/a_world/styles/normal/map/tiles/PM",
    "/collections/h_vector/tiles",
    "/collections/h_vector/tiles/PM",
    "/tileMatrixSets",
    "/tileMatrixSets/PM",
]


@pytest.mark.parametrize("path", DOCUMENTS)
def test_documents_are_json_unless_a_page_is_requested(rich: Client, path: str) -> None:
    for query, accept, expected in (
        ("", None, "application/json"),
        ("", "*/*", "application/json"),
        ("", "application/json", "application/json"),
        ("", "image/png", "application/json"),  # never refused
        ("", "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", "application/json"),
        ("", BROWSER, "text/html; charset=utf-8"),
        ("", "text/html", "text/html; charset=utf-8"),
        ("", "application/json;q=0.5,text/html", "text/html; charset=utf-8"),
        ("", "application/json,text/html;q=0.5", "application/json"),
        ("f=json", BROWSER, "application/json"),
        ("F=JSON", None, "application/json"),
        ("f=application/json", BROWSER, "application/json"),
        ("f=html", None, "text/html; charset=utf-8"),
        ("f=text/html", "application/json", "text/html; charset=utf-8"),
    ):
        headers = {} if accept is None else {"Accept": accept}
        response = rich.get(f"/ogcapi{path}?{query}", headers=headers)
        assert response.status_code == 200
        assert response.content_type == expected, (query, accept)
        assert "Accept" in response.headers["Vary"]


@pytest.mark.parametrize("f", ["", "xml", "application/xml", "json,html", "\0", "é", "x" * 5000])
@pytest.mark.parametrize("path", [*DOCUMENTS, "/api"])
def test_unknown_format_of_a_document_is_refused(
    rich: Client, fault: Any, path: str, f: str
) -> None:
    """common /req/core/query-param-value-invalid."""
    response = rich.get(f"/ogcapi{path}", query_string={"f": f})
    assert fault(response) == (400, "InvalidParameter")


@pytest.mark.parametrize(
    ("query", "accept", "media_type"),
    [
        ("", None, OPENAPI),
        ("f=json", None, OPENAPI),
        (f"f={OPENAPI}", None, OPENAPI),
        ("", OPENAPI, OPENAPI),
        ("f=yaml", None, "application/vnd.oai.openapi;version=3.0"),
        ("", "application/vnd.oai.openapi;version=3.0", "application/vnd.oai.openapi;version=3.0"),
        ("f=html", None, "text/html; charset=utf-8"),
        ("", BROWSER, "text/html; charset=utf-8"),
    ],
)
def test_api_definition_in_three_forms(
    rich: Client, query: str, accept: str | None, media_type: str
) -> None:
    headers = {} if accept is None else {"Accept": accept}
    response = rich.get(f"/ogcapi/api?{query}", headers=headers)
    assert response.content_type == media_type


def test_documents_have_an_etag_and_are_compressed(rich: Client) -> None:
    response = rich.get("/ogcapi/collections", headers={"Accept-Encoding": "gzip"})
    assert response.headers["Content-Encoding"] == "gzip"
    again = rich.get(
        "/ogcapi/collections",
        headers={"Accept-Encoding": "gzip", "If-None-Match": response.headers["ETag"]},
    )
    assert again.status_code == 304


def test_json_is_compact_and_utf8(rich: Client) -> None:
    text = rich.get("/ogcapi/api/all-collections").data
    assert b'"e heights \xc3\xa9"' in text
    assert b", " not in text


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("all-collections", 8),
        ("vectorTiles-collections", 1),
        ("tileMatrixSets", 3),
        ("styles", 2),
    ],
)
def test_enumerations_keep_the_form_of_existing_servers(
    rich: Client, name: str, expected: int
) -> None:
    content = rich.get(f"/ogcapi/api/{name}").get_json()
    assert content["type"] == "enum"
    assert len(content["enum"]) == expected


def test_problem_media_type_on_demand(rich: Client) -> None:
    response = rich.get("/ogcapi/nothing", headers={"Accept": "application/problem+json"})
    assert response.content_type == "application/problem+json"
    assert json.loads(response.data)["status"] == 404


@pytest.mark.parametrize(
    ("error", "status", "name"),
    [
        (RuntimeError("secret /etc/passwd"), 500, "InternalError"),
        (
            StorageUnavailableError("secret bucket", storage="s3://secret"),
            503,
            "ServiceUnavailable",
        ),
        (UnicodeError("secret"), 500, "InternalError"),
    ],
)
def test_unexpected_errors_tell_nothing(error: Exception, status: int, name: str) -> None:
    response = error_response(error, Request("GET", "", "", {}))
    content = json.loads(response.body)
    assert (response.status, content["type"]) == (status, name)
    assert b"secret" not in response.body


def test_failure_inside_is_answered_in_the_form_of_the_service(
    tiny: Client, fault: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise KeyError("secret")

    monkeypatch.setattr("mastaba_ogcapi.getmap.map_response", broken)
    response = tiny.get("/ogcapi/collections/RGB_PNG/map")
    assert fault(response) == (500, "InternalError")
    assert "secret" not in response.text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_other_methods_are_not_allowed(rich: Client, method: str) -> None:
    response = rich.open("/ogcapi/collections", method=method)
    assert response.status_code == 405
    assert "GET" in response.headers["Allow"]


def test_without_the_setting_no_origin_is_allowed(rich: Client) -> None:
    for path in ("", "/collections/a_world/map", "/nothing"):
        response = rich.get(f"/ogcapi{path}", headers={"Origin": "http://o.example"})
        assert not [name for name, _ in response.headers if name.startswith("Access-")]
    preflight = rich.options("/ogcapi/map", headers={"Access-Control-Request-Method": "GET"})
    assert preflight.status_code == 204
    assert preflight.headers["Allow"] == "HEAD, OPTIONS, GET"
    assert "Access-Control-Allow-Methods" not in preflight.headers


@pytest.mark.parametrize(
    ("cors", "origin"),
    [
        (True, "*"),
        ("*", "*"),
        ("http://o.example", "http://o.example"),
        (["http://a.example", "http://o.example"], "http://o.example"),
    ],
)
def test_other_origins_may_read_every_answer(
    tmp_path: Path, open_client: Any, cors: Any, origin: str
) -> None:
    """P-11; maps /req/cors/cors."""
    client = open_client(
        tiny_installation(
            tmp_path, services=["ogcapi"], services_overrides={"ogcapi": {"cors": cors}}
        )
    )
    for path in (
        "",
        "/map",
        "/collections/RGB_PNG/map",
        "/collections/RGB_PNG/styles/normal/map",
        "/collections/RGB_PNG/map/tiles",
        "/collections/RGB_PNG/map/tiles/PM/4/5/9",
        "/collections/VECTOR/tiles/PM/4/5/9",
        "/nothing",
    ):
        for _ in range(2):  # nothing piles up on a document that is sent again
            response = client.get(f"/ogcapi{path}", headers={"Origin": "http://o.example"})
            assert response.headers.getlist("Access-Control-Allow-Origin") == [origin], path
            exposed = response.headers["Access-Control-Expose-Headers"]
            assert exposed == (
                "Content-Crs, Content-Bbox, Content-Datetime, Content-Interpolation, Link, "
                "Accept-Ranges, Content-Range, Content-Disposition, Preference-Applied, "
                "Values-Scale, Values-Offset, ETag, OGCAPI-datetime"
            )
    preflight = client.options(
        "/ogcapi/map",
        headers={
            "Origin": "http://o.example",
            "Access-Control-Request-Method": "GET",
            "Access-Control-Request-Headers": "accept",
        },
    )
    assert preflight.status_code == 204
    assert preflight.headers["Access-Control-Allow-Origin"] == origin
    assert preflight.headers["Access-Control-Allow-Methods"] == "HEAD, OPTIONS, GET"
    assert preflight.headers["Access-Control-Allow-Headers"] == "*"


@pytest.mark.parametrize("cors", [False, True, "http://o.example", ["http://a.example"]])
def test_tiles_for_other_origins_are_answered_without_a_wsgi_call(
    tmp_path: Path, open_client: Any, cors: Any
) -> None:
    client = open_client(
        tiny_installation(
            tmp_path, services=["ogcapi"], services_overrides={"ogcapi": {"cors": cors}}
        )
    )
    path = "/ogcapi/collections/RGB_PNG/map/tiles/PM/4/5/9"
    application = client.application
    etag = client.get(path).headers["ETag"]
    for fields in (
        {},
        {"Origin": "http://o.example"},
        {"Origin": "http://other.example"},
        {"Origin": "http://o.example", "If-None-Match": etag},
    ):
        for _ in range(2):
            usual = client.get(path, headers=fields)
            sent = {f"HTTP_{name.upper().replace('-', '_')}": fields[name] for name in fields}
            quick = application.stored_tile(path, "", sent)
            assert quick is not None
            assert (quick.status, quick.body) == (usual.status_code, usual.data)
            assert quick.headers == list(usual.headers.items())


def test_setting_of_all_services_is_not_doubled(tmp_path: Path, open_client: Any) -> None:
    overrides = {"global": {"cors": True}, "ogcapi": {"cors": True}}
    client = open_client(
        tiny_installation(tmp_path, services=["ogcapi"], services_overrides=overrides)
    )
    response = client.get("/ogcapi/map")
    assert response.headers.getlist("Access-Control-Allow-Origin") == ["*"]
    classes = client.get("/ogcapi/conformance").get_json()["conformsTo"]
    assert "https://www.opengis.net/spec/ogcapi-maps-1/1.0/conf/cors" in classes


def test_services_switched_off_answer_nothing(tmp_path: Path, open_client: Any) -> None:
    client = open_client(
        tiny_installation(tmp_path, services=["ogcapi"], services_overrides={"enabled": False})
    )
    assert client.get("/ogcapi").status_code == 503


def test_memory_of_documents_is_bounded(tiny: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mastaba_ogcapi.service._MAX_DOCUMENTS", 3)
    service: Any = tiny.application.site.services["ogcapi"]  # type: ignore[union-attr]
    for name in ("RGB_PNG", "RGB_JPG", "GREY_PNG", "RGB_RAW", "RGBA_PNG"):
        first = tiny.get(f"/ogcapi/collections/{name}").data
        assert tiny.get(f"/ogcapi/collections/{name}").data == first
        assert sum("/collections/" in path for path, _ in service._documents) <= 3
    before = len(service._documents)
    for number in range(20):
        tiny.get(f"/ogcapi/collections/nothing{number}")
    assert len(service._documents) == before
