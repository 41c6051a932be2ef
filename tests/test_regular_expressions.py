"""No regular expression of the project takes more than linear time."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from tests.regular_expressions import Expression, expressions, super_linear
from tests.sizes import sized

REPOSITORY = Path(__file__).parents[1]


@cache
def all_expressions() -> list[Expression]:
    """Return the expressions of the project. The collection of tests does not need them."""
    return expressions(REPOSITORY)


def test_expressions_of_all_sources_are_found() -> None:
    places = {expression.place.partition(":")[0] for expression in all_expressions()}
    assert "core/src/mastaba/model/crs.py" in places
    assert "core/src/mastaba/config/schemas/style.json" in places
    assert "libs/server/src/mastaba_server/web/parameters.py" in places


@pytest.mark.parametrize(
    ("places", "repetitions"),
    [
        ("libs/server/src/mastaba_server/web/", 10),
        pytest.param("", sized(6, 24), marks=pytest.mark.thorough),
    ],
    ids=["web", "all"],
)
def test_every_expression_is_linear(places: str, repetitions: int) -> None:
    # Several places have the same expression; the first is tested.
    different = {
        (one.pattern, one.flags, one.is_searched): one
        for one in all_expressions()[::-1]
        if one.place.startswith(places)
    }
    assert different
    problems = {
        f"{one.place}: {one.pattern!r}": text
        for one in different.values()
        if (text := super_linear(one, repetitions)) is not None
    }
    assert problems == {}


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize(
    ("pattern", "flags", "is_searched"),
    [
        (r"(a+)+b", 0, False),
        (r"(a|a)*b", 0, False),
        (r"([\w.]+ ?)*;", 0, False),
        (r"\w{1,60}/\w{1,99}( ?; ?[\w-]{1,40}=\"?[\w.:/+ -]*\"?)*", 0, False),
        (r"[0-9]+\.?[0-9]*", 0, False),
        (r"\s*x?\s*y", 0, False),
        (r"<body[^>]*>(.*)</body\s*>", re.IGNORECASE | re.DOTALL, True),
        (r"\[([^\]]*)\]", 0, True),
        (r"\s+$", 0, True),
        (r"a*?b", 0, True),
    ],
)
def test_the_analysis_finds_what_is_not_linear(pattern: str, flags: int, is_searched: bool) -> None:
    assert super_linear(Expression("", pattern, flags, is_searched)) is not None


@pytest.mark.parametrize(
    ("pattern", "is_searched"),
    [
        (r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", False),
        (r"\s*([A-Za-z]{1,32})\(([^():,]{1,80})\)\s*", False),
        (r"<body", True),
        (r"[^\w.:-]", True),
        (r"^[ -~]+$", True),
    ],
)
def test_the_analysis_accepts_what_is_linear(pattern: str, is_searched: bool) -> None:
    assert super_linear(Expression("", pattern, 0, is_searched)) is None
