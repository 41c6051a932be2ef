"""Plain HTTP: granian's compiled worker on our listening socket, in our worker processes.

Granian's own supervisor is not used. It supports neither SIGQUIT nor a reload that may fail, and
it imports the application again in each process. Signals and replaced workers would also follow
different rules than with FastCGI. The price is the use of granian's undocumented worker class.
Only ``_serve_granian`` uses it; the version requirement on granian in the metadata exists for it.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from itertools import chain, islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

from granian.http import HTTP1Settings

from mastaba.cancellation import CLIENT
from mastaba.server.signals import woken_by

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

    from _typeshed import OptExcInfo

logger = logging.getLogger(__name__)

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGQUIT, signal.SIGINT, signal.SIGUSR1)
_STOP = bytes(1)
_ERROR_BODY = b"Internal Server Error\n"
_ERROR_HEADERS = [("Content-Type", "text/plain"), ("Content-Length", str(len(_ERROR_BODY)))]
# Bytes; more than applications accept, so they notice.
MAX_BODY = 2 << 20
_MOST_DISCARDED = 16 << 20
_PIECE = 1 << 18
# Granian accepts no more connections than this, idle ones included.
_MAX_CONNECTIONS = 10_000
# Descriptors for uses other than connections: once accept fails, granian never accepts again.
_RESERVED = 256
# Streamed responses being sent; each occupies a thread until the client has read it.
_SENDING = 64
# Request bodies being received; each also occupies a thread.
_RECEIVING = 128
_SEND_TIMEOUT = 60


class _Exchange(Protocol):
    """Granian's object for responding to one request."""

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None: ...

    def response_iter(
        self, status: int, headers: list[tuple[str, str]], body: Iterator[bytes]
    ) -> None: ...


class HTTPServer:
    """Serves a WSGI application over HTTP/1.1 on an open listening socket, in one process.

    :param application: any WSGI application. It runs in up to ``threads`` threads at a time.
    :param sock: the listening socket, which may be shared with other processes. It stays open.
    :param threads: number of requests served at a time, not counting those that stepped aside
        because they take long.
    :param aside: number of requests that may step aside.
    :param body_timeout: seconds in which the body of a request must arrive.
    :param multiprocess: value of ``wsgi.multiprocess``.
    :param on_ready: called once when requests are accepted.
    :param linger: seconds during which a graceful stop still responds. Each response announces
        that the connection closes, so clients do not write to a closing connection.
    :param grace: seconds after which a graceful stop abandons the requests still running.
    """

    def __init__(
        self,
        application: WSGIApplication,
        sock: socket.socket,
        *,
        threads: int = 1,
        aside: int = 0,
        multiprocess: bool = True,
        on_ready: Callable[[], None] | None = None,
        linger: float = 0.5,
        grace: float = 30.0,
        body_timeout: float = 30.0,
    ) -> None:
        self._adapter = _Adapter(application, threads, multiprocess, body_timeout)
        self._listener = sock
        self._threads = threads + aside + _SENDING + _RECEIVING
        self._on_ready = on_ready
        self._linger = linger
        self._grace = grace
        # A pipe, not an event: a signal received by another thread does not wake the main thread
        # from a lock, but it does write its number here.
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)

    def run(self) -> None:
        """Serve until SIGTERM, SIGQUIT, SIGINT or SIGUSR1 arrives, then stop gracefully.

        Must be called in the main thread. Signals that the process ignores stay ignored.
        """
        with woken_by(_STOP_SIGNALS, self._wake_write):
            self.serve()

    def serve(self) -> None:
        """Serve until ``stop`` is called; return when all requests are done or grace is over."""
        if self._listener.family != socket.AF_UNIX:
            # Connections inherit these. They close connections whose client has vanished or does
            # not read its response.
            for level, option, value in (
                (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SEND_TIMEOUT * 1000),
                (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _SEND_TIMEOUT),
                (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            ):
                self._listener.setsockopt(level, option, value)
        accepting = self._listener.dup().detach()  # granian closes it
        order_stop, stopped = _serve_granian(
            self._adapter, accepting, self._listener.family == socket.AF_UNIX, self._threads
        )
        if self._on_ready is not None:
            self._on_ready()
        self._wait_for_stop()
        _accept_no_more(accepting)
        self._adapter.draining = True
        # Nothing sets the event: this is a sleep during which signal handlers run.
        threading.Event().wait(self._linger)
        order_stop()
        stopped.wait(self._grace)

    def stop(self) -> None:
        """Request a stop, from any thread."""
        os.write(self._wake_write, _STOP)

    def _wait_for_stop(self) -> None:
        while not any(byte == 0 or byte in _STOP_SIGNALS for byte in os.read(self._wake_read, 64)):
            pass  # a signal for another handler


def _accept_no_more(descriptor: int) -> None:
    """Replace a listening socket by one to which no client connects.

    Granian accepts until it stops, then drops connections that it accepted but has not read. From
    now on other processes get new connections, and there is time to read the accepted ones.
    """
    with socket.socket(socket.AF_UNIX) as stand_in:
        stand_in.bind("")  # an abstract name that the kernel chooses
        stand_in.listen(0)
        stand_in.setblocking(False)
        os.dup2(stand_in.fileno(), descriptor, inheritable=False)


def most_connections() -> int:
    """Raise the descriptor limit if possible; return how many connections this process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_CONNECTIONS + _RESERVED
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return _MAX_CONNECTIONS
    return max(1, min(_MAX_CONNECTIONS, soft - min(_RESERVED, soft // 2)))


def _received(stream: Any) -> bytes:
    """Receive a body; read and drop what exceeds the limit, up to a second limit.

    A front server that is still sending when the connection closes reports a server error
    instead of the response.
    """
    kept: list[bytes] = []
    size = 0
    while size < _MOST_DISCARDED:
        piece = stream.read(_PIECE)
        if not piece:
            break
        if size < MAX_BODY:
            kept.append(piece)
        size += len(piece)
    return b"".join(kept)


class _Place:
    """A request's place among those served at a time; see `cancellation.Client`."""

    __slots__ = ("_free", "_taken")

    def __init__(self, free: SimpleQueue[None]) -> None:
        self._free = free
        free.get()
        self._taken = True

    def leave(self) -> None:
        """Give the place to the next request."""
        if self._taken:
            self._taken = False
            self._free.put(None)

    def is_gone(self) -> bool:
        """Return False: granian does not report clients that hang up."""
        return False

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Give the place to another request. It is not taken back: little is left to do."""
        self.leave()
        yield


class _Adapter:
    """Calls a WSGI application for granian.

    Granian's own adapter copies the environment variables of the process for every request, and
    supports neither ``write`` nor ``exc_info``.
    """

    def __init__(
        self, application: WSGIApplication, threads: int, multiprocess: bool, body_timeout: float
    ) -> None:
        self._application = application
        self._body_timeout = body_timeout
        self._receiving = threading.Semaphore(_RECEIVING)
        self._sending = threading.Semaphore(_SENDING)
        self._free: SimpleQueue[None] = SimpleQueue()
        for _ in range(threads):
            self._free.put(None)
        self._base: dict[str, Any] = {
            "SCRIPT_NAME": "",
            "SERVER_SOFTWARE": "mastaba",
            "wsgi.version": (1, 0),
            "wsgi.errors": sys.stderr,
            "wsgi.input_terminated": True,
            "wsgi.multithread": threads > 1,
            "wsgi.multiprocess": multiprocess,
            "wsgi.run_once": False,
        }
        self.draining = False

    def __call__(self, exchange: _Exchange, scope: dict[str, Any]) -> int:
        body = b""
        if scope.get("CONTENT_LENGTH", "0") != "0" or "HTTP_TRANSFER_ENCODING" in scope:
            received = self._receive(exchange, scope["wsgi.input"])
            if received is None:
                return 0
            body = received
        scope["wsgi.input"] = io.BytesIO(body)
        place = scope[CLIENT] = _Place(self._free)
        response = _Response()
        try:
            result = self._application(self._base | scope, response)
            if response.status == 0 and type(result) is not list:
                # A generator may call start_response only when its first piece is requested.
                result = _started(result)
            if response.status == 0:
                raise AssertionError("the application did not call start_response")
        except Exception:
            logger.exception("the application failed")
            exchange.response_bytes(500, _ERROR_HEADERS, _ERROR_BODY)
            return 500
        finally:
            place.leave()
        headers = response.headers
        if self.draining:
            headers = [*headers, ("Connection", "close")]
        if type(result) is list:
            exchange.response_bytes(response.status, headers, b"".join((*response.body, *result)))
            return response.status
        pieces = _Body(response.body, result)
        if not self._sending.acquire(blocking=False):
            pieces.close()
            _refuse(exchange, 503, "Too many large answers are being sent")
            return 503
        try:
            exchange.response_iter(response.status, headers, pieces)
        finally:
            self._sending.release()
        return response.status

    def _receive(self, exchange: _Exchange, stream: Any) -> bytes | None:
        """Return the body of a request; None if it was answered without it.

        Granian's stream waits for ever, and granian blocks if the call returns before the read
        does. So if a body does not arrive, another thread responds, and this thread waits until
        the client closes the connection.
        """
        if not self._receiving.acquire(blocking=False):
            _refuse(exchange, 503, "Too many bodies of requests are on their way")
            return None
        late = threading.Event()

        def give_up() -> None:
            late.set()
            _refuse(exchange, 408, "The body of the request does not arrive")

        timer = threading.Timer(self._body_timeout, give_up)
        timer.daemon = True
        timer.start()
        try:
            body = _received(stream)
        finally:
            timer.cancel()
            self._receiving.release()
        return None if late.is_set() else body


def _refuse(exchange: _Exchange, status: int, reason: str) -> None:
    body = f"{reason}\n".encode()
    headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))]
    headers += [("Connection", "close")] if status == 408 else [("Retry-After", "10")]
    exchange.response_bytes(status, headers, body)


class _Response:
    """The ``start_response`` of PEP 3333; stores its arguments."""

    __slots__ = ("body", "headers", "status")

    def __init__(self) -> None:
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.body: list[bytes] = []

    def __call__(
        self,
        status: str,
        headers: list[tuple[str, str]],
        exc_info: OptExcInfo | None = None,
        /,
    ) -> Callable[[bytes], object]:
        if self.status and exc_info is None:
            raise AssertionError("start_response was called twice")
        self.status = int(status[:3])
        self.headers = headers
        return self.body.append


class _Body:
    """The pieces written, then those iterated; closed by granian at the end."""

    def __init__(self, written: list[bytes], result: Iterable[bytes]) -> None:
        self._pieces = chain(written, result)
        self._result = result

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self._pieces)

    def close(self) -> None:
        close = getattr(self._result, "close", None)
        if close is not None:
            close()


class _Started:
    """An iterable whose first piece has already been taken."""

    def __init__(self, first: list[bytes], rest: Iterator[bytes], result: Iterable[bytes]):
        self._pieces = chain(first, rest)
        self._result = result

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces

    def close(self) -> None:
        close = getattr(self._result, "close", None)
        if close is not None:
            close()


def _started(result: Iterable[bytes]) -> _Started:
    rest = iter(result)
    first = list(islice(rest, 1))
    return _Started(first, rest, result)


def _serve_granian(
    adapter: _Adapter, listener: int, is_unix: bool, threads: int
) -> tuple[Callable[[], None], threading.Event]:
    """Start granian's worker; return a function that stops it, and the event set when it stops."""
    # The type stubs of these modules are outdated.
    compiled: Any = import_module("granian._granian")
    futures: Any = import_module("granian._futures")
    loops: Any = import_module("granian._loops").loops

    stop = compiled.WorkerSignal()
    stopped = threading.Event()
    stop.add_cb(stopped.set)
    worker = compiled.WSGIWorker(
        1,  # worker number, for logs
        (None, compiled.SocketHolder(listener, is_unix, socket.SOMAXCONN)),
        None,  # no channel for metrics
        1,  # threads of the compiled part
        512,  # limit of its threads for blocking calls
        threads,  # maximum of Python threads, started on demand
        30,  # seconds until an idle Python thread ends
        most_connections(),
        "1",  # HTTP/1.1
        HTTP1Settings(),
        None,  # HTTP/2
        None,  # static files
        False,  # TLS and its settings
        None,
        None,
        None,
        "tls1.3",
        None,
        [],
        False,
        (None, None),  # metrics
    )
    loop = loops.get("asyncio")
    scheduler = futures._new_cbscheduler(loop, adapter, impl_asyncio=True)
    serve = worker.serve_str_uds if is_unix else worker.serve_str
    serve(scheduler, loop, stop)
    return stop.set, stopped
