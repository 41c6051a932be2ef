"""Level *faults*: a store that refuses, fails or is silent is reported, never as absence."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from mastaba.api.storages import Storage
from mastaba.errors import AccessDeniedError, StorageError, StorageUnavailableError
from mastaba_conformance.deadline import CALLS, together
from mastaba_conformance.storage.kit import DATA, StorageKit, check_read, operations

_LONGEST_SLEEP = 0.1
"""Seconds, of all reads together."""


@contextmanager
def _no_sleep() -> Iterator[None]:
    """Fail if the driver sleeps before it reports a failure; `Storage` says who repeats reads."""
    slept: list[float] = []
    really_sleep = time.sleep

    def sleep(seconds: float) -> None:
        if threading.current_thread().name == CALLS:
            slept.append(seconds)
        else:
            really_sleep(seconds)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(time, "sleep", sleep)
        yield
    total = sum(slept)
    assert total <= _LONGEST_SLEEP, (
        f"the driver sleeps {total:g} s before it reports that the store fails, while requests "
        "wait; Mastaba repeats reads by itself"
    )


class FaultTests(StorageKit):
    level = "faults"

    def _check_all(
        self, what: str, storage: Callable[[], Storage], key: str, kind: type[StorageError]
    ) -> None:
        """Check that opening a container, or else every read of it, raises an error."""

        def attempt(name: str) -> None:
            opened: Storage | None = None
            try:
                opened = storage()
                result = operations(opened, key)[name]()
            except kind as error:
                if not error.storage:
                    pytest.fail(f"{name} of {what}: the error does not name the storage")
                return
            except StorageError as error:
                pytest.fail(f"{name} of {what} raises {error!r} instead of {kind.__name__}")
            finally:
                if opened is not None:
                    opened.close()
            pytest.fail(f"{name} of {what} returns {result!r:.80} instead of {kind.__name__}")

        names = operations(storage, key)  # type: ignore[arg-type]
        together(
            self.call_limit,
            f"a read of {what}",
            [lambda name=name: attempt(name) for name in names],  # type: ignore[misc]
        )

    def test_invalid_credentials_are_refused(
        self, open_refused: Callable[[], Storage], key: str
    ) -> None:
        with _no_sleep():
            self._check_all("a store that refuses", open_refused, key, AccessDeniedError)

    def test_unreachable_store_is_reported(
        self, open_unreachable: Callable[[], Storage], key: str
    ) -> None:
        with _no_sleep():
            self._check_all("an unreachable store", open_unreachable, key, StorageUnavailableError)

    def test_silent_store_is_reported(self, open_silent: Callable[[], Storage], key: str) -> None:
        self._check_all("a silent store", open_silent, key, StorageUnavailableError)

    def test_outage_is_reported_until_it_is_over(
        self, storage: Storage, key: str, outage: Callable[[], AbstractContextManager[Any]]
    ) -> None:
        check_read(storage.read(key), DATA)
        with outage():
            for name in (key, f"{key}-absent"):
                for call in operations(storage, name).values():
                    with pytest.raises(StorageUnavailableError):
                        call()
        check_read(storage.read(key), DATA)
        assert storage.exists(key) is True
        assert storage.exists(f"{key}-absent") is False
