"""Who orders a job, and how often one client may ask."""

from __future__ import annotations

import ipaddress
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

from mastaba.api.access import GRANT, Grant
from mastaba_export.jobs.refusals import TooManyError
from mastaba_export.jobs.settings import JobSettings
from mastaba_server.access.clients import address_of, identity_of, is_one_client, shared_network

_PRINCIPAL: Final = "principal:"
_LONGEST: Final = 200
"""Characters of a name in a header."""
_OWNERS: Final = 10_000
_LOCAL: Final = ipaddress.IPv4Address("127.0.0.1")


def owner_of(environ: Mapping[str, Any], settings: JobSettings) -> str:
    """Return the owner of the jobs that a request orders.

    It is the principal that access rules know, if it is one client, the value of the header in
    which a gateway names them, or else the address of the client; for IPv6, the first 64 bits.

    Args:
        environ: WSGI environment of the request.
        settings: the header, and the gateways.
    """
    grant = environ.get(GRANT)
    if isinstance(grant, Grant) and is_one_client(grant.principal):
        return f"{_PRINCIPAL}{identity_of(grant.principal)}"
    # A program on this machine, at a Unix socket, does not say who its client is.
    address = address_of((environ.get("REMOTE_ADDR") or "").partition("%")[0]) or _LOCAL
    if settings.owner_header and any(address in network for network in settings.gateways):
        name = (environ.get(settings.owner_header) or "").strip()
        if name:
            return f"name:{name[:_LONGEST]}"
    return f"address:{shared_network(str(address))}"


def may_see(owner: str, asking: str) -> bool:
    """Return whether a client may see a job whose identifier it knows.

    Args:
        owner: of the job.
        asking: what `owner_of` returns for the request.
    """
    # Whoever is known owns its jobs; those of others are found by identifier alone.
    return owner == asking or not is_principal(owner)


def is_principal(owner: str) -> bool:
    """Return whether an owner is a principal that access rules know."""
    return owner.startswith(_PRINCIPAL)


class Rate:
    """Limits how often each owner may ask.

    Args:
        most: requests in a minute; as many may come at once.
        clock: seconds.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        # Requests left, and the time of that number, of the owners that asked last.
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, owner: str) -> None:
        """Count a request of an owner.

        Raises:
            TooManyError: there were too many.
        """
        with self._lock:
            now = self._clock()
            left, since = self._left.pop(owner, (float(self._most), now))
            left = min(self._most, left + (now - since) * self._most / 60)
            is_allowed = left >= 1
            self._left[owner] = (left - is_allowed, now)
            if len(self._left) > _OWNERS:
                self._left.popitem(last=False)
        if not is_allowed:
            text = f"you may ask {self._most} times in a minute"
            wait = math.ceil((1 - left) * 60 / self._most)
            raise TooManyError(text, {"limit": self._most}, wait)
