"""Conditions on where a request comes from: addresses and referers."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from urllib.parse import urlsplit

from mastaba_server.access.clients import address_of

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@lru_cache(4096)
def network(text: str) -> Network:
    """Return a network in CIDR notation, or that of one address.

    Raises:
        ValueError: it is neither.
    """
    return ipaddress.ip_network(text, strict=False)


def matches_address(networks: Iterable[str], address: str) -> bool:
    """Return whether an address is in one of the networks; False for an unknown address.

    An IPv4 address in the form of IPv6 (``::ffff:192.0.2.1``) counts as IPv4.
    """
    found = address_of(address)
    return found is not None and any(found in network(text) for text in networks)


def matches_host(globs: Iterable[str], referer: str) -> bool:
    """Return whether the host of a Referer header matches one of the patterns.

    Args:
        globs: such as ``*.example.org``, in any case.
        referer: whole address, or a host alone.
    """
    host = host_of(referer)
    return bool(host) and any(fnmatchcase(host, glob.lower()) for glob in globs)


def host_of(referer: str) -> str:
    """Return the host of a Referer header in lower case; empty if there is none."""
    if "://" not in referer:
        return referer.strip().lower()
    try:
        return urlsplit(referer).hostname or ""
    except ValueError:
        return ""
