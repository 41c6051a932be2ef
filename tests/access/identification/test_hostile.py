"""Changed credentials: each is refused, and nothing else happens."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest
from tests.access.identification.conftest import Credentials
from tests.support.mutations import mutations

from mastaba.api.access import Form, Identifier, Principal, Shown
from mastaba.errors import AccessError
from mastaba_access.identifiers.basic import BasicIdentifier
from mastaba_access.identifiers.fronts import FrontIdentifier, Fronts
from mastaba_access.identifiers.issuers import issuer_of
from mastaba_access.identifiers.keys import KeyIdentifier
from mastaba_access.identifiers.secret_file import read_secrets
from mastaba_access.identifiers.shared import Failures, SharedRate
from mastaba_access.identifiers.signed import SessionIdentifier, SignedIdentifier
from mastaba_access.identifiers.tokens import Token, sign

KINDS = ("key", "signed", "session", "basic")


def credential(kind: str, credentials: Credentials) -> tuple[Identifier, Shown]:
    """An identifier, and a credential that it accepts."""
    credentials.user("anna", "secret")
    key = credentials.key(groups=["g"])
    section = credentials.section(sessions={"enabled": True})
    secrets = read_secrets(str(credentials.secrets))
    ends = int(time.time()) + 3600
    anna = Principal("anna", "user", groups=frozenset("ab"), is_strong=True)
    if kind == "key":
        return KeyIdentifier({}, section), Shown(Form.PATH, key)
    if kind == "signed":
        scope = {"l": ["ORTHO", "PLAN_*"], "b": [1, 2, 3, 4], "r": [0, 10]}
        return SignedIdentifier({}, section), Shown(
            Form.PATH, sign(Token("new", ends, scope, key[3:11]), secrets)
        )
    if kind == "session":
        issuer = issuer_of(anna, "front", session=True)
        text = sign(Token("new", ends, {}, issuer), secrets)
        return SessionIdentifier({}, section), Shown(Form.COOKIE, text)
    basic = BasicIdentifier({}, section)
    # As if there were no limits: here each attempt is made.
    basic._rate = SharedRate(1, 10**9)
    basic._failures = Failures(10**9)
    return basic, Shown(Form.BASIC, base64.b64encode(b"anna:secret").decode())


def refused(identifier: Identifier, shown: Shown) -> bool:
    if not identifier.recognises(shown):
        return True
    try:
        identifier.verify(shown, "192.0.2.1")
    except AccessError as error:
        return error.status == 401
    return False


def check(kind: str, credentials: Credentials, count: int) -> None:
    identifier, shown = credential(kind, credentials)
    assert not refused(identifier, shown)
    for text in mutations(shown.text, count, seed=30):
        changed = Shown(shown.form, text)
        assert refused(identifier, changed), text
    assert not refused(identifier, shown)


@pytest.mark.parametrize("kind", KINDS)
def test_changed_credentials_are_refused(kind: str, credentials: Credentials) -> None:
    check(kind, credentials, 500)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_many_changed_credentials_are_refused(kind: str, credentials: Credentials) -> None:
    check(kind, credentials, 50_000)


def check_chains(count: int) -> None:
    """Whatever front servers and clients send: an address, or none."""
    settings: dict[str, Any] = {"trusted_fronts": ["10.0.0.0/8"], "user_header": "X-User"}
    fronts = Fronts(settings)
    identifier = FrontIdentifier({}, settings)
    chain = 'for=192.0.2.1:80;proto=https, for="[2001:db8::1]:4711", 10.0.0.1, 192.0.2.7'
    for number, text in enumerate(mutations(chain, count, seed=31)):
        key = ("HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED")[number % 2]
        latin = text.encode("utf-8").decode("latin-1")
        headers = {"REMOTE_ADDR": "10.0.0.9", key: latin, "HTTP_X_USER": latin[-20:]}
        address = fronts.client_address(headers)
        assert set(address) <= set("0123456789abcdef.:"), text
        shown = fronts.shown(headers)
        if shown is not None and not refused(identifier, shown):
            assert json.loads(shown.text)[0] == latin[-20:]


def test_changed_chains_of_addresses() -> None:
    check_chains(500)


@pytest.mark.thorough
def test_many_changed_chains_of_addresses() -> None:
    check_chains(20_000)
