"""Signed addresses and sessions."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from dataclasses import replace
from typing import Any

import pytest
from tests.access.identification.conftest import SECRETS, Credentials

from mastaba.api.access import GRANT, Form, Grant, Principal, Shown
from mastaba.errors import ConfigurationError, UnknownCredentialError
from mastaba_access.identifiers.issuers import issuer_of
from mastaba_access.identifiers.secret_file import SecretFileError, read_secrets
from mastaba_access.identifiers.signed import SessionIdentifier, SignedIdentifier
from mastaba_access.identifiers.tokens import Token, rounded_end, sign
from mastaba_server.access.clients import client_of

SECRET = dict(line.split() for line in SECRETS.splitlines())


def independent(payload: Any, key: str = "new", domain: bytes = b"mastaba s1\0") -> str:
    """A token made with the standard library from the documented form alone."""
    if not isinstance(payload, bytes):
        payload = json.dumps(payload).encode()
    body = base64.urlsafe_b64encode(payload).rstrip(b"=")
    mac = hmac.new(SECRET[key].encode(), domain + body, hashlib.sha256).digest()[:16]
    return f"s1.{body.decode()}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


def verify(credentials: Credentials, text: str, form: Form = Form.PATH) -> Principal:
    section = credentials.section(sessions={"enabled": True})
    kind = SessionIdentifier if form is Form.COOKIE else SignedIdentifier
    identifier = kind({}, section)
    assert identifier.recognises(Shown(form, text))
    return identifier.verify(Shown(form, text), "192.0.2.1")


def in_an_hour() -> int:
    return int(time.time()) + 3600


@pytest.mark.parametrize("key", ["new", "old"])
def test_tokens_of_others_with_the_secret_are_understood(
    credentials: Credentials, key: str
) -> None:
    ends = in_an_hour()
    members = {"k": key, "x": ends, "l": ["ORTHO"], "s": ["wmts"], "b": [1, 2, 3, 4.5], "r": [1, 9]}
    found = verify(credentials, independent(members, key))
    assert (found.id, found.kind, found.ends, found.issuer) == (key, "signed", ends, None)
    assert found.scope == {"l": ("ORTHO",), "s": ("wmts",), "b": (1, 2, 3, 4.5), "r": (1, 9)}
    assert not found.is_strong


def test_who_counts_as_one_client() -> None:
    """An address that is signed for nobody in particular is for all that it is given to."""
    key = Principal("7f3k9q2d", "key")
    signed = Principal("main", "signed")
    principals = {
        key: "key:7f3k9q2d",
        replace(signed, issuer=key): "key:7f3k9q2d",
        signed: "192.0.2.7",
        Principal("anonymous", "anonymous"): "192.0.2.7",
        Principal("anna", "user"): "user:anna",
    }
    for principal, client in principals.items():
        assert client_of({GRANT: Grant(principal), "REMOTE_ADDR": "192.0.2.7"}) == client


def test_what_is_signed_here_is_the_documented_form(credentials: Credentials) -> None:
    secrets = read_secrets(str(credentials.secrets))
    text = sign(Token("new", 1e9, {"l": ["B", "A"]}, None), secrets)
    assert text == independent(b'{"k":"new","l":["A","B"],"x":1000000000}')


def test_ends_are_rounded_up() -> None:
    assert rounded_end(1800, 900) == 1800
    assert rounded_end(1800.5, 900) == 2700


HOUR = in_an_hour()
DAMAGED: list[Any] = [
    {"x": HOUR},
    {"k": "new"},
    {"k": "old", "x": HOUR},
    {"k": "absent", "x": HOUR},
    {"k": ["new"], "x": HOUR},
    {"k": "new", "x": str(HOUR)},
    {"k": "new", "x": True},
    {"k": "new", "x": HOUR, "n": 1},
    {"k": "new", "x": HOUR, "l": "ORTHO"},
    {"k": "new", "x": HOUR, "l": []},
    {"k": "new", "x": HOUR, "s": [1]},
    {"k": "new", "x": HOUR, "b": [1, 2, 3]},
    {"k": "new", "x": HOUR, "b": [1, 4, 3, 2]},
    {"k": "new", "x": HOUR, "b": [1, 2, 300, 4]},
    {"k": "new", "x": HOUR, "r": [2, 1]},
    {"k": "new", "x": HOUR, "i": 5},
    {"k": "new", "x": HOUR, "i": {"u": "a"}},
    {"k": "new", "x": HOUR, "i": {"u": "a", "f": "front", "z": 1}},
    b'{"k":"new","x":1e999}',
    b'{"k":"new","x":NaN}',
    b'{"k":"new","x":1,"x":9999999999}',
    b'["k"]',
    b"\xff\xfe",
    b"[" * 300,
    [],
    None,
]


@pytest.mark.parametrize("payload", DAMAGED, ids=lambda one: repr(one).replace(str(HOUR), "HOUR"))
def test_payloads_that_say_something_else_are_refused(
    credentials: Credentials, payload: Any
) -> None:
    with pytest.raises(UnknownCredentialError):
        verify(credentials, independent(payload))


def test_expired_and_foreign_tokens_are_refused(credentials: Credentials) -> None:
    with pytest.raises(UnknownCredentialError, match="expired"):
        verify(credentials, independent({"k": "new", "x": int(time.time()) - 1}))
    for domain in (b"", b"mastaba s2\0", b"mastaba s1"):
        with pytest.raises(UnknownCredentialError, match="damaged"):
            verify(credentials, independent({"k": "new", "x": HOUR}, domain=domain))
    good = independent({"k": "new", "x": HOUR})
    # Unused bits of the last character: the same signature, written otherwise.
    last = good[-1]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    twin = alphabet[alphabet.index(last) ^ 1]
    for text in (good[:-1] + twin, good + "=", good + "\n", good[:-1], good.replace(".", "..", 1)):
        with pytest.raises(UnknownCredentialError):
            verify(credentials, text)


def test_an_address_ends_with_the_key_that_issued_it(credentials: Credentials) -> None:
    key = credentials.key(groups=["g"], until="2099-01-01", addresses=["10.0.0.0/8"])
    text = independent({"k": "new", "x": HOUR, "i": key[3:11], "l": ["A"]})
    found = verify(credentials, text)
    assert found.issuer is not None
    assert (found.issuer.id, found.issuer.groups) == (key[3:11], {"g"})
    assert found.issuer.addresses == ("10.0.0.0/8",)
    record = credentials.store.find(key[3:11])
    assert record is not None
    credentials.store.save([replace(record, revoked=1.0)], "revoked")
    with pytest.raises(UnknownCredentialError, match="revoked"):
        verify(credentials, text)
    with pytest.raises(UnknownCredentialError):
        verify(credentials, independent({"k": "new", "x": HOUR, "i": "00000000"}))


def test_an_address_ends_with_the_user_who_issued_it(credentials: Credentials) -> None:
    credentials.user("anna", "secret")
    found = verify(credentials, independent({"k": "new", "x": HOUR, "i": "anna"}))
    assert found.issuer is not None
    assert (found.issuer.id, found.issuer.kind) == ("anna", "user")
    with pytest.raises(UnknownCredentialError):
        verify(credentials, independent({"k": "new", "x": HOUR, "i": "berta"}))


def test_a_session_is_strong_and_only_a_cookie(credentials: Credentials) -> None:
    anna = Principal("anna", "user", groups=frozenset(("b", "a")), is_strong=True)
    issuer = issuer_of(anna, "front", session=True)
    text = independent({"k": "new", "x": HOUR, "i": issuer})
    found = verify(credentials, text, Form.COOKIE)
    assert found == replace(anna, label="anna", ends=HOUR)
    with pytest.raises(UnknownCredentialError):
        verify(credentials, text)


def test_a_signed_address_does_not_become_a_session(credentials: Credentials) -> None:
    anna = Principal("anna", "user", is_strong=True)
    text = independent({"k": "new", "x": HOUR, "i": issuer_of(anna, "front")})
    assert not verify(credentials, text).is_strong
    key = credentials.key()[3:11]
    usual = {"k": "new", "x": HOUR}
    others = [usual, {**usual, "i": key}, {**usual, "i": "anna", "l": ["A"]}]
    for one in (text, *map(independent, others)):
        with pytest.raises(UnknownCredentialError):
            verify(credentials, one, Form.COOKIE)


def test_sessions_are_off_unless_they_are_wanted(credentials: Credentials) -> None:
    assert not SessionIdentifier({}, credentials.section()).is_enabled
    with pytest.raises(ConfigurationError, match="secret_file"):
        SessionIdentifier({}, {"sessions": {"enabled": True}})


@pytest.mark.parametrize(
    ("text", "mode", "reason"),
    [
        (SECRETS, 0o640, "0600"),
        (SECRETS, 0o602, "0600"),
        ("", 0o600, "no secret"),
        ("a short", 0o600, "line 1: the secret is shorter"),
        (f"# comment\n\na {'x' * 32} more", 0o600, "line 3"),
        (SECRETS + SECRETS, 0o600, "line 3: the id new is there twice"),
        (f"a/b {'x' * 32}", 0o600, "line 1"),
    ],
)
def test_secret_files_that_are_not_secret_or_wrong_stop_the_start(
    credentials: Credentials, text: str, mode: int, reason: str
) -> None:
    credentials.secrets.write_text(text)
    credentials.secrets.chmod(mode)
    with pytest.raises(SecretFileError, match=reason) as caught:
        read_secrets(str(credentials.secrets))
    assert "0123456789abcdef" not in str(caught.value)
    with pytest.raises(ConfigurationError, match=r"plugins\.access\.secret_file"):
        SignedIdentifier({}, credentials.section())
