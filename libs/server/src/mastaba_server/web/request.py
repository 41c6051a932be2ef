"""One HTTP request as services see it. Kept small: every tile request uses it."""

from __future__ import annotations

from io import BytesIO
from typing import Any, Final

from mastaba_server.errors import ClientGoneError, RequestTooLargeError
from mastaba_server.web.text import decode

MAX_BODY: Final = 1024 * 1024
"""Bytes; a larger body is refused before it is read."""

OPERATION: Final = "mastaba.operation"
"""Key of the WSGI environment for the operation that a service has named."""

EMPTY_ALONE: Final = frozenset(("styles",))
"""Parameters, in lower case, that are empty, not absent, if they come without ``=``."""


class Request:
    """A request below the root path of one service.

    Attributes:
        method: in upper case.
        path: percent-decoded path below the root path of the service, without a final slash:
            ``""`` or ``/a/b``.
        query_string: still percent-encoded.
        environ: WSGI environment (PEP 3333).
    """

    __slots__ = ("_query", "environ", "method", "path", "query_string")

    def __init__(self, method: str, path: str, query_string: str, environ: dict[str, Any]) -> None:
        self.method = method
        self.path = path
        self.query_string = query_string
        self.environ = environ
        self._query: dict[str, str] | None = None

    @property
    def query(self) -> dict[str, str]:
        """Query parameters by name in lower case; the first of repeated ones."""
        if self._query is None:
            self._query = parse_query(self.query_string)
        return self._query

    def header(self, name: str) -> str | None:
        """Return a request header, for example ``Accept``; None if it is absent."""
        value: str | None = self.environ.get("HTTP_" + name.upper().replace("-", "_"))
        return value

    def name_operation(self, name: str) -> None:
        """Set the operation that metrics count the request for: one of `Service.operations`."""
        self.environ[OPERATION] = name

    @property
    def media_type(self) -> str:
        """Content-Type of the body in lower case without parameters; empty if absent."""
        text: str = self.environ.get("CONTENT_TYPE") or ""
        return text.partition(";")[0].strip().lower()

    @property
    def content_length(self) -> int | None:
        """Declared bytes of the body; None if the client does not say, as in a chunked body."""
        declared: str = self.environ.get("CONTENT_LENGTH") or ""
        # Truncated, since Python refuses to convert thousands of digits.
        return int(declared[:20]) if declared.isascii() and declared.isdigit() else None

    def body(self) -> bytes:
        """Return the body, which may be read again.

        Raises:
            RequestTooLargeError: its declared or actual length exceeds 1 MiB.
            ClientGoneError: it cannot be read to its end.
        """
        length = self.content_length
        if length is not None and length > MAX_BODY:
            raise RequestTooLargeError("the body is larger than 1 MiB")
        stream = self.environ["wsgi.input"]
        # Without a declared length (a chunked body) the stream itself must end. If the server
        # does not guarantee that, there is no body to read.
        if length is None and not self.environ.get("wsgi.input_terminated"):
            return b""
        # Loaded on first use: most requests have no body.
        from werkzeug.exceptions import ClientDisconnected
        from werkzeug.wsgi import LimitedStream

        limit = MAX_BODY + 1 if length is None else length
        try:
            body = LimitedStream(stream, limit, is_max=True).exhaust()
        except ClientDisconnected as error:
            raise ClientGoneError("the client has hung up") from error
        # Rates read it before the service does, which reports what is wrong with it.
        self.environ["wsgi.input"] = BytesIO(body)
        if len(body) > MAX_BODY:
            raise RequestTooLargeError("the body is larger than 1 MiB")
        return body


def parse_query(text: str) -> dict[str, str]:
    """Split a query string, then decode it.

    Names are lower-cased. The first of repeated names counts. Items without ``=`` are ignored,
    except those of `EMPTY_ALONE`.
    """
    parameters: dict[str, str] = {}
    # Most tile requests have nothing to decode.
    coded = "%" in text or "+" in text or not text.isascii()
    for item in text.split("&"):
        name, equals, value = item.partition("=")
        if coded:
            name, value = decode(name), decode(value)
        name = name.lower()
        if name not in parameters and (equals or name in EMPTY_ALONE):
            parameters[name] = value
    return parameters
