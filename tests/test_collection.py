"""A run without arguments collects every test, and quick tests sample every parameter."""

from __future__ import annotations

from fnmatch import fnmatch
from itertools import combinations, product
from pathlib import Path

import pytest
from tests.support.sampling import covering


def test_no_folder_of_tests_is_left_out(pytestconfig: pytest.Config, repository: Path) -> None:
    patterns = pytestconfig.getini("norecursedirs")
    folders = {file.parent for file in (repository / "tests").rglob("test_*.py")}
    left_out = [
        str(folder)
        for folder in folders
        for part in folder.relative_to(repository).parts
        if any(fnmatch(part, pattern) for pattern in patterns)
    ]
    assert len(folders) > 20
    assert left_out == []


def test_samples_have_all_pairs_of_values() -> None:
    axes = ("abcde", (1, 2, 3, 4), (True, False), "xyz")
    rows = list(product(*axes))
    chosen = [rows[position] for position in covering(rows, 2)]
    assert 20 <= len(chosen) < 30
    for one, two in combinations(range(len(axes)), 2):
        found = {(row[one], row[two]) for row in chosen}
        assert found == set(product(axes[one], axes[two]))


def test_samples_of_two_parameters_have_each_value() -> None:
    rows = list(product("abc", range(7)))
    chosen = [rows[position] for position in covering(rows, 1)]
    assert len(chosen) == 7
    assert {row[0] for row in chosen} == set("abc")
