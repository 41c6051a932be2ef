"""Pages of other sites, and what reports tell about the server."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import Client

from mastaba_admin.messages import without_paths

Open = Callable[[Path], Client]
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def open_admin(installation: Callable[..., Path], open_client: Open) -> Callable[..., Client]:
    """Opens an installation whose services answer pages of every origin."""

    def open_it(**settings: Any) -> Client:
        server_json = installation(settings)
        path = server_json.parent / "services.json"
        document = json.loads(path.read_text("utf-8"))
        document.setdefault("global", {})["cors"] = True
        path.write_text(json.dumps(document), "utf-8")
        return open_client(server_json)

    return open_it


def cors_of(response: Any) -> list[str]:
    return [name for name in dict(response.headers) if name.startswith("Access-Control")]


@pytest.mark.parametrize("secret", ["", "swordfish"])
def test_no_page_of_another_origin_may_read_answers(
    secret: str, open_admin: Callable[..., Client]
) -> None:
    client = open_admin(secret=secret, allow_without_secret=True)
    assert cors_of(client.get("/healthcheck", headers={"Origin": "http://other.example"}))
    asks = {
        "Origin": "http://other.example",
        "Access-Control-Request-Method": "PUT",
        "Access-Control-Request-Headers": "content-type",
    }
    for path in ("/admin", "/admin/layers/new", "/admin/off", "/admin/nowhere"):
        for method in ("OPTIONS", "GET", "PUT", "POST", "PATCH"):
            shown = {**asks, "X-Mastaba-Secret": secret}
            assert cors_of(client.open(path, method=method, headers=shown)) == [], (method, path)
    assert client.get("/healthcheck/info").json["layers"]


CROSS_SITE: tuple[Mapping[str, str], ...] = (
    {"Origin": "http://other.example"},
    {"Origin": "null"},
    {"Origin": "http://localhost.example"},
    {"Origin": "http://localhost:8080"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"},
    # Any name may have the address of this server.
    {"Origin": "https://maps.example:8443", "Host": "maps.example:8443"},
    {"Sec-Fetch-Site": "same-origin", "Host": "maps.example"},
    {"Origin": "http://127.0.0.1.example", "Host": "127.0.0.1.example"},
)


@pytest.mark.parametrize("headers", CROSS_SITE, ids=str)
def test_without_a_secret_pages_of_other_sites_are_refused(
    headers: Mapping[str, str], open_admin: Callable[..., Client], descriptor: dict[str, Any]
) -> None:
    client = open_admin(secret="", allow_without_secret=True)
    responses = (
        client.post("/admin/layers/new", headers={**JSON, **headers}, json=descriptor),
        client.delete("/admin/layers/RGB_JPG", headers=headers),
        client.put("/admin/off", headers=headers),
        client.get("/admin", headers=headers),
    )
    for response in responses:
        assert response.status_code == 403
        assert response.json["error_status"] == "Operation forbidden"
    assert len(client.get("/healthcheck/info").json["layers"]) == 9
    assert client.get("/healthcheck").json["status"] == "OK"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "https://192.0.2.7:8443", "Host": "192.0.2.7:8443"},
        {"Origin": "http://[::1]:8080", "Host": "[::1]:8080"},
        {"Origin": "http://localhost:8080", "Host": "localhost:8080"},
        {"Sec-Fetch-Site": "same-origin", "Host": "127.0.0.1:8080"},
    ],
    ids=str,
)
def test_without_a_secret_programs_and_pages_of_the_server_are_served(
    headers: dict[str, str], open_admin: Callable[..., Client], descriptor: dict[str, Any]
) -> None:
    client = open_admin(secret="", allow_without_secret=True)
    assert client.post("/admin/layers/new", headers=headers, json=descriptor).status_code == 204
    assert client.delete("/admin/layers/new", headers=headers).status_code == 204


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_without_a_secret_a_body_must_be_json(
    kind: str, open_admin: Callable[..., Client], descriptor: dict[str, Any], headers: Any
) -> None:
    client = open_admin(secret="", allow_without_secret=True)
    body, given = json.dumps(descriptor), {"Content-Type": kind}
    response = client.post("/admin/layers/new", headers=given, data=body)
    assert (response.status_code, response.json["error_status"]) == (415, "Body not supported")
    given["Content-Type"] = "application/json; charset=utf-8"
    assert client.post("/admin/layers/new", headers=given, data=body).status_code == 204


def test_with_a_secret_the_type_of_a_body_is_free(
    admin: Client, headers: dict[str, str], descriptor: dict[str, Any]
) -> None:
    headers["Content-Type"] = "application/x-www-form-urlencoded"
    body = json.dumps(descriptor)
    assert admin.post("/admin/layers/new", headers=headers, data=body).status_code == 204


REFUSED: Mapping[str, Callable[[dict[str, Any], Path], None]] = {
    "pyramid": lambda document, home: document["pyramids"][0].update(path=f"{home}/no where.json"),
    "relative": lambda document, _: document["pyramids"][0].update(path="nowhere.json"),
    "style": lambda document, _: document.update(styles=["nowhere"]),
    "level": lambda document, _: document["pyramids"][0].update(bottom_level="99"),
    "folder": lambda document, home: document["pyramids"][0].update(path=str(home)),
    "broken": lambda document, home: document["pyramids"][0].update(path=f"{home}/broken.json"),
    "set": lambda document, _: document.update(extra_tilematrixsets=["nowhere"]),
    "title": lambda document, _: document.pop("title"),
}


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
def test_no_report_tells_a_path_of_the_server(
    change: Callable[[dict[str, Any], Path], None],
    installation: Callable[..., Path],
    open_client: Open,
    headers: dict[str, str],
    descriptor: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server_json = installation()
    home = server_json.parent.rename(tmp_path / "my maps (new)")
    server_json = home / server_json.name
    for path in home.rglob("*.json"):
        text = path.read_text("utf-8")
        path.write_text(text.replace(str(tmp_path / "installation"), str(home)), "utf-8")
    for path in (server_json, home / "layers.txt"):
        text = path.read_text("utf-8")
        path.write_text(text.replace(str(tmp_path / "installation"), str(home)), "utf-8")
    (home / "broken.json").write_text("{", "utf-8")
    monkeypatch.chdir(home)
    client = open_client(server_json)
    descriptor = json.loads(
        json.dumps(descriptor).replace(str(tmp_path / "installation"), str(home))
    )
    change(descriptor, home)
    response = client.post("/admin/layers/new", headers=headers, json=descriptor)
    if response.status_code == 204:
        return  # a style or set that is skipped
    assert response.status_code in (400, 500)
    message = response.json["error_message"]
    assert message
    for part in (str(tmp_path), tmp_path.name, *tmp_path.parts[1:]):
        assert part not in message, message


def test_a_directory_that_cannot_be_written_is_not_told(
    installation: Callable[..., Path],
    open_client: Open,
    headers: dict[str, str],
    descriptor: dict[str, Any],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "file").touch()
    client = open_client(installation({"persist": str(tmp_path / "file")}))
    response = client.post("/admin/layers/new", headers=headers, json=descriptor)
    assert response.status_code == 500
    assert str(tmp_path) not in response.json["error_message"]
    # The log tells it.
    assert str(tmp_path / "file") in caplog.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cannot read /a/b/c.json: it is gone", "cannot read c.json: it is gone"),
        ("'/a b/c d/e' is (/x/y) missing", "'e' is (y) missing"),
        ("/srv/my maps/styles/x does not exist", "x does not exist"),
        ("s3://maps/S.json: image/png, $.a/b", "s3://maps/S.json: image/png, $.a/b"),
        ("https://maps.example/a/b does not answer", "https://maps.example/a/b does not answer"),
        ("file:///a/b is missing", "b is missing"),
    ],
)
def test_only_the_names_of_files_are_left(text: str, expected: str) -> None:
    assert without_paths(text) == expected


@pytest.mark.parametrize("name", ["%2E", "%2E%2E", "é" * 126, "x" * 5000])
def test_identifiers_that_no_request_can_contain_are_refused(
    name: str, admin: Client, headers: dict[str, str], descriptor: dict[str, Any]
) -> None:
    response = admin.post(f"/admin/layers/{name}", headers=headers, json=descriptor)
    assert response.status_code == 400
    assert "cannot be the identifier of a layer" in response.json["error_message"]
    assert len(response.json["error_message"]) < 300
