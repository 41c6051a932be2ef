"""Stores that redirect, or answer lists wrongly: clear errors, nothing endless, no token lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import cycle

import pytest
from tests.support.scripted import Answer, Asked, Reply, scripted

from mastaba.errors import StorageError, StorageUnavailableError
from mastaba_storage.environment import Environment
from mastaba_storage_swift.writer import SwiftWriter

OpenWriter = Callable[[Answer], SwiftWriter]


@pytest.fixture
def open_writer() -> Iterator[OpenWriter]:
    with ExitStack() as stack:

        def open_writer(answer: Answer) -> SwiftWriter:
            def with_token(asked: Asked) -> Reply | None:
                if asked.target == "/auth/v1.0":
                    return Reply(200, b"", {"X-Auth-Token": "t", "X-Storage-Url": "http://x/"})
                return answer(asked)

            url = stack.enter_context(scripted(with_token))
            names = {
                "SWIFT_AUTHURL": f"{url}/auth/v1.0",
                "SWIFT_PUBLICURL": f"{url}/v1/A",
                "SWIFT_ACCOUNT": "a",
                "SWIFT_USER": "u",
                "SWIFT_PASSWD": "p",
            }
            environment = Environment({f"MASTABA_{name}": text for name, text in names.items()})
            return SwiftWriter.open("maps", environment)

        yield open_writer


LISTED = json.dumps([{"name": "P/a", "hash": "1"}, {"name": "P/b", "hash": "2"}]).encode()


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>Sign in</html>", b'{"a": 1}', b"[1]", b'[{"hash": "1"}]', b"\xff", LISTED],
    ids=["empty", "page", "object", "number", "no name", "no text", "same page"],
)
def test_a_list_that_cannot_be_used_is_an_error(open_writer: OpenWriter, body: bytes) -> None:
    writer = open_writer(lambda _: Reply(200, body, {"Content-Type": "application/json"}))
    with pytest.raises(StorageUnavailableError, match=r"not a list|no end"):
        list(writer.list("P/"))


@pytest.mark.parametrize("operation", ["write", "read", "stat", "list", "delete"])
def test_redirects_are_not_followed(open_writer: OpenWriter, operation: str) -> None:
    """A PUT would become a GET of a page, and look as if it had succeeded."""
    elsewhere: list[Asked] = []

    def other(asked: Asked) -> Reply:
        elsewhere.append(asked)
        return Reply(200, LISTED if operation == "list" else b"Sign in", {"ETag": '"x"'})

    with scripted(other) as url:
        writer = open_writer(lambda _: Reply(302, b"", {"Location": f"{url}/login"}))
        calls: dict[str, Callable[[], object]] = {
            "write": lambda: writer.write("key", b"data"),
            "read": lambda: writer.read("key"),
            "stat": lambda: writer.stat("key"),
            "list": lambda: list(writer.list("")),
            "delete": lambda: writer.delete("key"),
        }
        with pytest.raises(StorageError, match="the response is 302"):
            calls[operation]()
    assert elsewhere == []


def test_a_page_that_failed_is_asked_for_again(open_writer: OpenWriter) -> None:
    kind = {"Content-Type": "application/json"}
    first = Reply(200, b'[{"name": "a"}]', kind)
    answers = iter(
        [first, Reply(503), Reply(200, b'[{"name": "b"}]', kind), Reply(200, b"[]", kind)]
    )
    targets: list[str] = []

    def answer(asked: Asked) -> Reply:
        targets.append(asked.target)
        return next(answers)

    found = open_writer(answer).list_versions("")
    assert next(found) == ("a", None)
    with pytest.raises(StorageUnavailableError, match="503"):
        next(found)
    assert list(found) == [("b", None)]
    assert ["marker=a" in target for target in targets] == [False, True, True, False]


def test_names_without_an_etag_are_listed(open_writer: OpenWriter) -> None:
    pages = iter([b'[{"name": "a"}]', b"[]"])
    writer = open_writer(lambda _: Reply(200, next(pages), {"Content-Type": "application/json"}))
    assert list(writer.list_versions("")) == [("a", None)]


def test_pages_that_alternate_are_no_list(open_writer: OpenWriter) -> None:
    pages = cycle([b'[{"name": "a"}]', b'[{"name": "b"}]'])
    writer = open_writer(lambda _: Reply(200, next(pages), {"Content-Type": "application/json"}))
    with pytest.raises(StorageUnavailableError, match="no end"):
        list(writer.list(""))


def test_a_part_is_not_the_whole_object(open_writer: OpenWriter) -> None:
    writer = open_writer(lambda _: Reply(206, b"1234", {"Content-Range": "bytes 0-3/9"}))
    with pytest.raises(StorageError, match="the response is 206"):
        writer.read("key")


def test_only_conditional_writes_find_an_object(open_writer: OpenWriter) -> None:
    """Status 412 also answers names that the server cannot decode."""
    writer = open_writer(lambda _: Reply(412))
    with pytest.raises(FileExistsError):
        writer.write("key", b"data", only_if_absent=True)
    with pytest.raises(StorageError, match="the response is 412"):
        writer.write("key", b"data")


def test_an_object_that_is_not_on_all_servers_yet(open_writer: OpenWriter) -> None:
    """It was completed: its upload is not unknown."""
    writer = open_writer(lambda asked: Reply(201 if asked.method == "PUT" else 404))
    assert writer.complete_parts("key", "upload", ["tag"]) is None
