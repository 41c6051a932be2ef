"""The server of a process: a few threads, any number of connections, one protocol.

All threads wait on one epoll. Connections are registered edge-triggered, so a request on a
keep-alive connection takes three system calls: wait, receive, send. The thread that gets the
event reads, runs the application and responds; an idle connection occupies no thread. A request
that steps aside because it takes long, or waits for a storage on another machine, does not count
towards the threads.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any
from wsgiref.types import WSGIApplication

if sys.platform != "linux":
    raise ImportError("mastaba-server needs Linux: it waits for connections with epoll")

from mastaba_server import waiting
from mastaba_server.descriptors import DESCRIPTORS
from mastaba_server.processes.balance import Balance
from mastaba_server.processes.control import WorkerLink
from mastaba_server.processes.handover import Gate, Handover
from mastaba_server.processes.signals import STOP_SIGNALS, woken_by
from mastaba_server.transport.acceptor import Acceptor
from mastaba_server.transport.connection import NEVER, Connection, Limits
from mastaba_server.transport.delays import DelayedAnswers

logger = logging.getLogger(__name__)

_READ = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET
_WRITE = select.EPOLLOUT | select.EPOLLET
# While its answer waits, a client can only hang up: what else it sends wakes no thread.
_DELAYED = select.EPOLLRDHUP | select.EPOLLET
_HANGUP = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR
_RETIRE_SIGNAL = signal.SIGUSR1
# Events that a thread takes at a time if it is the only one.
_BATCH = 16
# Seconds. A request that takes longer keeps others waiting.
_QUICK = 0.001
# A thread rests for _REST seconds, and again while the others serve at least _MANY requests.
_REST = 0.002
_MANY = 4
_DRAIN_POLL = 0.02
# Seconds after which a thread that was not woken looks for new connections: the kernel may have
# announced one only to a process that hangs.
_GLANCE = 1.0
_NAP = 0.0005
_SWEEP_PERIOD = 0.5


class Server:
    """Serves a WSGI application on an open listening socket.

    Args:
        application: any WSGI application. It runs in up to ``threads`` threads at a time, and
            sees a request only when its body is complete; ``wsgi.input`` ends with the body. If
            it has a method ``stored_tile`` (see `Application`), this answers first.
        sock: the listening socket, which may be shared with other processes. It stays open.
        protocol: `FastCGIConnection` or `HTTPConnection`.
        threads: number of requests served at a time, not counting those that stepped aside
            (`aside`): another thread replaces theirs.
        link: notified when the server is ready, and when it has retired so far that it begins no
            request, but only finishes those that have arrived, at least in part. Connections are
            accepted once its gate is open.
        handover: channel for idle keep-alive connections: given away when this server retires,
            taken from others that retire. Without it, retiring is the same as stopping.
        balance: shared with the other processes that accept on the socket; they get an equal
            number of connections.
        linger: seconds during which a graceful stop still serves requests that arrive on
            keep-alive connections, so the client need not repeat them.
        grace: seconds after which a graceful stop abandons the requests still running.
        limits: those of each connection.
        is_refusing: whether connections can no longer begin, because all processes stop. A
            graceful stop then also serves those that wait to be accepted.
    """

    def __init__(
        self,
        application: WSGIApplication,
        sock: socket.socket,
        protocol: type[Connection],
        *,
        threads: int = 1,
        link: WorkerLink | None = None,
        handover: Handover | None = None,
        balance: Balance | None = None,
        linger: float = 0.5,
        grace: float = 30.0,
        limits: Limits | None = None,
        is_refusing: Callable[[], bool] = bool,
    ) -> None:
        self.application = application
        # Wrappers of the application must see every request, and do not have this method.
        self.stored_tile = getattr(application, "stored_tile", None)
        self.limits = limits or Limits()
        self.environ: dict[str, Any] = {
            **protocol.environ(sock),
            "SCRIPT_NAME": "",
            "SERVER_SOFTWARE": "mastaba",
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.errors": sys.stderr,
            "wsgi.input_terminated": True,
            "wsgi.multithread": threads > 1,
            "wsgi.multiprocess": True,
            "wsgi.run_once": False,
        }
        self.draining = False
        self.retiring = False
        self.reading: set[Connection] = set()
        self._protocol = protocol
        self._is_local = sock.family == socket.AF_UNIX
        self._threads = threads
        self._link = link
        self._handover = handover
        self._answered = 0
        self._resting = 0
        # Threads that serve (neither aside nor parked), and threads that are not needed now.
        self._active = threads
        self._parked = 0
        self._unpark = threading.Semaphore(0)
        self._events: deque[tuple[int, int]] = deque()
        self._workers: list[threading.Thread] = []
        self._linger = linger
        self._grace = grace
        self._is_refusing = is_refusing
        self._connections: dict[int, Connection] = {}
        # Connections with a deadline.
        self._watched: set[Connection] = set()
        self._next_sweep = 0.0
        self._lock = threading.Lock()
        self._here = threading.local()
        self._still_serving = 1
        self._abandoned = False
        self._linger_end = 0.0
        # When the last connections have arrived, and when they must have sent their first request.
        self._accept_end = 0.0
        self._fresh_end = 0.0
        self._grace_end = 0.0
        self._claimed: list[socket.socket] = []
        # Readable when the server stops.
        self._end = os.eventfd(0)
        self._epoll = select.epoll()
        self._epoll.register(self._end, select.EPOLLIN)
        # Each write to it wakes one thread.
        self._bell = os.eventfd(0)
        self._epoll.register(self._bell, select.EPOLLIN | select.EPOLLET)
        self._acceptor = Acceptor(
            sock, self._epoll, self._connections, self._relieve, handover, balance
        )
        self._delays = DelayedAnswers(
            lambda: os.eventfd_write(self._bell, 1), DESCRIPTORS.most_connections
        )

    @property
    def closing(self) -> bool:
        """Whether connections are closed after their response, because the server stops."""
        return self.draining and not self.retiring

    def run(self) -> None:
        """Serve until SIGTERM, SIGQUIT, SIGINT (stop) or SIGUSR1 (retire) arrives.

        Must be called in the main thread. Signals that the process ignores stay ignored.
        """
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        # The other threads may all be busy for long.
        thread = threading.Thread(target=self._obey, args=(reading,), name="signals", daemon=True)
        thread.start()
        try:
            with woken_by((*STOP_SIGNALS, _RETIRE_SIGNAL), writing):
                self.serve()
        finally:
            os.close(writing)
            thread.join()
            self.close()

    def serve(self) -> None:
        """Serve until ``stop`` or ``retire`` is called, then finish the requests in progress.

        Requests that still run after ``grace`` seconds are abandoned.
        """
        for _ in range(1, self._threads):
            self._start_thread()
        if self._link is not None:
            self._link.ready()
            self._await(self._link.gate)
        self._acceptor.begin()
        self._work()
        for thread in self._workers:
            thread.join(max(0.0, self._grace_end - time.monotonic()))
        self._abandoned = any(thread.is_alive() for thread in self._workers)

    def _await(self, gate: Gate) -> None:
        """Wait until the gate is open, or the server stops."""
        poll = select.poll()
        poll.register(gate, select.POLLIN)
        poll.register(self._end, select.POLLIN)
        poll.poll()

    def stop(self) -> None:
        """Request a stop, from any thread: no process will serve these connections any more."""
        self._begin_stop(retiring=False)

    def retire(self) -> None:
        """Request a stop, from any thread, while other processes continue to serve."""
        self._begin_stop(retiring=self._handover is not None)

    def close(self) -> None:
        """Close the descriptors after ``serve``, unless an abandoned thread may use them."""
        self._delays.close()
        if not self._abandoned:
            self._epoll.close()
            os.close(self._end)
            os.close(self._bell)

    @contextmanager
    def aside(self, connection: Connection) -> Iterator[None]:
        """Serve without the calling thread meanwhile: its request takes long."""
        if not connection.registered:
            # To notice when the client hangs up.
            self._register(connection, _READ)
        with self._replaced():
            yield

    @contextmanager
    def _replaced(self) -> Iterator[None]:
        """Let another thread serve instead of the calling one, unless one already does."""
        if getattr(self._here, "replaced", False):
            yield
            return
        self._here.replaced = True
        with self._lock:
            self._active -= 1
            if self._active < self._threads:
                self._active += 1
                if self._parked:
                    self._parked -= 1
                    self._unpark.release()
                else:
                    self._start_thread()
        try:
            yield
        finally:
            self._here.replaced = False
            with self._lock:
                self._active += 1

    def _start_thread(self) -> None:
        awaits_stop = self._still_serving > 0
        self._still_serving += awaits_stop
        thread = threading.Thread(
            target=self._work, args=(awaits_stop,), name="server", daemon=True
        )
        self._workers.append(thread)
        thread.start()

    def _park(self) -> None:
        """Leave serving to the other threads until one of them steps aside."""
        with self._lock:
            if self.draining or self._active <= self._threads:
                return
            self._active -= 1
            self._parked += 1
        self._unpark.acquire()

    def forget(self, connection: Connection) -> None:
        """Forget a connection that is about to close its socket."""
        if self._connections.get(connection.descriptor) is connection:
            del self._connections[connection.descriptor]
            self._acceptor.closed()
        self._watched.discard(connection)
        if connection in self._delays.waiting:
            self._delays.discard(connection)

    def delay(self, connection: Connection, seconds: float) -> bool:
        """Let the next answer of a connection wait, unless the server stops; see `Owner.delay`."""
        return self.draining or self._delays.add(connection, seconds)

    # Calls would cost as much as the work for a request.
    def _work(self, awaits_stop: bool = True) -> None:  # noqa: C901, PLR0912
        """Run a serving thread until the server has stopped."""
        waiting.serve(self._replaced)
        poll = self._epoll.poll
        connections = self._connections
        acceptor = self._acceptor
        # A thread must not hold events that another thread could serve.
        batch = _BATCH if self._threads == 1 else 1
        events_left = self._events
        delayed = self._delays.waiting
        while True:
            if self._active > self._threads:
                self._park()
            timeout = _GLANCE
            if self.draining:
                if awaits_stop:
                    awaits_stop = False
                    for sock in self._confirm_stop():
                        self._welcome(sock)
                if self._drained():
                    return
                timeout = _DRAIN_POLL
            if self._watched:
                self._sweep()
            try:
                if delayed:
                    connection = self._delays.due(at_once=self.draining)
                    if connection is not None:
                        self._serve(connection)
                        timeout = 0.0  # further ones may be due
                if not events_left:
                    # Shared: if this thread steps aside, others take what is left.
                    events_left.extend(poll(timeout, batch))
                    if not events_left and acceptor.accepting:
                        self._welcome(acceptor.take())
                while events_left:
                    try:
                        descriptor, events = events_left.popleft()
                    except IndexError:
                        break  # another thread has taken the last one
                    answered, started = self._answered, perf_counter()
                    found = connections.get(descriptor)
                    if found is not None:
                        if events & _HANGUP:
                            found.hear_hangup()
                        self._serve(found)
                    elif descriptor in acceptor.sources:
                        self._welcome(acceptor.arrived(descriptor))
                    elif descriptor == self._end:
                        # Until all threads have noticed. They must not compete for it.
                        time.sleep(_DRAIN_POLL / 4)
                    if self._threads > 1 and perf_counter() - started < _QUICK:
                        if self._answered != answered:
                            self._rest()
                        self._answered += 1
            except Exception:
                # The thread must survive: it would not be replaced.
                logger.exception("the server failed")
                time.sleep(_DRAIN_POLL)

    def _rest(self) -> None:
        """Leave the next requests to the other threads while they are fast enough.

        Threads that serve requests in tens of microseconds slow each other down: at every system
        call, one waits for the interpreter lock that another has just taken. One thread always
        stays. If its request takes long, another thread returns within milliseconds and stays as
        long as needed.
        """
        with self._lock:
            if self._resting == self._threads - 1:
                return
            self._resting += 1
        answered = -_MANY
        while not self.draining and self._answered - answered >= _MANY:
            answered = self._answered
            time.sleep(_REST)
        with self._lock:
            self._resting -= 1

    def _serve(self, connection: Connection) -> None:
        """Run a connection, unless another thread already does."""
        connection.again = True
        # The owner checks `again` once more after releasing the connection, so an event that
        # arrives while the connection is owned is not lost.
        while connection.again and connection.owned.acquire(blocking=False):
            try:
                connection.again = False
                # An answer that waited, or is being sent, has not announced the end.
                stopping = self.draining and not connection.output
                connection.run()
                self._settle(connection, stopping)
            finally:
                connection.owned.release()

    def _settle(self, connection: Connection, stopping: bool) -> None:
        """Decide how a connection goes on, after it was run.

        Args:
            stopping: the server was about to stop before, so the response was the last one.
        """
        if connection.idle and (self.retiring or (stopping and connection.answered)):
            self._release(connection)
        if connection.open:
            wanted = _READ
            if connection.output:
                wanted = _DELAYED if connection.is_delayed else _WRITE
            if connection.registered != wanted:
                self._register(connection, wanted)
            if connection.deadline != NEVER:
                self._watched.add(connection)

    def _register(self, connection: Connection, wanted: int) -> None:
        first = not connection.registered
        connection.registered = wanted
        if first:
            self._connections[connection.descriptor] = connection
            self._epoll.register(connection.descriptor, wanted)
            self._acceptor.opened()
        else:
            self._epoll.modify(connection.descriptor, wanted)

    def _welcome(self, sock: socket.socket | None) -> None:
        """Serve a new connection.

        Its request has usually arrived already; a connection that is not keep-alive may be served
        and closed without ever being registered.
        """
        if sock is not None:
            self._serve(self._protocol(sock, self))

    def _release(self, connection: Connection) -> None:
        """Close an idle keep-alive connection, or give it to a successor."""
        if not connection.open:
            return
        if self.retiring and self._handover is not None:
            if not self._handover.give(connection.socket):
                return  # tried again: the successors are taking others
            if connection.registered:
                # Closing our descriptor would not unregister a connection that stays open.
                self._epoll.unregister(connection.descriptor)
        connection.close()

    def _relieve(self, reason: str) -> None:
        """Close an idle keep-alive connection, so that another one can be accepted."""
        if not self._close_idle(limit=1):
            logger.warning("cannot accept a connection: %s", reason)
            time.sleep(0.01)

    def _close_idle(self, limit: int | None = None, *, fresh: bool = True) -> int:
        """Close idle connections, or give them to a successor; return how many.

        Args:
            limit: close no more than these.
            fresh: also those on which no request has arrived yet.
        """
        closed = 0
        for connection in list(self._connections.values()):
            if closed == limit:
                break
            is_due = connection.idle and (fresh or connection.answered)
            if is_due and connection.owned.acquire(blocking=False):
                try:
                    if not self.retiring:
                        # A request that has just arrived would be lost.
                        connection.run()
                    if connection.idle:
                        self._release(connection)
                        closed += 1
                    else:
                        self._settle(connection, self.draining)
                finally:
                    connection.owned.release()
        return closed

    def _sweep(self) -> None:
        """Give up the clients that have not sent or received in time."""
        now = time.monotonic()
        if now < self._next_sweep:
            return
        self._next_sweep = now + _SWEEP_PERIOD
        for connection in list(self._watched):
            if connection.owned.acquire(blocking=False):
                try:
                    if connection.deadline == NEVER:
                        self._watched.discard(connection)
                    elif now > connection.deadline:
                        connection.expire()
                        self._settle(connection, self.draining)
                finally:
                    connection.owned.release()

    # Stop

    def _obey(self, signals: int) -> None:
        """Stop or retire when a signal number arrives on a pipe, until its end."""
        while received := os.read(signals, 64):
            if any(number in received for number in STOP_SIGNALS):
                self.stop()
            elif _RETIRE_SIGNAL in received:
                self.retire()
        os.close(signals)

    def _begin_stop(self, *, retiring: bool) -> None:
        with self._lock:
            # If all processes stop, a server that retires can give its connections to none.
            if self.draining and (retiring or not self.retiring):
                return
            self._claimed += self._acceptor.end()
            now = time.monotonic()
            self.retiring = retiring
            self._linger_end = self._fresh_end = now if retiring else now + self._linger
            if not retiring and self._is_refusing():
                # Handshakes of TCP may be in progress.
                self._accept_end = now if self._is_local else self._linger_end
                self._fresh_end = self._linger_end + self._linger
            self._grace_end = now + self._grace
            self.draining = True
            self._active += self._parked
            for _ in range(self._parked):
                self._unpark.release()
            self._parked = 0
        os.eventfd_write(self._end, 1)
        if retiring and self._link is not None:
            # Reading does not wait. A thread that reads from now on sees that the server retires.
            while self.reading:
                time.sleep(_NAP)
            self._link.left()

    def _confirm_stop(self) -> list[socket.socket]:
        """Note that a thread has noticed the stop; return the connections that it must serve."""
        with self._lock:
            self._still_serving -= 1
            if not self._still_serving:
                self._epoll.unregister(self._end)
            claimed, self._claimed = self._claimed, []
            return claimed

    def _drained(self) -> bool:
        now = time.monotonic()
        if self._accept_end and not self.retiring:
            try:
                while (sock := self._acceptor.take()) is not None:
                    self._welcome(sock)
            except OSError:
                logger.exception("the server failed")
            if now < self._accept_end:
                return False
            self._acceptor.shut()
        if now >= self._linger_end:
            self._close_idle(fresh=now >= self._fresh_end)
        return not self._connections or now >= self._grace_end
