"""The promise in docs/api.md is what the code does."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from scripts.public_api.names import API

import mastaba.api
import mastaba_render.api
from mastaba import hookimpl
from mastaba.api import tiles
from mastaba.plugins import hookspecs
from mastaba.plugins.discovery import unmet_requirement
from mastaba.plugins.manager import Plugins

_PAGE = Path(__file__).parents[3] / "docs/api.md"


@pytest.fixture(scope="module")
def page() -> str:
    return _PAGE.read_text("utf-8")


def test_code_of_the_page_works(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("mastaba.api.example")
    for block in re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S):
        exec(compile(block, str(_PAGE), "exec"), vars(module))
    with pytest.warns(DeprecationWarning, match=r"example\.Publishing will be removed in .* 2\.0"):
        assert module.Publishing is tiles.Publisher
    for name in ("register_stores", "wsgi_wrapper"):
        monkeypatch.setattr(hookspecs, name, getattr(module, name), raising=False)

    class Old:
        @hookimpl
        def register_stores(self) -> list[type]:
            return []

        @hookimpl
        def wsgi_wrapper(self, config: Any) -> None: ...

    plugins = Plugins(autoload=False, extra={"old": Old()})
    assert [text.partition(")")[2].split()[0] for text in plugins.warnings] == [
        "implements",
        "uses",
    ]


@pytest.mark.parametrize(
    ("requirement", "shown", "fitting", "others"),
    [
        ("~=1.2", "1.2 to 1.x", ["1.2.0", "1.9.0"], ["1.1.0", "2.0.0"]),
        (">=1.2,<3", "1.2 to 2.x", ["1.2.0", "2.5.1"], ["1.1.0", "3.0.0"]),
        ("~=1.2.0", "1.2.0 to 1.2.x", ["1.2.0", "1.2.7"], ["1.1.9", "1.3.0", "2.0.0"]),
    ],
)
def test_requirements_mean_what_the_page_says(
    requirement: str,
    shown: str,
    fitting: list[str],
    others: list[str],
    page: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert f"| `mastaba{requirement}` | {shown} |" in page
    discovery = sys.modules[unmet_requirement.__module__]
    for version in (*fitting, *others):
        monkeypatch.setattr(discovery, "__version__", version)
        assert (unmet_requirement([f"mastaba{requirement}"]) is None) == (version in fitting)


def test_refusal_reads_as_the_page_says(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[unmet_requirement.__module__], "__version__", "2.0.0")
    assert f"does not fit: {unmet_requirement(['mastaba~=1.2'])}; install" in page


def test_newer_hook_may_be_optional() -> None:
    class New:
        @hookimpl(optionalhook=True)
        def register_caches(self) -> list[type]:
            return []

        @hookimpl
        def register_storages(self) -> list[type]:
            return []

    assert Plugins(autoload=False, extra={"new": New()}).warnings == []


def test_package_lists_its_modules() -> None:
    listed = {
        f"{package.__name__}.{name}"
        for package in (mastaba.api, mastaba_render.api)
        for name in re.findall(r"^``(\w+)``", package.__doc__ or "", re.M)
    }
    assert listed == set(API)
