"""What the transports and the application say to each other."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from http import HTTPStatus
from typing import Final, Protocol

CLIENT: Final = "mastaba.client"
"""Key of the WSGI environ under which a transport puts the `Client`."""

FAILURE: Final = "mastaba.failure"
"""Key of the WSGI environ: the exception that the quick answer to the request has raised.

The application need not repeat what has failed, which may have taken long.
"""

CLIENT_GONE: Final = 499
"""For logs and metrics only, since it is never received: the status that nginx logs."""

STATUS_LINES: Final = {int(status): f"{status.value} {status.phrase}" for status in HTTPStatus} | {
    CLIENT_GONE: f"{CLIENT_GONE} Client Closed Request"
}
"""Status and reason for the status line, such as ``404 Not Found``, by status."""

Headers = list[tuple[str, str]]
"""Names and values, in order."""


class Client(Protocol):
    """What a transport knows about the client of one request."""

    def is_gone(self) -> bool:
        """Return whether the client no longer waits for the response."""

    def delay(self, seconds: float) -> None:
        """Send the response only after so many seconds, without a thread, and read nothing before.

        At most a second counts. It is sent at once if too many wait or the server stops, and if the
        application calls ``write``.
        """

    def aside(self) -> AbstractContextManager[None]:
        """Let another thread answer requests instead of the calling one, which takes long."""


class Answer(Protocol):
    """A response that an application gives without a WSGI call.

    Attributes:
        status: HTTP status, one of `STATUS_LINES`.
        headers: without line breaks, with the Content-Length.
        body: whole, or in pieces.
    """

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Headers: ...
    @property
    def body(self) -> bytes | Iterable[bytes]: ...
