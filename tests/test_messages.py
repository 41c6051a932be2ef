"""The tables of messages in docs/operations.md are what the program says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

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
def sources() -> str:
    """Return the sources, with `ANYTHING` for the values in texts."""
    files = (
        path for name in ("core", "libs", "plugins") for path in (REPOSITORY / name).glob("**/src/")
    )
    texts = (path.read_text(encoding="utf-8") for src in files for path in src.rglob("*.py"))
    # Texts that continue on the next line are one.
    joined = (re.sub(r"[\"']\s*\n\s*f?[\"']", "", text) for text in texts)
    return "".join(re.sub(r"\{[^{}]*\}|%[sdrg]", ANYTHING, text) for text in joined)


def test_the_page_has_both_tables() -> None:
    assert len(list(rows())) > 30


@pytest.mark.parametrize("row", list(rows()))
def test_every_message_is_in_the_sources(row: str) -> None:
    missing = [part for part in parts(row) if part not in sources()]
    assert not missing
