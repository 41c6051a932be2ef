"""Messages between the supervisor and its workers: readiness, and changes for all processes.

Each worker has a socket to the supervisor, created before the fork. A message is a JSON list on a
line. A worker submits a change to the supervisor, which makes changes one at a time: first in
itself, so workers forked later have them, then in every live worker. It reports success only when
every worker has the change.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from queue import SimpleQueue
from typing import Any, Final, Literal

from mastaba_server.errors import ChangeRefusedError
from mastaba_server.processes.handover import Gate

logger = logging.getLogger(__name__)

Change = dict[str, Any]
"""A change as a JSON object, opaque to this package."""

_ToSupervisor = Literal["ready", "left", "spent", "reload", "submit", "applied", "failed"]
_ToWorker = Literal["apply", "result"]

_RECEIVE_SIZE: Final = 1 << 16
# Seconds that a worker may take for one change.
_PATIENCE: Final = 30.0
_STOPPING: Final = ("unavailable", "the server is about to stop")


class WorkerLink:
    """A worker's end of its channel; every method may be called from any thread.

    Attributes:
        gate: the worker serves once it is open.
    """

    def __init__(self, index: int, sock: socket.socket, gate: Gate) -> None:
        self.index = index
        self.gate = gate
        self._sock = sock
        self._lock = threading.Lock()
        # Held until a change is answered: the supervisor makes one at a time anyway.
        self._submitting = threading.Lock()
        self._refusals: SimpleQueue[Sequence[str] | None] = SimpleQueue()

    def ready(self) -> None:
        """Report that this worker serves from now on, or once the gate is open."""
        self._send("ready")

    def left(self) -> None:
        """Report that this worker has retired: it finishes its requests, and begins none."""
        self._send("left")

    def spent(self) -> None:
        """Report that this worker has served its number of requests and must be replaced.

        May be repeated until it is.
        """
        self._send("spent")

    def reload(self) -> None:
        """Ask for a reload; return before it begins."""
        self._send("reload")

    def submit(self, change: Change) -> None:
        """Make a change in all processes; return when all of them have it.

        Requires `follow`, since this process is one of them.

        Raises:
            ChangeRefusedError: nothing was changed.
        """
        with self._submitting:
            refusal = self._refusals.get() if self._send("submit", change) else _STOPPING
        if refusal is not None:
            raise ChangeRefusedError(*refusal)

    def follow(self, apply: Callable[[Change], None]) -> None:
        """Start to receive changes; ``apply`` makes each of them in this process.

        If it raises, the supervisor replaces this worker.
        """
        threading.Thread(target=self._follow, args=(apply,), name="control", daemon=True).start()

    def _follow(self, apply: Callable[[Change], None]) -> None:
        with contextlib.suppress(OSError), self._sock.makefile("rb") as lines:
            for line in lines:
                self._receive(apply, *json.loads(line))
        self._refusals.put(_STOPPING)

    def _receive(self, apply: Callable[[Change], None], kind: str, content: Any) -> None:
        if kind == "result":
            self._refusals.put(content)
            return
        try:
            apply(content)
        except Exception:
            logger.exception("a change cannot be applied in this worker")
            self._send("failed")
        else:
            self._send("applied")

    def _send(self, kind: _ToSupervisor, *content: Any) -> bool:
        """Send a message; return False if the supervisor is gone."""
        try:
            with self._lock:
                self._sock.sendall(_line(kind, *content))
        except OSError:
            return False
        return True


class Worker:
    """A worker process as the supervisor sees it. Sending and receiving never wait.

    Attributes:
        epoch: what it serves.
        started: monotonic seconds.
        ready: whether it serves, or will once the gate is open.
        retired_at: since when it is stopping because others replace it; 0 if it is not.
        left: whether it begins no more requests.
        ticks: number of ticks when they were last looked at.
        still: seconds for which it has not ticked while the supervisor watched.
        broken: whether its end of the channel is closed.
    """

    def __init__(self, pid: int, index: int, sock: socket.socket, epoch: object) -> None:
        sock.setblocking(False)
        self.pid = pid
        self.index = index
        self.epoch = epoch
        self.started = time.monotonic()
        self.ready = False
        self.retired_at = 0.0
        self.left = False
        self.ticks = 0
        self.still = 0.0
        self.broken = False
        self._sock = sock
        self._input = b""
        self._output = b""

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process. It exists until the supervisor has reaped it."""
        os.kill(self.pid, number)

    def retire(self) -> None:
        """Let the process finish its requests while others replace it."""
        self.retired_at = time.monotonic()
        self.still = 0.0
        self.signal(signal.SIGUSR1)

    def replace(self, reason: str) -> None:
        """Retire the process, unless it is stopping already."""
        if not self.retired_at:
            logger.warning("process %d is replaced: %s", self.pid, reason)
            self.retire()

    def fileno(self) -> int:
        return self._sock.fileno()

    @property
    def wants_to_send(self) -> bool:
        return bool(self._output)

    def send(self, kind: _ToWorker, content: Any) -> None:
        """Send a message, now or once the socket has room for it."""
        self._output += _line(kind, content)
        self.flush()

    def flush(self) -> None:
        """Send as much as the socket has room for."""
        try:
            while self._output:
                self._output = self._output[self._sock.send(self._output) :]
        except BlockingIOError:
            pass
        except OSError:
            # The worker has died and is about to be reaped.
            self.broken, self._output = True, b""

    def receive(self) -> Iterator[list[Any]]:
        """Yield the messages that have arrived."""
        while not self.broken:
            try:
                data = self._sock.recv(_RECEIVE_SIZE)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            self.broken = not data
            *lines, self._input = (self._input + data).split(b"\n")
            yield from map(json.loads, lines)

    def close(self) -> None:
        self._sock.close()


class Coordinator:
    """The supervisor's side: accepts changes one at a time, and sends each to all workers.

    Args:
        workers: all live workers by process id, as they are at any time.
        carry_out: makes a change in the supervisor. Raises `ChangeRefusedError` if it refuses;
            any other exception counts as a failure.
        made: called when all workers have made a change.

    Attributes:
        reload_wanted: whether a worker, or anything else, asks for a reload.
    """

    def __init__(
        self,
        workers: Mapping[int, Worker],
        carry_out: Callable[[Change], None],
        made: Callable[[], None],
    ) -> None:
        self._workers = workers
        self._carry_out = carry_out
        self._made = made
        # By process id: each worker submits one change at a time.
        self._queue: dict[int, Change] = {}
        self._asked_by: int | None = None
        self._waiting: set[int] = set()
        self._deadline = 0.0
        self._closed = False
        self.reload_wanted = False

    def forget(self, pid: int) -> None:
        """Forget a worker that has exited, and stop waiting for it."""
        self._queue.pop(pid, None)
        self._settled(pid)

    def handle(self, worker: Worker) -> None:
        """Process a worker's messages, and send it what had no room before."""
        worker.flush()
        for kind, *rest in worker.receive():
            if kind == "ready":
                worker.ready = True
            elif kind == "left":
                worker.left = True
            elif kind == "spent":
                worker.replace("it has served its number of requests")
            elif kind == "reload":
                self.reload_wanted = True
            elif kind == "submit":
                self._queue[worker.pid] = rest[0]
            elif kind == "applied":
                self._settled(worker.pid)
            elif kind == "failed":
                worker.replace("it cannot follow a change")
                self._excuse(worker)
        self._next()

    def tick(self) -> None:
        """Kill the workers that did not respond to a change in time."""
        if self._waiting and time.monotonic() >= self._deadline:
            self._deadline = time.monotonic() + _PATIENCE
            for pid in self._waiting:
                self._workers[pid].signal(signal.SIGKILL)

    def close(self) -> None:
        """Refuse changes from now on, but complete the one in progress."""
        self._closed = True
        if self._asked_by is not None and not self._waiting:
            # The stop interrupted the supervisor's own part of the change.
            self._finish(_STOPPING)
        self._next()

    def _next(self) -> None:
        while self._queue and self._asked_by is None:
            self._asked_by = next(iter(self._queue))
            change = self._queue.pop(self._asked_by)
            try:
                if self._closed:
                    raise ChangeRefusedError(*_STOPPING)
                self._carry_out(change)
            except ChangeRefusedError as error:
                self._finish((error.reason, str(error)))
            except Exception:
                logger.exception("a change cannot be made")
                self._finish(("failed", "internal error"))
            else:
                self._broadcast(change)

    def _broadcast(self, change: Change) -> None:
        self._waiting = set(self._workers)
        self._deadline = time.monotonic() + _PATIENCE
        for worker in self._workers.values():
            worker.send("apply", change)

    def _settled(self, pid: int) -> None:
        if pid in self._waiting:
            self._waiting.discard(pid)
            if not self._waiting:
                self._finish(None)
                self._next()

    def _excuse(self, worker: Worker) -> None:
        """Release a worker that cannot apply a change and is about to be replaced.

        A change completes only when this worker has exited, since it may still serve the old
        state. But it exits only after its requests, which therefore must not wait for changes.
        """
        pid = worker.pid
        if self._queue.pop(pid, None) is not None:
            worker.send("result", _STOPPING)
        if self._asked_by == pid:
            self._settled(pid)

    def _finish(self, refusal: tuple[str, str] | None) -> None:
        assert self._asked_by is not None
        worker = self._workers.get(self._asked_by)
        self._asked_by = None
        if worker is not None:
            worker.send("result", refusal)
        if refusal is None:
            self._made()


def _line(*message: Any) -> bytes:
    return json.dumps(message).encode() + b"\n"
