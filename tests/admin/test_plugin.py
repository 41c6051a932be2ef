"""How the plugin is found, configured and listed; what it keeps."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.forked import run
from werkzeug.test import Client

from mastaba.errors import ConfigurationError
from mastaba.plugins.manager import Plugins
from mastaba.wsgi import create_application

OpenClient = Callable[[Path], Client]
Installation = Callable[..., Path]


def test_plugin_is_installed_and_provides_the_service() -> None:
    infos = {info.name: info for info in Plugins().listing()}
    assert infos["admin"].distribution == "mastaba-admin"
    assert infos["admin"].provides == ("service admin",)


def test_without_a_secret_it_does_not_start(installation: Installation) -> None:
    with pytest.raises(ConfigurationError, match=r"admin\.secret"):
        create_application(str(installation({"secret": ""})))


def test_the_check_of_a_configuration_says_so(installation: Installation) -> None:
    server_json = installation({"secret": ""})
    found = run("check", "-f", str(server_json))
    assert found.returncode == 1
    assert "allow_without_secret" in found.stdout


def test_an_identifier_that_is_too_long_for_a_file_name_is_refused(
    installation: Installation,
    open_client: OpenClient,
    headers: dict[str, str],
    descriptor: dict[str, Any],
    tmp_path: Path,
) -> None:
    client = open_client(installation({"persist": str(tmp_path / "kept")}))
    for name in ("x" * 300, "é" * 60):
        answer = client.post(f"/admin/layers/{name}", headers=headers, json=descriptor)
        assert answer.status_code == 400
        assert answer.json is not None
        assert "too long" in answer.json["error_message"]
        answer = client.delete(f"/admin/layers/{name}", headers=headers)
        assert answer.status_code == 404


def test_what_is_kept_is_there_after_a_start(
    installation: Installation,
    open_client: OpenClient,
    headers: dict[str, str],
    descriptor: dict[str, Any],
    tmp_path: Path,
) -> None:
    kept = tmp_path / "kept"
    server_json = installation({"persist": f"{kept}/"})
    client = open_client(server_json)
    names = ["new", ".hidden", "..a", "a é%&b", "x.json"]
    for name in names:
        quoted = name.replace("%", "%25").replace("..", "%2E%2E")
        answer = client.post(f"/admin/layers/{quoted}", headers=headers, json=descriptor)
        assert answer.status_code == 204, answer.text
    changed = {**descriptor, "title": "Changed"}
    assert client.put("/admin/layers/RGB_PNG", headers=headers, json=changed).status_code == 204
    assert client.delete("/admin/layers/new", headers=headers).status_code == 204

    assert len(list(kept.iterdir())) == 5
    assert not list(tmp_path.glob("*.json"))
    layers = open_client(server_json).application.site.catalogue.layers
    assert "new" not in layers
    assert set(names[1:]) < set(layers)
    assert layers["RGB_PNG"].title == "Changed"
    assert len(layers) == 9 + 4


def test_an_invalid_descriptor_among_those_kept_is_left_out(
    installation: Installation, open_client: OpenClient, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "bad.json").write_text(json.dumps({"title": 1}), "utf-8")
    layers = open_client(installation({"persist": str(kept)})).application.site.catalogue.layers
    assert "bad" not in layers
    assert len(layers) == 9


def test_nothing_is_kept_by_default(
    admin: Client, headers: dict[str, str], descriptor: dict[str, Any], tmp_path: Path
) -> None:
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert admin.post("/admin/layers/new", headers=headers, json=descriptor).status_code == 204
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before
