"""Virtual services that are added, replaced and removed while the server runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.admin.test_routes import report
from werkzeug.test import Client

SECTION = {"layers": ["RGB_*"], "title": "Maps for the partner", "services": {"wmts": {}}}
CAPABILITIES = "/wmts/v/partner?SERVICE=WMTS&REQUEST=GetCapabilities"
TILE = "/wmts{}/1.0.0/{}/normal/PM/2/1/2.{}"


def test_a_virtual_service_is_created_replaced_and_deleted(
    admin: Client, headers: dict[str, str]
) -> None:
    assert admin.get(CAPABILITIES).status_code == 404
    created = admin.post("/admin/virtual/partner", headers=headers, json=SECTION)
    assert (created.status_code, created.data) == (204, b"")
    document = admin.get(CAPABILITIES).text
    assert "Maps for the partner" in document
    assert "RGB_JPG" in document
    assert "GREY_PNG" not in document
    tile = admin.get(TILE.format("/v/partner", "RGB_JPG", "jpg"))
    assert tile.status_code == 200
    assert tile.data == admin.get(TILE.format("", "RGB_JPG", "jpg")).data
    listed = admin.get("/admin/virtual", headers=headers).json["partner"]
    assert listed["addresses"] == {"wmts": "http://localhost/wmts/v/partner"}
    assert listed["published"] == document.count("<Layer>") > 1

    replaced = {**SECTION, "layers": ["GREY_PNG"]}
    assert admin.put("/admin/virtual/partner", headers=headers, json=replaced).status_code == 204
    assert "GREY_PNG" in admin.get(CAPABILITIES).text
    assert "RGB_JPG" not in admin.get(CAPABILITIES).text
    assert admin.get(TILE.format("/v/partner", "RGB_JPG", "jpg")).status_code != 200

    assert admin.delete("/admin/virtual/partner", headers=headers).status_code == 204
    assert admin.get("/admin/virtual", headers=headers).json == {}
    assert admin.get(TILE.format("/v/partner", "GREY_PNG", "png")).status_code != 200


@pytest.mark.parametrize(
    ("method", "name", "section", "status", "reason"),
    [
        ("POST", "kept", SECTION, 409, "the virtual service 'kept' exists already"),
        ("PUT", "other", SECTION, 404, "there is no virtual service 'other'"),
        ("DELETE", "other", SECTION, 404, "there is no virtual service 'other'"),
        ("POST", "Upper", SECTION, 400, "is not a valid name"),
        ("POST", "a/b", SECTION, 400, "is not a valid name"),
        ("POST", "other", {"layers": []}, 400, "needs layers"),
        ("POST", "other", {**SECTION, "more": 1}, 400, "unknown keys: more"),
        ("POST", "other", {**SECTION, "services": {"wfs": {}}}, 400, "not enabled: wfs"),
        ("POST", "other", {**SECTION, "title": 1}, 400, "title"),
        ("POST", "other", [], 400, "must be an object"),
    ],
)
def test_what_cannot_be_one_changes_nothing(
    method: str,
    name: str,
    section: Any,
    status: int,
    reason: str,
    admin: Client,
    headers: dict[str, str],
) -> None:
    assert admin.post("/admin/virtual/kept", headers=headers, json=SECTION).status_code == 204
    site = admin.application.site
    response = admin.open(f"/admin/virtual/{name}", method=method, headers=headers, json=section)
    assert response.status_code == status
    assert reason in response.json["error_message"]
    assert admin.application.site is site


def test_the_layer_v_is_in_the_way(
    admin: Client, headers: dict[str, str], descriptor: dict[str, Any]
) -> None:
    assert admin.post("/admin/layers/v", headers=headers, json=descriptor).status_code == 204
    response = admin.post("/admin/virtual/partner", headers=headers, json=SECTION)
    assert "layer v" in report(response, 400, "Configuration issue")


def test_a_kept_virtual_service_is_there_after_a_restart(
    installation: Callable[..., Path],
    open_client: Callable[[Path], Client],
    headers: dict[str, str],
    tmp_path: Path,
) -> None:
    file = installation({"persist": str(tmp_path / "kept")})
    client = open_client(file)
    for name in ("partner", "gone"):
        assert client.post(f"/admin/virtual/{name}", headers=headers, json=SECTION).status_code
    assert client.delete("/admin/virtual/gone", headers=headers).status_code == 204
    kept = tmp_path / "kept" / "virtual"
    assert [path.name for path in kept.iterdir()] == ["partner.json"]
    assert json.loads((kept / "partner.json").read_text("utf-8")) == SECTION

    again = open_client(file)
    assert again.get(CAPABILITIES).data == client.get(CAPABILITIES).data
    assert list(again.get("/admin/virtual", headers=headers).json) == ["partner"]
    # A file that cannot be used leaves out its virtual service alone.
    (kept / "partner.json").write_text('{"layers": 1}')
    broken = open_client(file)
    assert broken.get("/admin/virtual", headers=headers).json == {}
    assert broken.get(TILE.format("", "RGB_JPG", "jpg")).status_code == 200


def test_without_a_secret_virtual_services_are_not_changed(
    installation: Callable[..., Path], open_client: Callable[[Path], Client]
) -> None:
    client = open_client(installation({"secret": "", "allow_without_secret": True}))
    assert client.get("/admin").status_code == 200
    for method, path in (("GET", ""), ("POST", "/x"), ("PUT", "/x"), ("DELETE", "/x")):
        response = client.open(f"/admin/virtual{path}", method=method, json=SECTION)
        assert "admin.secret" in report(response, 403, "Operation forbidden")


def test_calls_are_in_the_audit_log(
    admin: Client, headers: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "mastaba.audit")
    admin.post("/admin/virtual/partner", headers=headers, json=SECTION)
    admin.put("/admin/off")
    admin.get("/admin", headers=headers)
    lines = [json.loads(one.message) for one in caplog.records if one.name == "mastaba.audit"]
    calls = [(one["event"], one["method"], one["path"], one["status"]) for one in lines]
    assert calls == [
        ("administration", "POST", "/virtual/partner", 204),
        ("administration", "PUT", "/off", 403),
    ]
    assert headers["X-Mastaba-Secret"] not in caplog.text
