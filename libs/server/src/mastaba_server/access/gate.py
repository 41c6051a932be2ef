"""What decides who a client is, and what counts its requests. Plugins provide both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

from mastaba_server.access.principal import Form, Grant, Principal, Shown
from mastaba_server.web.response import Response


class Identifier(ABC):
    """One kind of credentials. The hook ``register_identifiers`` provides subclasses.

    The plugin that provides the gate creates the instances.

    Args:
        settings: those of this kind.
        access: the whole section of the gate in server.json.

    Attributes:
        name: key of its settings.
        forms: how its credentials arrive.
        in_addresses: whether they may be written into the addresses in documents.
        settings_schema: JSON Schema ``properties`` of its settings.
        settings: as given.
        access: as given.
    """

    name: ClassVar[str]
    forms: ClassVar[frozenset[Form]]
    in_addresses: ClassVar[bool] = False
    settings_schema: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, settings: Mapping[str, Any], access: Mapping[str, Any]) -> None:
        self.settings = settings
        self.access = access

    @abstractmethod
    def recognises(self, shown: Shown) -> bool:
        """Return whether this is a credential of this kind, by its form and spelling alone."""

    @abstractmethod
    def verify(self, shown: Shown, address: str) -> Principal:
        """Return who a credential belongs to. Never slow for a text that no one could have.

        Args:
            shown: one that it recognises.
            address: of the client.

        Raises:
            AccessError: it is unknown, damaged, expired or revoked, or too many were tried.
        """

    def challenge(self) -> str | None:
        """Return the value of WWW-Authenticate that asks for such a credential, or None."""
        return None

    def poll(self) -> bool:
        """Return whether any credential has changed since the last call.

        Called about once a second, in the supervising process.
        """
        return False

    def after_fork(self) -> None:  # noqa: B027 - most kinds open nothing
        """Open what a process that answers requests needs for itself."""

    def close(self) -> None:  # noqa: B027
        """Release what `after_fork` has opened."""


class Spending(NamedTuple):
    """What a request is about, for rates.

    Attributes:
        service: name of the service.
        virtual: name of its virtual service; empty for the main services.
        ability: word of `mastaba.api.services.Service.abilities`, or empty.
        path: below the root path of the service.
        query: still percent-encoded; None if only the service can read which layers are named.
    """

    service: str
    virtual: str
    ability: str
    path: str
    query: str | None


class Rates(Protocol):
    """How much clients may ask for; see `mastaba.api.services.Service.cost`."""

    def spend(
        self, grant: Grant, headers: Mapping[str, Any], spending: Spending, cost: int
    ) -> None:
        """Take the cost of a request, before any work.

        Args:
            headers: WSGI environment; REMOTE_ADDR is the address of the client.

        Raises:
            AccessError: 429; the client has used up a rate.
        """

    def take(
        self, grant: Grant, headers: Mapping[str, Any], group: Any, service: str, virtual: str
    ) -> bool:
        """Take the cost of what is answered without a WSGI call; return False if a rate is used up.

        Args:
            headers: as they arrived; REMOTE_ADDR is the address of the connection.
            group: the `mastaba.api.tiles.TileGroup` of a tile, or None for a document.
            service: name of the service.
            virtual: name of its virtual service; empty for the main services.
        """


class Operation(NamedTuple):
    """Something that administrators may do with what the gate decides by.

    Attributes:
        method: of the request.
        path: below the root path of the administration; its last segment may be ``{id}``.
        title: what it does.
        run: takes the site, what is in the place of ``{id}``, and the JSON value in the body of
            the request, None without one. Returns a JSON value, or None for none. It raises
            `ChangeRefusedError` if it does nothing.
    """

    method: str
    path: str
    title: str
    run: Callable[[Any, str, Any], Any]


class _Epochs(Sequence[int]):
    """The epoch of a gate that does not say where it is kept."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: Any) -> Any:
        return (self._gate.epoch,)[index]


class Gate(ABC):
    """Decides who a client is, and what it sees. The hook ``access_gate`` provides one.

    The core takes the credentials out of a request before anything else sees it, asks for the
    grant, and lets the services of its view answer.

    Attributes:
        query_names: parameters that contain credentials, in lower case.
        header_keys: keys of the WSGI environment that contain credentials, in order, without
            ``HTTP_AUTHORIZATION`` and ``HTTP_COOKIE``; all are removed.
        removed_keys: further keys that are removed after `grant` and `client_address` have seen
            them.
        cookie: name of the cookie that contains a credential, or None.
        vary: names of the request headers that identify clients.
        secret: key of the digests of credentials in ETags, the same on all nodes; empty for a
            random one.
        rates: limits how much clients may ask for; None without limits.
        origins: of the pages that may send the cookie.
    """

    query_names: frozenset[str] = frozenset()
    header_keys: tuple[str, ...] = ()
    removed_keys: tuple[str, ...] = ()
    cookie: str | None = None
    vary: tuple[str, ...] = ()
    secret: bytes = b""
    rates: Rates | None = None
    origins: tuple[str, ...] = ()

    @property
    def epochs(self) -> Sequence[int]:
        """The epoch as the first of a sequence: where it is kept, which is read for each tile."""
        return _Epochs(self)

    @property
    @abstractmethod
    def epoch(self) -> int:
        """A number, the same in all processes, that a change of rules or credentials raises."""

    @abstractmethod
    def grant(self, shown: Sequence[Shown], headers: Mapping[str, Any], address: str) -> Grant:
        """Return the grant of a request, which is kept by what `deciding` returns.

        What depends on the headers belongs to `Grant.narrow`.

        Args:
            shown: the credentials, the one that decides first; empty for an anonymous client.
            headers: of the request, by their keys in the WSGI environment, with `header_keys` and
                `removed_keys`; not to be changed.
            address: of the client.

        Raises:
            AccessError: the credential that decides is not accepted. Never for anonymous clients.
        """

    @abstractmethod
    def catalogue(self, tag: str, site: Any, virtual: str, service: str = "") -> Any:
        """Return the `mastaba.api.catalogue.Catalogue` that a class sees.

        It is made from ``site.catalogue`` with `Catalogue.filtered`.

        Args:
            tag: of the class; also the empty one.
            site: the `mastaba.api.services.Site` whose view it is, with everything that its
                services publish.
            virtual: name of the virtual service that the site is; empty for the main services.
            service: name of the service that sees it; empty for what is said about all. Equal
                catalogues of one class are the same object.
        """

    def deciding(self, shown: Sequence[Shown]) -> tuple[Shown, ...]:
        """Return the credentials on which the grant depends.

        Args:
            shown: those of a request, the one that decides first.
        """
        return tuple(shown)

    def signed(self, grant: Grant) -> str:
        """Return a credential for addresses, with the rights of a grant and an end; empty for none.

        Clients that show theirs in a header or cookie ask for it with ``links=signed``.

        Raises:
            RequestError: it cannot be made.
        """
        return ""

    def client_address(self, headers: Mapping[str, Any]) -> str:
        """Return the address of the client, also behind trusted front servers."""
        return str(headers.get("REMOTE_ADDR") or "")

    def challenges(self, headers: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the values of WWW-Authenticate for a request that is refused with 401."""
        return ()

    def after_fork(self) -> None:  # noqa: B027 - most gates open nothing
        """Open what a process that answers requests needs for itself."""

    def close(self) -> None:  # noqa: B027
        """Release what `after_fork` has opened."""

    def findings(self, site: Any) -> Sequence[Any]:
        """Return mistakes for ``mastaba check``, as `mastaba.api.documents.Fault`.

        Args:
            site: as for `catalogue`.
        """
        return ()

    def operations(self) -> Sequence[Operation]:
        """Return what the administration does for the gate, for those who know its secret."""
        return ()

    def companions(self) -> Sequence[Callable[[], None]]:
        """Return functions that run beside the workers, as `Service.companions` does."""
        return ()


class Meter(Protocol):
    """Counts what was answered to whom. The hook ``request_meters`` provides them."""

    def tile(
        self,
        grant: Grant | None,
        group: Any,
        response: Response,
        service: str,
        virtual: str,
        place: tuple[int, int] | None = None,
    ) -> None:
        """Count a tile or a document that the table has answered.

        Args:
            grant: of the request; None without a gate.
            group: the `mastaba.api.tiles.TileGroup`, or None for a document.
            response: as it is sent.
            service: name of the service.
            virtual: identifier of the virtual service; empty for the main ones.
            place: row and column of a tile, from the upper left corner; None for a document.
        """

    def request(self, environ: Mapping[str, Any], status: int, size: int | None) -> None:
        """Count any other request: one for each further line of the access log.

        Args:
            environ: WSGI environment, without credentials, after the response.
            status: HTTP status.
            size: bytes of the body; None if they are unknown.
        """
