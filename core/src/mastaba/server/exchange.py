"""One FastCGI request: its parameters and body, the WSGI call, the response."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from io import BytesIO
from typing import TYPE_CHECKING, Any

from flup.server.fcgi_base import Request

from mastaba.cancellation import CLIENT
from mastaba.server.records import end_of_answer, stdout_buffers

if TYPE_CHECKING:
    from _typeshed import OptExcInfo

    from mastaba.server.connection import FastCGIConnection

logger = logging.getLogger(__name__)

_ERROR_BODY = b"Internal Server Error\n"
_ERROR_HEADERS = [
    ("Content-Type", "text/plain"),
    ("Content-Length", str(len(_ERROR_BODY))),
]


class DisconnectedError(Exception):
    """The connection to the front server is gone."""


class FastCGIRequest(Request):  # type: ignore[misc]
    """A request on a FastCGI connection, received completely before the application sees it.

    So a client that sends its body slowly costs memory, limited by the server's ``max_body``,
    but no thread.
    """

    # The base class is not initialised: the streams that it creates for each request are not
    # needed, and creating them would be the largest cost.
    def __init__(self, connection: FastCGIConnection, request_id: int, role: int, flags: int):
        self._conn = connection
        self.server = connection.server
        self.requestId = request_id
        self.role = role
        self.flags = flags
        self.aborted = False
        self.pairs: list[bytes] = []
        self.pairs_size = 0
        self.complete = False
        self.environ: dict[str, Any] = {}
        self.body: list[bytes] = []
        self.body_size = 0
        self._head = b""
        self._head_sent = False
        self._result: Iterable[bytes] = ()
        self._pieces: Iterator[bytes] | None = None

    def run(self) -> None:
        """Call the application and send its response. Application errors do not propagate.

        :raises DisconnectedError: the connection broke, or must be closed.
        """
        try:
            environ = self._environ()
            result = self.server.application(environ, self.start_response)
        except DisconnectedError:
            raise
        except Exception:  # noqa: BLE001 - an application may raise anything
            self._fail()
            return
        if type(result) is list and len(result) <= 1 and self._head and not self._head_sent:
            self._finish(result[0] if result else b"")
        else:
            self._result = result
            self.go_on()

    def is_gone(self) -> bool:
        """Return whether the client no longer waits; see `cancellation.Client`."""
        return self._conn.is_aborted(self.requestId)

    def aside(self) -> AbstractContextManager[None]:
        """Let another thread replace the calling one; see `cancellation.Client`."""
        return self.server.aside(self._conn)  # type: ignore[no-any-return]

    def refuse(self, status: str) -> None:
        """Respond without calling the application.

        :raises DisconnectedError: the connection broke.
        """
        body = f"{status[4:]}\n".encode("latin-1")
        headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))]
        self.start_response(status, headers)
        buffers = stdout_buffers(self.requestId, self._head, body)
        self._conn.send_now([*buffers, end_of_answer(self.requestId)])

    def start_response(
        self,
        status: str,
        headers: list[tuple[str, str]],
        exc_info: OptExcInfo | None = None,
    ) -> Callable[[bytes], None]:
        """The ``start_response`` of PEP 3333."""
        if exc_info is not None:
            try:
                if self._head_sent and exc_info[1] is not None:
                    raise exc_info[1].with_traceback(exc_info[2])
            finally:
                exc_info = None  # break the reference cycle
        elif self._head:
            raise AssertionError("start_response was called twice")
        text = f"Status: {status}\r\n"
        for name, value in headers:
            text += f"{name}: {value}\r\n"
        text += "\r\n"
        # A line feed inside a value would let a client inject headers.
        if text.count("\n") != len(headers) + 2:
            raise ValueError("a status or a header contains a line break")
        self._head = text.encode("latin-1")
        return self._write

    def _environ(self) -> dict[str, Any]:
        environ, self.environ = self.environ, {}
        body = b"".join(self.body)
        declared = environ.get("CONTENT_LENGTH")
        if body and declared and declared.isdecimal():
            # Truncated, since Python refuses to convert thousands of digits.
            body = body[: int(declared[:20])]
        environ[CLIENT] = self
        environ["wsgi.input"] = BytesIO(body)
        if environ.get("HTTPS", "off") in ("on", "1"):
            environ["wsgi.url_scheme"] = "https"
        return environ

    def _finish(self, rest: bytes = b"") -> None:
        """Send the rest of the response, and the end of the request."""
        head = b"" if self._head_sent else self._head
        self._head_sent = True
        buffers = stdout_buffers(self.requestId, head, rest)
        errors = self._conn.errors
        if errors.pending:
            buffers[:0] = errors.take(self.requestId)
        buffers.append(end_of_answer(self.requestId))
        self._conn.send_last(buffers)

    def _write(self, data: bytes) -> None:
        """The ``write`` of PEP 3333: the data is sent before it returns."""
        if not self._head:
            raise AssertionError("data before start_response")
        if data:
            head = b"" if self._head_sent else self._head
            self._head_sent = True
            self._conn.send_now(stdout_buffers(self.requestId, head, data))

    def go_on(self) -> None:
        """Send a response in pieces, until it ends or the client does not keep up.

        Called again once everything is sent, so no more than one piece waits.

        :raises DisconnectedError: the connection broke, or must be closed.
        """
        connection = self._conn
        try:
            if self._pieces is None:
                self._pieces = iter(self._result)
            for data in self._pieces:
                if not self._head:
                    raise AssertionError("data before start_response")
                if data:
                    head = b"" if self._head_sent else self._head
                    self._head_sent = True
                    connection.send_part(stdout_buffers(self.requestId, head, data), self)
                    if connection.output:
                        return
            self.end()
            if not self._head:
                raise AssertionError("the application did not call start_response")
        except DisconnectedError:
            self.end()
            raise
        except Exception:  # noqa: BLE001 - an application may raise anything
            self._fail()
            return
        self._finish()

    def end(self) -> None:
        """Close the iterable of the application (PEP 3333)."""
        result, self._result = self._result, ()
        close = getattr(result, "close", None)
        if close is not None:
            close()

    def _fail(self) -> None:
        logger.exception("the application failed")
        try:
            self.end()
        except Exception:
            logger.exception("the application failed again")
        if self._head_sent:
            # Only a broken connection shows the front server that the response is incomplete.
            raise DisconnectedError("an answer was cut short")
        self._head = b""
        self.start_response("500 Internal Server Error", _ERROR_HEADERS)
        self._finish(_ERROR_BODY)
