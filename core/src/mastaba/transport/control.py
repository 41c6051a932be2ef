"""What the supervisor and its workers tell each other: readiness, and changes for all of them.

Each worker has a socket to the supervisor, made before it is forked. A change that one worker is
asked for goes to the supervisor, which carries changes out one at a time: first in itself, so
that workers forked later have it, then in every live worker. The worker that asked learns of the
success only when no worker is left that has not got it.
"""

from __future__ import annotations

import itertools
import json
import logging
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, Final

from mastaba.errors import ChangeRefusedError

logger = logging.getLogger(__name__)

Change = dict[str, Any]
"""A change as JSON can express it; this package does not look into it."""

_READY: Final = "ready"
_SPENT: Final = "spent"
_SUBMIT: Final = "submit"
_APPLY: Final = "apply"
_APPLIED: Final = "applied"
_FAILED: Final = "failed"
_RESULT: Final = "result"

_LENGTH: Final = struct.Struct("!L")
_RECEIVE_SIZE: Final = 1 << 16
_STOPPING: Final = ("unavailable", "the server is about to stop")


class WorkerLink:
    """A worker's end of its channel; every method may be called from any thread.

    Args:
        index: number of the worker, which no other live worker has.
        sock: its end of the socket pair.
    """

    def __init__(self, index: int, sock: socket.socket) -> None:
        self.index = index
        self._sock = sock
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._results: dict[int, Future[None]] = {}

    def ready(self) -> None:
        """Say that this worker serves from now on."""
        self._send(_READY)

    def spent(self) -> None:
        """Say that this worker has served long enough, and shall be replaced."""
        self._send(_SPENT)

    def submit(self, change: Change) -> None:
        """Have a change carried out in all processes; returns when all of them have it.

        Needs `follow`, since this process is one of them.

        Raises:
            ChangeRefusedError: nothing was changed.
        """
        number = next(self._numbers)
        result: Future[None] = Future()
        self._results[number] = result
        if not self._send(_SUBMIT, number, change):
            self._results.pop(number, None)
            raise ChangeRefusedError(*_STOPPING)
        result.result()

    def follow(self, apply: Callable[[Change], None]) -> None:
        """Begin to take changes, each of which ``apply`` makes in this process.

        When it raises, the supervisor replaces this worker.
        """
        threading.Thread(target=self._follow, args=(apply,), name="control", daemon=True).start()

    def _follow(self, apply: Callable[[Change], None]) -> None:
        for kind, *rest in self._messages():
            if kind == _APPLY:
                try:
                    apply(rest[0])
                except Exception:
                    logger.exception("a change could not be followed")
                    self._send(_FAILED)
                else:
                    self._send(_APPLIED)
            elif kind == _RESULT:
                number, refusal = rest
                self._resolve(number, refusal)
        for number in list(self._results):
            self._resolve(number, _STOPPING)

    def _resolve(self, number: int, refusal: list[str] | tuple[str, str] | None) -> None:
        result = self._results.pop(number, None)
        if result is None:
            return
        if refusal is None:
            result.set_result(None)
        else:
            result.set_exception(ChangeRefusedError(*refusal))

    def _messages(self) -> Iterator[list[Any]]:
        stream = _Unpacker()
        while True:
            try:
                data = self._sock.recv(_RECEIVE_SIZE)
            except OSError:
                return
            if not data:
                return
            yield from stream.feed(data)

    def _send(self, *message: Any) -> bool:
        """Send a message; returns False when the supervisor is gone."""
        data = _pack(message)
        with self._lock:
            try:
                self._sock.sendall(data)
            except OSError:
                return False
        return True


class Channel:
    """The supervisor's end of the channel to one worker. It never waits."""

    def __init__(self, pid: int, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.pid = pid
        self.broken = False
        self._sock = sock
        self._input = _Unpacker()
        self._output = b""

    def fileno(self) -> int:
        return self._sock.fileno()

    @property
    def wants_to_send(self) -> bool:
        return bool(self._output)

    def send(self, *message: Any) -> None:
        """Send a message, now or when the worker has room for it."""
        self._output += _pack(message)
        self.flush()

    def flush(self) -> None:
        """Send what there is room for."""
        try:
            while self._output:
                self._output = self._output[self._sock.send(self._output) :]
        except BlockingIOError:
            pass
        except OSError:
            # The worker is about to be found dead.
            self.broken, self._output = True, b""

    def receive(self) -> Iterator[list[Any]]:
        """Yield the messages that have arrived."""
        while True:
            try:
                data = self._sock.recv(_RECEIVE_SIZE)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.broken = True
                return
            yield from self._input.feed(data)

    def close(self) -> None:
        self._sock.close()


class Coordinator:
    """The supervisor's side: takes changes one at a time, and brings each to all workers.

    Args:
        carry_out: makes a change in the supervisor, and returns it as the workers shall make it.
            Raises `ChangeRefusedError` when it is not made; anything else counts as a failure.
        on_ready: called with the process of a worker that serves from now on.
        replace: called with the process of a worker that has to be replaced, and why.
        kill: called with the process of a worker that does not react.
        patience: seconds that a worker may take for one change.
    """

    def __init__(
        self,
        carry_out: Callable[[Change], Change],
        *,
        on_ready: Callable[[int], None],
        replace: Callable[[int, str], None],
        kill: Callable[[int], None],
        patience: float = 30.0,
    ) -> None:
        self._carry_out = carry_out
        self._on_ready = on_ready
        self._replace = replace
        self._kill = kill
        self._patience = patience
        self._channels: dict[int, Channel] = {}
        self._queue: deque[tuple[int, int, Change]] = deque()
        self._asked_by: tuple[int, int] | None = None
        self._waiting: set[int] = set()
        self._deadline = 0.0
        self._closed = False

    @property
    def channels(self) -> list[Channel]:
        """Those to listen to."""
        return [channel for channel in self._channels.values() if not channel.broken]

    @property
    def timeout(self) -> float | None:
        """Seconds until `tick` has something to do."""
        return max(0.0, self._deadline - time.monotonic()) if self._waiting else None

    def add(self, channel: Channel) -> None:
        """Begin to talk to a worker."""
        self._channels[channel.pid] = channel

    def remove(self, pid: int) -> None:
        """Forget a worker that has ended; nobody waits for it any more."""
        channel = self._channels.pop(pid, None)
        if channel is not None:
            channel.close()
        self._queue = deque(entry for entry in self._queue if entry[0] != pid)
        self._settled(pid)

    def handle(self, channel: Channel) -> None:
        """Do what a worker asks for, and send it what had no room before."""
        channel.flush()
        for kind, *rest in channel.receive():
            if kind == _READY:
                self._on_ready(channel.pid)
            elif kind == _SPENT:
                self._replace(channel.pid, "it has served its number of requests")
            elif kind == _SUBMIT:
                self._queue.append((channel.pid, rest[0], rest[1]))
            elif kind == _APPLIED:
                self._settled(channel.pid)
            elif kind == _FAILED:
                self._replace(channel.pid, "it cannot follow a change")
                self._excuse(channel)
        self._next()

    def abandon(self) -> None:
        """Close the channels in a worker: they are the supervisor's."""
        for channel in self._channels.values():
            channel.close()
        self._channels = {}

    def tick(self) -> None:
        """End the workers that have not reacted to a change in due time."""
        if self._waiting and time.monotonic() >= self._deadline:
            self._deadline = time.monotonic() + self._patience
            for pid in list(self._waiting):
                self._kill(pid)

    def close(self) -> None:
        """Refuse changes from now on; the one that is on its way is brought to its end."""
        self._closed = True
        if self._asked_by is not None and not self._waiting:
            # The stop left the supervisor's own part of it unfinished.
            self._finish(_STOPPING)
        self._next()

    def _next(self) -> None:
        while self._queue and self._asked_by is None:
            pid, number, change = self._queue.popleft()
            self._asked_by = pid, number
            if self._closed:
                self._finish(_STOPPING)
                continue
            try:
                change = self._carry_out(change)
            except ChangeRefusedError as error:
                self._finish((error.reason, str(error)))
            except Exception:
                logger.exception("a change failed")
                self._finish(("failed", "internal error"))
            else:
                self._broadcast(change)

    def _broadcast(self, change: Change) -> None:
        self._waiting = set(self._channels)
        self._deadline = time.monotonic() + self._patience
        for channel in self._channels.values():
            channel.send(_APPLY, change)
        if not self._waiting:
            self._finish(None)

    def _settled(self, pid: int) -> None:
        if pid in self._waiting:
            self._waiting.discard(pid)
            if not self._waiting:
                self._finish(None)
                self._next()

    def _excuse(self, channel: Channel) -> None:
        """Let go of a worker that cannot follow, and is about to be replaced.

        It is waited for until it has ended, since it may still answer as before; but its end
        waits for the requests in it, which must not wait for changes.
        """
        pid = channel.pid
        for asker, number, _ in self._queue:
            if asker == pid:
                channel.send(_RESULT, number, _STOPPING)
        self._queue = deque(entry for entry in self._queue if entry[0] != pid)
        if self._asked_by is not None and self._asked_by[0] == pid:
            self._settled(pid)

    def _finish(self, refusal: tuple[str, str] | None) -> None:
        assert self._asked_by is not None
        pid, number = self._asked_by
        self._asked_by = None
        channel = self._channels.get(pid)
        if channel is not None:
            channel.send(_RESULT, number, refusal)


class _Unpacker:
    """Finds the messages in a stream of bytes."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[list[Any]]:
        """Yield the messages that are complete with these bytes."""
        self._data += data
        while len(self._data) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._data)[0]
            if len(self._data) < end:
                return
            message: list[Any] = json.loads(self._data[_LENGTH.size : end])
            del self._data[:end]
            yield message


def _pack(message: tuple[Any, ...]) -> bytes:
    data = json.dumps(message).encode()
    return _LENGTH.pack(len(data)) + data
