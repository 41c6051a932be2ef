"""State notifications to a service manager: the datagrams of sd_notify(3)."""

from __future__ import annotations

import contextlib
import math
import os
import socket
import threading
import time
from collections.abc import Iterator, MutableMapping


class Notifier:
    """Sends states to the socket named by systemd; without one, every method does nothing.

    :param environment: contains ``NOTIFY_SOCKET``, ``WATCHDOG_USEC`` and ``WATCHDOG_PID``. They
        are removed: programs started by the server must not notify.
    """

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        self._address = _address(environment.pop("NOTIFY_SOCKET", ""))
        microseconds, pid = (environment.pop(f"WATCHDOG_{name}", "") for name in ("USEC", "PID"))
        self._period = _watchdog_period(microseconds, pid) if self._address else None
        self._next = time.monotonic()
        self._is_ready = False

    @property
    def timeout(self) -> float:
        """Seconds until `tick` has something to do."""
        return math.inf if self._period is None else max(0.0, self._next - time.monotonic())

    def ready(self) -> None:
        """Report that requests are served, or that a reload has finished."""
        if not self._is_ready:
            self._is_ready = True
            self._send("READY=1")

    def reloading(self) -> None:
        """Report that a reload begins."""
        self._is_ready = False
        # The time lets the manager ignore states sent before it requested the reload.
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """Report that a graceful stop begins."""
        self._is_ready = True
        self._send("STOPPING=1")

    def tick(self) -> None:
        """Report that the supervisor is alive, if a report is due."""
        if self._period is not None and time.monotonic() >= self._next:
            self._next = time.monotonic() + self._period
            self._send("WATCHDOG=1")

    @contextlib.contextmanager
    def kept_alive(self) -> Iterator[None]:
        """Keep reporting during work that may take longer than the watchdog allows.

        Storage that is slow while a configuration is read must not end a working server.
        """
        if self._period is None:
            yield
            return
        over = threading.Event()

        def say() -> None:
            while not over.wait(self.timeout):
                self.tick()

        thread = threading.Thread(target=say, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _send(self, state: str) -> None:
        if self._address is None:
            return
        # If the manager does not listen, neither fail nor wait.
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock,
        ):
            sock.sendto(state.encode(), self._address)


def _address(text: str) -> str | None:
    if text.startswith("@"):
        return "\0" + text[1:]
    return text if text.startswith("/") else None


def _watchdog_period(microseconds: str, pid: str) -> float | None:
    """Return the seconds between two watchdog reports: half of what the manager allows."""
    if not (microseconds.isascii() and microseconds.isdigit() and int(microseconds) > 0):
        return None
    if pid and pid != str(os.getpid()):
        return None
    return int(microseconds) / 2e6
