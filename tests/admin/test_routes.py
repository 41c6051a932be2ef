"""Every route, and every refusal, in a single process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import Client

TILE = "/tms/1.0.0/new/4/9/5.jpeg"


def listed(client: Client) -> str:
    return (
        client.get("/tms/1.0.0").text
        + client.get("/wmts?SERVICE=WMTS&REQUEST=GetCapabilities").text
    )


def report(response: Any, status: int, name: str) -> str:
    """Check that an answer is a report, and return its message."""
    assert response.status_code == status
    assert response.content_type == "application/json"
    assert set(response.json) == {"error_status", "error_message"}
    assert response.json["error_status"] == name
    message: str = response.json["error_message"]
    return message


def test_a_layer_is_created_replaced_and_deleted(
    admin: Client, headers: dict[str, str], descriptor: dict[str, Any]
) -> None:
    assert "new" not in admin.get("/healthcheck/info").json["layers"]
    assert admin.get(TILE).status_code == 404
    before = listed(admin)

    created = admin.post("/admin/layers/new", headers=headers, json={**descriptor, "title": "One"})
    assert (created.status_code, created.data) == (204, b"")
    assert "new" in admin.get("/healthcheck/info").json["layers"]
    assert admin.get(TILE).data == admin.get(TILE.replace("new", "RGB_JPG")).data
    assert listed(admin).count("One") == 2

    replaced = admin.put("/admin/layers/new", headers=headers, json={**descriptor, "title": "Two"})
    assert replaced.status_code == 204
    assert listed(admin).count("Two") == 2
    assert "One" not in listed(admin)

    assert admin.delete("/admin/layers/new", headers=headers).status_code == 204
    assert listed(admin) == before
    assert admin.get(TILE).status_code == 404


def test_layers_stay_in_the_order_of_identifiers(
    admin: Client, headers: dict[str, str], descriptor: dict[str, Any]
) -> None:
    for name in ("zz", "AA", "é"):
        assert admin.post(f"/admin/layers/{name}", headers=headers, json=descriptor).status_code
    layers = list(admin.application.site.catalogue.layers)
    assert len(layers) == 12
    assert layers == sorted(layers, key=str.encode)


def test_a_layer_that_exists_cannot_be_created(
    admin: Client, headers: dict[str, str], descriptor: dict[str, Any]
) -> None:
    site = admin.application.site
    response = admin.post("/admin/layers/RGB_JPG", headers=headers, json=descriptor)
    assert "RGB_JPG" in report(response, 409, "Configuration conflict")
    assert admin.application.site is site


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_a_layer_that_does_not_exist_is_not_found(
    method: str, admin: Client, headers: dict[str, str], descriptor: dict[str, Any]
) -> None:
    response = admin.open("/admin/layers/x", method=method, headers=headers, json=descriptor)
    assert "'x'" in report(response, 404, "Not found")


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "empty"),
        (b"{", "not valid JSON"),
        (b"null", "empty"),
        (b"[]", "must be an object"),
        (b"\xff", "not UTF-8"),
        (b'{"abstract": "", "pyramids": []}', "$.pyramids: must have at least 1 elements"),
        (
            b'{"title": "", "abstract": "", "pyramids":'
            b' [{"path": "/no\\"where", "bottom_level": "1", "top_level": "1"}]}',
            "does not exist",
        ),
    ],
)
@pytest.mark.parametrize("path", ["/admin/layers/new", "/admin/layers/RGB_JPG"])
def test_an_invalid_descriptor_changes_nothing(
    body: bytes, reason: str, path: str, admin: Client, headers: dict[str, str]
) -> None:
    before = listed(admin)
    method = "PUT" if "RGB" in path else "POST"
    response = admin.open(path, method=method, headers=headers, data=body)
    assert reason in report(response, 400, "Configuration issue")
    assert listed(admin) == before


@pytest.mark.parametrize("name", ["a%2Fb", "a%22b", "%0A", "a%3Cb"])
def test_an_identifier_that_no_layer_can_have_is_refused(
    name: str, admin: Client, headers: dict[str, str], descriptor: dict[str, Any]
) -> None:
    response = admin.post(f"/admin/layers/{name}", headers=headers, json=descriptor)
    report(response, 400, "Configuration issue")


def test_an_identifier_that_looks_like_a_file_of_yaml_has_a_body_of_json(
    admin: Client, headers: dict[str, str]
) -> None:
    response = admin.post("/admin/layers/x.yaml", headers=headers, data=b"title: x")
    assert "JSON" in report(response, 400, "Configuration issue")


def test_a_style_that_was_missing_is_looked_for_again(
    admin: Client, headers: dict[str, str], descriptor: dict[str, Any], tmp_path: Path
) -> None:
    document = {**descriptor, "styles": ["late"]}
    assert admin.post("/admin/layers/new", headers=headers, json=document).status_code == 204
    styles = tmp_path / "installation" / "styles"
    late = {**json.loads((styles / "normal.json").read_text("utf-8")), "identifier": "LATE"}
    (styles / "late.json").write_text(json.dumps(late), "utf-8")
    assert admin.put("/admin/layers/new", headers=headers, json=document).status_code == 204
    layer = admin.application.site.catalogue.layers["new"]
    assert [style.identifier for style in layer.styles] == ["LATE"]


def test_a_style_that_was_loaded_is_not_read_again(
    admin: Client, headers: dict[str, str], descriptor: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "installation" / "styles" / "normal.json"
    path.write_text("{", "utf-8")
    assert admin.post("/admin/layers/new", headers=headers, json=descriptor).status_code == 204


def test_services_are_turned_off_and_on(admin: Client, headers: dict[str, str]) -> None:
    assert admin.put("/admin/off", headers=headers).status_code == 204
    assert admin.get("/tms/1.0.0").status_code == 503
    assert admin.get("/").status_code == 503
    assert admin.get("/healthcheck").json["status"] == "DISABLED"
    assert admin.get("/admin", headers=headers).json["enabled"] is False
    assert admin.put("/admin/on", headers=headers).status_code == 204
    assert admin.get("/tms/1.0.0").status_code == 200


def test_changes_change_the_generation_and_are_in_it(
    admin: Client, headers: dict[str, str], descriptor: dict[str, Any]
) -> None:
    def generation() -> str:
        report: Any = admin.get("/healthcheck").json
        return str(report["generation"])

    seen = [generation()]
    for path in ("/admin/layers/new", "/admin/layers/other"):
        assert admin.post(path, headers=headers, json=descriptor).status_code == 204
        seen.append(generation())
    assert admin.put("/admin/off", headers=headers).status_code == 204
    seen.append(generation())
    assert len(set(seen)) == 4
    assert admin.put("/admin/on", headers=headers).status_code == 204
    for path in ("/admin/layers/new", "/admin/layers/other"):
        assert admin.delete(path, headers=headers).status_code == 204
    assert generation() == seen[0]


def test_a_process_without_supervisor_cannot_reload(admin: Client, headers: dict[str, str]) -> None:
    response = admin.put("/admin/reload", headers=headers)
    assert response.status_code == 503
    assert response.json["error_message"] == "only a supervised server can reload"
    assert admin.post("/admin/reload", headers=headers).status_code == 405


@pytest.mark.parametrize("path", ["/admin", "/admin/"])
def test_status(path: str, admin: Client, headers: dict[str, str]) -> None:
    response = admin.get(path, headers=headers)
    assert response.status_code == 200
    assert response.json["enabled"] is True
    assert response.json["layers"] == 9
    links = {(link["method"], link["href"]) for link in response.json["links"]}
    assert ("POST", "http://localhost/admin/layers/{id}") in links


def test_the_old_request_to_rewrite_the_capabilities_is_accepted(
    admin: Client, headers: dict[str, str]
) -> None:
    site = admin.application.site
    assert admin.put("/admin/layers", headers=headers).status_code == 204
    assert admin.application.site is site


@pytest.mark.parametrize("path", ["/admin/x", "/admin/onn", "/admin/on/x", "/admin/layer/x"])
def test_unknown_paths(path: str, admin: Client, headers: dict[str, str]) -> None:
    message = report(admin.put(path, headers=headers), 404, "Operation not supported")
    assert message == "Unknown admin request path"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/admin/on", {"PUT"}),
        ("GET", "/admin/off", {"PUT"}),
        ("DELETE", "/admin", {"GET"}),
        ("GET", "/admin/layers", {"PUT"}),
        ("PUT", "/admin/indices", {"DELETE"}),
    ],
)
def test_known_paths_with_another_method(
    method: str, path: str, allowed: set[str], admin: Client, headers: dict[str, str]
) -> None:
    response = admin.open(path, method=method, headers=headers)
    report(response, 405, "Operation not supported")
    assert set(response.headers["Allow"].split(", ")) == allowed | {"HEAD", "OPTIONS"}


def test_a_body_of_more_than_a_mebibyte_is_refused(admin: Client, headers: dict[str, str]) -> None:
    response = admin.post("/admin/layers/x", headers=headers, data=bytes(1024**2 + 1))
    report(response, 413, "Body too large")


# The secret


def test_either_header_may_contain_the_secret(admin: Client, headers: dict[str, str]) -> None:
    secret = headers["X-Mastaba-Secret"]
    assert admin.get("/admin", headers={"X-Rok4-Secret": secret}).status_code == 200
    both = {"X-Rok4-Secret": secret, "X-Mastaba-Secret": "wrong"}
    assert admin.get("/admin", headers=both).status_code == 200


@pytest.mark.parametrize("secret", [None, "", "Swordfish", "swordfis", "swordfish ", "\xff"])
@pytest.mark.parametrize("path", ["/admin", "/admin/off", "/admin/nowhere"])
def test_without_the_secret_nothing_is_shown_or_done(
    secret: str | None, path: str, admin: Client
) -> None:
    shown = {} if secret is None else {"X-Mastaba-Secret": secret}
    response = admin.put(path, headers=shown)
    assert report(response, 403, "Operation forbidden") == "Not authorized request"
    assert admin.get("/tms/1.0.0").status_code == 200


def test_a_secret_may_have_any_character(
    installation: Callable[..., Path], open_client: Callable[[Path], Client]
) -> None:
    client = open_client(installation({"secret": "héhé"}))
    # As a WSGI server gives it: the bytes of UTF-8 as characters.
    shown = {"HTTP_X_MASTABA_SECRET": "héhé".encode().decode("latin-1")}
    assert client.get("/admin", environ_overrides=shown).status_code == 200
    assert client.get("/admin", environ_overrides=dict.fromkeys(shown, "héhé")).status_code == 403


def test_a_service_without_secret_can_be_allowed(
    installation: Callable[..., Path], open_client: Callable[[Path], Client]
) -> None:
    client = open_client(installation({"secret": "", "allow_without_secret": True}))
    assert client.get("/admin").status_code == 200


def test_a_layer_directory_that_cannot_be_written_refuses_the_change(
    installation: Callable[..., Path],
    open_client: Callable[[Path], Client],
    headers: dict[str, str],
    descriptor: dict[str, Any],
    tmp_path: Path,
) -> None:
    (tmp_path / "file").touch()
    client = open_client(installation({"persist": str(tmp_path / "file")}))
    response = client.post("/admin/layers/new", headers=headers, json=descriptor)
    report(response, 500, "Internal issue")
    assert "new" not in client.get("/healthcheck/info").json["layers"]
