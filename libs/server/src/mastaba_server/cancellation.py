"""Whether the request that a thread is processing is still worth the work.

The application begins and ends each request here. Long operations (drawing and encoding a map)
call `check` between their steps, and enter `aside` before the first one.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from time import monotonic
from typing import Any, Protocol

from mastaba_server.access.clients import client_of
from mastaba_server.errors import ClientGoneError, OverloadedError
from mastaba_server.messages import Client


class Progress(Protocol):
    """What others see of a request.

    Attributes:
        latest: time of the last `check`, monotonic seconds.
    """

    latest: float


class _Local(threading.local):
    request: tuple[Client | None, float, float, Progress] | None = None
    """Client, begin, limit and progress of the request; None outside a request."""
    environ: Mapping[str, Any]


_local = _Local()


def begin(
    client: Client | None, limit: float, progress: Progress, environ: Mapping[str, Any]
) -> None:
    """Begin a request in the calling thread.

    Args:
        client: client that waits for the response; None if unknown.
        limit: seconds that the request may take.
        progress: brought up to date by each `check`.
        environ: WSGI environment of the request.
    """
    _local.request = client, monotonic(), limit, progress
    _local.environ = environ


def who() -> str:
    """Return whose request it is; see `mastaba_server.access.clients.client_of`."""
    return "" if _local.request is None else client_of(_local.environ)


def end() -> None:
    """End the request that the calling thread began."""
    _local.request = None
    _local.environ = {}


def check() -> None:
    """Continue only if the response is still wanted; do nothing outside a request.

    Raises:
        ClientGoneError: the client has hung up.
        OverloadedError: the request has taken longer than it may.
    """
    if _local.request is None:
        return
    client, begun, limit, progress = _local.request
    progress.latest = monotonic()
    if client is not None and client.is_gone():
        raise ClientGoneError("the client has hung up")
    if progress.latest - begun > limit:
        raise OverloadedError(f"the answer takes longer than {limit:g} seconds")


def aside() -> AbstractContextManager[None]:
    """Return a context in which the calling thread does not hold up other requests."""
    client = None if _local.request is None else _local.request[0]
    return nullcontext() if client is None else client.aside()
