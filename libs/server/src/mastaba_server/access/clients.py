"""What counts as one client, for everything that is limited for each."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from typing import Any, Final

from mastaba_server.access.principal import GRANT, Grant, Principal

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_CHOSEN: Final = 64
"""Bits of an IPv6 address that a client may choose."""
_LOOPBACK: Final = ("127.", "::/")
"""Beginnings of the networks of loopback addresses."""


def client_of(environ: Mapping[str, Any]) -> str:
    """Return what counts as one client: its principal if it is one, or else its address.

    It is empty if that is unknown. A loopback address is that of a front server, which does not say
    who its clients are.

    Args:
        environ: WSGI environment; REMOTE_ADDR is the address of the client, also behind trusted
            front servers.
    """
    grant = environ.get(GRANT)
    if isinstance(grant, Grant) and is_one_client(grant.principal):
        return identity_of(grant.principal)
    address = environ.get("REMOTE_ADDR")
    network = shared_network(address) if address else ""
    return "" if network.startswith(_LOOPBACK) else network


def is_one_client(principal: Principal) -> bool:
    """Return whether a principal says who the client is.

    An address that was signed without an issuer may be used by many.
    """
    is_for_many = principal.kind == "signed" and principal.issuer is None
    return not (principal.is_anonymous or is_for_many)


def identity_of(principal: Principal) -> str:
    """Return the kind and the id of a principal; for a signed address, those of its issuer."""
    return principal.owner.named


def shared_network(address: str) -> str:
    """Return what counts as one client: an IPv4 address, a network of /64 in IPv6, or nothing."""
    # Without an object for it: each wrong credential is counted.
    if is_ipv4(address):
        return address
    found = address_of(address)
    if found is None or found.version == 4:
        return "" if found is None else str(found)
    return str(ipaddress.ip_network((int(found) >> _CHOSEN << _CHOSEN, _CHOSEN)))


def is_ipv4(text: str) -> bool:
    """Return whether a text is an IPv4 address in the usual form: four numbers and no more."""
    try:
        socket.inet_pton(socket.AF_INET, text)
    except (OSError, ValueError):
        return False
    return True


def address_of(text: str) -> Address | None:
    """Return an address, or None; one of IPv4 in the form of IPv6 counts as IPv4."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found
