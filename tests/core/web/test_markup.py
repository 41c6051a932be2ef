"""Texts and numbers in XML."""

from __future__ import annotations

import pytest
from lxml import etree

from mastaba.web.markup import anchor, coordinate, decimal, element, leaf, optional_leaf, text


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


@pytest.mark.parametrize("value", ["a&<>\"'", "é\u2028😀", "\t\n", "]]>"])
def test_text_reads_back_as_it_was(value: str) -> None:
    assert etree.fromstring(element("a", text(value))).text == value
    attributes = etree.fromstring(element("a", attributes={"b": value})).attrib
    assert attributes["b"].split() == value.split()


@pytest.mark.parametrize("value", ["\0", "\x1f", "\x0b", "\ud800", "\ufffe", "\uffff"])
def test_character_that_xml_has_not_is_replaced(value: str) -> None:
    assert text(f"a{value}b") == "a\ufffdb"


def test_empty_elements_are_closed_or_left_out() -> None:
    assert element("a") == "<a/>"
    assert leaf("a", "") == "<a/>"
    assert optional_leaf("a", "") == ""


def test_link_is_escaped() -> None:
    assert anchor("http://a/?b&c", "<x>") == '<a href="http://a/?b&amp;c">&lt;x&gt;</a>'


@pytest.mark.parametrize(
    "href", ["javascript:alert(1)", " JavaScript:1", "java\nscript:1", "http://["]
)
def test_address_that_is_a_script_or_none_is_no_link(href: str) -> None:
    assert anchor(href, "<x>") == "&lt;x&gt;"
