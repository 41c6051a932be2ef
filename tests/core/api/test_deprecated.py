"""Former names, hooks and arguments of hooks: they work, and are reported."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable
from itertools import chain
from types import ModuleType, SimpleNamespace
from typing import Any

import pluggy
import pytest
from scripts.public_api.names import API, FORMER

from mastaba import hookimpl
from mastaba.api import tiles
from mastaba.api._deprecated import former_names
from mastaba.api.services import Site
from mastaba.commands.main import main
from mastaba.plugins import hookspecs
from mastaba.plugins.manager import Plugins

_hookspec: Any = pluggy.HookspecMarker("mastaba")


@pytest.fixture
def old_module(monkeypatch: pytest.MonkeyPatch) -> str:
    """A public module with the former name ``Publishing``."""
    module: Any = ModuleType("mastaba.api.old_tiles")
    replacement = ("mastaba.api.tiles.Publisher", "0.3")
    module.__getattr__ = former_names(module.__name__, {"Publishing": replacement})
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return str(module.__name__)


def test_former_name_is_the_new_object(old_module: str) -> None:
    names: dict[str, Any] = {}
    text = (
        r"mastaba\.api\.old_tiles\.Publishing will be removed in Mastaba 0\.3; "
        r"use mastaba\.api\.tiles\.Publisher"
    )
    program = compile(f"\n\nfrom {old_module} import Publishing", "plugin.py", "exec")
    with pytest.warns(DeprecationWarning, match=text) as caught:
        exec(program, names)
    assert names["Publishing"] is tiles.Publisher
    # The author of the plugin sees the line to change.
    assert [(warning.filename, warning.lineno) for warning in caught] == [("plugin.py", 3)]


def test_other_names_do_not_exist(old_module: str) -> None:
    with pytest.raises(ImportError, match="Missing"):
        exec(f"from {old_module} import Missing", {})
    assert not hasattr(sys.modules[old_module], "Missing")


def test_former_names_are_not_in_the_interface() -> None:
    # Otherwise `from mastaba.api.… import *` and the reference would use them.
    with pytest.raises(AttributeError, match=r"'mastaba\.api\.tiles' has no attribute 'Missing'"):
        former_names("mastaba.api.tiles", {})("Missing")


def _former(module: str) -> list[tuple[str, str]]:
    find = getattr(importlib.import_module(module), "__getattr__", None)
    names = inspect.getclosurevars(find).nonlocals["names"] if find else {}
    return [(module, name) for name in names]


@pytest.mark.parametrize(
    ("module", "name"), list(chain.from_iterable(map(_former, (*API, *sorted(FORMER)))))
)
def test_name_of_an_earlier_release_is_found_in_its_new_place(module: str, name: str) -> None:
    loaded = importlib.import_module(module)
    assert name not in getattr(loaded, "__all__", ())
    with pytest.warns(
        DeprecationWarning, match=rf"{module}\.{name} will be removed in Mastaba 2\.0"
    ):
        assert getattr(loaded, name) is not None


def test_former_attribute_of_the_site() -> None:
    find: Any = inspect.getattr_static(Site, "generation")
    with pytest.warns(DeprecationWarning, match=r"2\.0; use Site\.reload_count"):
        assert find.fget(SimpleNamespace(reload_count=2)) == 3


# ---------------------------------------------------------------- hooks

_PLUGIN = """
from mastaba import hookimpl

@hookimpl
def wsgi_middleware(site):
    return None
"""
_REPORT = (
    "warning: the plugin 'old' implements wsgi_middleware(site), which will be removed in Mastaba "
    "0.3; use wsgi_wrapper\n"
)


def wsgi_middleware(site: Any) -> None: ...


@pytest.fixture
def old_plugin(tmp_path: Any) -> str:
    """Directory of a plugin in one file that implements ``wsgi_middleware``."""
    (tmp_path / "old.py").write_text(_PLUGIN)
    return str(tmp_path)


@pytest.mark.parametrize(
    "deprecate",
    [
        pytest.param(lambda warning: {"warn_on_impl": warning}, id="hook"),
        pytest.param(lambda warning: {"warn_on_impl_args": {"site": warning}}, id="argument"),
    ],
)
def test_plugins_that_use_what_is_deprecated_are_listed(
    deprecate: Callable[[Warning], dict[str, Any]],
    old_plugin: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = _REPORT.removeprefix("warning: the plugin 'old' ").rstrip()
    marked = _hookspec(**deprecate(DeprecationWarning(text)))(wsgi_middleware)
    monkeypatch.setattr(hookspecs, "wsgi_middleware", marked)

    assert main(["--plugins", old_plugin, "plugins"]) == 0
    printed = capsys.readouterr().out
    assert _REPORT in printed
    assert any(line.split()[0] == "old" and "middleware" in line for line in printed.splitlines())


def test_plugin_need_not_know_an_argument() -> None:
    class Old:
        @hookimpl
        def wsgi_middleware(self) -> Any:
            return lambda application: application

    plugins = Plugins(autoload=False, extra={"old": Old()})
    site: Any = object()
    assert len(plugins.middleware(site)) == 1
    assert plugins.warnings == []


# ---------------------------------------------------------------- names of other distributions


@pytest.mark.parametrize(
    ("module", "name", "replacement"),
    [
        ("http_storages", "HTTPStorage", "mastaba_http.HTTPStorage"),
        ("http_storages", "network_timeout", "mastaba.api.storages.network_timeout"),
        ("featureinfo", "PixelAnswer", "mastaba_ows.featureinfo.answers.PixelAnswer"),
        ("inspire", "is_wanted", "mastaba_ows.inspire.is_wanted"),
        ("encoders", "Encoder", "mastaba_render.api.encoders.Encoder"),
        ("slabs", "read_tiles", "mastaba_render.api.decoding.read_tiles"),
        ("xml", "root_element", "mastaba_ows.xml.root_element"),
        ("xml", "read_request", "mastaba_ows.post.read_request"),
        ("xml", "add_contact", "mastaba_ows.contact.add_contact"),
    ],
)
def test_names_that_moved_to_libraries_still_work(module: str, name: str, replacement: str) -> None:
    place, _, moved = replacement.rpartition(".")
    pytest.importorskip(place)
    with pytest.warns(DeprecationWarning, match=f"use {re.escape(replacement)}$"):
        found = getattr(importlib.import_module(f"mastaba.api.{module}"), name)
    assert found is getattr(importlib.import_module(place), moved)


def test_name_in_a_missing_distribution_says_what_to_install() -> None:
    find = former_names("mastaba.api.old", {"A": ("mastaba_absent_one.A", "0.2")})
    with (
        pytest.warns(DeprecationWarning, match="use mastaba_absent_one.A"),
        pytest.raises(ImportError, match="which mastaba-absent-one contains: install it"),
    ):
        find("A")


def test_a_moved_name_of_the_tools_says_where_it_is() -> None:
    name, module = "read_tiles", importlib.import_module("mastaba.tooling.slabs")
    with pytest.raises(AttributeError, match=r"read_tiles; import it from mastaba_render\.api\."):
        getattr(module, name)


def test_a_former_name_may_be_another_one_elsewhere() -> None:
    featureinfo = importlib.import_module("mastaba.api.featureinfo")
    replacement = r"use mastaba_ows\.featureinfo\.answers\.LayerAnswer$"
    with pytest.warns(DeprecationWarning, match=replacement):
        former = featureinfo.Part
    assert former is importlib.import_module("mastaba_ows.featureinfo.answers").LayerAnswer
