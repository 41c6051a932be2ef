"""Texts and numbers in XML and HTML."""

from __future__ import annotations

import pytest

from mastaba_server.web.markup import anchor, coordinate, decimal, escaped


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (-180, "-180"),
        (1e22, "1" + "0" * 22),
        (0.1, "0.1"),
        (1e-7, "0.0000001"),
        (559082264.0287178, "559082264.0287178"),
        (-20037508.3427892, "-20037508.3427892"),
        (100.0, "100"),
    ],
)
def test_decimal_is_shortest_and_exact(value: float, expected: str) -> None:
    assert decimal(value) == expected
    assert float(decimal(value)) == value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (6.6796875000000001, "6.6796875"),
        (43.96119063892024, "43.9611906389202"),
        (-180.0, "-180"),
        (1e-20, "0.00000000000000000001"),
        (-0.00001234567890123456, "-0.0000123456789012346"),
        (100.0, "100"),
    ],
)
def test_coordinate_has_at_most_15_digits(value: float, expected: str) -> None:
    assert coordinate(value) == expected


@pytest.mark.parametrize("value", ["\0", "\x1f", "\x0b", "\ud800", "\ufffe", "\uffff"])
def test_illegal_character_is_replaced(value: str) -> None:
    assert escaped(f"<{value}>") == "&lt;\ufffd&gt;"


def test_link_is_escaped() -> None:
    assert anchor("", "<x>") == "&lt;x&gt;"
    assert anchor("http://a/?b&c", "<x>") == '<a href="http://a/?b&amp;c">&lt;x&gt;</a>'


@pytest.mark.parametrize(
    "href", ["javascript:alert(1)", " JavaScript:1", "java\nscript:1", "http://["]
)
def test_script_or_missing_address_does_not_become_a_link(href: str) -> None:
    assert anchor(href, "<x>") == "&lt;x&gt;"
