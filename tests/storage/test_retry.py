from collections.abc import Iterator
from pathlib import Path

import pytest

from mastaba_server.threads.circuit_breaker import CircuitBreaker
from mastaba_storage.base import ByteRange, ObjectRead
from mastaba_storage.environment import Environment
from mastaba_storage.errors import (
    AccessDeniedError,
    ObjectNotFoundError,
    StorageError,
    StorageUnavailableError,
)
from mastaba_storage.file import FileStorage
from mastaba_storage.managed import ManagedStorage
from mastaba_storage.retry import RetryPolicy


class Flaky(FileStorage):
    """Files whose reads first raise the next error from a list; None means no error."""

    is_remote = True

    def __init__(self, *errors: StorageError | None) -> None:
        super().__init__()
        self.errors: Iterator[StorageError | None] = iter(errors)
        self.reads = 0

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        self.reads += 1
        error = next(self.errors, None)
        if error is not None:
            raise error
        return super().read(key, byte_range, version)


@pytest.fixture
def key(tmp_path: Path) -> str:
    path = tmp_path / "object"
    path.write_bytes(b"content")
    return str(path)


def down() -> StorageUnavailableError:
    return StorageUnavailableError("no answer")


def test_a_failed_read_is_repeated(key: str) -> None:
    inner = Flaky(down(), down())
    storage = ManagedStorage(inner, RetryPolicy(attempts=3, wait=0))
    assert storage.read(key).data == b"content"
    assert inner.reads == 3


def test_the_last_failure_is_raised(key: str) -> None:
    inner = Flaky(down(), down(), StorageUnavailableError("the last one"))
    storage = ManagedStorage(inner, RetryPolicy(attempts=3, wait=0))
    with pytest.raises(StorageUnavailableError, match="the last one"):
        storage.read(key)
    assert inner.reads == 3


@pytest.mark.parametrize("error", [ObjectNotFoundError("absent"), AccessDeniedError("refused")])
def test_absent_objects_and_denied_access_are_not_retried(key: str, error: StorageError) -> None:
    inner = Flaky(error)
    storage = ManagedStorage(inner, RetryPolicy(attempts=3, wait=0))
    with pytest.raises(type(error)):
        storage.read(key)
    assert inner.reads == 1


def test_the_circuit_opens_after_some_failures(key: str) -> None:
    inner = Flaky(*[down() for _ in range(3)])
    storage = ManagedStorage(inner, RetryPolicy(failures=3, pause=1e9))
    for _ in range(5):
        with pytest.raises(StorageUnavailableError):
            storage.read(key)
    assert inner.reads == 3
    with pytest.raises(
        StorageUnavailableError, match=r"because the circuit is open.*no answer"
    ) as caught:
        storage.exists(key)
    assert caught.value.key == key


def test_one_trial_is_allowed_after_the_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("mastaba_server.threads.circuit_breaker.monotonic", lambda: now[0])
    breaker = CircuitBreaker("s3://maps", 2, 10)
    for _ in range(2):
        assert breaker.refusal() is None
        breaker.failed(down())
    assert "2 consecutive failures, the last one: no answer" in (breaker.refusal() or "")
    now[0] += 11
    assert breaker.refusal() is None  # the trial
    assert breaker.refusal() is not None
    breaker.failed(down())
    assert breaker.refusal() is not None
    now[0] += 11
    assert breaker.refusal() is None  # the second trial
    breaker.answered()
    assert breaker.refusal() is None
    assert breaker.refusal() is None


def test_responses_between_failures_keep_the_circuit_closed(key: str) -> None:
    inner = Flaky(down(), ObjectNotFoundError("absent"), down(), None, down(), down())
    storage = ManagedStorage(inner, RetryPolicy(failures=2, pause=1e9))
    outcomes = []
    for _ in range(6):
        try:
            storage.read(key)
            outcomes.append("read")
        except StorageError as error:
            outcomes.append(type(error).__name__)
    assert inner.reads == 6
    assert outcomes[3] == "read"


def test_an_unreadable_object_does_not_open_the_circuit(key: str) -> None:
    inner = Flaky(*[StorageUnavailableError("status 500", answered=True) for _ in range(9)])
    storage = ManagedStorage(inner, RetryPolicy(failures=3, pause=1e9))
    for _ in range(9):
        with pytest.raises(StorageUnavailableError, match="status 500"):
            storage.read(key)
    assert storage.read(key).data == b"content"


def test_the_breaker_can_be_turned_off(key: str) -> None:
    inner = Flaky(*[down() for _ in range(20)])
    storage = ManagedStorage(inner, RetryPolicy(failures=0))
    for _ in range(20):
        with pytest.raises(StorageUnavailableError):
            storage.read(key)
    assert storage.read(key).data == b"content"


def test_policy_comes_from_the_environment() -> None:
    environment = Environment(
        {
            "ROK4_OBJECT_READ_ATTEMPTS": "3",
            "MASTABA_OBJECT_ATTEMPTS_WAIT": "0",
            "MASTABA_OBJECT_BREAKER_FAILURES": "many",
        }
    )
    policy = RetryPolicy.from_environment(environment)
    assert policy == RetryPolicy(attempts=3, wait=0, failures=5, pause=10)
    zero = Environment({"MASTABA_OBJECT_READ_ATTEMPTS": "0"})
    assert RetryPolicy.from_environment(zero) == RetryPolicy()


def test_it_has_the_attributes_of_the_wrapped_storage() -> None:
    inner = Flaky()
    storage = ManagedStorage(inner, RetryPolicy())
    assert (storage.name, storage.full_name, storage.container_field) == ("file", "file://", None)
    assert storage.is_remote
    storage.close()
    storage.close()
