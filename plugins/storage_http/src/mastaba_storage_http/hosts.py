"""Web servers that may be read: hosts that the operator lists, at addresses that are public.

Paths come from descriptors only, but an author of a descriptor must not reach every machine
that the server can reach (containers.md section 1.9).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from mastaba.api.storages import Environment

VARIABLE: Final = "MASTABA_HTTP_HOSTS"

_PORTS: Final = {"http": 80, "https": 443}
_HOST: Final = re.compile(
    r"(?P<name>\[[0-9A-Fa-f:.]+\]|[^:\[\]/@?#\s\\]+)(?::(?P<port>[0-9]{1,5}))?"
)
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


_NOT_GLOBAL: Final = tuple(
    # Translation within a site (RFC 8215), segment routing (RFC 9602), documentation (RFC 9637),
    # and addresses of sites (RFC 3879): `is_global` of Python knows none of them.
    map(ipaddress.IPv6Network, ("64:ff9b:1::/48", "5f00::/16", "3fff::/20", "fec0::/10"))
)
_WITH_IPV4_AT_THE_END: Final = tuple(
    # NAT64 (RFC 6052), and IPv4-compatible addresses (RFC 4291, 2.5.5.1).
    map(ipaddress.IPv6Network, ("64:ff9b::/96", "::/96"))
)


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The hosts of the variable ``HTTP_HOSTS``.

    Attributes:
        names: pairs of a host in lower case and its port; None for the usual ports.
        networks: private addresses that the names may have.
    """

    names: frozenset[tuple[str, int | None]]
    networks: tuple[_Network, ...]

    @classmethod
    def from_environment(cls, environment: Environment) -> Self:
        """Read the variable.

        Raises:
            ValueError: an element is neither a host, a host with a port, nor a network.
        """
        names: set[tuple[str, int | None]] = set()
        networks: list[_Network] = []
        for item in environment.items("HTTP_HOSTS"):
            network = _network(item)
            if network is not None:
                networks.append(network)
            if "/" not in item:
                names.add(host_and_port(item))
        return cls(frozenset(names), tuple(networks))

    def allows(self, host: str, port: int | None, scheme: str) -> bool:
        """Return whether a host may be asked by a scheme; ``port`` is None for the usual one."""
        named = {(host, port)}
        if port is None or port == _PORTS[scheme]:
            named |= {(host, None), (host, _PORTS[scheme])}
        return not named.isdisjoint(self.names)

    def allows_address(self, text: str) -> bool:
        """Return whether a connection to an IP address may be opened."""
        try:
            address: _Address = ipaddress.ip_address(text.partition("%")[0])
        except ValueError:
            return False
        address = getattr(address, "ipv4_mapped", None) or address
        return _is_public(address) or _contains(self.networks, address)


def host_and_port(text: str) -> tuple[str, int | None]:
    """Return the host in lower case, and the port or None.

    Raises:
        ValueError: it is not ``host`` or ``host:port``.
    """
    match = _HOST.fullmatch(text)
    port = int(match["port"]) if match and match["port"] else None
    if match is None or not (port is None or 0 < port < 65536):
        raise ValueError(f"{text!r} is not a host, or a host and a port")
    return match["name"].lower().rstrip("."), port


def _is_public(address: _Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        if _contains(_NOT_GLOBAL, address):
            return False
        inner = address.sixtofour
        if _contains(_WITH_IPV4_AT_THE_END, address):
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        # Gateways translate it.
        if inner is not None and not _is_public(inner):
            return False
    return address.is_global and not address.is_multicast


def _network(item: str) -> _Network | None:
    """Return the network that an element of the list is or contains; None for a name.

    Raises:
        ValueError: it looks like a network, but is none.
    """
    try:
        return ipaddress.ip_network(item if "/" in item else host_and_port(item)[0].strip("[]"))
    except ValueError as error:
        if "/" in item:
            raise ValueError(f"{item!r} is not a network: {error}") from None
        return None


def _contains(networks: Iterable[_Network], address: _Address) -> bool:
    return any(address in network for network in networks)
