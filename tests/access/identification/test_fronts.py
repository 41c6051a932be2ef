"""What front servers say about clients."""

from __future__ import annotations

import os
from typing import Any

import pytest

from mastaba.api.access import Form, Shown
from mastaba.errors import AccessError, ConfigurationError, UnknownCredentialError
from mastaba_access.identifiers.fronts import FrontIdentifier, Fronts
from mastaba_access.identifiers.shared import Failures, SharedClaims, SharedRate

FRONTS: dict[str, Any] = {
    "trusted_fronts": ["10.0.0.0/8", "2001:db8::/32", "unix:"],
    "user_header": "X-User",
    "groups_header": "X-Groups",
    "client_certificate_header": "X-Client-Cert",
}


@pytest.mark.parametrize(
    ("peer", "chain", "expected"),
    [
        ("192.0.2.1", None, "192.0.2.1"),
        ("10.0.0.1", None, "10.0.0.1"),
        ("10.0.0.1", "192.0.2.1", "192.0.2.1"),
        # What the client itself has sent stands left of what the front adds.
        ("10.0.0.1", "127.0.0.1, 192.0.2.1", "192.0.2.1"),
        ("10.0.0.1", "127.0.0.1, 192.0.2.1, 10.9.9.9", "192.0.2.1"),
        ("10.0.0.1", "10.0.0.2, 10.0.0.3", "10.0.0.2"),
        ("10.0.0.1", "192.0.2.1:4711", "192.0.2.1"),
        ("10.0.0.1", "[2001:db9::1]:4711", "2001:db9::1"),
        ("10.0.0.1", "2001:db9::1", "2001:db9::1"),
        ("2001:db8::5", "192.0.2.1", "192.0.2.1"),
        ("::ffff:10.0.0.1", "::ffff:192.0.2.1", "192.0.2.1"),
        ("", "192.0.2.1", "192.0.2.1"),
        # Nobody knows where these come from.
        ("", None, ""),
        ("10.0.0.1", "unknown", ""),
        ("10.0.0.1", "192.0.2.1, _secret", ""),
        ("10.0.0.1", "192.0.2.1,", ""),
        ("10.0.0.1", "1.2.3.4.5", ""),
        ("10.0.0.1", "fe80::1%eth0", ""),
        ("10.0.0.1", "x" * 5000, ""),
        # A stranger may send anything.
        ("192.0.2.1", "127.0.0.1", "192.0.2.1"),
    ],
)
@pytest.mark.parametrize("form", ["x-forwarded-for", "forwarded"])
def test_the_first_untrusted_address_from_the_right(
    peer: str, chain: str | None, expected: str, form: str
) -> None:
    headers: dict[str, str] = {"REMOTE_ADDR": peer}
    if chain is not None:
        if form == "forwarded":
            hops = (f'for="{hop.strip()}";proto=https' for hop in chain.split(","))
            headers["HTTP_FORWARDED"] = ", ".join(hops)
        else:
            headers["HTTP_X_FORWARDED_FOR"] = chain
    assert Fronts(FRONTS).client_address(headers) == expected


def test_two_chains_that_differ_are_not_believed() -> None:
    fronts = Fronts(FRONTS)
    headers = {"REMOTE_ADDR": "10.0.0.1", "HTTP_X_FORWARDED_FOR": "192.0.2.1"}
    assert fronts.client_address({**headers, "HTTP_FORWARDED": "for=192.0.2.1"}) == "192.0.2.1"
    assert fronts.client_address({**headers, "HTTP_FORWARDED": "for=10.7.7.7"}) == ""


def test_over_fastcgi_the_front_says_the_address_itself() -> None:
    fronts = Fronts({"trusted_fronts": ["fastcgi"]})
    headers = {"REMOTE_ADDR": "192.0.2.1", "HTTP_X_FORWARDED_FOR": "127.0.0.1"}
    assert fronts.client_address(headers) == "192.0.2.1"


def verified(settings: dict[str, Any], headers: dict[str, str]) -> Any:
    shown = Fronts(settings).shown(headers)
    if shown is None:
        return None
    identifier = FrontIdentifier({}, settings)
    assert identifier.recognises(shown)
    return identifier.verify(shown, "")


def test_users_of_trusted_fronts() -> None:
    headers = {"REMOTE_ADDR": "10.0.0.1", "HTTP_X_USER": "anna", "HTTP_X_GROUPS": "a, b,,"}
    found = verified(FRONTS, headers)
    assert (found.id, found.kind, found.groups, found.is_strong) == (
        "anna",
        "user",
        {"a", "b"},
        True,
    )
    umlaut = "jürgen".encode().decode("latin-1")
    assert verified(FRONTS, {**headers, "HTTP_X_USER": umlaut}).id == "jürgen"
    certificate = {"REMOTE_ADDR": "", "HTTP_X_CLIENT_CERT": "CN=anna,O=Town"}
    assert verified(FRONTS, certificate).claims == {"certificate": "CN=anna,O=Town"}


def test_strangers_name_no_users() -> None:
    headers = {"HTTP_X_USER": "anna", "HTTP_X_GROUPS": "a", "HTTP_X_CLIENT_CERT": "CN=a"}
    assert verified(FRONTS, {**headers, "REMOTE_ADDR": "192.0.2.1"}) is None
    assert (
        verified({**FRONTS, "trusted_fronts": []}, {**headers, "REMOTE_ADDR": "10.0.0.1"}) is None
    )
    # FastCGI gives no meaning to headers, which may be the client's.
    fastcgi = {**FRONTS, "trusted_fronts": ["fastcgi"]}
    assert verified(fastcgi, {**headers, "REMOTE_ADDR": "10.0.0.1"}) is None
    assert verified(FRONTS, {"REMOTE_USER": "anna", "REMOTE_ADDR": "10.0.0.1"}) is None
    parameters = {"REMOTE_USER": "anna", "X_GROUPS": "a", "REMOTE_ADDR": "192.0.2.1"}
    assert verified(fastcgi, parameters).groups == {"a"}


def test_groups_without_a_user_identify_nobody() -> None:
    assert verified(FRONTS, {"REMOTE_ADDR": "10.0.0.1", "HTTP_X_GROUPS": "admins"}) is None


@pytest.mark.parametrize("text", ["", "null", "[]", '["\\u0000","",""]', '["\\u20ac","",""]', "{"])
def test_damaged_names_are_refused(text: str) -> None:
    with pytest.raises(UnknownCredentialError):
        FrontIdentifier({}, FRONTS).verify(Shown(Form.FRONT, text), "")


def test_all_headers_of_fronts_are_removed_from_everybody() -> None:
    keys = set(Fronts(FRONTS).removed_keys)
    assert keys >= {"HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED", "HTTP_X_USER", "HTTP_X_GROUPS"}
    assert keys >= {"HTTP_X_CLIENT_CERT", "REMOTE_USER"}


@pytest.mark.parametrize("name", ["10.0.0.0/99", "::g", "10.0.0"])
def test_wrong_addresses_stop_the_start(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"trusted_fronts\[0\]"):
        Fronts({"trusted_fronts": [name]})


# ---------------------------------------------------------------- counters of a node


def is_blocked(failures: Failures, address: str) -> bool:
    try:
        failures.check(address)
    except AccessError as error:
        return error.status == 429
    return False


def in_child(action: Any) -> None:
    child = os.fork()
    if not child:
        status = 1
        try:
            action()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


def test_failures_in_all_workers_count_together() -> None:
    failures = Failures(limit=30)

    def fail() -> None:
        for _ in range(16):
            failures.count("2001:db8::1")

    in_child(fail)
    assert not is_blocked(failures, "2001:db8::2")
    in_child(fail)
    # Networks of /64 are one subject; others are not blocked.
    assert is_blocked(failures, "2001:db8::2")
    assert not is_blocked(failures, "2001:db8:0:1::1")
    assert not is_blocked(failures, "192.0.2.1")


def test_many_addresses_take_no_more_memory_and_unblock_nobody() -> None:
    failures = Failures(limit=3)
    for _ in range(4):
        failures.count("192.0.2.1")
    size = len(failures._shared.memory)
    assert size <= 2**20
    for number in range(20_000):
        failures.count(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert is_blocked(failures, "192.0.2.1")
    assert not is_blocked(failures, "10.0.0.1")


def test_a_rate_is_shared() -> None:
    rate = SharedRate(0.001, burst=2)
    in_child(rate.take)
    rate.take()
    with pytest.raises(AccessError) as caught:
        rate.take()
    assert caught.value.status == 429
    assert 900 < (caught.value.retry_after or 0) <= 1000


def test_one_process_takes_a_claim() -> None:
    claims = SharedClaims()
    in_child(lambda: claims.take("a") or 1 / 0)
    assert not claims.take("a")
    assert claims.take("b")
