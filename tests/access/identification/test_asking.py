"""What clients ask the service ``auth`` for: signatures, and where to go after a session began."""

from __future__ import annotations

import json
import math
import time
from typing import Any

import pytest
from tests.access.identification.conftest import Credentials

from mastaba.api.access import Form, Principal, Shown
from mastaba.api.tools import Plugins
from mastaba.errors import InvalidParameterError
from mastaba_access.auth.returning import safe_return
from mastaba_access.auth.signing import NotAllowedError, signed
from mastaba_access.identifiers.secret_file import read_secrets
from mastaba_access.identifiers.signed import SignedIdentifier

OWN = "https://maps.example.org/maps/auth"
INSTALLED = Plugins().services
ENDPOINTS = ["https://maps.example.org/maps/viewer", "https://other.example.org/x", OWN]


@pytest.mark.parametrize(
    "text", ["/maps/viewer", "/maps/viewer/ORTHO?x=1&y=%20a", "/maps/viewer?f=html", "/maps/auth/"]
)
def test_paths_below_our_addresses(text: str) -> None:
    assert safe_return(text, OWN, ENDPOINTS) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "maps/viewer", "https://maps.example.org/maps/viewer", "//maps.example.org/maps"),
        *("/maps/viewers", "/maps", "/", "/x", "/maps/viewer/../admin", "/maps/viewer/%2e%2e/x"),
        *("/maps/viewer/%252e%252e/x", "/\\evil.example.org", "/maps/viewer\\x", "/%5Cevil"),
        *("/maps/viewer/\nSet-Cookie: a", "/maps/viewer/%0d%0aX: y", "/maps/viewer/\t", "/%2Fevil"),
        *("javascript:alert(1)", "/maps/viewer/é", "/maps/viewer/" + "x" * 3000),
        "//evil.example.org/maps/viewer",
    ],
)
def test_other_places_are_ignored(text: str) -> None:
    assert safe_return(text, OWN, ENDPOINTS) is None


def signing(credentials: Credentials, body: Any, principal: Principal | None) -> Principal:
    """What is signed for a principal, as it is understood."""
    secrets = read_secrets(str(credentials.secrets))
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    text, ends = signed(
        *(data, principal, secrets, time.time()), longest=86400, bucket=900, installed=INSTALLED
    )
    found = SignedIdentifier({}, credentials.section()).verify(Shown(Form.PATH, text), "")
    assert found.ends <= ends
    return found


def key(credentials: Credentials, **members: Any) -> Principal:
    text = credentials.key(**members)
    return Principal(text[3:11], "key")


def test_a_key_signs_what_it_may(credentials: Credentials) -> None:
    found = signing(credentials, {"layers": ["A"], "seconds": 60}, key(credentials))
    assert found.scope == {"l": ("A",)}
    assert found.issuer is not None
    assert found.issuer.kind == "key"
    assert 60 <= found.ends - time.time() <= 960
    assert found.ends % 900 == 0


@pytest.mark.parametrize(
    ("services", "is_refused"),
    [
        (["history"], True),
        (["stylesheets", "provenance@partner"], True),
        (["history", "tms"], False),
        (["history", "@partner"], False),
        (["metrics"], False),
        (["health", "usage"], False),
    ],
)
def test_a_scope_that_opens_nothing_is_not_signed(
    credentials: Credentials, services: list[str], is_refused: bool
) -> None:
    body = {"services": services}
    if is_refused:
        with pytest.raises(InvalidParameterError, match=f"opens nothing: {min(services)}"):
            signing(credentials, body, key(credentials))
    else:
        assert set(signing(credentials, body, key(credentials)).scope["s"]) == set(services)


def test_an_administrator_signs_for_nobody(credentials: Credentials) -> None:
    found = signing(credentials, b"", None)
    assert (found.issuer, found.scope) == (None, {})


def test_a_signature_ends_with_the_credential(credentials: Credentials) -> None:
    now = time.time()
    principal = Principal(key(credentials).id, "key", ends=now + 30)
    assert signing(credentials, {"seconds": 3600}, principal).ends <= now + 30
    with pytest.raises(NotAllowedError):
        signing(credentials, {}, Principal(principal.id, "key", ends=now))


def test_users_are_issuers(credentials: Credentials) -> None:
    credentials.user("anna", "x")
    basic = signing(credentials, {}, Principal("anna", "user"))
    assert basic.issuer is not None
    assert (basic.issuer.id, basic.is_strong) == ("anna", False)
    front = Principal("berta", "user", groups=frozenset("g"), is_strong=True)
    found = signing(credentials, {}, front)
    assert found.issuer is not None
    assert (found.issuer.id, found.issuer.groups, found.is_strong) == ("berta", {"g"}, False)
    # Not the user of the file with that name.
    credentials.user("berta", "x")
    again = signing(credentials, {}, found)
    assert again.issuer == found.issuer


SCOPE: dict[str, Any] = {"l": ("A", "B"), "b": (0, 0, 10, 10), "r": (1, 100)}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, SCOPE),
        ({"layers": ["B"]}, {**SCOPE, "l": ("B",)}),
        ({"services": ["wmts"]}, {**SCOPE, "s": ("wmts",)}),
        ({"bbox": [1, 1, 2, 2], "resolution": [1, 5]}, {**SCOPE, "b": (1, 1, 2, 2), "r": (1, 5)}),
    ],
)
def test_a_signed_address_signs_a_part_of_itself(
    credentials: Credentials, body: Any, expected: Any
) -> None:
    principal = Principal("old", "signed", ends=math.inf, scope=SCOPE)
    found = signing(credentials, body, principal)
    assert (found.id, found.scope) == ("old", expected)


@pytest.mark.parametrize(
    "body",
    [
        {"layers": ["C"]},
        {"layers": ["A", "C"]},
        {"layers": ["*"]},
        {"bbox": [-1, 1, 2, 2]},
        {"bbox": [1, 1, 2, 11]},
        {"bbox": [170, 1, -170, 2]},
        {"bbox": ["a", 1, 2, 3]},
        {"bbox": []},
        {"resolution": [0, 5]},
        {"resolution": [1, 101]},
    ],
)
def test_a_signed_address_never_signs_more(credentials: Credentials, body: Any) -> None:
    principal = Principal("old", "signed", scope=SCOPE)
    with pytest.raises(NotAllowedError):
        signing(credentials, body, principal)


@pytest.mark.parametrize(
    "body",
    [
        {"layers": ["\ud800"]},
        {"services": ["a\0"]},
        {"layers": [{"a": 1}]},
        {"layers": [[1]]},
        {"resolution": ["a", 2]},
        {"bbox": [10**400, 1, 2, 3]},
        {"bbox": [True, 1, 2, 3]},
        {"bbox": [math.nan, 1, 2, 3]},
    ],
)
def test_what_no_address_can_say_is_a_client_error(credentials: Credentials, body: Any) -> None:
    for principal in (key(credentials), Principal("old", "signed")):
        with pytest.raises(InvalidParameterError):
            signing(credentials, body, principal)


def test_boxes_across_the_antimeridian(credentials: Credentials) -> None:
    principal = Principal("old", "signed", scope={"b": (170, -10, -170, 10)})
    for box in ([172, 0, 175, 1], [-179, 0, -175, 1], [175, 0, -175, 1]):
        assert signing(credentials, {"bbox": box}, principal).scope["b"] == tuple(box)
    for box in ([-175, 0, 175, 1], [160, 0, -175, 1], [0, 0, 1, 1]):
        with pytest.raises(NotAllowedError):
            signing(credentials, {"bbox": box}, principal)


@pytest.mark.parametrize(
    "body",
    [
        *(b"{", b"[]", b"\xff", b"[" * 100_000, {"colour": 1}, {"layers": "A"}, {"layers": [1]}),
        *({"layers": []}, {"bbox": [1, 2]}, {"seconds": 0}, {"seconds": 90000}, {"seconds": True}),
        *({"seconds": "1"}, {"layers": ["x" * 600]}, {"layers": [[]]}, {"layers": None, "x": 1}),
    ],
    ids=lambda body: str(body)[:30],
)
def test_bodies_that_mean_nothing(credentials: Credentials, body: Any) -> None:
    with pytest.raises(InvalidParameterError):
        signing(credentials, body, key(credentials))
