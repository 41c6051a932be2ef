"""Distributions with plugins, installed for one test."""

from __future__ import annotations

import importlib.metadata
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from mastaba.plugins import calls

Install = Callable[..., None]


@pytest.fixture(scope="session")
def others() -> list[SimpleNamespace]:
    """Return the installed distributions with their entry points, which are read only once."""
    return [
        SimpleNamespace(_normalized_name=one._normalized_name, entry_points=one.entry_points)
        for one in importlib.metadata.distributions()
    ]


@pytest.fixture
def install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: list[SimpleNamespace]
) -> Iterator[Install]:
    """Return a function that puts a distribution with one plugin on the path.

    It takes the name of the plugin, the code of its module, the version and requirements of the
    distribution, and the name of the module.
    """
    monkeypatch.syspath_prepend(str(tmp_path))
    find = importlib.metadata.distributions
    monkeypatch.setattr(
        "importlib.metadata.distributions", lambda: [*find(path=[str(tmp_path)]), *others]
    )
    # On a busy machine, any hook may take long, which is a warning.
    monkeypatch.setattr(calls, "SLOW", math.inf)
    before = set(sys.modules)

    def install_it(
        name: str,
        code: str,
        version: str = "1.2.3",
        module: str = "",
        requires: str = "",
        entry: str = "",
    ) -> None:
        module = module or f"fake_{name}"
        (tmp_path / f"{module}.py").write_text(code)
        info = tmp_path / f"mastaba_{module}-{version}.dist-info"
        info.mkdir()
        requirement = f"Requires-Dist: {requires}\n" if requires else ""
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: mastaba-{module.replace('_', '-')}\n"
            f"Version: {version}\n{requirement}"
        )
        (info / "entry_points.txt").write_text(f"[mastaba]\n{name} = {entry or module}\n")

    yield install_it
    for module in set(sys.modules) - before:
        if module.startswith("fake_"):
            del sys.modules[module]
