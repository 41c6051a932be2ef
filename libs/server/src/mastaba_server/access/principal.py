"""Credentials, principals and grants."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

GRANT: Final = "mastaba.grant"
"""Key of the WSGI environment for the `Grant` of a request, or the error of one without."""

_LIKE_OTHERS: Final = re.compile("[0-9a-z]{8}|anonymous|unknown|removed|other|-|.*:.*", re.DOTALL)
"""Names of users that usage could mistake for keys, for other principals or for sums."""

PEER: Final = "mastaba.peer"
"""Key of the WSGI environment for the address of the connection; REMOTE_ADDR is the client's."""


class Form(StrEnum):
    """How a credential arrives.

    Attributes:
        PATH: a segment ``~…`` of the path.
        QUERY: a parameter of the query.
        BEARER: ``Authorization: Bearer``.
        BASIC: ``Authorization: Basic``; the text is what follows the word, still encoded.
        HEADER: a header of its own.
        COOKIE: a cookie.
        FRONT: what a trusted front server says about the client.
    """

    PATH = "path"
    QUERY = "query"
    BEARER = "bearer"
    BASIC = "basic"
    HEADER = "header"
    COOKIE = "cookie"
    FRONT = "front"


class Shown(NamedTuple):
    """A credential as a request shows it.

    Attributes:
        form: how it arrived.
        text: the credential itself; not in ``repr``.
    """

    form: Form
    text: str

    def __repr__(self) -> str:
        return f"Shown({self.form.value})"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who a credential belongs to.

    Attributes:
        id: public name: of a key, a user, or ``anonymous``; for logs, usage and rules.
        kind: ``anonymous``, ``key``, ``user``, ``signed``, or a word of an identifier.
        label: for people; may be empty.
        groups: names of groups.
        claims: further statements about it.
        is_strong: whether it is identified by more than a secret in an address.
        ends: Unix seconds at which the credential expires.
        addresses: networks (CIDR) from which it may be used; empty for all.
        referers: host patterns of pages on which it may be used; empty for all.
        own: grants of a key of its own, such as ``layers``, ``services`` and ``area``.
        scope: limits that a signed address adds, by the keys of its payload.
        issuer: principal for whom an address is signed, or None.
        account: name under which its requests are logged and counted: the id of its owner, behind
            the kind if it could be that of another principal.
    """

    id: str
    kind: str
    label: str = ""
    groups: frozenset[str] = frozenset()
    claims: Mapping[str, Any] = field(default_factory=dict, hash=False)
    is_strong: bool = False
    ends: float = math.inf
    addresses: tuple[str, ...] = ()
    referers: tuple[str, ...] = ()
    own: Mapping[str, Any] = field(default_factory=dict, hash=False)
    scope: Mapping[str, Any] = field(default_factory=dict, hash=False)
    issuer: Principal | None = None
    account: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        owner = self.owner
        is_clear = owner.kind == "user" and not _LIKE_OTHERS.fullmatch(owner.id)
        account = owner.id if is_clear or owner.kind in ("anonymous", "key") else owner.named
        # Found once: each tile that is counted asks for it.
        object.__setattr__(self, "account", account)

    @property
    def is_anonymous(self) -> bool:
        """Whether the client has shown no credential."""
        return self.kind == "anonymous"

    @property
    def owner(self) -> Principal:
        """Who is responsible for its requests: the issuer of a signed address, or itself."""
        return self.issuer or self

    @property
    def named(self) -> str:
        """The kind and the id, which no other principal has."""
        return f"{self.kind}:{self.id}"


@dataclass(slots=True, eq=False)
class Grant:
    """What a verified credential gives. Kept by credential in each process.

    Attributes:
        principal: who it is for.
        tag: class of the principals that see the same, empty for those that see what the public
            sees. `Gate.catalogue` makes its view.
        ends: Unix seconds after which the credential is verified again.
        epoch: that of the gate when the grant was made; another one makes it invalid.
        in_addresses: whether the credential may be written into the addresses in documents.
        narrow: returns the grant for the headers of a request, if rules or restrictions depend on
            them; None if they do not. It is called for each request, with the address of the
            connection, and raises `AccessError`. It should return the same object again.
        is_restricted: whether it gives other data than the public gets, so that shared caches must
            not store them.
        abilities: words that belong to no layer, such as ``status``.
    """

    principal: Principal
    tag: str = ""
    ends: float = math.inf
    epoch: int = 0
    in_addresses: bool = False
    narrow: Callable[[Mapping[str, Any]], Grant] | None = field(default=None, repr=False)
    is_restricted: bool = False
    abilities: frozenset[str] = frozenset()
