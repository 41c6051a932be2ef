"""A run without arguments collects every test."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import pytest


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
