"""Keys and rules by the administration."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.access.identification.conftest import Credentials, credentials
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.api.tools import create_application
from mastaba.errors import ConfigurationError

__all__ = ["credentials"]

SECRET = {"X-Mastaba-Secret": "swordfish"}
TILE = "/wmts{}/1.0.0/RGB_JPG/normal/PM/2/1/2.jpg"
RULES: dict[str, Any] = {
    "default": "deny",
    "rules": [
        {"name": "partners", "who": ["group:partners"], "allow": {}},
        {"name": "open", "what": {"layers": ["GREY_PNG"]}, "allow": {}},
    ],
}


class Installation:
    """A server with an administration, keys and rules."""

    def __init__(self, folder: Path, credentials: Credentials, secret: str = "swordfish") -> None:
        self.rules = folder / "rules.json"
        self.rules.write_text(json.dumps(RULES))
        admin = {"enabled": True, "secret": secret, "allow_without_secret": not secret}
        file = tiny_installation(
            folder / "installation",
            services=("wmts",),
            services_overrides={"admin": admin},
            server_overrides={
                "plugins": {"access": credentials.section(rules=str(self.rules))},
            },
        )
        self.application = create_application(str(file))
        self.client = Client(self.application)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        shown: Mapping[str, str] = headers or SECRET
        return self.client.open(f"/admin{path}", method=method, headers=shown, json=body)

    def status(self, key: str) -> int:
        return self.client.get(TILE.format(f"/~{key}")).status_code


@pytest.fixture
def server(tmp_path: Path, credentials: Credentials) -> Installation:
    return Installation(tmp_path, credentials)


def test_a_key_is_created_shown_rotated_and_revoked(server: Installation) -> None:
    members = {"label": "Town", "groups": ["partners"]}
    created = server.ask("POST", "/keys", members)
    assert created.status_code == 200
    assert created.headers["Cache-Control"] == "no-store"
    first, key_id = created.json["key"], created.json["id"]
    assert server.status(first) == 200
    assert server.client.get(TILE.format("")).status_code == 404

    shown = server.ask("GET", f"/keys/{key_id}")
    assert shown.json["label"] == "Town"
    assert shown.json["state"] == "active"
    assert first not in shown.text
    assert [one["id"] for one in server.ask("GET", "/keys").json["keys"]] == [key_id]

    second = server.ask("POST", f"/keys/{key_id}", {"overlap": "1h"}).json["key"]
    assert [server.status(first), server.status(second)] == [200, 200]
    third = server.ask("POST", f"/keys/{key_id}").json["key"]
    assert [server.status(one) for one in (first, second, third)] == [401, 401, 200]

    assert server.ask("DELETE", f"/keys/{key_id}").status_code == 204
    assert server.status(third) == 401
    assert server.ask("GET", f"/keys/{key_id}").json["state"] == "revoked"
    assert server.ask("POST", f"/keys/{key_id}").status_code == 409


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "reason"),
    [
        ("POST", "/keys", None, 400, "must be an object"),
        ("POST", "/keys", {"id": "aaaaaaaa"}, 400, "'id' is unknown"),
        ("POST", "/keys", {"label": 1}, 400, "'label'"),
        ("POST", "/keys", {"until": "tomorrow"}, 400, "'tomorrow'"),
        ("POST", "/keys", {"addresses": ["x"]}, 400, "'x'"),
        ("GET", "/keys/aaaaaaaa", None, 404, "there is no key 'aaaaaaaa'"),
        ("POST", "/keys/aaaaaaaa", None, 404, "there is no key"),
        ("DELETE", "/keys/aaaaaaaa", None, 404, "there is no key"),
        ("POST", "/keys/aaaaaaaa", {"overlap": "long"}, 400, "'long'"),
        ("PUT", "/keys", None, 405, "not allowed"),
        ("POST", "/access/explain", {}, 400, "url"),
        ("POST", "/access/explain", {"url": "/wmts", "as": "x"}, 400, "'x' is not a key"),
        ("POST", "/access/explain", {"url": "/wmts", "at": "noon"}, 400, "'noon'"),
        ("POST", "/access/explain", {"url": "/wmts", "groups": "x"}, 400, "groups"),
        ("POST", "/access/explain", {"url": 1}, 400, "url"),
    ],
)
def test_what_cannot_be_done_is_refused(
    method: str, path: str, body: Any, status: int, reason: str, server: Installation
) -> None:
    response = server.ask(method, path, body)
    assert response.status_code == status
    assert reason in response.json["error_message"]


def test_rules_are_read_again_at_once(server: Installation) -> None:
    assert server.client.get(TILE.format("")).status_code == 404
    server.rules.write_text(json.dumps({**RULES, "default": "allow"}))
    assert server.ask("PUT", "/access/reload").json["rules"] == 2
    assert server.client.get(TILE.format("")).status_code == 200
    server.rules.write_text("{")
    refused = server.ask("PUT", "/access/reload")
    assert refused.status_code == 400
    assert str(server.rules) not in refused.text
    assert server.client.get(TILE.format("")).status_code == 200


def test_explanations_are_those_of_the_command(server: Installation) -> None:
    key_id = server.ask("POST", "/keys", {"groups": ["partners"]}).json["id"]
    asked = {"url": "http://localhost" + TILE.format(""), "as": key_id}
    found = server.ask("POST", "/access/explain", asked).json
    tiles = next(one for one in found["decisions"] if one["ability"] == "tiles")
    assert (tiles["layer"], tiles["decision"], tiles["decided_by"]) == (
        "RGB_JPG",
        "allow",
        "partners",
    )
    anonymous = server.ask("POST", "/access/explain", {"url": asked["url"]}).json
    assert {one["decision"] for one in anonymous["decisions"]} == {"hide"}


def test_nothing_is_done_without_the_secret(server: Installation, credentials: Credentials) -> None:
    key = credentials.key(groups=["partners"])
    for method, path in (("GET", "/keys"), ("POST", "/keys"), ("PUT", "/access/reload")):
        assert server.ask(method, path, {}, **{"X-API-Key": key}).status_code == 403
    links = {one["href"] for one in server.ask("GET", "").json["links"]}
    assert "http://localhost/admin/keys/{id}" in links


def test_rules_need_an_administration_with_a_secret(
    tmp_path: Path, credentials: Credentials
) -> None:
    with pytest.raises(ConfigurationError, match=r"set admin\.secret"):
        Installation(tmp_path, credentials, secret="")
