"""The service ``auth`` in a whole installation."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.access.identification.conftest import Credentials
from tests.support.mutations import mutations
from tests.tiny import tiny_installation

from mastaba.api.access import Form, Principal, Shown
from mastaba.api.tools import Application, create_application
from mastaba.errors import AccessError
from mastaba_access.auth.addresses import taken_apart
from mastaba_access.identifiers.keys import KeyIdentifier
from mastaba_access.identifiers.secret_file import read_secrets
from mastaba_access.identifiers.signed import SignedIdentifier
from mastaba_access.identifiers.tokens import Token, sign

FRONT = "10.0.0.1"
URL = "https://maps.example.org/maps"
RULES = {
    "default": "deny",
    "rules": [
        {"name": "open", "what": {"layers": ["RGB_JPG"]}, "allow": {}},
        {"name": "partners", "who": ["group:partners", "signed:new"], "allow": {}},
    ],
}


class Installed:
    """An installation with rules, and its application.

    Args:
        own: settings of the service auth.
    """

    def __init__(self, folder: Path, own: Mapping[str, Any], access: Mapping[str, Any]) -> None:
        self.credentials = Credentials(folder)
        self.credentials.user("anna", "secret")
        rules = folder / "rules.json"
        rules.write_text(json.dumps(RULES))
        path = tiny_installation(
            folder / "installation",
            public_url=URL,
            services_overrides={"auth": {"enabled": True, "endpoint_uri": f"{URL}/auth", **own}},
        )
        section = {
            "rules": str(rules),
            "trusted_fronts": [FRONT, "fastcgi"],
            "user_header": "X-User",
            "groups_header": "X-Groups",
            "sessions": {"enabled": True},
            **self.credentials.section(),
            **access,
        }
        document = json.loads(path.read_text())
        document["plugins"] = {**document.get("plugins", {}), "access": section}
        path.write_text(json.dumps(document))
        self.application: Application = create_application(str(path))

    def ask(
        self, path: str, method: str = "GET", body: bytes = b"", peer: str = FRONT, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        path, _, query = path.partition("?")
        environ: dict[str, Any] = {
            "REQUEST_METHOD": method,
            "SCRIPT_NAME": "",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REMOTE_ADDR": peer,
            "wsgi.input": io.BytesIO(body),
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.url_scheme": "http",
            **headers,
        }
        found: list[Any] = []
        pieces = self.application(environ, lambda *answer: found.extend(answer))
        data = b"".join(pieces)
        return int(found[0].split()[0]), dict(found[1]), data

    def check(self, uri: str, **headers: str) -> tuple[int, dict[str, str]]:
        sent = {"HTTP_X_ORIGINAL_URI": uri, "HTTP_X_FORWARDED_FOR": "192.0.2.7", **headers}
        status, answered, _ = self.ask("/auth/check", **sent)
        return status, answered


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    return Installed(tmp_path, {"prefix": "/maps"}, {})


TILE = "/maps/tms/1.0.0/RGB_PNG/2/2/1.png"


def test_what_is_no_credential_identifies_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without keys in paths, a segment beside a key in the query is not that key the next time."""
    for kind in (KeyIdentifier, SignedIdentifier):
        monkeypatch.setattr(kind, "forms", frozenset((Form.QUERY,)))
    installed = Installed(tmp_path, {"prefix": "/maps"}, {})
    uri = TILE.replace("/tms/", "/tms/~segment/")
    for key in [installed.credentials.key(groups=["partners"]) for _ in range(2)]:
        status, headers = installed.check(f"{uri}?apikey={key}")
        assert (status, headers["X-Mastaba-Grant"]) == (200, key[3:11])
    assert installed.check(uri)[1]["X-Mastaba-Grant"] == "anonymous"


def test_a_check_is_about_the_credential_that_the_server_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache would keep for the public what the holder of the key gets at such an address."""
    for kind in (KeyIdentifier, SignedIdentifier):
        monkeypatch.setattr(kind, "forms", frozenset((Form.HEADER,)))
    installed = Installed(tmp_path, {"prefix": "/maps"}, {})
    key, uri = installed.credentials.key(groups=["partners"]), TILE.replace("/tms/", "/tms/~old/")
    for asked in (uri, f"{TILE}?apikey=old"):
        headers = {"HTTP_X_API_KEY": key}
        status, _, _ = installed.ask(asked.removeprefix("/maps"), **headers)
        assert status == 200
        status, answered = installed.check(asked, **headers)
        assert (status, answered["X-Mastaba-Grant"]) == (200, key[3:11])
        assert answered["X-Mastaba-Class"] != installed.check(TILE)[1]["X-Mastaba-Class"]


def test_a_check_says_who_and_what_is_the_same(installed: Installed) -> None:
    one, two = (installed.credentials.key(groups=["partners"]) for _ in range(2))
    below = TILE.removeprefix("/maps/tms")
    status, headers = installed.check(f"/maps/tms/~{one}{below}")
    assert (status, headers["X-Mastaba-Uri"]) == (200, TILE)
    assert headers["X-Mastaba-Grant"] == one[3:11]
    assert headers["Cache-Control"] == "private, max-age=5"
    tag = headers["X-Mastaba-Class"]
    for uri, sent in (
        (f"{TILE}?apikey={two}", {}),
        (f"{TILE}?ApiKey={two}", {}),
        (f"{TILE}?%61pikey={two}", {}),
        (f"/maps/tms/%7E{two}{below}", {}),
        (f"/maps/%74ms/~{two}{below}", {}),
        (TILE, {"HTTP_X_API_KEY": two}),
        (TILE, {"HTTP_AUTHORIZATION": f"Bearer {two}"}),
    ):
        status, headers = installed.check(uri, **sent)
        assert (status, headers["X-Mastaba-Class"], headers["X-Mastaba-Uri"]) == (200, tag, TILE)
        assert two not in str(headers)
    status, headers = installed.check(f"{TILE}?a=b&key={two}&c=d")
    assert headers["X-Mastaba-Uri"] == f"{TILE}?a=b&c=d"
    status, headers = installed.check(TILE)
    assert status == 200
    assert headers["X-Mastaba-Class"] != tag


def test_what_was_public_is_not_that_of_the_next_rules(installed: Installed) -> None:
    """Caches outlive a reload: what they have of a class must remain right."""
    _, before = installed.check(TILE)
    rules = installed.credentials.folder / "rules.json"
    rules.write_text(json.dumps({**RULES, "rules": RULES["rules"][1:]}))
    path = installed.credentials.folder / "installation" / "server.json"
    installed.application = create_application(str(path))
    _, after = installed.check(TILE)
    assert after["X-Mastaba-Class"] != before["X-Mastaba-Class"]


def test_refusals_have_a_form_that_nginx_passes_on(installed: Installed) -> None:
    status, headers = installed.check(f"/maps/tms/~mk_wrong{TILE.removeprefix('/maps/tms')}")
    assert (status, headers["Cache-Control"]) == (401, "no-store")
    assert "ApiKey" in headers["WWW-Authenticate"] or "Basic" in headers["WWW-Authenticate"]
    key = installed.credentials.key(addresses=["198.51.100.0/24"])
    assert installed.check(f"{TILE}?key={key}")[0] == 403
    sent = {"HTTP_X_FORWARDED_FOR": "198.51.100.7"}
    assert installed.check(f"{TILE}?key={key}", **sent)[0] == 200
    # The credential in the address decides, not one beside it.
    wrong = {"HTTP_AUTHORIZATION": "Basic eDp5", **sent}
    assert installed.check(f"{TILE}?key={key}", **wrong)[0] == 200
    assert installed.check(TILE, **wrong)[0] == 401
    for _ in range(40):
        installed.check(f"{TILE}?key=mk_wrong")
    status, headers = installed.check(f"{TILE}?key=mk_wrong")
    assert (status, headers["X-Mastaba-Status"]) == (403, "429")
    assert 0 < int(headers["Retry-After"]) <= 60


def test_what_is_sent_beside_a_credential_is_not_kept(
    installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = installed.credentials.key(groups=["partners"])
    verified: list[Shown] = []
    verify = KeyIdentifier.verify

    def noted(self: KeyIdentifier, shown: Shown, address: str) -> Principal:
        verified.append(shown)
        return verify(self, shown, address)

    monkeypatch.setattr(KeyIdentifier, "verify", noted)
    for number in range(20):
        tile = f"/maps/tms/~{key}/1.0.0/RGB_PNG/2/2/1.png?token={number}"
        status, answered = installed.check(tile)
        assert status == 200
        assert answered["X-Mastaba-Grant"] == key[3:11]
    assert len(verified) == 1
    # The first one decides, whatever follows it.
    wrong = f"/maps/tms/~mk_0123abcd_wrong/1.0.0/RGB_PNG/2/2/1.png?token={key}"
    assert installed.check(wrong)[0] == 401


def test_few_long_credentials_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mastaba_access.auth.service._MOST_CHARACTERS", 50)
    installed = Installed(tmp_path, {"prefix": "/maps"}, {})
    service: Any = installed.application.site.services["auth"]
    for _ in range(4):
        key = installed.credentials.key(groups=["partners"])
        assert len(key) > 25
        tile = f"/maps/tms/~{key}/1.0.0/RGB_PNG/2/2/1.png"
        assert [installed.check(tile)[0] for _ in range(2)] == [200, 200]
        assert len(service._grants.values()) == 1


def test_keys_limited_to_pages(installed: Installed) -> None:
    key = installed.credentials.key(referers=["*.example.org"])
    assert installed.check(f"{TILE}?key={key}")[0] == 403
    page = {"HTTP_X_ORIGINAL_REFERER": "https://www.example.org/map"}
    assert installed.check(f"{TILE}?key={key}", **page)[0] == 200


@pytest.mark.parametrize(
    "uri",
    [
        *("", "x", "*", "http://a/", "/other/tms", "/mapsx/tms", "/maps//tms/x", "/maps/tms/../x"),
        *("/maps/tms/%2e%2e/x", "/maps/tms/a%2Fb", "/maps/tms/%00", "/maps/tms/%ff", "/maps/a#b"),
        *("/maps/tms/é", "/maps/tms/\n", "/maps/tms?key=a&token=b", "/maps/tms/~a/~b/x"),
    ],
)
def test_addresses_with_two_readings_are_refused(installed: Installed, uri: str) -> None:
    status, headers = installed.check(uri)
    assert status in (403, 404)
    assert "X-Mastaba-Class" not in headers


def test_only_trusted_fronts_ask(installed: Installed) -> None:
    key = installed.credentials.key()
    for sent in (
        {"peer": "192.0.2.7", "HTTP_X_ORIGINAL_URI": TILE},
        # The address of the client is not that of the connection.
        {"peer": "192.0.2.7", "HTTP_X_FORWARDED_FOR": FRONT, "HTTP_X_ORIGINAL_URI": TILE},
        {"HTTP_X_FORWARDED_URI": f"{TILE}?key={key}"},
        {},
    ):
        assert installed.ask("/auth/check", **sent)[0] == 404
    assert installed.ask("/auth/check", peer="192.0.2.7", ORIGINAL_URI=TILE)[0] == 200
    for path in ("/auth", "/auth/x", "/auth/checks", "/auth/check/session"):
        assert installed.ask(path, HTTP_X_ORIGINAL_URI=TILE)[0] == 404


def test_a_revoked_key_is_refused(installed: Installed) -> None:
    key = installed.credentials.key()
    assert installed.check(f"{TILE}?key={key}")[0] == 200
    record = installed.credentials.store.find(key[3:11])
    assert record is not None
    installed.credentials.store.save([replace(record, revoked=time.time())], "revoked")
    gate: Any = installed.application.site.gate
    # As a thread of each worker does, more than once a second.
    assert gate.poll()
    assert installed.check(f"{TILE}?key={key}")[0] == 401


def test_envoy_and_traefik_have_forms_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "envoy").mkdir()
    envoy = Installed(tmp_path / "envoy", {"header": "path", "prefix": "/maps"}, {})
    key = envoy.credentials.key()
    below = TILE.removeprefix("/maps/tms")
    for path in (f"/auth/check/maps/tms/~{key}{below}", f"/auth/check{TILE}?apikey={key}"):
        status, headers, _ = envoy.ask(path, method="POST", HTTP_X_ORIGINAL_URI="/maps/wms")
        assert (status, headers["X-Mastaba-Uri"]) == (200, TILE)
        assert headers["X-Mastaba-Grant"] == key[3:11]
    (tmp_path / "traefik").mkdir()
    traefik = Installed(tmp_path / "traefik", {"header": "X-Forwarded-Uri"}, {})
    sent = {"HTTP_X_FORWARDED_URI": "/tms?key=mk_wrong", "HTTP_X_ORIGINAL_URI": "/tms"}
    for _ in range(40):
        traefik.ask("/auth/check", **sent)
    assert traefik.ask("/auth/check", **sent)[0] == 429


# ---------------------------------------------------------------- clients


def front(name: str = "berta", groups: str = "partners") -> dict[str, str]:
    return {"HTTP_X_USER": name, "HTTP_X_GROUPS": groups}


def test_a_session_is_a_cookie_that_only_this_host_gets(installed: Installed) -> None:
    status, headers, body = installed.ask("/auth/session", **front())
    assert (status, json.loads(body)["user"]) == (200, "berta")
    cookie, *attributes = headers["Set-Cookie"].split("; ")
    name, _, value = cookie.partition("=")
    assert name == "__Host-mastaba"
    assert {"Secure", "HttpOnly", "SameSite=Lax", "Path=/"} < set(attributes)
    assert not any(text.startswith("Domain") for text in attributes)
    assert "no-store" in headers["Cache-Control"]
    sent = {"HTTP_COOKIE": f"a=b; {name}={value}", "peer": "192.0.2.7"}
    tile = TILE.removeprefix("/maps")
    assert installed.ask(tile, **sent)[0] == 200
    assert installed.ask(tile, peer="192.0.2.7")[0] == 404
    # Not in an address, and not for what changes something.
    assert installed.ask(tile.replace("/1.0.0", f"/~{value}/1.0.0", 1), peer="192.0.2.7")[0] == 401
    assert installed.ask("/auth/sign", method="POST", **sent)[0] == 401


def test_a_session_leads_back_to_our_pages_only(installed: Installed) -> None:
    status, headers, _ = installed.ask("/auth/session?return=/maps/tms/1.0.0", **front())
    assert (status, headers["Location"]) == (303, "/maps/tms/1.0.0")
    for place in ("//evil.example.org", "https://evil.example.org", "/maps/tms/../../x", "/x"):
        status, headers, _ = installed.ask(f"/auth/session?return={place}", **front())
        assert status == 200
        assert "Location" not in headers


def test_others_get_no_session(installed: Installed) -> None:
    key = installed.credentials.key()
    basic = {"HTTP_AUTHORIZATION": "Basic YW5uYTpzZWNyZXQ="}
    assert installed.ask("/auth/session")[0] == 401
    assert installed.ask("/auth/session", peer="192.0.2.7", **front())[0] == 401
    assert installed.ask("/auth/session", HTTP_X_API_KEY=key)[0] == 403
    assert installed.ask("/auth/session", **basic)[0] == 403
    assert "Set-Cookie" not in installed.ask("/auth/session", **basic)[1]
    assert installed.ask("/auth/session", method="POST", **front())[0] == 405


def test_an_address_is_signed_and_works(installed: Installed) -> None:
    key = installed.credentials.key(groups=["partners"])
    body = json.dumps({"layers": ["RGB_PNG"]}).encode()
    status, _, answer = installed.ask("/auth/sign", "POST", body, HTTP_X_API_KEY=key)
    assert status == 200
    address = json.loads(answer)["addresses"]["tms"]
    assert address.startswith("https://maps.example.org/maps/tms/~s1.")
    path = address.removeprefix("https://maps.example.org/maps")
    assert installed.ask(f"{path}/1.0.0/RGB_PNG/2/2/1.png", peer="192.0.2.7")[0] == 200
    assert installed.ask(f"{path}/1.0.0/GREY_PNG/2/2/1.png", peer="192.0.2.7")[0] == 404
    assert installed.ask("/auth/sign", "POST", body)[0] == 401
    assert installed.ask("/auth/sign", "POST", b"{", HTTP_X_API_KEY=key)[0] == 400
    assert installed.ask("/auth/sign", "GET", HTTP_X_API_KEY=key)[0] == 405
    # What was signed signs no more than itself.
    token = path.rpartition("~")[2]
    wider = json.dumps({"layers": ["GREY_PNG"]}).encode()
    assert installed.ask("/auth/sign", "POST", wider, HTTP_X_API_KEY=token)[0] == 403


def test_signed_addresses_without_an_issuer(installed: Installed) -> None:
    secrets = read_secrets(str(installed.credentials.secrets))
    tile = TILE.removeprefix("/maps/tms")
    text = sign(Token("new", int(time.time()) + 60, {"l": ["RGB_PNG"]}), secrets)
    assert installed.ask(f"/tms/~{text}{tile}")[0] == 200
    text = sign(Token("old", int(time.time()) + 60, {}), secrets)
    assert installed.ask(f"/tms/~{text}{tile}")[0] == 404


def check_addresses(count: int) -> None:
    """Whatever a client sends: an address as it stands in a header, or a refusal."""
    address = "/maps/tms/~mk_0123abcd_key/1.0.0/RGB%20PNG/2/2/1.png?a=b&apikey=mk_0123abcd_other"
    accepted = 0
    for text in mutations(address, count, seed=33):
        try:
            found = taken_apart(text, "/maps", {"/tms", ""}, {"apikey"})
        except AccessError:
            continue
        accepted += 1
        assert found.uri.startswith("/maps/"), text
        assert found.uri.isascii(), text
        assert found.uri.isprintable(), text
        # What is left contains no credential where the server looks for one.
        again = taken_apart(found.uri, "/maps", {"/tms", ""}, {"apikey"})
        assert again.shown == () or text.count("~") > 1, text
    assert accepted


def test_changed_addresses_are_refused_or_taken_apart() -> None:
    check_addresses(1000)


@pytest.mark.thorough
def test_many_changed_addresses_are_refused_or_taken_apart() -> None:
    check_addresses(100_000)


def test_a_session_that_is_not_accepted_ends_in_the_browser(installed: Installed) -> None:
    """Otherwise, each request would be refused until it ends, also the one for a new session."""
    tile = TILE.removeprefix("/maps")
    for path in (tile, "/auth/session"):
        cookie = "a=b; __Host-mastaba=s1.e30.AAAAAAAAAAAAAAAAAAAAAA"
        status, headers, _ = installed.ask(path, HTTP_COOKIE=cookie, HTTP_X_USER="anna")
        assert status == 401
        assert headers["Set-Cookie"].startswith("__Host-mastaba=; Path=/; Max-Age=0; Secure;")
        assert headers["Cache-Control"] == "no-store"
    status, headers, _ = installed.ask(tile, HTTP_X_API_KEY="mk_wrong")
    assert status == 401
    assert "Set-Cookie" not in headers


def test_a_check_lasts_no_longer_than_the_credential(tmp_path: Path) -> None:
    installed = Installed(tmp_path, {"prefix": "/maps", "ttl": 600}, {})
    until = datetime.fromtimestamp(int(time.time()) + 100, UTC).isoformat()
    key = installed.credentials.key(groups=["partners"], until=until)
    status, headers = installed.check(f"{TILE}?key={key}")
    assert status == 200
    lifetime = int(headers["Cache-Control"].removeprefix("private, max-age="))
    assert 0 < lifetime <= 100
