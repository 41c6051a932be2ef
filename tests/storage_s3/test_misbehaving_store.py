"""Stores that answer writes and lists wrongly: clear errors, nothing endless, nothing lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from tests.support.scripted import Answer, Asked, Reply, scripted

from mastaba.errors import ObjectNotFoundError, StorageError, StorageUnavailableError
from mastaba_storage.environment import Environment
from mastaba_storage_s3 import writer as writing
from mastaba_storage_s3.writer import S3Writer

OpenWriter = Callable[[Answer], S3Writer]


@pytest.fixture
def open_writer() -> Iterator[OpenWriter]:
    with ExitStack() as stack:

        def open_writer(answer: Answer) -> S3Writer:
            url = stack.enter_context(scripted(answer))
            given = {"S3_URL": url, "S3_KEY": "key", "S3_SECRETKEY": "secret"}
            environment = Environment({f"MASTABA_{name}": text for name, text in given.items()})
            return S3Writer.open("maps", environment)

        yield open_writer


def page(*keys: str, token: str | None = None, truncated: str | None = "false") -> bytes:
    """Return a page of a list."""
    cut = "" if truncated is None else f"<IsTruncated>{truncated}</IsTruncated>"
    following = "" if token is None else f"<NextContinuationToken>{token}</NextContinuationToken>"
    listed = "".join(f"<Contents><Key>{key}</Key></Contents>" for key in keys)
    return f"<ListBucketResult>{cut}{following}{listed}</ListBucketResult>".encode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html><body>Sign in</body></html>",
        b"<ListBucketResult>",
        page("a", truncated=None),
        page("a", truncated="true"),
        page("a", truncated="true", token="again"),
        b"<ListBucketResult><IsTruncated>false</IsTruncated><Contents/></ListBucketResult>",
    ],
    ids=["empty", "page", "cut", "no end", "no token", "same token", "no key"],
)
def test_a_list_that_cannot_be_used_is_an_error(open_writer: OpenWriter, body: bytes) -> None:
    writer = open_writer(lambda _: Reply(200, body, {"Content-Type": "application/xml"}))
    with pytest.raises(StorageUnavailableError):
        list(writer.list("P/"))


def test_a_page_that_failed_is_asked_for_again(open_writer: OpenWriter) -> None:
    first = Reply(200, page("a", truncated="true", token="2"))
    answers = iter([first, Reply(503), Reply(200, page("b"))])
    targets: list[str] = []

    def answer(asked: Asked) -> Reply:
        targets.append(asked.target)
        return next(answers)

    found = open_writer(answer).list_versions("")
    assert next(found) == ("a", None)
    with pytest.raises(StorageUnavailableError, match="503"):
        next(found)
    assert list(found) == [("b", None)]
    assert ["continuation-token=2" in target for target in targets] == [False, True, True]


def test_keys_without_an_etag_are_listed(open_writer: OpenWriter) -> None:
    writer = open_writer(lambda _: Reply(200, page("a", "b")))
    assert list(writer.list_versions("")) == [("a", None), ("b", None)]


def test_an_answer_without_what_identifies_it_is_an_error(open_writer: OpenWriter) -> None:
    writer = open_writer(lambda _: Reply(200, b"<Result/>"))
    calls: list[Callable[[], object]] = [
        lambda: writer.write("key", b"data"),
        lambda: writer.begin_parts("key"),
        lambda: writer.write_part("key", "upload", 1, b"data"),
    ]
    for call in calls:
        with pytest.raises(StorageUnavailableError, match="the response has no"):
            call()


def refused(status: int, code: str) -> Reply:
    return Reply(status, f"<Error><Code>{code}</Code></Error>".encode())


@pytest.mark.parametrize(("status", "code"), [(409, ""), (412, "PreconditionFailed")])
def test_an_existing_object(open_writer: OpenWriter, status: int, code: str) -> None:
    with pytest.raises(FileExistsError):
        open_writer(lambda _: refused(status, code)).write("key", b"data", only_if_absent=True)


def test_a_conflict_is_no_existing_object(open_writer: OpenWriter) -> None:
    writer = open_writer(lambda _: refused(409, "OperationAborted"))
    calls: list[Callable[[], object]] = [
        lambda: writer.write("key", b"data", only_if_absent=True),
        lambda: writer.write("key", b"data"),
        lambda: writer.delete("key"),
        lambda: writer.complete_parts("key", "upload", ["tag"]),
    ]
    for call in calls:
        with pytest.raises(StorageUnavailableError, match="409 OperationAborted"):
            call()


def test_an_upload_that_is_gone(open_writer: OpenWriter) -> None:
    writer = open_writer(lambda _: refused(404, "NoSuchUpload"))
    with pytest.raises(ObjectNotFoundError, match="404 NoSuchUpload"):
        writer.write_part("key", "upload", 1, b"data")
    with pytest.raises(ObjectNotFoundError, match="404 NoSuchUpload"):
        writer.complete_parts("key", "upload", ["tag"])
    writer.abandon_parts("key", "upload")


def test_a_missing_bucket_is_no_missing_upload(open_writer: OpenWriter) -> None:
    writer = open_writer(lambda _: refused(404, "NoSuchBucket"))
    calls: list[Callable[[], object]] = [
        lambda: writer.write_part("key", "upload", 1, b"data"),
        lambda: writer.abandon_parts("key", "upload"),
    ]
    for call in calls:
        with pytest.raises(StorageError, match="404 NoSuchBucket") as caught:
            call()
        assert not isinstance(caught.value, ObjectNotFoundError)


def test_parts_that_cannot_be_removed_do_not_hide_why(
    open_writer: OpenWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def answer(request: Asked) -> Reply:
        asked.append(request.method)
        if request.method == "POST":
            return Reply(200, b"<Result><UploadId>u</UploadId></Result>")
        if "partNumber=1" in request.target:
            return Reply(200, b"", {"ETag": '"one"'})
        return refused(403, "QuotaExceeded" if request.method == "PUT" else "AccessDenied")

    monkeypatch.setattr(writing, "_PART", 4)
    with pytest.raises(StorageError, match="403 QuotaExceeded"):
        open_writer(answer).write("key", b"12345678")
    assert asked == ["POST", "PUT", "PUT", "DELETE"]
