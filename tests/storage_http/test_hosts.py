"""Which web servers may be read."""

from __future__ import annotations

import pytest

from mastaba.errors import AccessDeniedError, StorageError, StorageUnavailableError
from mastaba_conformance.object_server import ObjectServer
from mastaba_storage.base import ByteRange
from mastaba_storage.environment import Environment
from mastaba_storage_http.hosts import AllowedHosts
from mastaba_storage_http.storage import SecureWebStorage, WebStorage


def listed(text: str) -> Environment:
    return Environment({"MASTABA_HTTP_HOSTS": text, "MASTABA_OBJECT_READ_TIMEOUT": "5"})


@pytest.mark.parametrize(
    ("hosts", "container", "is_open"),
    [
        ("maps.example", "maps.example", True),
        ("maps.example", "MAPS.example", True),
        ("maps.example", "maps.example.", True),
        ("maps.example", "maps.example:80", True),
        ("maps.example:80", "maps.example", True),
        ("maps.example, other.example:8080", "other.example:8080", True),
        ("", "maps.example", False),
        ("maps.example", "maps.example:8080", False),
        ("maps.example:8080", "maps.example", False),
        ("maps.example", "evil.maps.example", False),
        ("maps.example", "maps.example.evil", False),
        ("10.0.0.0/8", "10.0.0.1", False),
        ("maps.example", "user:secret@maps.example", False),
        ("maps.example", "maps.example#", False),
        ("maps.example", "maps.example\\", False),
        ("maps.example", "maps.example:99999", False),
        ("*", "maps.example", False),
    ],
)
def test_only_listed_hosts_are_opened(hosts: str, container: str, is_open: bool) -> None:
    if is_open:
        WebStorage.open(container, listed(hosts)).close()
        return
    with pytest.raises(StorageError) as caught:
        WebStorage.open(container, listed(hosts))
    assert container in str(caught.value)


def test_a_host_has_the_usual_port_of_each_scheme() -> None:
    SecureWebStorage.open("maps.example:443", listed("maps.example")).close()
    with pytest.raises(AccessDeniedError, match="MASTABA_HTTP_HOSTS"):
        SecureWebStorage.open("maps.example:80", listed("maps.example"))


@pytest.mark.parametrize("item", ["a b", "10.0.0.1/8", "https://maps.example", "maps.example:x"])
def test_invalid_elements_are_reported(item: str) -> None:
    with pytest.raises(StorageError, match="MASTABA_HTTP_HOSTS"):
        WebStorage.open("maps.example", listed(item))


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.5.4", "169.254.169.254", "0.0.0.0"),
        *("100.64.0.1", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1%eth0", "fd00::1"),
        *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "ff02::1", "not an address"),
        # An address of IPv4 in one of IPv6, which a gateway may translate.
        *("64:ff9b::127.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b:1::10.0.0.1"),
        *("2002:7f00:1::1", "2002:a9fe:a9fe::", "::127.0.0.1", "::169.254.169.254"),
        *("2001:0:7f00:1::1", "fec0::1", "5f00::1", "3fff::1", "2001:db8::1"),
    ],
)
def test_private_addresses_are_refused(address: str) -> None:
    assert not AllowedHosts.from_environment(listed("maps.example")).allows_address(address)


@pytest.mark.parametrize(
    "address",
    ["93.184.216.34", "2606:2800:220:1::1", "64:ff9b::93.184.216.34", "2002:5db8:d822::1"],
)
def test_public_addresses_are_allowed(address: str) -> None:
    assert AllowedHosts.from_environment(listed("maps.example")).allows_address(address)


def test_listed_networks_of_ipv6_may_be_private() -> None:
    allowed = AllowedHosts.from_environment(listed("nas.example, 64:ff9b::/96, fec0::/10"))
    assert allowed.allows_address("64:ff9b::10.0.0.1")
    assert allowed.allows_address("fec0::1")
    assert not allowed.allows_address("::10.0.0.1")


def test_listed_addresses_may_be_private() -> None:
    allowed = AllowedHosts.from_environment(listed("nas.example, 10.0.0.0/8, [::1]:8080"))
    assert allowed.allows_address("10.1.2.3")
    assert allowed.allows_address("::ffff:10.1.2.3")
    assert allowed.allows_address("::1")
    assert allowed.allows_address("93.184.216.34")
    assert not allowed.allows_address("192.168.0.1")


def test_a_name_must_not_lead_to_a_private_address() -> None:
    with ObjectServer() as server:
        port = server.url.rpartition(":")[2]
        storage = WebStorage.open(f"localhost:{port}", listed(f"localhost:{port}"))
        with pytest.raises(StorageUnavailableError, match="is private"):
            storage.read("maps/a", ByteRange(0, 10))
        assert server.requests == []
        storage.close()
