"""The lock of a pyramid: one builder at a time, on this machine or another one."""

from __future__ import annotations

import json
import os
import random
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mastaba_build.errors import BuildError, LockedError, OutputError
from mastaba_build.output.storage import OutputStore

_BEAT = 10.0
"""Seconds between two signs of life of a builder."""
_ABANDONED = 90.0
"""Seconds without a sign of life after which a lock is abandoned."""
_TRIES = 10


class Lock:
    """A lock that this process holds.

    Args:
        store: store of the pyramid.
        key: key of the lock.
    """

    def __init__(self, store: OutputStore, key: str) -> None:
        self._store = store
        self._key = key
        self._token = secrets.token_hex(8)
        self._stop = threading.Event()
        self._error: str | None = None
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def take(self) -> None:
        """Take the lock, also that of a builder that was killed.

        Raises:
            LockedError: another process holds it.
            OutputError: it cannot be written.
        """
        for _ in range(_TRIES):
            if self._is_taken():
                break
            # Longer than others need to remove the same claim, and not the same for all.
            time.sleep(random.uniform(0.2, 0.5))  # noqa: S311 - no secret
        else:
            raise LockedError(f"the claim of the lock {self._key} cannot be removed; retry")
        self.check()
        for key in (self._key, f"{self._key}.claim"):
            self._store.remove_leftovers_of(key, age=_ABANDONED)
        self._thread.start()

    def _is_taken(self) -> bool:
        """Try to take the lock; return False if a builder was killed while it did the same."""
        # Some gateways replace an object in spite of the condition.
        self._refuse(self._holder(self._key))
        try:
            self._store.write(self._key, self._text(), only_if_absent=True)
        except FileExistsError:
            return self._is_taken_over()
        return True

    def _is_taken_over(self) -> bool:
        """Replace an abandoned lock; only the builder that makes a claim may do it."""
        claim = f"{self._key}.claim"
        try:
            self._store.write(claim, self._text(), only_if_absent=True)
        except FileExistsError:
            if _is_abandoned(self._holder(claim)):
                self._store.delete(claim)
                return False
            raise LockedError(f"another process takes over the lock {self._key}; retry") from None
        try:
            self._refuse(self._holder(self._key))
            self._store.write(self._key, self._text())
        finally:
            self._store.delete(claim)
        return True

    def check(self) -> None:
        """Check that this process still holds the lock.

        Raises:
            LockedError: another process has taken it over, or it was removed.
            OutputError: it cannot be read.
        """
        holder = self._holder(self._key)
        if holder.get("token") != self._token:
            raise LockedError(
                f"the lock {self._key} was taken over by {holder.get('host')} process "
                f"{holder.get('process')}"
                if holder
                else f"the lock {self._key} was removed; build again"
            )
        if self._error is not None:
            raise LockedError(self._error)

    @property
    def is_lost(self) -> bool:
        """Whether the last renewal found another holder; `check` says which one."""
        return self._error is not None

    def release(self) -> None:
        """Release the lock, if this process still holds it."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        with suppress(BuildError):
            if self._holder(self._key).get("token") == self._token:
                self._store.delete(self._key)

    def _refuse(self, holder: dict[str, Any]) -> None:
        if holder and holder.get("token") != self._token and not _is_abandoned(holder):
            raise LockedError(
                f"{holder.get('host')} process {holder.get('process')} builds this pyramid; wait "
                f"until it exits (its lock {self._key} ends {_ABANDONED:.0f} s after its last sign "
                "of life)"
            )

    def _text(self) -> bytes:
        facts = {
            "host": socket.gethostname(),
            "process": os.getpid(),
            "started": _start_of(os.getpid()),
            "token": self._token,
            "time": time.time(),
        }
        return (json.dumps(facts) + "\n").encode()

    def _holder(self, key: str) -> dict[str, Any]:
        """Return what a lock or a claim says; nothing if there is none, or if it is damaged."""
        data = self._store.read_if_exists(key)
        try:
            found = json.loads(data or b"{}")
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def _beat(self) -> None:
        while not self._stop.wait(_BEAT):
            try:
                self.check()
                self._store.write(self._key, self._text())
            except LockedError as error:
                self._error = str(error)
                return
            except OutputError:
                pass  # the build itself finds out


@contextmanager
def locked(store: OutputStore, key: str) -> Iterator[Lock]:
    """Hold a lock while a build runs; its file names the host and the process.

    A thread renews it. The lock of a process that was killed is taken over: at once on the same
    host, and on others when it has not been renewed for 90 s.

    Raises:
        LockedError: another process holds it.
        OutputError: it cannot be written.
    """
    lock = Lock(store, key)
    lock.take()
    try:
        yield lock
    finally:
        lock.release()


def _is_abandoned(holder: dict[str, Any]) -> bool:
    process, beat = holder.get("process"), holder.get("time")
    if holder.get("host") == socket.gethostname() and isinstance(process, int):
        started = _start_of(process)
        if started is None or started != holder.get("started"):
            return True
    return not isinstance(beat, int | float) or time.time() - beat > _ABANDONED


def _start_of(process: int) -> str | None:
    """Return what identifies a running process with its number; None if it does not run."""
    try:
        facts = Path(f"/proc/{process}/stat").read_text("ascii", "replace")
    except OSError:
        return _is_running(process)
    # The name of the program, in parentheses, may contain anything.
    fields = facts.rpartition(")")[2].split()
    boot = Path("/proc/sys/kernel/random/boot_id")
    state, started = fields[0], fields[19]
    return None if state == "Z" else f"{boot.read_text().strip()} {started}"


def _is_running(process: int) -> str | None:
    """Return a constant if a process runs, on systems without /proc; else None."""
    if os.path.isdir("/proc/self"):
        return None
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return None
    except OSError:
        pass
    return "running"
