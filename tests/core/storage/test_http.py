"""Responses with invalid headers or unlimited bodies."""

from __future__ import annotations

from typing import Self

import pytest

from mastaba.environment import Environment
from mastaba.errors import StorageError, StorageUnavailableError
from mastaba.storage.base import ByteRange
from mastaba.storage.http import HTTPAnswer, HTTPClient, HTTPStorage

LONG = "9" * 5000


class OneAnswer(HTTPStorage):
    """A storage that gets the same response to every request."""

    name = "one"
    container_field = None

    def __init__(self, answer: HTTPAnswer) -> None:
        super().__init__("box", HTTPClient("http://127.0.0.1:1", 1))
        self._answer = answer

    @classmethod
    def open(cls, container: str, environment: Environment) -> Self:
        raise NotImplementedError

    def send(
        self, method: str, key: str, headers: dict[str, str], limit: int | None = None
    ) -> HTTPAnswer:
        answer = self._answer
        return HTTPAnswer(answer.status, answer.headers, answer.body[:limit])


@pytest.mark.parametrize(
    "header",
    [f"bytes 0-3/{LONG}", f"bytes 0-{LONG}/4", f"bytes {LONG}-3/4", "bytes 3-0/4", "bytes", ""],
)
def test_invalid_content_range_is_an_error(header: str) -> None:
    storage = OneAnswer(HTTPAnswer(206, {"Content-Range": header}, b"1234"))
    with pytest.raises(StorageUnavailableError):
        storage.read("key", ByteRange(0, 4))


@pytest.mark.parametrize("size", [LONG, "-1", "1_0", "²", ""])
def test_invalid_content_length_is_an_error(size: str) -> None:
    with pytest.raises(StorageUnavailableError):
        OneAnswer(HTTPAnswer(200, {"Content-Length": size}, b"")).stat("key")


@pytest.mark.parametrize(
    "date", ["", "yesterday", "Wed, 21 Oct 99999999999 07:28:00 GMT", "\udcff"]
)
def test_invalid_last_modified_is_ignored(date: str) -> None:
    answer = HTTPAnswer(200, {"Last-Modified": date}, b"1234")
    assert OneAnswer(answer).read("key").modified is None


def test_body_that_is_too_large_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mastaba.storage.http.MAX_WHOLE", 3)
    with pytest.raises(StorageError, match="too large"):
        OneAnswer(HTTPAnswer(200, {}, b"1234")).read("key")
