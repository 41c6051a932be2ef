"""Styles that access rules deny do not exist, wherever they are listed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.styles.conftest import OpenClient
from werkzeug.test import Client

from mastaba_access.checks import findings

Open = Callable[..., Client]


@pytest.fixture
def open_with(
    installation: Callable[..., Path], open_client: OpenClient, tmp_path: Path
) -> Callable[..., Client]:
    """Return a function that opens a server with two styles and rules."""

    def opened(*rules: dict[str, Any]) -> Client:
        file = installation(services=("tms", "ogcapi", "viewer"))
        named = [{"name": f"rule {number}", **rule} for number, rule in enumerate(rules)]
        (tmp_path / "rules.json").write_text(json.dumps({"default": "allow", "rules": named}))
        access = {"rules": str(tmp_path / "rules.json")}
        document = {**json.loads(file.read_text()), "plugins": {"access": access}}
        file.write_text(json.dumps(document))
        return open_client(file)

    return opened


def named(client: Client) -> tuple[list[str], list[str]]:
    """Return the styles of the layer in the list of the service, and in OGC API Styles."""
    lists = (client.get(path).json["styles"] for path in ("/styles", "/ogcapi/styles?f=json"))
    own, ogc = ([one["id"] for one in found if "VECTOR" in one["id"]] for found in lists)
    return own, ogc


def test_a_further_style_is_hidden(open_with: Open) -> None:
    client = open_with({"what": {"styles": ["night"]}, "deny": {}})
    assert named(client) == (["VECTOR"], ["VECTOR"])
    assert client.get("/styles/VECTOR.json").json["name"] == "Streets"
    answers = [client.get(f"/styles/VECTOR/{name}.json") for name in ("night", "never")]
    assert answers[0].status_code == answers[1].status_code == 404
    assert answers[0].text.replace("night", "never") == answers[1].text
    for name in ("VECTOR:night", "VECTOR:never"):
        assert client.get(f"/ogcapi/styles/{name}/metadata?f=json").status_code == 404
    application: Any = client.application
    site = application.site
    assert not [str(one) for one in findings(site.gate, site) if "night" in str(one)]


def test_the_default_style_is_replaced_by_the_next_one(open_with: Open) -> None:
    client = open_with({"what": {"styles": ["streets"], "services": ["stylesheets"]}, "deny": {}})
    assert client.get("/styles/VECTOR.json").json["name"] == "Night"
    assert client.get("/styles/VECTOR/streets.json").status_code == 404
    assert named(client) == (["VECTOR"], ["VECTOR"])


@pytest.mark.parametrize(
    "what", [{"services": ["ogcapi"]}, {"abilities": ["tiles", "maps", "coverages"]}]
)
@pytest.mark.parametrize("style", ["streets", "night"])
def test_a_style_is_hidden_in_one_service(open_with: Open, what: Any, style: str) -> None:
    client = open_with({"what": {"styles": [style], **what}, "deny": {}})
    left = {"streets": "VECTOR:night", "night": "VECTOR"}[style]
    assert named(client) == (["VECTOR", "VECTOR:night"], [left])
    found = client.get("/ogcapi/collections/VECTOR/styles?f=json").json
    assert [one["id"] for one in found["styles"]] == [left]
    for name in ("VECTOR", "VECTOR:night"):
        for form in ("?f=mapbox", "/metadata?f=json"):
            answer = client.get(f"/ogcapi/styles/{name}{form}")
            assert answer.status_code == (200 if name == left else 404)
    assert client.get(f"/styles/VECTOR/{style}.json").status_code == 200


def test_the_viewer_draws_by_the_first_style_that_is_left(open_with: Open) -> None:
    client = open_with({"what": {"styles": ["streets"], "services": ["viewer"]}, "deny": {}})
    assert named(client) == (["VECTOR", "VECTOR:night"],) * 2
    page = client.get("/viewer/VECTOR").text
    assert "/styles/VECTOR/night.json" in page
    assert "/styles/VECTOR.json" not in page


def test_other_layers_and_clients_keep_their_styles(open_with: Open) -> None:
    client = open_with(
        {"what": {"styles": ["night"], "layers": ["RGB_*"]}, "deny": {}},
        {"who": ["known"], "what": {"styles": ["night"]}, "deny": {}},
    )
    assert named(client)[0] == ["VECTOR", "VECTOR:night"]
    assert client.get("/styles/VECTOR/night.json").json["name"] == "Night"
