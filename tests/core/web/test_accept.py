"""Accept headers (RFC 9110 section 12.5)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from werkzeug.datastructures import MIMEAccept
from werkzeug.http import parse_accept_header

from mastaba.web.accept import Accept

TYPES = ("text/html", "application/json", "image/x-bil;bits=32", "image/tiff;a=1;b=2")
RANGES = (
    *TYPES,
    "text/*",
    "image/*",
    "*/*",
    "TEXT/Html",
    "image/tiff; b=2; a=1",
    'image/png;c="d"',
)
WEIGHTS = ("", ";q=1", ";q=0.5", "; q=0.25", ";q=0", ";q=1.5", ";q=-1", ";q=nan", ";q=x")


@given(st.lists(st.tuples(st.sampled_from(RANGES), st.sampled_from(WEIGHTS)), max_size=6))
def test_weights_are_those_of_an_independent_parser(ranges: list[tuple[str, str]]) -> None:
    header = ", ".join(name + weight for name, weight in ranges)
    accepted, reference = Accept(header), parse_accept_header(header, MIMEAccept)
    assert [accepted[name] for name in TYPES] == [reference[name] for name in TYPES]
    assert accepted.best(TYPES) == reference.best_match(TYPES)


@pytest.mark.parametrize(
    ("header", "best"),
    [
        ("text/*;q=0.9, text/html;q=0.1, application/json;q=0.5", "application/json"),
        ("*/*, application/json", "application/json"),
        ("*/*", "text/html"),
        ("*/*;q=0.5, text/html;q=0", "application/json"),
        ("image/tiff; B=2; A=1", "image/tiff;a=1;b=2"),
        ("image/tiff", None),
        ("", None),
        ("text/html;q=2", None),
        (",;=\0, ;q=1;q=x", None),
    ],
)
def test_most_specific_range_decides(header: str, best: str | None) -> None:
    assert Accept(header).best(TYPES) == best


def test_languages_are_listed_by_preference() -> None:
    accepted = Accept("en;q=0.5, *;q=0.1, fr-CA, de;q=0")
    assert accepted.elements == [("fr-ca", 1.0), ("en", 0.5), ("de", 0.0), ("*", 0.1)]


@given(st.text())
def test_any_header_is_read(header: str) -> None:
    accepted = Accept(header)
    assert all(0 <= weight <= 1 for _, weight in accepted.elements)
    assert 0 <= accepted["gzip"] <= 1
