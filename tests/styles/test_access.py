"""Styles with access rules: credentials in addresses, and layers that a client may not see."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.key_gate import GatePlugin, KeyGate, Rights
from tests.styles.conftest import PUBLIC_URL
from tests.styles.test_styles import addresses
from werkzeug.test import Client

from mastaba.plugins.manager import Plugins
from mastaba.wsgi import create_application

KEY = "mk_all_0123456789"


@pytest.fixture
def guarded(installation: Callable[..., Path]) -> Client:
    """A client of a server that hides a picture from those without a key."""
    classes = {"": Rights(hidden=frozenset(("RGB_PNG",))), "all": Rights()}
    plugin = GatePlugin(KeyGate(classes=classes, keys={KEY: "all"}))
    plugins = Plugins(extra={"test_gate": plugin})
    return Client(create_application(str(installation(services=("tms", "ogcapi"))), plugins))


def style(client: Client, path: str, **headers: str) -> dict[str, Any]:
    answer = client.get(path, headers=headers)
    assert answer.status_code == 200
    found: dict[str, Any] = json.loads(answer.data)
    return found


def test_every_address_contains_the_key(guarded: Client) -> None:
    found = addresses(style(guarded, f"/styles/~{KEY}/VECTOR.json"))
    assert len(found) == 5
    for address in found:
        assert address.startswith((f"{PUBLIC_URL}/styles/~{KEY}/", f"{PUBLIC_URL}/tms/~{KEY}/"))
    glyphs = next(one for one in found if "/glyphs/" in one).removeprefix(PUBLIC_URL)
    path = glyphs.format(fontstack="Plain%20Regular", range="0-255")
    assert guarded.get(path).data
    assert guarded.get(path.replace(KEY, "mk_unknown")).status_code == 401


def test_keys_in_headers_are_not_in_addresses(guarded: Client) -> None:
    found = style(guarded, "/styles/VECTOR.json", **{"X-API-Key": KEY})
    assert "~" not in "".join(addresses(found))


def test_other_layers_of_a_style_are_left_out_where_they_are_hidden(guarded: Client) -> None:
    assert "RGB_PNG" in style(guarded, f"/styles/~{KEY}/VECTOR.json")["sources"]
    found = style(guarded, "/styles/VECTOR.json")
    assert "RGB_PNG" not in json.dumps(found)
    assert "picture" not in [one["id"] for one in found["layers"]]


def test_a_hidden_layer_has_no_style(guarded: Client) -> None:
    for path in ("styles{}/RGB_PNG.json", "ogcapi{}/styles/RGB_PNG"):
        assert guarded.get("/" + path.format(f"/~{KEY}")).status_code == 200
        hidden = guarded.get("/" + path.format(""))
        assert hidden.status_code == 404
        unknown = guarded.get("/" + path.format("").replace("RGB_PNG", "none"))
        assert hidden.data.replace(b"RGB_PNG", b"none") == unknown.data
    assert b"RGB_PNG" not in guarded.get("/styles").data
