"""Front servers that say where the client is and who it is."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar, Final

from mastaba.api.access import Form, Identifier, Principal, Shown
from mastaba_access.identifiers.faults import refuse
from mastaba_access.identifiers.refusals import unknown
from mastaba_server.access.clients import Address, address_of, is_ipv4

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

FORWARDED_FOR: Final = "HTTP_X_FORWARDED_FOR"
FORWARDED: Final = "HTTP_FORWARDED"

_LONGEST: Final = 4096
_MOST_HOPS: Final = 32
# What is remembered of clients; longer chains of addresses are read each time.
_MOST_CLIENTS: Final = 1024
_MOST_FRONTS: Final = 256
_USUAL: Final = 64
_MOST_GROUPS: Final = 1000
_FOR: Final = re.compile(r'(?:^|;)\s*for\s*=\s*(?:"([^"\\]*)"|([^;"\s]*))\s*(?=;|$)', re.IGNORECASE)
# For front servers that speak FastCGI; no client can send names without HTTP_.
_USER: Final = "REMOTE_USER"
_CERTIFICATE: Final = "SSL_CLIENT_S_DN"


class Fronts:
    """Which front servers are trusted, and what they say.

    Args:
        access: the section ``plugins.access``.

    Attributes:
        by_fastcgi: whether front servers that speak FastCGI are trusted.
        removed_keys: keys in the WSGI environment that no service sees.

    Raises:
        ConfigurationError: an address is invalid.
    """

    def __init__(self, access: Mapping[str, Any]) -> None:
        names = access.get("trusted_fronts", ())
        networks: list[_Network] = []
        for number, name in enumerate(names):
            if name in ("unix:", "fastcgi"):
                continue
            try:
                networks.append(ipaddress.ip_network(name, strict=False))
            except ValueError:
                reason = f"{name!r} is neither an address, a network, unix: nor fastcgi"
                refuse(f"trusted_fronts[{number}]", reason, "correct it")
        self._networks = tuple(networks)
        self._by_socket = "unix:" in names
        self.by_fastcgi = "fastcgi" in names
        self._user, self._groups, self._certificate = (
            _key(access.get(name))
            for name in ("user_header", "groups_header", "client_certificate_header")
        )
        own = [key for key in (self._user, self._groups, self._certificate) if key]
        bare = [key.removeprefix("HTTP_") for key in own]
        self.removed_keys: tuple[str, ...] = tuple(
            dict.fromkeys((FORWARDED_FOR, FORWARDED, *own, _USER, _CERTIFICATE, *bare))
        )
        # The same client sends many requests.
        self._client = lru_cache(_MOST_CLIENTS)(self._client_of)
        self._is_front = lru_cache(_MOST_FRONTS)(self._is_within)

    @property
    def identify(self) -> bool:
        """Whether front servers may say who the client is."""
        return self.by_fastcgi or bool(
            (self._networks or self._by_socket) and (self._user or self._certificate)
        )

    def is_trusted(self, headers: Mapping[str, Any]) -> bool:
        """Return whether the peer of the connection is a trusted front server.

        Args:
            headers: of the request, by their keys in the WSGI environment, with REMOTE_ADDR.
        """
        return self._is_trusted(headers.get("REMOTE_ADDR") or "")

    def client_address(self, headers: Mapping[str, Any]) -> str:
        """Return the address of the client; empty if it is unknown.

        The chain of X-Forwarded-For or Forwarded is followed from the right to the first address
        that is not a trusted front server. What stands further left is the client's own claim.

        Args:
            headers: as for `is_trusted`.
        """
        peer: str = headers.get("REMOTE_ADDR") or ""
        first, second = headers.get(FORWARDED_FOR), headers.get(FORWARDED)
        if (first is None and second is None) or not self._is_trusted(peer):
            return peer
        if second is None and first and is_ipv4(first):
            return str(first)
        found = set()
        for number, text in enumerate((first, second)):
            if not text:
                continue
            if not number and is_ipv4(text):
                # One hop, in the usual form: many clients, which need not be remembered.
                found.add(text)
            else:
                client = self._client if len(text) <= _USUAL else self._client_of
                found.add(client(peer, number, text))
        # A front server writes one of them, and may let the client's own of the other kind pass.
        return found.pop() if len(found) == 1 else "" if found else peer

    def shown(self, headers: Mapping[str, Any]) -> Shown | None:
        """Return what a trusted front server says about the client; None if it says nothing.

        Args:
            headers: as for `is_trusted`, before any of them is removed.
        """
        user = certificate = groups = ""
        if self.by_fastcgi:
            user = headers.get(_USER) or ""
            certificate = headers.get(_CERTIFICATE) or ""
            if self._groups:
                groups = headers.get(self._groups.removeprefix("HTTP_")) or ""
        if not (user or certificate) and self._is_trusted(headers.get("REMOTE_ADDR") or ""):
            user, groups, certificate = (
                (headers.get(key) or "") if key else ""
                for key in (self._user, self._groups, self._certificate)
            )
        if not (user or certificate):
            return None
        parts = [user, groups if user else "", certificate]
        return Shown(Form.FRONT, json.dumps(parts))

    def _is_trusted(self, peer: str) -> bool:
        if not peer:
            return self._by_socket
        return bool(self._networks) and self._is_front(peer)

    def _is_within(self, peer: str) -> bool:
        found = _address(peer)
        return found is not None and any(found in network for network in self._networks)

    def _client_of(self, peer: str, kind: int, text: str) -> str:
        if len(text) > _LONGEST:
            return ""
        hops = text.split(",")
        if len(hops) > _MOST_HOPS:
            hops = hops[-_MOST_HOPS:]
        address = peer
        for hop in reversed(hops):
            name = _forwarded_for(hop) if kind else hop.strip()
            found = _address(name)
            if found is None:
                # "unknown", or a name that a front server has invented.
                return ""
            address = str(found)
            if not any(found in network for network in self._networks):
                break
        return address


class FrontIdentifier(Identifier):
    """Believes trusted front servers.

    Raises:
        ConfigurationError: an address of a front server is invalid.
    """

    name: ClassVar[str] = "front"
    forms: ClassVar[frozenset[Form]] = frozenset((Form.FRONT,))
    in_addresses: ClassVar[bool] = False
    settings_schema: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, settings: Mapping[str, Any], access: Mapping[str, Any]) -> None:
        super().__init__(settings, access)
        self.is_enabled = Fronts(access).identify

    def recognises(self, shown: Shown) -> bool:
        return self.is_enabled and shown.form is Form.FRONT

    def verify(self, shown: Shown, address: str) -> Principal:
        """Return the user that a front server names, or the holder of a client certificate.

        Raises:
            UnknownCredentialError: the name is damaged.
        """
        try:
            user, groups, certificate = json.loads(shown.text)
            name = _text(user or certificate)
            found = [item.strip() for item in _text(groups).split(",")]
            subject = _text(certificate)
        except (ValueError, TypeError) as error:
            raise unknown() from error
        if not name or len(found) > _MOST_GROUPS:
            raise unknown()
        return Principal(
            id=name,
            kind="user",
            label=name,
            groups=frozenset(item for item in found if item),
            claims={"certificate": subject} if subject else {},
            is_strong=True,
        )


def _key(header: str | None) -> str:
    return f"HTTP_{header.upper().replace('-', '_')}" if header else ""


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST:
        raise ValueError("not a name")
    # Headers arrive as Latin-1 (PEP 3333); names are UTF-8.
    text = value.encode("latin-1").decode("utf-8")
    if not text.isprintable():
        raise ValueError("a name with control characters")
    return text.strip()


def _forwarded_for(hop: str) -> str:
    found = _FOR.search(hop.strip())
    return "" if found is None else found[1] or found[2] or ""


def _address(name: str) -> Address | None:
    """Return an address, which may have a port; IPv6 with one is in brackets."""
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    elif name.count(":") == 1:
        name = name.partition(":")[0]
    return None if "%" in name else address_of(name)
