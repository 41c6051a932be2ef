"""Bearer tokens of a provider: which are accepted, and when it is asked for keys."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from tests.access_oidc.conftest import Provider, encoded
from tests.live.processes import wait_until

from mastaba.api.access import Form, Principal, Shown
from mastaba.errors import ConfigurationError, OverloadedError, UnknownCredentialError
from mastaba_access_oidc import keys
from mastaba_access_oidc.identifier import OIDCIdentifier
from mastaba_server.threads import lasting


def opened(provider: Provider, **settings: Any) -> OIDCIdentifier:
    return OIDCIdentifier({"issuer": provider.issuer, "audience": "mastaba", **settings}, {})


def verify(identifier: OIDCIdentifier, text: str) -> Principal:
    shown = Shown(Form.BEARER, text)
    if not identifier.recognises(shown):
        # As the gate does with what nobody recognises.
        raise UnknownCredentialError("unknown")
    return identifier.verify(shown, "192.0.2.1")


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "EdDSA"])
def test_tokens_of_another_library_are_accepted(provider: Provider, algorithm: str) -> None:
    provider.add_key(algorithm, "one")
    identifier = opened(provider, groups_claim="realm_access.roles")
    token = provider.token(
        "one", realm_access={"roles": ["editor", "reader"]}, preferred_username="Anna"
    )
    found = verify(identifier, token)
    assert (found.id, found.kind, found.label) == ("anna", "user", "Anna")
    assert found.groups == {"editor", "reader"}
    assert found.is_strong
    assert found.claims["aud"] == "mastaba"
    assert 300 <= found.ends - time.time() <= 360
    assert not identifier.in_addresses
    assert provider.requests == ["/realm/.well-known/openid-configuration", "/jwks"]


def test_other_forms_of_claims(provider: Provider) -> None:
    provider.add_key("ES256", "one")
    identifier = opened(provider, audience=["maps", "mastaba"], user_claim="email")
    token = provider.token("one", aud=["other", "maps"], email="a@b", groups="x y")
    found = verify(identifier, token)
    assert (found.id, found.groups) == ("a@b", {"x", "y"})
    assert verify(identifier, provider.token("one", email="a", groups={"x": 1})).groups == set()


def hostile(provider: Provider) -> dict[str, str]:
    """Tokens that must be refused, by what is wrong with them."""
    now = int(time.time())
    good = provider.token("one")
    head, body, signature = good.split(".")
    public = provider.keys["one"][1].public_key()
    pem = public.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    claims = encoded(provider.claims())

    def with_secret(secret: bytes) -> str:
        signed = f"{encoded({'alg': 'HS256', 'kid': 'one'})}.{claims}"
        return f"{signed}.{encoded(hmac.new(secret, signed.encode(), hashlib.sha256).digest())}"

    other = Provider.token(provider, "two")
    embedded = {"alg": "ES256", "kid": "three", "jwk": provider.jwk("two")}
    own = jwt.encode(provider.claims(), provider.keys["two"][1], "ES256", headers=embedded)
    twice = b'{"iss":"x",' + json.dumps(provider.claims()).encode()[1:]
    private = provider.keys["one"][1]

    def raw(header: Any, payload: Any) -> str:
        signed = f"{encoded(header)}.{encoded(payload)}"
        made = jwt.algorithms.RSAAlgorithm(jwt.algorithms.RSAAlgorithm.SHA256)
        return f"{signed}.{encoded(made.sign(signed.encode(), private))}"

    usual = {"alg": "RS256", "kid": "one"}
    endless = json.dumps(provider.claims(exp=None)).encode()[1:]
    return {
        "none": f"{encoded({'alg': 'none', 'kid': 'one'})}.{claims}.",
        "none with signature": f"{encoded({'alg': 'none', 'kid': 'one'})}.{claims}.{signature}",
        "None": f"{encoded({'alg': 'nOnE', 'kid': 'one'})}.{claims}.{signature}",
        "public key as secret": with_secret(pem),
        "n as secret": with_secret(provider.jwk("one")["n"].encode()),
        "another signature": f"{head}.{body}.{other.split('.')[2]}",
        "another algorithm of the key": raw({"alg": "PS256", "kid": "one"}, provider.claims()),
        "key of another kind": raw({"alg": "ES256", "kid": "one"}, provider.claims()),
        "changed claims": f"{head}.{encoded(provider.claims(sub='root'))}.{signature}",
        "changed header": f"{encoded({**usual, 'x': 1})}.{body}.{signature}",
        "wrong audience": provider.token("one", aud="other"),
        "no audience": provider.token("one", aud=None),
        "audience as object": provider.token("one", aud={"mastaba": 1}),
        "wrong issuer": provider.token("one", iss=f"{provider.issuer}/"),
        "no issuer": provider.token("one", iss=None),
        "issuer as list": raw(usual, provider.claims(iss=[provider.issuer])),
        "expired": provider.token("one", exp=now - 61),
        "no end": provider.token("one", exp=None),
        "end as text": raw(usual, provider.claims(exp="9999999999")),
        "end as boolean": raw(usual, provider.claims(exp=True)),
        "endless": raw(usual, b'{"exp":1e999,' + endless),
        "not a number": raw(usual, b'{"nbf":NaN,' + json.dumps(provider.claims()).encode()[1:]),
        "not yet": provider.token("one", nbf=now + 120),
        "from the future": provider.token("one", iat=now + 120),
        "unknown kid": provider.token("one", headers={"kid": "absent"}),
        "kid as path": provider.token("one", headers={"kid": "../../one"}),
        "kid as number": raw({"alg": "RS256", "kid": 1}, provider.claims()),
        "crit": raw({**usual, "crit": ["exp"], "exp": 1}, provider.claims()),
        "unencoded": raw({**usual, "b64": False}, provider.claims()),
        "jku": provider.token("two", headers={"kid": "x", "jku": f"{provider.url}/evil"}),
        "x5u": provider.token("two", headers={"kid": "x", "x5u": f"{provider.url}/evil"}),
        "embedded key": own,
        "claim twice": raw(usual, twice),
        "header twice": raw(b'{"alg":"RS256","alg":"RS256","kid":"one"}', provider.claims()),
        "of another kind": provider.token("one", headers={"typ": "logout+jwt"}),
        "without a user": provider.token("one", sub=None),
        "user as list": raw(usual, provider.claims(sub=["anna"])),
        "user with a newline": raw(usual, provider.claims(sub="anna\nroot")),
        "claims as list": raw(usual, [provider.claims()]),
        "deep": raw(usual, b"[" * 5000),
        "large": provider.token("one", extra="x" * 9000),
        "1 MB": f"{head}.{'A' * 1_000_000}.{signature}",
        "two parts": f"{head}.{body}",
        "encrypted": f"{head}.{body}.{signature}.a.b",
        "with padding": f"{good}=",
        "with a newline": f"{good}\n",
        "not base64": f"{head}.{body}!.{signature}",
        "empty": "..",
        "JSON": json.dumps({"payload": body, "signature": signature}),
    }


def test_hostile_tokens_are_refused_with_one_request_to_the_provider(provider: Provider) -> None:
    provider.add_key("RS256", "one")
    identifier = opened(provider)
    # The key of the attacker, which the provider does not publish.
    published = provider.answers["/jwks"]
    provider.add_key("ES256", "two")
    provider.answers["/jwks"] = published
    provider.requests.clear()
    tokens = hostile(provider)
    for name, token in tokens.items():
        with pytest.raises(UnknownCredentialError) as caught:
            pytest.fail(f"{name}: accepted as {verify(identifier, token)}")
        assert token[:20] not in str(caught.value)
    # Keys were fetched at the start: within a minute no forged token causes a request.
    assert provider.requests == []
    assert verify(identifier, provider.token("one")).id == "anna"


def test_a_token_may_come_a_little_early_or_late(provider: Provider) -> None:
    provider.add_key("ES256", "one")
    now = int(time.time())
    identifier = opened(provider)
    assert verify(identifier, provider.token("one", exp=now - 30)).id == "anna"
    assert verify(identifier, provider.token("one", nbf=now + 30)).id == "anna"
    strict = opened(provider, leeway=0)
    with pytest.raises(UnknownCredentialError):
        verify(strict, provider.token("one", exp=now - 1))


def test_a_token_without_kid_needs_a_single_key(provider: Provider) -> None:
    provider.add_key("ES256", "one")
    token = jwt.encode(provider.claims(), provider.keys["one"][1], "ES256")
    assert verify(opened(provider), token).id == "anna"
    provider.add_key("ES256", "two")
    with pytest.raises(UnknownCredentialError):
        verify(opened(provider), token)


def test_algorithms_can_be_limited(provider: Provider) -> None:
    provider.add_key("ES256", "one")
    with pytest.raises(UnknownCredentialError):
        verify(opened(provider, algorithms=["RS256"]), provider.token("one"))


# ---------------------------------------------------------------- keys of the provider


def test_new_keys_are_fetched_once_a_minute(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.add_key("ES256", "one")
    identifier = opened(provider)
    provider.requests.clear()
    provider.add_key("ES256", "two")
    with pytest.raises(UnknownCredentialError):
        verify(identifier, provider.token("two"))
    assert provider.requests == []
    monkeypatch.setattr(keys, "_PAUSE", 0)
    assert verify(identifier, provider.token("two")).id == "anna"
    assert len(provider.requests) == 2
    # A key that was taken back ends the tokens that it has signed.
    token = provider.token("one")
    assert verify(identifier, token).id == "anna"
    assert not identifier.poll()
    del provider.keys["one"]
    provider.serve_keys()
    monkeypatch.setattr(keys, "_AGE", 0)
    wait_until(identifier.poll)
    with pytest.raises(UnknownCredentialError):
        verify(identifier, token)


@pytest.mark.parametrize("is_discovered", [True, False])
def test_a_provider_that_hangs_holds_nothing_up(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, is_discovered: bool
) -> None:
    provider.add_key("ES256", "one")
    uri = {} if is_discovered else {"jwks_uri": f"{provider.url}/jwks"}
    identifier = opened(provider, **uri)
    released = provider.hold()
    monkeypatch.setattr(keys, "_PAUSE", 0)
    monkeypatch.setattr(keys, "_AGE", 0)
    # The same call looks for changed rules and keys.
    assert not identifier.poll()
    wait_until(lambda: provider.is_held)
    assert verify(identifier, provider.token("one")).id == "anna"
    # A request whose token names an unknown key waits for the provider, for a limited time in all.
    monkeypatch.setattr(keys, "_SECONDS", 0.3)
    with pytest.raises(UnknownCredentialError):
        verify(identifier, provider.token("one", headers={"kid": "two"}))
    released.set()


def test_a_provider_that_is_down_changes_nothing(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    provider.add_key("ES256", "one")
    kept = tmp_path / "keys.json"
    identifier = opened(provider, keys_file=str(kept))
    assert set(json.loads(kept.read_text())) == {"issuer", "jwks"}
    provider.answers["/jwks"] = 503, b""
    monkeypatch.setattr(keys, "_PAUSE", 0)
    monkeypatch.setattr(keys, "_AGE", 0)
    assert not identifier.poll()
    assert verify(identifier, provider.token("one")).id == "anna"
    # Also after a reload, and after a start without it.
    reloaded = opened(provider)
    assert verify(reloaded, provider.token("one")).id == "anna"
    lasting._known.clear()
    restarted = opened(provider, keys_file=str(kept))
    assert verify(restarted, provider.token("one")).id == "anna"
    # But never with the keys of another provider.
    document = json.loads(kept.read_text())
    kept.write_text(json.dumps({**document, "issuer": "https://other.example.org"}))
    lasting._known.clear()
    stranger = opened(provider, keys_file=str(kept))
    with pytest.raises(OverloadedError):
        verify(stranger, provider.token("one"))
    provider.serve_keys()
    assert verify(stranger, provider.token("one")).id == "anna"


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/jwks", (200, b"<html>")),
        ("/jwks", (200, b"[]")),
        ("/jwks", (200, b'{"keys": []}')),
        ("/jwks", (200, b'{"keys": [1, {"kty": "oct", "k": "AAAA"}, {"kty": "RSA", "n": "AQ"}]}')),
        ("/jwks", (200, b'{"keys": [' + b" " * 1_100_000 + b"]}")),
        ("/jwks", (302, b"/other")),
        ("/jwks", (500, b"")),
        ("configuration", (200, b'{"issuer": "https://other.example.org"}')),
        ("configuration", (200, b"[" * 100_000)),
    ],
)
def test_answers_that_are_no_keys_are_not_used(
    provider: Provider, path: str, answer: tuple[int, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    provider.add_key("ES256", "one")
    if path == "configuration":
        path = "/realm/.well-known/openid-configuration"
    provider.answers["/other"] = provider.answers["/jwks"]
    provider.answers[path] = answer
    identifier = opened(provider)
    with pytest.raises(OverloadedError):
        verify(identifier, provider.token("one"))
    assert "are not renewed" in caplog.text


def test_keys_for_other_uses_are_left_out(provider: Provider) -> None:
    provider.add_key("ES256", "one")
    provider.add_key("ES256", "two")
    two = provider.keys.pop("two")
    provider.keys["two"] = two
    other = {**provider.jwk("two"), "use": "enc"}
    del provider.keys["two"]
    provider.serve_keys(other)
    identifier = opened(provider)
    provider.keys["two"] = two
    with pytest.raises(UnknownCredentialError):
        verify(identifier, provider.token("two"))
    assert verify(identifier, provider.token("one")).id == "anna"


def test_the_address_of_the_keys_can_be_set(provider: Provider) -> None:
    provider.add_key("ES256", "one")
    identifier = opened(provider, jwks_uri=f"{provider.url}/jwks")
    assert verify(identifier, provider.token("one")).id == "anna"
    assert provider.requests == ["/jwks"]


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"audience": "a"}, "issuer"),
        ({"issuer": "http://a.example.org", "audience": "a"}, "issuer"),
        ({"issuer": "https://u:p@a.example.org", "audience": "a"}, "issuer"),
        ({"issuer": "https://a.example.org"}, "audience"),
        ({"issuer": "https://a.example.org", "audience": []}, "audience"),
        ({"issuer": "https://a.example.org", "audience": "a", "jwks_uri": "http://b"}, "jwks_uri"),
        ({"issuer": "https://a.example.org", "audience": "a", "algorithms": ["HS256"]}, "algorith"),
        ({"issuer": "https://a.example.org", "audience": "a", "algorithms": ["none"]}, "algorith"),
    ],
)
def test_wrong_settings_stop_the_start(settings: dict[str, Any], path: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"identifiers\.oidc\.{path}"):
        OIDCIdentifier(settings, {})


def test_without_settings_there_are_no_tokens() -> None:
    identifier = OIDCIdentifier({}, {})
    assert not identifier.is_enabled
    assert identifier.challenge() is None
    assert not identifier.recognises(Shown(Form.BEARER, "ey.ey.ey"))
