"""Lists that come in pages go on after an error."""

from __future__ import annotations

import pytest

from mastaba_http import Listed, Pages

PAGES: dict[str, tuple[list[Listed], str]] = {
    "": ([("a", "1"), ("b", None)], "2"),
    "2": ([], "3"),
    "3": ([("c", "3")], ""),
}


def endless() -> Exception:
    return RuntimeError("no end")


def test_pages_are_one_list() -> None:
    found = Pages(PAGES.__getitem__, endless)
    assert list(found) == [("a", "1"), ("b", None), ("c", "3")]
    assert list(found) == []


def test_a_page_that_failed_is_asked_for_again() -> None:
    asked: list[str] = []

    def ask(token: str) -> tuple[list[Listed], str]:
        asked.append(token)
        if asked.count(token) == 1:
            raise OSError(token)
        return PAGES[token]

    pages = Pages(ask, endless)
    found: list[str] = []
    for _ in range(3):
        with pytest.raises(OSError):
            found.extend(key for key, _ in pages)
    found.extend(key for key, _ in pages)
    assert found == ["a", "b", "c"]
    assert asked == ["", "", "2", "2", "3", "3"]


def test_a_token_that_was_there_before_is_an_error() -> None:
    pages = Pages(
        lambda token: ([("a", None)], "2" if token == "3" else f"{int(token or 1) + 1}"), endless
    )
    with pytest.raises(RuntimeError, match="no end"):
        list(pages)
