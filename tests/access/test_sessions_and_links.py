"""Pages of other origins that send cookies, signed links in documents, names of credentials."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.access.identification.conftest import Credentials, credentials
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.api.tools import create_application
from mastaba.errors import ConfigurationError

__all__ = ["credentials"]

PORTAL = "https://portal.example.org"
TILE = "/wmts/1.0.0/RGB_JPG/normal/PM/2/1/2.jpg"
CAPABILITIES = "/wmts?SERVICE=WMTS&REQUEST=GetCapabilities"
RULES = {
    "default": "deny",
    "rules": [
        {"name": "partners", "who": ["group:partners"], "allow": {}},
        {"name": "open", "what": {"layers": ["RGB_JPG"]}, "allow": {}},
    ],
}
Open = Callable[..., Client]


@pytest.fixture
def open_with(tmp_path: Path, credentials: Credentials) -> Open:
    """Return a function that opens an installation with settings of access."""

    def make(shared: dict[str, Any] | None = None, **settings: Any) -> Client:
        rules = tmp_path / "rules.json"
        rules.write_text(json.dumps(RULES))
        section = credentials.section(rules=str(rules), **settings)
        admin = {"enabled": True, "secret": "swordfish"}
        file = tiny_installation(
            tmp_path / "i",
            services=("wmts", "wms", "ogcapi"),
            services_overrides={"admin": admin, "global": shared or {}},
            server_overrides={"plugins": {"access": section}},
        )
        return Client(create_application(str(file)))

    return make


def cors(response: Any) -> dict[str, str]:
    return {
        name.removeprefix("Access-Control-"): value
        for name, value in response.headers
        if name.startswith("Access-Control-")
    }


@pytest.mark.parametrize("shared", [{}, {"cors": True}])
def test_configured_origins_alone_may_send_cookies(open_with: Open, shared: dict[str, Any]) -> None:
    client = open_with(shared, sessions={"enabled": True, "origins": [PORTAL]})
    for path in (TILE, CAPABILITIES, "/wmts/nothing"):
        ours = client.get(path, headers={"Origin": PORTAL})
        found = cors(ours)
        assert found["Allow-Origin"] == PORTAL
        assert found["Allow-Credentials"] == "true"
        assert "*" not in found.values()
        assert "Origin" in ours.headers.get("Vary", "") or "Origin" in str(ours.headers)
        other = client.get(path, headers={"Origin": "https://evil.example"})
        assert "Allow-Credentials" not in cors(other)
        assert cors(other).get("Allow-Origin") == ("*" if shared else None)
        assert ("Vary", "Origin") in list(other.headers)
    asked = {
        "Access-Control-Request-Method": "GET",
        "Access-Control-Request-Headers": "x-api-key, authorization",
    }
    preflight = cors(client.options(TILE, headers={"Origin": PORTAL, **asked}))
    assert preflight["Allow-Credentials"] == "true"
    assert preflight["Allow-Headers"] == "x-api-key, authorization"
    # Pages of no origin may read what administrators do.
    secret = {"X-Mastaba-Secret": "swordfish", "Origin": PORTAL}
    assert cors(client.get("/admin", headers=secret)) == {}


def test_documents_have_signed_links_for_those_who_ask(
    open_with: Open, credentials: Credentials
) -> None:
    key = credentials.key(groups=["partners"])
    client = open_with()
    shown = {"X-API-Key": key}
    plain = client.get(CAPABILITIES, headers=shown)
    assert "/~" not in plain.text
    signed = client.get(f"{CAPABILITIES}&links=signed", headers=shown)
    (token,) = set(re.findall(r"/~(s1\.[A-Za-z0-9_.-]+)", signed.text))
    assert key not in signed.text
    assert signed.headers["Cache-Control"] == "private, no-cache"
    assert signed.headers["ETag"] != plain.headers["ETag"]
    hidden = "/1.0.0/GREY_PNG/normal/PM/2/1/2.png"
    assert client.get(f"/wmts/~{token}{hidden}").status_code == 200
    assert client.get(f"/wmts{hidden}").status_code == 404
    # Whoever shows nothing, or an address with a credential, gets the usual ones.
    assert "/~" not in client.get(f"{CAPABILITIES}&links=signed").text
    of_key = client.get(CAPABILITIES.replace("?", f"/~{key}?") + "&links=signed").text
    assert f"/~{key}" in of_key
    assert token not in of_key


def test_names_of_parameters_are_no_names_of_credentials(open_with: Open) -> None:
    with pytest.raises(ConfigurationError, match="layers is a parameter of wms"):
        open_with(names=["apikey", "LAYERS"])


@pytest.mark.parametrize("form", ["path", "query", "header"])
def test_addresses_from_documents_are_understood_as_values(
    form: str, open_with: Open, credentials: Credentials
) -> None:
    key = credentials.key(groups=["partners"])
    client = open_with()
    headers = {"X-API-Key": key} if form == "header" else {}
    at = {"path": f"/ogcapi/~{key}", "query": "/ogcapi", "header": "/ogcapi"}[form]
    query = {"apikey": key} if form == "query" else {}
    found = client.get(
        f"{at}/collections/GREY_PNG", query_string={**query, "f": "json"}, headers=headers
    )
    address = next(one["href"] for one in found.json["links"] if one["rel"] == "self")
    address = address.partition("?")[0]
    assert (key in address) == (form != "header")
    asked = {**query, "collections": address, "width": "8", "height": "8", "f": "png"}
    drawn = client.get(f"{at}/map", query_string=asked, headers=headers)
    assert (drawn.status_code, drawn.content_type) == (200, "image/png")
    asked["collections"] = f"{address}_gone"
    refused = client.get(f"{at}/map", query_string=asked, headers=headers)
    assert refused.status_code == 400
    assert key not in refused.text
