"""A gate with a dictionary of keys, for tests of the core."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mastaba import hookimpl
from mastaba.api.access import Form, Gate, Grant, LockedReader, Principal, Shown
from mastaba.api.catalogue import Catalogue, Layer
from mastaba.api.services import Site
from mastaba.errors import RestrictedCredentialError, UnknownCredentialError

ANONYMOUS = Principal("anonymous", "anonymous")


@dataclass
class Rights:
    """What a class of clients sees.

    Attributes:
        hidden: layers that do not exist for it.
        locked: layers that are described, but not delivered.
        withheld: pairs of service and ability, of all layers.
        abilities: those that belong to no layer.
    """

    hidden: frozenset[str] = frozenset()
    locked: frozenset[str] = frozenset()
    withheld: frozenset[tuple[str, str]] = frozenset()
    abilities: frozenset[str] = frozenset()


@dataclass
class KeyGate(Gate):
    """Grants by keys.

    Attributes:
        classes: rights by tag; the empty tag is that of anonymous clients.
        keys: tags by key.
        front: address of the front server that is trusted.
        referers: keys that need a header Referer with this text.
        calls: what `grant` was asked.
    """

    classes: Mapping[str, Rights] = field(default_factory=lambda: {"": Rights()})
    keys: dict[str, str] = field(default_factory=dict)
    front: str = ""
    referers: Mapping[str, str] = field(default_factory=dict)
    calls: list[tuple[Shown, ...]] = field(default_factory=list)
    now: int = 0
    ends: float = math.inf

    query_names = frozenset(("apikey", "api_key", "key", "token", "access_token"))
    header_keys = ("HTTP_X_API_KEY",)
    removed_keys = ("HTTP_X_FORWARDED_FOR", "HTTP_X_USER")
    cookie = "__Host-mastaba"
    vary = ("Authorization", "X-API-Key", "Cookie")
    secret = b"the same on all nodes"

    @property
    def epoch(self) -> int:
        return self.now

    def client_address(self, headers: Mapping[str, Any]) -> str:
        address = str(headers.get("REMOTE_ADDR") or "")
        if self.front and address == self.front:
            return str(headers.get("HTTP_X_FORWARDED_FOR", address)).rpartition(",")[2].strip()
        return address

    def grant(self, shown: Sequence[Shown], headers: Mapping[str, Any], address: str) -> Grant:
        self.calls.append(tuple(shown))
        if not shown:
            return self._of(ANONYMOUS, "")
        tag = self.keys.get(shown[0].text)
        if tag is None:
            raise UnknownCredentialError("unknown key")
        in_addresses = shown[0].form in (Form.PATH, Form.QUERY, Form.HEADER)
        name = f"id-of-{shown[0].text[:2]}"
        grant = replace(self._of(Principal(name, "key"), tag), in_addresses=in_addresses)
        if referer := self.referers.get(shown[0].text):

            def narrow(sent: Mapping[str, Any]) -> Grant:
                if referer not in sent.get("HTTP_REFERER", ""):
                    raise RestrictedCredentialError("not from here")
                return grant

            grant.narrow = narrow
        return grant

    def _of(self, principal: Principal, tag: str) -> Grant:
        rights = self.classes[tag]
        is_restricted = tag != ""
        return Grant(
            principal,
            tag,
            self.ends,
            self.now,
            is_restricted=is_restricted,
            abilities=rights.abilities,
        )

    def catalogue(self, tag: str, site: Site, virtual: str) -> Catalogue:
        rights, base = self.classes[tag], site.catalogue
        layers: dict[str, Layer] = {
            name: replace(layer, withheld=rights.withheld) if rights.withheld else layer
            for name, layer in base.layers.items()
            if name not in rights.hidden
        }
        readers: dict[str, Any] = {
            name: {level: LockedReader(one) for level, one in base.readers[name].items()}
            if name in rights.locked
            else base.readers[name]
            for name in layers
        }
        return base.filtered(layers, readers, base.settings, base.services)

    def challenges(self, headers: Mapping[str, Any]) -> tuple[str, ...]:
        return ('ApiKey realm="Mastaba", in="query path header"', 'Basic realm="Mastaba"')


class GatePlugin:
    """A plugin with a gate.

    Args:
        gate: the gate, or what makes it for a site.
    """

    def __init__(self, gate: Gate | Callable[[Site], Gate]) -> None:
        self._gate = gate

    @hookimpl
    def access_gate(self, site: Site) -> Gate:
        return self._gate if isinstance(self._gate, Gate) else self._gate(site)
