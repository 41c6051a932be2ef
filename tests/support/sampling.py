"""Samples of the tests that parameters make: the others are thorough."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import combinations, repeat
from typing import Any, Final

import pytest

MOST_CASES: Final = 4
"""Of a function with more cases and no mark of its own, so many are quick."""

Row = Sequence[Hashable]
"""One combination: a value of each parameter."""


def function_of(name: str) -> str:
    """Return the name of a test without its parameters."""
    return name.partition("[")[0]


def mark_unsampled(items: Sequence[pytest.Item]) -> None:
    """Mark the tests of each function with parameters as thorough, except a sample.

    With ``@pytest.mark.sampled``, the sample has each pair of values of any two parameters. With
    two parameters, where that would be the whole product, it has each value. With
    ``sampled(one_in=n)`` it is every ``n``-th case, without a mark `MOST_CASES` at equal distances.
    """
    products: dict[str, list[pytest.Item]] = {}
    for item in items:
        if hasattr(item, "callspec") and not item.get_closest_marker("thorough"):
            products.setdefault(function_of(item.nodeid), []).append(item)
    for product in products.values():
        marker = product[0].get_closest_marker("sampled")
        if marker is None:
            most = min(MOST_CASES, len(product))
            chosen = {number * len(product) // most for number in range(most)}
        elif "one_in" in marker.kwargs:
            chosen = set(range(0, len(product), marker.kwargs["one_in"]))
        else:
            rows = [_row(item) for item in product]
            chosen = covering(rows, 2 if len(rows[0]) > 2 else 1)
        for number, item in enumerate(product):
            if number not in chosen:
                item.add_marker(pytest.mark.thorough)


def _row(item: Any) -> Row:
    """Return the values of the parameters of a test; those of one decorator belong together."""
    values = {name: repr(value) for name, value in item.callspec.params.items()}
    row = []
    for mark in item.iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs["argnames"]
        names = names.replace(",", " ").split() if isinstance(names, str) else names
        row.append(tuple(values.pop(name) for name in names))
    return (*row, *((value,) for value in values.values()))


def one_in(count: int, cases: Iterable[Any], ids: Iterable[str] | None = None) -> list[Any]:
    """Return parameters of which all but one in ``count`` are thorough.

    Args:
        count: of cases for each that is quick; the first case is.
        cases: values, or tuples of values if there are several names.
        ids: names of the cases.
    """
    names = repeat(None) if ids is None else ids
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            id=name,
            marks=[pytest.mark.thorough] if number % count else [],
        )
        for number, (case, name) in enumerate(zip(cases, names, strict=False))
    ]


def covering(rows: Sequence[Row], strength: int) -> set[int]:
    """Return positions of rows that together have all combinations of ``strength`` columns.

    The choice is greedy: it depends on nothing but the rows, and is seldom the smallest one.
    """
    columns = list(combinations(range(len(rows[0])), min(strength, len(rows[0]))))
    has = [{(some, tuple(row[column] for column in some)) for some in columns} for row in rows]
    missing = set().union(*has)
    chosen: set[int] = set()
    while missing:
        best = max(range(len(rows)), key=lambda position: len(has[position] & missing))
        chosen.add(best)
        missing -= has[best]
    return chosen
