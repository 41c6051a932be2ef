"""Answers that are written piece by piece, and the texts in them."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.memory import IN_MEMORY, small_pieces

from mastaba_server.body import SizedBody
from mastaba_server.web.credentials import Addresses, Written
from mastaba_server.web.large import large_response
from mastaba_server.web.pieces import csv_pieces, json_pieces
from mastaba_server.web.request import Request
from mastaba_server.web.response import ADDRESSES, Response


@pytest.mark.parametrize("items", [[], [1], [{"a": "é\n"}, None, [1.5]]])
@pytest.mark.parametrize("head", [{}, {"b": [1], "é": {}}])
def test_pieces_of_json(head: dict[str, Any], items: list[Any]) -> None:
    text = b"".join(json_pieces(head, "items", iter(items)))
    expected = {**head, "items": items}
    assert text == json.dumps(expected, ensure_ascii=False, separators=(",", ":")).encode()


def test_pieces_of_csv(monkeypatch: pytest.MonkeyPatch) -> None:
    small_pieces(monkeypatch)
    rows: list[dict[str, Any]] = [{"a": f'"{n}",é', "c": n, "x": "left out"} for n in range(3000)]
    pieces = list(csv_pieces(iter(rows), ["a", "b", "c"]))
    assert len(pieces) > 2
    text = b"".join(pieces).decode()
    assert text.startswith("a,b,c\r\n")
    found = list(csv.DictReader(io.StringIO(text, newline="")))
    assert found == [{"a": row["a"], "b": "", "c": str(row["c"])} for row in rows]
    assert b"".join(csv_pieces([], ["a"])) == b"a\r\n"


def answer(mark: str, credential: str, coding: str) -> tuple[Response, bytes]:
    """Return a large answer whose addresses contain a mark, and its text."""
    addresses = Addresses(mark, credential, b"key", Written())
    environ = {ADDRESSES: addresses, "HTTP_ACCEPT_ENCODING": coding}

    def items() -> Iterator[str]:
        for number in range(4000):
            yield f"http://maps.example/a/~{mark}/{number}"

    pieces = json_pieces({}, "links", items())
    response = large_response(Request("GET", "/", "", environ), pieces, "application/json")
    addresses.write(response)
    body = response.body
    # A compressed one may be small.
    assert coding or isinstance(body, SizedBody)
    if isinstance(body, SizedBody):
        body, spooled = b"".join(body), body
        spooled.close()
    text = gzip.decompress(body) if coding else body
    assert len(text) > IN_MEMORY
    return response, text


@pytest.mark.parametrize("coding", ["", "gzip"])
@pytest.mark.parametrize("credential", ["", "secret"])
def test_addresses_in_large_answers_contain_the_credential(
    monkeypatch: pytest.MonkeyPatch, coding: str, credential: str
) -> None:
    """Compressed ones once contained the mark, which leads nowhere."""
    small_pieces(monkeypatch)
    response, text = answer("0123456789abcdef", credential, coding)
    segment = f"/~{credential}" if credential else ""
    expected = [f"http://maps.example/a{segment}/{number}" for number in range(4000)]
    assert json.loads(text)["links"] == expected
    # The mark is that of a process.
    other, same = answer("fedcba9876543210", credential, coding)
    assert same == text
    assert dict(other.headers)["ETag"] == dict(response.headers)["ETag"]
    third, _ = answer("fedcba9876543210", "another", coding)
    assert dict(third.headers)["ETag"] != dict(response.headers)["ETag"]
