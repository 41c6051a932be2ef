"""One request and its response: the WSGI call, in the terms of no protocol."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from io import BytesIO
from typing import TYPE_CHECKING, Any, ClassVar

from mastaba_server.body import CutShortError
from mastaba_server.messages import CLIENT, FAILURE, STATUS_LINES, Headers
from mastaba_server.transport.connection import Buffers, Connection, DisconnectedError

if TYPE_CHECKING:
    from _typeshed import OptExcInfo

logger = logging.getLogger(__name__)


class Exchange(ABC):
    """A request, received completely before the application sees it, and its response.

    So a client that sends its body slowly costs memory, limited by `Limits.body`, but no thread.
    It is also the `mastaba_server.messages.Client` of the request.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.body = bytearray()
        self.body_size = 0
        """Bytes of the body received, including those dropped."""
        self.status = ""
        self._head = b""
        self._head_sent = False
        self._result: Iterable[bytes] = ()
        self._pieces: Iterator[bytes] | None = None

    @abstractmethod
    def environ(self) -> dict[str, Any]:
        """Build the WSGI environ, without the keys that `run` adds."""

    @abstractmethod
    def address(self) -> tuple[str, str, Mapping[str, Any]] | None:
        """Return what `Owner.stored_tile` needs: path, query and headers of a GET request.

        Returns:
            None if it is another request, or if the path needs decoding.
        """

    id = 0
    """Number of the request on its connection, if the protocol numbers them."""

    before_status: ClassVar[str]
    """What precedes the status in the first line of a response."""

    @abstractmethod
    def frame(self, head: bytes, data: bytes, *, last: bool) -> Buffers:
        """Return what is sent for a piece of the body.

        Args:
            head: status and header lines, if this is the first piece; otherwise empty.
            last: the response ends with the piece.
        """

    def take_body(self, content: bytes) -> None:
        """Add to the body what `Limits.body` allows; drop the rest."""
        room = self.connection.owner.limits.body - len(self.body)
        self.body += content if len(content) <= room else content[:room]
        self.body_size += len(content)

    def run(self) -> None:
        """Send a quick answer, or the response of the application, whose errors do not propagate.

        Method, path and headers are known before; the environ is built only here.

        Raises:
            DisconnectedError: the connection broke, or must be closed.
        """
        response = failure = None
        try:
            find = self.connection.owner.stored_tile
            if find is not None and (address := self.address()) is not None:
                try:
                    response = find(*address)
                except Exception as error:  # noqa: BLE001 - reported by the application
                    failure = error
            result: Iterable[bytes]
            if response is None:
                environ = self.environ()
                environ[CLIENT] = self
                if failure is not None:
                    environ[FAILURE] = failure
                environ["wsgi.input"] = BytesIO(self.body)
                result = self.connection.owner.application(environ, self.start_response)
            else:
                self._set_head(STATUS_LINES[response.status], response.headers)
                body = response.body
                result = [body] if isinstance(body, bytes) else body
        except DisconnectedError:
            raise
        except Exception:  # noqa: BLE001 - an application may raise anything
            self._fail()
            return
        if type(result) is list and len(result) <= 1 and self._head and not self._head_sent:
            self._finish(result[0] if result else b"")
        else:
            self._result = result
            self.resume()

    def refuse(self, status: str) -> None:
        """Respond without calling the application, and end the connection.

        Raises:
            DisconnectedError: the connection broke.
        """
        self.connection.ending = True
        self._answer(status)

    def _answer(self, status: str) -> None:
        body = f"{status[4:]}\n".encode("latin-1")
        headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))]
        self._set_head(status, headers)
        self._finish(body)

    def is_gone(self) -> bool:
        """Return whether the client no longer waits; see `mastaba_server.messages.Client`."""
        return self.connection.is_gone()

    def aside(self) -> AbstractContextManager[None]:
        """Let another thread replace the calling one; see `mastaba_server.messages.Client`."""
        return self.connection.owner.aside(self.connection)

    def delay(self, seconds: float) -> None:
        """Let the answer wait; see `mastaba_server.messages.Client`."""
        if not self.connection.owner.delay(self.connection, seconds):
            self.part()

    def part(self) -> None:  # noqa: B027 - that of a front server goes on
        """End the connection with this response, if it is that of a single client."""

    def start_response(
        self,
        status: str,
        headers: Headers,
        exc_info: OptExcInfo | None = None,
    ) -> Callable[[bytes], None]:
        """Act as the ``start_response`` of PEP 3333."""
        if exc_info is not None:
            try:
                if self._head_sent and exc_info[1] is not None:
                    raise exc_info[1].with_traceback(exc_info[2])
            finally:
                exc_info = None  # break the reference cycle
        elif self._head:
            raise AssertionError("start_response was called twice")
        self._set_head(status, headers)
        return self._write

    def resume(self) -> None:
        """Send a response in pieces, until it ends or the client does not keep up.

        Called again once everything is sent, so no more than one piece waits.

        Raises:
            DisconnectedError: the connection broke, or must be closed.
        """
        connection = self.connection
        try:
            if self._pieces is None:
                self._pieces = iter(self._result)
            for data in self._pieces:
                if data:
                    connection.send_part(self._framed(data), self)
                    if connection.output:
                        return
            self.release()
            if not self._head:
                raise AssertionError("the application did not call start_response")
        except DisconnectedError:
            self.release()
            raise
        except CutShortError as error:
            logger.error("a response was cut short: %s", error)
            self.release()
            raise DisconnectedError("a response was cut short") from error
        except Exception:  # noqa: BLE001 - an application may raise anything
            self._fail()
            return
        self._finish()

    def release(self) -> None:
        """Close the iterable of the application (PEP 3333)."""
        result, self._result = self._result, ()
        close = getattr(result, "close", None)
        if close is not None:
            close()

    def _write(self, data: bytes) -> None:
        """Send data before it returns, as the ``write`` of PEP 3333."""
        if data:
            self.connection.send_now(self._framed(data))

    def _set_head(self, status: str, headers: Headers) -> None:
        text = f"{self.before_status}{status}\r\n"
        for name, value in headers:
            text += f"{name}: {value}\r\n"
        # A line break inside a value would let a client inject headers.
        if not text.count("\n") == text.count("\r") == len(headers) + 1:
            raise ValueError("a status or a header contains a line break")
        self.status = status
        self._head = text.encode("latin-1")

    def _framed(self, data: bytes) -> Buffers:
        if not self._head:
            raise AssertionError("data before start_response")
        head = b"" if self._head_sent else self._head
        self._head_sent = True
        return self.frame(head, data, last=False)

    def _finish(self, data: bytes = b"") -> None:
        """Send the rest of the response, and its end."""
        head = b"" if self._head_sent else self._head
        self._head_sent = True
        self.connection.send_last(self.frame(head, data, last=True))

    def _fail(self) -> None:
        logger.exception("the application failed")
        try:
            self.release()
        except Exception:
            logger.exception("the application failed again")
        if self._head_sent:
            # Only a broken connection shows the client that the response is incomplete.
            raise DisconnectedError("a response was cut short")
        self._answer("500 Internal Server Error")
