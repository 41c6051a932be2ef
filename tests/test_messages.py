"""Messages have one wording each; the tables in docs/operations.md are what the program says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.sources import parsed, walked

REPOSITORY = Path(__file__).parents[1]
PAGE = REPOSITORY / "docs" / "operations.md"
ANYTHING = "\0"
"""Stands for a value in a message."""


def rows() -> Iterator[str]:
    """Yield the first cell of each row of the tables of messages."""
    in_table = False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| Message |"):
            in_table = True
        elif not line.startswith("|"):
            in_table = False
        elif in_table and not line.startswith("|---"):
            yield line.split(" | ")[0].removeprefix("| ")


def parts(row: str) -> list[str]:
    """Return the words of a row between values: marked ones, dots and addresses."""
    row = re.sub(r"GET /[^ :]*|\*[^*]+\*|…", ANYTHING, row)
    found = (part.strip(" :,()'") for part in row.split(ANYTHING))
    return [part for part in found if len(part) > 2]


@cache
def texts() -> frozenset[str]:
    """Return the texts in the sources, with `ANYTHING` for the values in them."""
    return frozenset(
        _text(node)
        for path in sources()
        for node in walked(parsed(path))
        if isinstance(node, ast.JoinedStr)
        or (isinstance(node, ast.Constant) and isinstance(node.value, str))
    )


def _text(node: ast.JoinedStr | ast.Constant) -> str:
    if isinstance(node, ast.Constant):
        # A brace is that of a template which is filled in later.
        return re.sub(r"%[sdrg]|\{[^{}]*\}", ANYTHING, str(node.value))
    parts = (_text(one) if isinstance(one, ast.Constant) else ANYTHING for one in node.values)
    return "".join(parts)


def test_the_page_has_both_tables() -> None:
    assert len(list(rows())) > 30


@pytest.mark.parametrize("row", [row for row in rows() if parts(row)])
def test_every_message_is_one_text_in_the_sources(row: str) -> None:
    wanted = parts(row)
    found = [text for text in texts() if all(part in text for part in wanted)]
    assert found, wanted


WORDINGS = {
    r"\b(?:is|are|was) no (?!longer)(?:[a-zA-Z]+[,. ]|$)": "is not a …; there is no …",
    r"\bwhole number": "integer",
    r"\bno place\b|\bis none\b": "is not a …, is out of range",
    r"\basks? for\b": "request",
    r"\btakes? away\b": "remove",
}
"""What messages do not say, and what they say instead."""

AS_PRESCRIBED = {
    "The parameter {} is missing": "the service of IGN writes a capital",
    "The parameter resource is missing": "likewise",
    "the input layer is missing": "an input of a process is not a parameter",
    "the parameter STYLES is missing; it may be empty": "says what to do",
}


def test_messages_use_the_usual_words() -> None:
    found = {
        text: instead
        for text in messages()
        for pattern, instead in WORDINGS.items()
        if re.search(pattern, text) and not re.search(r"[Tt]here (?:is|are|was) no ", text)
    }
    assert found == {}


def test_a_missing_parameter_has_one_wording() -> None:
    found = {
        _text(argument).replace(ANYTHING, "{}")
        for path in sources()
        for node in walked(parsed(path))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).split(".")[-1] == "MissingParameterError"
        for argument in node.args[:1]
        if isinstance(argument, ast.JoinedStr | ast.Constant)
    }
    pattern = "the parameter [^ ]+( or [^ ]+)? is missing"
    others = {text for text in found if "is missing" in text and not re.fullmatch(pattern, text)}
    assert others == AS_PRESCRIBED.keys()


def sources() -> list[Path]:
    return [
        path
        for name in ("core", "libs", "plugins")
        for path in sorted((REPOSITORY / name).glob("**/src/**/*.py"))
    ]


def messages() -> set[str]:
    """Return the texts in the sources that are not docstrings."""
    found = set()
    for path in sources():
        nodes = walked(parsed(path))
        alone = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        found |= {
            _text(node)
            for node in nodes
            if isinstance(node, ast.JoinedStr)
            or (isinstance(node, ast.Constant) and isinstance(node.value, str))
            if id(node) not in alone
        }
    return found
