"""Who the owner of a job is, and how often one may ask."""

from __future__ import annotations

import pytest

from mastaba.api.access import GRANT, Grant, Principal
from mastaba_export.jobs.owners import Rate, owner_of
from mastaba_export.jobs.refusals import TooManyError
from mastaba_export.jobs.settings import job_settings

HEADER = {"HTTP_X_OWNER": "alice"}


@pytest.mark.parametrize(
    ("address", "headers", "owner"),
    [
        ("192.0.2.7", {}, "address:192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", {}, "address:2001:db8:1:2::/64"),
        ("2001:db8:1:2:9::1", {}, "address:2001:db8:1:2::/64"),
        ("::ffff:192.0.2.7", {}, "address:192.0.2.7"),
        ("fe80::1%eth0", {}, "address:fe80::/64"),
        ("", {}, "address:127.0.0.1"),
        ("127.0.0.1", HEADER, "name:alice"),
        ("", HEADER, "name:alice"),
        ("10.1.2.3", HEADER, "name:alice"),
        # Not from a gateway: anyone can send the header.
        ("192.0.2.7", HEADER, "address:192.0.2.7"),
        ("10.1.2.3", {"HTTP_X_OWNER": "  "}, "address:10.1.2.3"),
        ("10.1.2.3", {"HTTP_X_OWNER": "x" * 999}, f"name:{'x' * 200}"),
        # A name cannot look like an address.
        ("10.1.2.3", {"HTTP_X_OWNER": "address:192.0.2.7"}, "name:address:192.0.2.7"),
    ],
)
def test_owner(address: str, headers: dict[str, str], owner: str) -> None:
    own = {"owner_header": "X-Owner", "gateways": ["10.0.0.0/8", "127.0.0.1"]}
    assert owner_of({"REMOTE_ADDR": address, **headers}, job_settings(own)) == owner


def test_addresses_signed_for_nobody_in_particular_have_many_owners() -> None:
    key = Principal("7f3k9q2d", "key")
    of_nobody, of_key = Principal("main", "signed"), Principal("main", "signed", issuer=key)

    def owner(principal: Principal) -> str:
        environ = {"REMOTE_ADDR": "192.0.2.7", GRANT: Grant(principal)}
        return owner_of(environ, job_settings({}))

    assert owner(of_nobody) == "address:192.0.2.7"
    assert owner(of_key) == owner(key) == "principal:key:7f3k9q2d"


def test_header_that_is_not_set_is_not_read() -> None:
    assert owner_of({"REMOTE_ADDR": "127.0.0.1", **HEADER}, job_settings({})) == "address:127.0.0.1"


def test_rate_is_limited_for_each_owner() -> None:
    now = 0.0
    rate = Rate(3, lambda: now)
    for _ in range(3):
        rate.take("a")
    with pytest.raises(TooManyError) as error:
        rate.take("a")
    assert error.value.retry_after == 20
    rate.take("b")
    now = 20.0
    rate.take("a")
    with pytest.raises(TooManyError):
        rate.take("a")


def test_gateways_are_networks() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        job_settings({"gateways": ["nonsense"]})
