"""The grammar of parameters that all protocols share."""

from __future__ import annotations

import pytest

from mastaba_ows import parameters


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1.0),
        ("-1.5", -1.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("+2e3", 2000.0),
        # A plus sign that the client did not encode.
        (" 2", 2.0),
        ("1e 3", 1000.0),
        (" 7 ", 7.0),
    ],
)
def test_decimal_numbers(text: str, value: float) -> None:
    assert parameters.decimal(text) == value


@pytest.mark.parametrize(
    "text",
    ["", " ", "x", "1x", "1,5", "0x10", "inf", "nan", "1e999", "1_000", "\u0663", "1\n", "1" * 401],
)
def test_other_texts_are_not_decimal_numbers(text: str) -> None:
    assert parameters.decimal(text) is None


def test_lists_have_one_of_the_counts() -> None:
    assert parameters.decimals("1, 2,3 ,4", (4, 6)) == [1, 2, 3, 4]
    for text in ("", "1,2,3", "1,2,3,", "1,2,3,x", "1," * 600 + "1"):
        assert parameters.decimals(text, (4, 6)) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("256", 256), ("0000000000256", 256), ("999999999", 999999999)],
)
def test_whole_numbers(text: str, value: int) -> None:
    assert parameters.whole_number(text) == value


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.0", "1e2", " 1", "\u0663", "1000000000"])
def test_other_texts_are_not_whole_numbers(text: str) -> None:
    assert parameters.whole_number(text) is None


def test_sizes_are_from_one_to_the_limit() -> None:
    sizes = [parameters.size(text, 100) for text in ("0", "1", "100", "101", "x")]
    assert sizes == [None, 1, 100, None, None]


def test_digits_are_flags_only_where_they_may_be() -> None:
    for text, value in (("TRUE", True), ("false", False), ("yes", None), ("", None)):
        assert parameters.flag(text) is value
        assert parameters.flag(text, digits=True) is value
    assert [parameters.flag(text) for text in "10"] == [None, None]
    assert [parameters.flag(text, digits=True) for text in "102"] == [True, False, None]


@pytest.mark.parametrize("text", ["0xFF8000", "0XFF8000", "#ff8000", "FF8000"])
def test_colours(text: str) -> None:
    assert parameters.colour(text) == (255, 128, 0)


@pytest.mark.parametrize("text", ["", "Red", "0xFF80", "#FF8000FF", "no colour", "F" * 1000])
def test_other_texts_are_no_colours(text: str) -> None:
    assert parameters.colour(text) is None


def test_items_of_a_list_are_not_empty() -> None:
    assert parameters.items(" a,, b ,") == ["a", "b"]
