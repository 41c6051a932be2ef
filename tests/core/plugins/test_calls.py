"""Hooks are called by pluggy, with all that it offers."""

from __future__ import annotations

import subprocess
import sys

import pluggy
import pytest

from mastaba import LazyClass, hookimpl
from mastaba.errors import PluginLoadError
from mastaba.plugins import calls, hookspecs
from mastaba.plugins.manager import Plugins


def storage(name: str) -> LazyClass:
    return LazyClass(f"nowhere.{name}:Storage", name=name)


class First:
    @hookimpl
    def register_storages(self) -> list[LazyClass]:
        return [storage("first")]


class Eager:
    @hookimpl(tryfirst=True)
    def register_storages(self) -> list[LazyClass]:
        return [storage("eager")]


class Late:
    @hookimpl(trylast=True)
    def register_storages(self) -> list[LazyClass]:
        return [storage("late")]


class Wrapper:
    """Removes a driver of another plugin, and adds one."""

    @hookimpl(wrapper=True)
    def register_storages(self):  # type: ignore[no-untyped-def]
        results = yield
        kept = [[item for item in items if item.attributes["name"] != "first"] for items in results]
        return [*kept, [storage("added")]]


class OldWrapper:
    @hookimpl(hookwrapper=True)
    def register_storages(self):  # type: ignore[no-untyped-def]
        outcome = yield
        outcome.force_result([*outcome.get_result(), [storage("forced")]])


class Renamed:
    @hookimpl(specname="register_storages")
    def drivers(self) -> list[LazyClass]:
        return [storage("renamed")]


def test_order_is_that_of_pluggy() -> None:
    extra = {"late": Late(), "second": First(), "eager": Eager()}
    plugins = Plugins(autoload=False, extra=extra)

    assert list(plugins.storages) == ["eager", "file", "first", "late"]
    assert plugins.storages.provided_by("eager") == ["eager"]


@pytest.mark.parametrize(("wrapper", "added"), [(Wrapper(), "added"), (OldWrapper(), "forced")])
def test_wrapper_changes_the_result_of_others(wrapper: object, added: str) -> None:
    plugins = Plugins(autoload=False, extra={"a": First(), "b": wrapper})

    assert plugins.storages.provided_by("b") == [added]
    assert ("first" in plugins.storages) == (added == "forced")


def test_hook_may_be_implemented_under_another_name() -> None:
    plugins = Plugins(autoload=False, extra={"a": Renamed()})
    assert plugins.storages.provided_by("a") == ["renamed"]


def test_plugin_inside_a_wrapper_is_the_culprit() -> None:
    class Failing:
        @hookimpl
        def register_storages(self) -> list[LazyClass]:
            raise OSError("broken")

    with pytest.raises(PluginLoadError, match=r"the plugin 'inner'.*broken"):
        Plugins(autoload=False, extra={"inner": Failing(), "outer": Wrapper()})


def test_wrapper_may_handle_the_error_of_another_plugin() -> None:
    class Failing:
        @hookimpl
        def register_storages(self) -> list[LazyClass]:
            raise OSError("broken")

    class Handling:
        @hookimpl(wrapper=True)
        def register_storages(self):  # type: ignore[no-untyped-def]
            try:
                return (yield)
            except OSError:
                return [[LazyClass("mastaba_storage.file:FileStorage", name="file")]]

    plugins = Plugins(autoload=False, extra={"inner": Failing(), "outer": Handling()})
    assert plugins.storages.provided_by("outer") == ["file"]


def test_deprecated_hook_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def register_storages() -> None: ...

    marker = pluggy.HookspecMarker("mastaba")
    warning = DeprecationWarning("use register_stores")
    monkeypatch.setattr(
        hookspecs, "register_storages", marker(warn_on_impl=warning)(register_storages)
    )

    plugins = Plugins(autoload=False, extra={"a": First()})
    assert plugins.warnings == ["the plugin 'a' (given by the program) use register_stores"]
    assert "first" in plugins.storages


def test_slow_plugin_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "SLOW", 0.0)

    plugins = Plugins(autoload=False, extra={"a": First()})
    (loading, hook) = [text for text in plugins.warnings if "plugin 'a'" in text]
    assert "takes 0.0 s to import" in loading
    assert "takes 0.0 s in register_storages; import libraries on first use" in hook


def test_plugin_without_hooks_is_a_warning() -> None:
    class Nothing:
        def register_service(self) -> None: ...

    (warning,) = Plugins(autoload=False, extra={"a": Nothing()}).warnings
    assert "implements no hook" in warning


_HEAVY = (
    "heavy = {'numpy', 'pyproj', 'PIL.Image', 'isal', 'boto3', 'jsonschema',\n"
    "         'lxml', 'werkzeug', 'yaml', 'urllib3', 'swiftclient', 'rados'}\n"
    "sys.exit(', '.join(heavy & sys.modules.keys()) or 0)"
)
# Not jsonschema_rs, which checks the settings of plugins.


def output_without_libraries(command: str) -> str:
    program = f"import sys\nfrom mastaba.commands.main import main\n{command}\n{_HEAVY}"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_listing_plugins_imports_no_library() -> None:
    assert "encoder image/png" in output_without_libraries("assert main(['plugins']) == 0")


def test_adding_commands_imports_no_library() -> None:
    """Each command of a plugin needs the parsers of all."""
    command = "try: main(['--help'])\nexcept SystemExit: pass"
    assert "build" in output_without_libraries(command)
