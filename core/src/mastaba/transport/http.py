"""Plain HTTP: granian's compiled worker on our listening socket, in our worker processes.

Granian's own supervisor is not used: it knows neither SIGQUIT nor a reload that may fail, starts
its processes by importing the application anew, and would be a second set of rules for signals
and replaced workers beside the one for FastCGI. The price is the use of its worker class, which
is not documented; everything that touches it is in ``_serve_granian``, and the requirement on
granian's version in the metadata belongs to it.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Protocol

from granian.http import HTTP1Settings

from mastaba.transport.signals import woken_by

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

    from _typeshed import OptExcInfo

logger = logging.getLogger(__name__)

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGQUIT, signal.SIGINT, signal.SIGUSR1)
_STOP = bytes(1)
_ERROR_BODY = b"Internal Server Error\n"
_ERROR_HEADERS = [("Content-Type", "text/plain"), ("Content-Length", str(len(_ERROR_BODY)))]
_TOO_LARGE = 413
_MOST_DISCARDED = 16 << 20
_PIECE = 1 << 16
# Granian counts connections, idle ones included, and accepts no more than this.
_MAX_CONNECTIONS = 10_000


class _Exchange(Protocol):
    """What granian hands over to be answered."""

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None: ...

    def response_iter(
        self, status: int, headers: list[tuple[str, str]], body: Iterator[bytes]
    ) -> None: ...


class HTTPServer:
    """Serves a WSGI application over HTTP/1.1 on an open listening socket, in one process.

    :param application: any WSGI application. It runs in up to ``threads`` threads at a time.
    :param sock: the listening socket, which may be shared with other processes. It stays open.
    :param threads: number of threads that run the application.
    :param multiprocess: what ``wsgi.multiprocess`` shall say.
    :param on_ready: called once when requests are accepted.
    :param linger: seconds during which an ordered stop still answers, announcing on each answer
        that the connection closes, so that clients do not write into a connection that ends.
    :param grace: seconds after which an ordered stop abandons the requests still running.
    """

    def __init__(
        self,
        application: WSGIApplication,
        sock: socket.socket,
        *,
        threads: int = 1,
        multiprocess: bool = True,
        on_ready: Callable[[], None] | None = None,
        linger: float = 0.5,
        grace: float = 30.0,
    ) -> None:
        self._adapter = _Adapter(application, threads > 1, multiprocess)
        self._listener = sock
        self._threads = threads
        self._on_ready = on_ready
        self._linger = linger
        self._grace = grace
        # A pipe and not an event: a signal that another thread receives does not wake the main
        # thread from a lock, but it does leave its number here.
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)

    def run(self) -> None:
        """Serve until SIGTERM, SIGQUIT, SIGINT or SIGUSR1 arrives, then stop in order.

        Has to be called in the main thread. Signals that the process ignores stay ignored.
        """
        with woken_by(_STOP_SIGNALS, self._wake_write):
            self.serve()

    def serve(self) -> None:
        """Serve until ``stop`` is called; returns when all is answered or the grace is over."""
        accepting = self._listener.dup().detach()  # granian closes it
        order_stop, stopped = _serve_granian(
            self._adapter, accepting, self._listener.family == socket.AF_UNIX, self._threads
        )
        if self._on_ready is not None:
            self._on_ready()
        self._wait_for_stop()
        _accept_no_more(accepting)
        self._adapter.draining = True
        # Nothing sets the event: this is a sleep that leaves signals their handlers.
        threading.Event().wait(self._linger)
        order_stop()
        stopped.wait(self._grace)

    def stop(self) -> None:
        """Order the stop, from any thread."""
        os.write(self._wake_write, _STOP)

    def _wait_for_stop(self) -> None:
        while not any(byte == 0 or byte in _STOP_SIGNALS for byte in os.read(self._wake_read, 64)):
            pass  # a signal of somebody else's


def _accept_no_more(descriptor: int) -> None:
    """Put a socket to which nobody connects in the place of a listening one.

    Granian accepts until it stops, and then drops what it has accepted but not read yet. From now
    on connections are left to the other processes, and those accepted have time to be read.
    """
    with socket.socket(socket.AF_UNIX) as stand_in:
        stand_in.bind("")  # an abstract name that the kernel chooses
        stand_in.listen(0)
        stand_in.setblocking(False)
        os.dup2(stand_in.fileno(), descriptor, inheritable=False)


def _discard(scope: dict[str, Any]) -> None:
    """Receive what is left of a body, up to a bound.

    A front server that is still sending when the answer comes and the connection closes reports
    a fault of ours instead of the answer.
    """
    stream, left = scope.get("wsgi.input"), _MOST_DISCARDED
    while stream is not None and left > 0:
        piece = stream.read(_PIECE)
        if not piece:
            return
        left -= len(piece)


class _Adapter:
    """Calls a WSGI application for granian.

    Granian's own adapter lets every request copy the environment variables of the process, and
    knows neither ``write`` nor ``exc_info``.
    """

    def __init__(self, application: WSGIApplication, multithread: bool, multiprocess: bool):
        self._application = application
        self._base: dict[str, Any] = {
            "SCRIPT_NAME": "",
            "SERVER_SOFTWARE": "mastaba",
            "wsgi.version": (1, 0),
            "wsgi.errors": sys.stderr,
            "wsgi.input_terminated": True,
            "wsgi.multithread": multithread,
            "wsgi.multiprocess": multiprocess,
            "wsgi.run_once": False,
        }
        self.draining = False

    def __call__(self, exchange: _Exchange, scope: dict[str, Any]) -> int:
        response = _Response()
        try:
            result = self._application(self._base | scope, response)
            if response.status == 0 and type(result) is not list:
                # A generator may call start_response when its first piece is asked for.
                result = _started(result)
            if response.status == 0:
                raise AssertionError("the application did not call start_response")
        except Exception:
            logger.exception("the application failed")
            exchange.response_bytes(500, _ERROR_HEADERS, _ERROR_BODY)
            return 500
        if response.status == _TOO_LARGE:
            _discard(scope)
        headers = response.headers
        if self.draining:
            headers = [*headers, ("Connection", "close")]
        if type(result) is list:
            exchange.response_bytes(response.status, headers, b"".join((*response.body, *result)))
        else:
            exchange.response_iter(response.status, headers, _Body(response.body, result))
        return response.status


class _Response:
    """The ``start_response`` of PEP 3333, which keeps what it is given."""

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
    """What was written, then what is iterated; closed by granian at the end."""

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
    """An iterable of which the first piece was taken already."""

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
    """Start granian's worker; returns how to stop it, and the event of its end."""
    # The stubs of these modules are older than the modules.
    compiled: Any = import_module("granian._granian")
    futures: Any = import_module("granian._futures")
    loops: Any = import_module("granian._loops").loops

    stop = compiled.WorkerSignal()
    stopped = threading.Event()
    stop.add_cb(stopped.set)
    worker = compiled.WSGIWorker(
        1,  # its number among the workers, for logs
        (None, compiled.SocketHolder(listener, is_unix, socket.SOMAXCONN)),
        None,  # no channel for metrics
        1,  # threads of the compiled part
        512,  # limit of its threads for blocking calls
        threads,
        30,  # seconds until an idle Python thread ends
        _MAX_CONNECTIONS,
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
