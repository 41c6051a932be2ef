"""Query strings and paths of requests (server-config.md section 9)."""

from __future__ import annotations

import random
import tracemalloc
from urllib.parse import unquote_plus

import pytest

from mastaba_server.web.request import Request, parse_query
from mastaba_server.web.text import decode, printable


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        ("", {}),
        ("&&&", {}),
        ("a=1&b=2", {"a": "1", "b": "2"}),
        ("LAYER=x&Layer=y&layer=z", {"layer": "x"}),
        ("a=1=2&b==", {"a": "1=2", "b": "="}),
        # Split first, then decode: an encoded separator is part of the value.
        ("a=1%262%3D3&b=4", {"a": "1&2=3", "b": "4"}),
        ("a%3Db=1", {"a=b": "1"}),
        ("a%26b=1", {"a&b": "1"}),
        ("%4C%41YER=x", {"layer": "x"}),
        ("l+a=x+y%2Bz", {"l a": "x y+z"}),
        ("a=%20b%09", {"a": " b\t"}),
        ("a=caf%C3%A9", {"a": "café"}),
        ("a=%E2%82%AC", {"a": "€"}),
        # Bytes that are no UTF-8 are replaced, and harm nothing around them.
        ("a=x%FFy&b=2", {"a": "x\ufffdy", "b": "2"}),
        ("a=caf%E9", {"a": "caf\ufffd"}),
        # An invalid sequence stays as it is.
        ("a=100%&b=%zz&c=%4&d=%", {"a": "100%", "b": "%zz", "c": "%4", "d": "%"}),
        ("a=%%41", {"a": "%A"}),
        ("a=%2541", {"a": "%41"}),
        # Items without "=" are left out, except a bare STYLES.
        ("a&b=1&c", {"b": "1"}),
        ("STYLES&layers=x", {"styles": "", "layers": "x"}),
        ("styles", {"styles": ""}),
        ("styles&styles=x", {"styles": ""}),
        ("a=", {"a": ""}),
        ("=x", {"": "x"}),
        ("a=&a=2", {"a": ""}),
        ("a=b;c=d", {"a": "b;c=d"}),
        ("a=%00b", {"a": "\0b"}),
        # Raw bytes that a client did not encode come as Latin-1 characters (PEP 3333).
        ("a=caf\u00c3\u00a9", {"a": "café"}),
        ("a=caf\u00e9", {"a": "caf\ufffd"}),
        ("a=\u00c3\u00a9%C3%A9", {"a": "éé"}),
    ],
)
def test_query_is_split_before_it_is_decoded(text: str, parameters: dict[str, str]) -> None:
    assert parse_query(text) == parameters


def test_query_with_thousands_of_parameters_is_parsed() -> None:
    text = "&".join(f"P{n}=v%20{n}" for n in range(20_000))
    parameters = parse_query(text)

    assert len(parameters) == 20_000
    assert parameters["p19999"] == "v 19999"


def test_long_and_short_values_are_decoded_alike() -> None:
    for length in range(200):
        assert decode("%C3%A9+" * length) == "é " * length


def test_request_parses_its_query_once() -> None:
    request = Request("GET", "", "A=1", {})
    assert request.query is request.query
    assert request.query == {"a": "1"}


def test_client_text_is_echoed_without_control_characters() -> None:
    assert printable("a\0b\r\nc\x1b[31m\u2028") == "a_b__c_[31m_"
    assert printable("x" * 81) == "x" * 80 + "…"
    assert printable("x" * 80) == "x" * 80


@pytest.mark.parametrize(
    ("header", "media_type"),
    [
        (None, ""),
        ("", ""),
        ("application/json", "application/json"),
        ("Application/JSON; charset=utf-8", "application/json"),
        (" text/xml ;x", "text/xml"),
    ],
)
def test_media_type_of_a_body_is_without_parameters(header: str | None, media_type: str) -> None:
    environ = {} if header is None else {"CONTENT_TYPE": header}
    assert Request("POST", "", "", environ).media_type == media_type


def test_long_texts_are_decoded_as_short_ones() -> None:
    dice = random.Random(5)
    words = ["%", "%4", "%41", "%c3%a9", "%C3", "%e2%82", "%ff", "a", "é", "€", "+", "%2B", "%zz"]
    for _ in range(200):
        text = "".join(dice.choices([*words, "%ED%A0%80", "%80", "%00", "%%41", "&"], k=3000))
        assert len(text) > 4096
        sent = text.encode().decode("latin-1")
        assert decode(sent) == unquote_plus(text)


@pytest.mark.parametrize("part", ["%", "%41", "a%", "%41a", "é%"])
def test_long_texts_take_little_memory(part: str) -> None:
    text = part * (1024**2 // len(part))
    tracemalloc.start()
    try:
        decode(text)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 10 * 1024**2
