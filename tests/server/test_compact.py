"""Texts in tokens have one spelling and one meaning."""

from __future__ import annotations

import pytest

from mastaba_server.access.compact import coded, decoded, parsed


@pytest.mark.parametrize("length", range(7))
def test_bytes_come_back(length: int) -> None:
    data = bytes(range(250, 250 + min(length, 6))) + b"\0" * (length == 6)
    assert decoded(coded(data)) == data
    assert "=" not in coded(data)


@pytest.mark.parametrize("text", ["QQ==", "QR", "Q", "Q+/Q", "é"])
def test_another_spelling_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        decoded(text)


@pytest.mark.parametrize(
    "data",
    [b'{"a":1,"a":1}', b'{"a":{"b":1,"b":2}}', b"[NaN]", b"[-Infinity]", b"\xff", b"[" * 100_000],
    ids=lambda data: str(data[:20]),
)
def test_what_readers_may_understand_in_two_ways_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parsed(data)


def test_values_are_read() -> None:
    assert parsed('{"a":[1,"é"]}'.encode()) == {"a": [1, "é"]}
