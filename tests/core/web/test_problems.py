"""Problem details (RFC 9457), which all services write with one function."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mastaba.api.web import PROBLEM, Response, phrase, problem, status_of
from mastaba.errors import AccessError, OverloadedError, RequestError, StorageError


def members(response: Response) -> Any:
    assert isinstance(response.body, bytes)
    return json.loads(response.body)


def test_without_a_type_the_title_is_the_reason_phrase() -> None:
    response = problem(404, "there is nothing at this path")
    assert dict(response.headers)["Content-Type"] == PROBLEM
    assert members(response) == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "there is nothing at this path",
    }


def test_a_type_has_a_title_and_further_members() -> None:
    response = problem(413, kind="TooLarge", title="Too large", more={"limit": 7}, media_type="a/b")
    assert dict(response.headers)["Content-Type"] == "a/b"
    assert members(response) == {
        "type": "TooLarge",
        "title": "Too large",
        "status": 413,
        "limit": 7,
    }


def test_texts_of_clients_are_written_as_utf_8() -> None:
    assert members(problem(400, "é \udc80"))["detail"] == "é ?"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (AccessError("no", 403), 403),
        (AccessError("slower", 429, retry_after=3), 429),
        (OverloadedError("busy"), 503),
        (StorageError("s3://x"), 503),
        (RequestError("?"), 400),
        (KeyError("x"), 500),
    ],
)
def test_status_of_an_error(error: Exception, status: int) -> None:
    assert status_of(error) == status
    # A service changes the statuses of classes, not that of a refusal.
    table = {RequestError: 499, Exception: 500}
    expected = {503: 500, 400: 499}.get(status, status)
    assert status_of(error, table) == expected


def test_phrases() -> None:
    assert [phrase(status) for status in (200, 404, 507)] == [
        "OK",
        "Not Found",
        "Insufficient Storage",
    ]
