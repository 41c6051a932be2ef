"""Broken plugins: each is left out and reported with its distribution and a remedy."""

from __future__ import annotations

import json
import re
import sys
from argparse import ArgumentParser
from pathlib import Path

import pytest
from tests.forked import run
from tests.support.sampling import one_in

from mastaba.commands.main import main
from mastaba.errors import PluginConflictError, PluginLoadError
from mastaba.plugins.manager import PluginInfo, Plugins

from .conftest import Install

BASES = """
from mastaba import LazyClass, hookimpl
from mastaba_render.encoder import Encoder
from mastaba.services.base import Service
from mastaba_storage.base import Storage


class Greeting(Service):
    name = "greeting"
    title = "Greeting"

    def respond(self, request): ...
    def error_response(self, error, request): ...


class Tape(Storage):
    name = "tape"
    container_field = "tape_name"

    @classmethod
    def open(cls, container, environment): ...
    def read(self, key, byte_range=None, version=None): ...
    def stat(self, key): ...


class Gif(Encoder):
    name = "gif"
    media_type = "image/gif"
    extension = "gif"

    def accepts(self, dtype, channels): ...
    def encode(self, raster, options): ...

"""
HOOK = "from mastaba import hookimpl\n\n@hookimpl\n"


def service(body: str) -> str:
    """Return a plugin whose service has these class attributes."""
    return provided("services", "Greeting", body)


def storage(body: str) -> str:
    return provided("storages", "Tape", body)


def encoder(body: str) -> str:
    return provided("encoders", "Gif", body)


def provided(kind: str, base: str, body: str) -> str:
    return (
        f"{BASES}\nclass Wrong({base}):\n    {body}\n\n"
        f"@hookimpl\ndef register_{kind}():\n    return [Wrong]\n"
    )


def command(body: str) -> str:
    return f"{HOOK}def register_commands(subparsers):\n    {body}\n"


def returned(hook: str, expression: str) -> str:
    return f"{BASES}\n@hookimpl\ndef register_{hook}():\n    return {expression}\n"


# code, part of the message (a regular expression)
BROKEN = {
    # the module
    "absent library": ("import no_such_module_anywhere", "cannot be imported.*no_such_module_any"),
    "syntax": ("def (", "cannot be imported.*SyntaxError"),
    "exit at import": ("raise SystemExit(5)", "cannot be imported.*SystemExit: 5"),
    "failure at import": ("1 / 0", "cannot be imported.*ZeroDivisionError"),
    "own exception at import": (
        "class Stop(BaseException): ...\nraise Stop('here')",
        "cannot be imported.*Stop: here",
    ),
    "end of the process at import": ("import os\nos._exit(0)", r"calls os._exit\(0\)"),
    "end of the process in a function that is kept": (
        f"from os import _exit\n\n{HOOK}def register_services(): _exit(7)",
        r"calls os._exit\(7\)",
    ),
    "escape characters": ("raise ValueError('\\x1b[2J\\x9b1m')", r"ValueError: \\x1b\[2J\\x9b1m"),
    # the hooks
    "unknown hook": (f"{HOOK}def register_service(): return []", "register_service"),
    "unknown argument": (f"{HOOK}def register_services(wrong): return []", "wrong"),
    "no marker": ("def register_services(): return []", "register_services without @mastaba.hook"),
    "marker of another program": (
        "import pluggy\n@pluggy.HookimplMarker('other')\ndef register_storages(): return []",
        "register_storages without @mastaba.hookimpl",
    ),
    "lambda without marker": ("wsgi_middleware = lambda site: None", "wsgi_middleware without"),
    "wrapper without yield": (
        "from mastaba import hookimpl\n\n@hookimpl(wrapper=True)\n"
        "def register_services(): return []",
        "not a generator",
    ),
    "wrapper that yields twice": (
        "from mastaba import hookimpl\n\n@hookimpl(wrapper=True)\n"
        "def register_services():\n    yield\n    yield\n",
        "register_services",
    ),
    "wrapper that loses the result": (
        "from mastaba import hookimpl\n\n@hookimpl(wrapper=True)\n"
        "def register_services():\n    yield\n",
        "returns None from its wrapper",
    ),
    "failing wrapper": (
        "from mastaba import hookimpl\n\n@hookimpl(wrapper=True)\n"
        "def register_encoders():\n    yield\n    raise KeyError('k')\n",
        "fails in register_encoders: KeyError",
    ),
    "failing hook": (f"{HOOK}def register_services(): raise KeyError('k')", "fails in.*KeyError"),
    "failing generator": (
        f"{HOOK}def register_services():\n    yield from ()\n    raise KeyError('k')",
        "fails in register_services: KeyError",
    ),
    "own exception in a hook": (
        f"{HOOK}def register_services():\n    raise type('Stop', (BaseException,), {{}})('here')",
        "fails in register_services: Stop: here",
    ),
    "exit in a hook": (f"{HOOK}def register_storages(): raise SystemExit(3)", "SystemExit: 3"),
    "coroutine": (f"{HOOK}async def register_services(): return []", "async def"),
    "nothing returned": (f"{HOOK}def register_services(): pass", "returns nothing"),
    "number returned": (returned("services", "5"), "returns 5 from register_services"),
    "class instead of a list": (returned("services", "Greeting"), "return a list of classes"),
    "text instead of a list": (returned("storages", "'tape'"), "return a list of classes"),
    "reference instead of a list": (
        returned("storages", "LazyClass('x:Y', name='y')"),
        "return a list of classes",
    ),
    # the classes
    "text in the list": (returned("storages", "['tape']"), "'tape'.*not a class"),
    "instance": (returned("encoders", "[Gif()]"), "not a class"),
    "foreign class": (returned("encoders", "[dict]"), "dict.*not a subclass of Encoder"),
    "class of another kind": (returned("encoders", "[Tape]"), "not a subclass of Encoder"),
    "abstract service": (returned("services", "[Service]"), "does not implement error_response"),
    "abstract storage": (
        returned("storages", "[type('T', (Storage,), {'name': 't', 'container_field': None})]"),
        "does not implement open, read, stat",
    ),
    "abstract encoder": (returned("encoders", "[Encoder]"), "does not implement accepts"),
    "class without name": (
        f"{BASES}\ndel Greeting.name\n\n@hookimpl\ndef register_services(): return [Greeting]",
        "does not define name",
    ),
    "class without title": (
        f"{BASES}\ndel Greeting.title\n\n@hookimpl\ndef register_services(): return [Greeting]",
        "does not define title",
    ),
    "storage without field": (
        f"{BASES}\ndel Tape.container_field\n\n@hookimpl\ndef register_storages(): return [Tape]",
        "does not define container_field",
    ),
    # names
    "empty name": (service("name = ''"), "name of Wrong as ''"),
    "number as name": (service("name = 7"), "name of Wrong as 7"),
    "name of a key of services.json": (service("name = 'global'"), "'global'.*key of the core"),
    "name of a key of layers": (service("name = 'Styles'"), "'Styles'.*key of the core"),
    "root path of the core": (
        service("default_root_path = 'HealthCheck/'"),
        "duplicate root path '/HealthCheck'.*core.*wobbly",
    ),
    "storage field of the core": (storage("container_field = 'type'"), "key of the core"),
    "storage field that is no text": (storage("container_field = 3"), "container_field of Wrong"),
    "storage field of the core in a reference": (
        returned("storages", "[LazyClass('x:Y', name='y', container_field='path_depth')]"),
        "key of the core",
    ),
    # settings
    "settings that are no object": (service("settings_schema = ['a']"), "not an object"),
    "keys of layers that are no object": (service("layer_schema = ['a']"), "not an object"),
    "key of layers that the core has": (
        service("layer_schema = {'title': {'type': 'string'}}"),
        "redefines title",
    ),
    "settings without schema": (service("settings_schema = {'a': 'string'}"), "not a JSON schema"),
    "settings of an unknown type": (
        service("settings_schema = {'a': {'type': 'strin'}}"),
        "not a valid JSON schema.*strin",
    ),
    "settings with a wrong pattern": (
        service("settings_schema = {'a': {'type': 'string', 'pattern': '('}}"),
        "not a valid JSON schema",
    ),
    "settings with a lost reference": (
        service("settings_schema = {'a': {'$ref': '#/nowhere'}}"),
        "not a valid JSON schema",
    ),
    "settings with a reference to another host": (
        service("settings_schema = {'a': {'$ref': 'http://127.0.0.1:9/schema.json'}}"),
        "not a valid JSON schema.*references within the schema",
    ),
    "settings with a reference to a file": (
        service("settings_schema = {'a': {'$ref': 'file:///etc/hostname'}}"),
        "not a valid JSON schema.*references within the schema",
    ),
    "settings that JSON cannot hold": (
        service("settings_schema = {'a': {'enum': {1, 2}}}"),
        "not a valid JSON schema",
    ),
    "settings of the core": (
        service("settings_schema = {'Title': {'type': 'string'}}"),
        "redefines Title",
    ),
    "settings of the plugin": ("settings_schema = {'a': {'minimum': 'x'}}", "settings_schema"),
    # constructors
    "service with other arguments": (
        service("def __init__(self): pass"),
        "cannot call with 2 arguments",
    ),
    "encoder with arguments": (
        encoder("def __init__(self, quality): pass"),
        "cannot call with 0 arguments",
    ),
    "storage that opens otherwise": (
        storage("open = classmethod(lambda cls, container: None)"),
        "Wrong.open.*cannot call with 2",
    ),
    # clashes with the core
    "service of the core": (service("name = 'health'"), "duplicate service 'health'.*core"),
    "service of the core in capitals": (service("name = 'HEALTH'"), "duplicate service 'HEALTH'"),
    "storage of the core": (storage("name = 'file'"), "duplicate storage driver 'file'"),
    "encoder of the core": (encoder("media_type = 'image/png'"), "duplicate encoder 'image/png'"),
    "encoder of the core in capitals": (
        encoder("media_type = 'IMAGE/PNG'"),
        "duplicate encoder 'IMAGE/PNG'",
    ),
    "encoder of the core with spaces": (
        encoder("media_type = 'image/x-bil ; bits=32'"),
        "duplicate encoder 'image/x-bil;bits=32'",
    ),
    "encoder name of the core": (encoder("name = 'PNG'"), "duplicate encoder name 'PNG'"),
    "extension of the core": (encoder("extension = 'TIF'"), "duplicate file extension 'TIF'"),
    "core replaced before it comes": (
        service("name = 'health'").replace("@hookimpl\n", "@hookimpl(tryfirst=True)\n"),
        "duplicate service 'health'",
    ),
    "the same twice": (returned("services", "[Greeting, Greeting]"), "wobbly and wobbly"),
    # references
    "malformed reference": (
        returned("services", "[LazyClass('nowhere', name='x')]"),
        "write 'package.module:Class'",
    ),
    "reference without name": (
        returned("encoders", "[LazyClass('x:Y', media_type='image/gif')]"),
        "does not define name, extension of x:Y",
    ),
    "reference with an unknown attribute": (
        returned("services", "[LazyClass('x:Y', name='x', colour='red')]"),
        "declares colour",
    ),
    # commands
    "command of the core": (
        command("subparsers.add_parser('schema').set_defaults(run=print)"),
        "conflicting subparser: schema",
    ),
    "command of the core in capitals": (
        command("subparsers.add_parser('Schema').set_defaults(run=print)"),
        "'Schema'.*another spelling",
    ),
    "command that does nothing": (command("subparsers.add_parser('greet')"), "does nothing"),
    "command with a space": (
        command("subparsers.add_parser('a b').set_defaults(run=print)"),
        "command 'a b'",
    ),
    "command with broken help": (
        command("subparsers.add_parser('greet', help='100%').set_defaults(run=print)"),
        "fails in register_commands",
    ),
    "failing command": (command("raise ValueError('no command')"), "no command"),
    "exit in a command": (command("raise SystemExit('bye')"), "SystemExit: bye"),
    "option given twice": (
        command("p = subparsers.add_parser('greet'); p.add_argument('-h')"),
        "fails in register_commands: ArgumentError",
    ),
}

# code of references that are found out when the class is used
LATE = {
    "absent module": ("LazyClass('fake_nowhere:X', name='x')", "cannot import fake_nowhere:X"),
    "absent class": ("LazyClass('fake_wobbly:X', name='x')", "cannot import.*AttributeError"),
    "other name": (
        "LazyClass('fake_wobbly:Greeting', name='x')",
        "declares name 'x'.*has 'greeting'",
    ),
    "other root path": (
        "LazyClass('fake_wobbly:Greeting', name='greeting', default_root_path='/hi')",
        "declares default_root_path '/hi'.*has None",
    ),
    "abstract class": ("LazyClass('fake_wobbly:Service', name='x')", "does not implement"),
    "foreign class": ("LazyClass('fake_wobbly:Tape', name='tape')", "not a subclass of Service"),
    "function": ("LazyClass('fake_wobbly:hookimpl', name='x')", "not a class"),
    "end of the process": ("LazyClass('fake_ending:X', name='x')", r"calls os._exit\(0\)"),
}


def check_message(text: str, part: str, plugin: str = "wobbly") -> None:
    """Check that a message names the plugin, its distribution and the remedy."""
    assert f"the plugin '{plugin}' (mastaba-fake-{plugin} 1.2.3)" in text
    assert re.search(part, text), text
    assert text.rstrip().endswith(f"--block {plugin}")
    assert "Traceback" not in text


@pytest.fixture(scope="module")
def healthy() -> list[PluginInfo]:
    """Return the listing without broken plugins."""
    return listing(Plugins())


def listing(plugins: Plugins) -> list[PluginInfo]:
    """Return what ``mastaba plugins`` lists, with the commands."""
    while True:
        parser = ArgumentParser()
        commands = parser.add_subparsers()
        commands.add_parser("schema")
        if plugins.add_commands(parser, commands):
            return plugins.listing()


@pytest.mark.parametrize(("code", "part"), one_in(5, BROKEN.values(), BROKEN))
def test_broken_plugin_is_left_out_and_reported(
    code: str,
    part: str,
    install: Install,
    healthy: list[PluginInfo],
    capsys: pytest.CaptureFixture[str],
) -> None:
    install("wobbly", code)

    assert main(["schema", "server"]) == 1
    printed = capsys.readouterr()
    check_message(printed.err, part)
    assert printed.out == ""

    infos = listing(Plugins(tolerant=True))
    (broken,) = [info for info in infos if info.name == "wobbly"]
    check_message(str(broken.error), part)
    # Nothing from the broken plugin remains, and nothing has been replaced.
    assert broken.provides == ()
    assert [info for info in infos if info.name != "wobbly"] == healthy


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("name", ["failure at import", "failing hook", "failing command"])
def test_help_version_and_listing_work_with_a_broken_plugin(
    name: str, install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    code, part = BROKEN[name]
    install("wobbly", code)

    for option in ("--version", "--help"):
        with pytest.raises(SystemExit) as caught:
            main([option])
        assert caught.value.code == 0
        printed = capsys.readouterr()
        assert "mastaba" in printed.out
        check_message(printed.err, part)

    assert main(["plugins"]) == 1
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("wobbly ")]
    check_message(row, part)
    assert "BROKEN" in row

    assert main(["plugins", "--json"]) == 1
    listed = json.loads(capsys.readouterr().out)["plugins"]
    assert [info["status"] for info in listed if info["name"] == "wobbly"] == ["broken"]

    assert main(["--block", "wobbly", "schema", "server"]) == 0


@pytest.mark.sampled(one_in=4)
@pytest.mark.parametrize(("reference", "part"), LATE.values(), ids=LATE.keys())
def test_wrong_reference_is_reported_on_use_and_by_a_check(
    reference: str,
    part: str,
    install: Install,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    install("wobbly", returned("services", f"[{reference}]"))
    (tmp_path / "fake_ending.py").write_text("import os\nos._exit(0)\n")

    plugins = Plugins()
    (name,) = plugins.services.provided_by("wobbly")
    with pytest.raises(PluginLoadError) as caught:
        plugins.services[name]
    check_message(str(caught.value), part)

    assert main(["plugins", "--check"]) == 1
    check_message(capsys.readouterr().out, part)
    assert main(["schema", "services"]) == 1
    check_message(capsys.readouterr().err, part)


def test_a_stop_signal_during_the_import_of_a_class_is_not_an_error(
    install: Install, tmp_path: Path, tiny: Path
) -> None:
    reference = "LazyClass('fake_stopped:X', name='stopped', default_root_path='/')"
    install("wobbly", returned("services", f"[{reference}]"))
    (tmp_path / "fake_stopped.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\nprint('imported')\n"
    )
    done = run("-f", str(tiny), "--http", "127.0.0.1:0")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_distribution_without_metadata_is_named_by_its_plugin(
    install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install("greeting", service("pass"))
    (metadata,) = tmp_path.glob("*/METADATA")
    metadata.unlink()

    assert main(["plugins"]) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if "greeting" in line]
    assert "a distribution without metadata" in row
    metadata.with_name("entry_points.txt").write_text("[mastaba]\ngreeting = nowhere\n")
    assert main(["plugins"]) == 1
    assert "--block greeting" in capsys.readouterr().out


def test_what_a_plugin_prints_is_not_in_the_output_of_a_command(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install(
        "loud",
        f"print('imported')\n{HOOK}def register_services():\n    print('asked')\n    return []\n\n"
        "@hookimpl\ndef register_commands(subparsers): print('commanded')\n",
    )
    assert main(["plugins", "--json"]) == 0
    printed = capsys.readouterr()
    assert "loud" in [plugin["name"] for plugin in json.loads(printed.out)["plugins"]]
    assert {"imported", "asked", "commanded"} <= set(printed.err.split())


def test_threads_started_at_import_are_reported(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install(
        "busy",
        "import threading\nstop = threading.Event()\n"
        "threading.Thread(target=stop.wait, name='poller', daemon=True).start()\n",
    )
    try:
        assert main(["plugins"]) == 0
        assert "'busy' starts threads at import (poller)" in capsys.readouterr().out
    finally:
        sys.modules["fake_busy"].stop.set()


def test_a_process_forked_by_a_plugin_can_exit(install: Install) -> None:
    install(
        "forking",
        "import os\nchild = os.fork()\nif child == 0:\n    os._exit(5)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5\n",
    )
    assert Plugins().problems == []


def test_several_broken_plugins_are_all_reported(install: Install) -> None:
    install("one", f"{HOOK}def register_services(): raise OSError('one')")
    install("two", f"{HOOK}def register_storages(): raise OSError('two')")
    install("three", "import nowhere_at_all")

    with pytest.raises(PluginLoadError, match=r"'one'.*'three'.*'two'"):
        Plugins()
    infos = Plugins(tolerant=True).listing()
    assert [info.name for info in infos if info.error] == ["one", "three", "two"]


@pytest.mark.parametrize(
    ("first", "second"),
    [("greeting", "greeting"), ("greeting", "Greeting"), ("greeting", "GREETING")],
)
def test_second_plugin_with_a_service_is_left_out(
    first: str, second: str, install: Install
) -> None:
    install("aaa", service(f"name = '{first}'"))
    install("bbb", service(f"name = '{second}'"))

    with pytest.raises(PluginConflictError, match=r"bbb.*provided by aaa and bbb"):
        Plugins()
    plugins = Plugins(tolerant=True)
    assert plugins.services.provided_by("aaa") == [first]
    assert plugins.services.provided_by("bbb") == []


def test_root_path_of_another_plugin_is_a_clash(install: Install) -> None:
    install("aaa", service("name = 'one'; default_root_path = '/maps'"))
    install("bbb", service("name = 'two'; default_root_path = 'Maps/'"))

    with pytest.raises(PluginConflictError, match=r"root path '/Maps'.*aaa and bbb"):
        Plugins()


def test_command_of_another_plugin_is_a_clash(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install("aaa", command("subparsers.add_parser('greet').set_defaults(run=lambda a: 0)"))
    install("bbb", command("subparsers.add_parser('Greet').set_defaults(run=lambda a: 0)"))

    assert main(["greet"]) == 1
    check_message(capsys.readouterr().err, "'Greet'.*another spelling", "bbb")
    assert main(["--block", "bbb", "greet"]) == 0


@pytest.mark.parametrize(
    ("requires", "part"),
    [
        ("mastaba~=9.0", "made for mastaba ~=9.0, not"),
        ("mastaba<0.1", "made for mastaba <0.1, not"),
        ("Mastaba[http]>=9", "made for Mastaba >=9"),
        ("mastaba ==9.* ; python_version > '3'", "made for mastaba"),
        ("mastaba =! 1", "requirement 'mastaba =! 1' is invalid"),
    ],
)
def test_plugin_for_another_core_is_left_out(requires: str, part: str, install: Install) -> None:
    install("wobbly", "raise RuntimeError('must not be imported')", requires=requires)

    with pytest.raises(PluginLoadError) as caught:
        Plugins()
    check_message(str(caught.value), part)


@pytest.mark.parametrize(
    "requires",
    ["mastaba~=1.0.0", "mastaba ; extra == 'x'", "mastaba-other==9", "mastaba>9; extra == 'test'"],
)
def test_plugin_for_this_core_is_loaded(requires: str, install: Install) -> None:
    install("greeting", service("pass"), requires=requires)
    assert "greeting" in Plugins().services


@pytest.mark.parametrize(
    ("entry", "part"),
    [
        ("fake_wobbly:Greeting", "must be a module"),
        ("fake_wobbly:hook", "must be a module"),
        ("fake_wobbly:NUMBER", "must be a module"),
        ("fake_wobbly:absent", "AttributeError"),
        ("no such place", "cannot be imported"),
    ],
)
def test_entry_point_must_name_a_module(entry: str, part: str, install: Install) -> None:
    install("wobbly", f"{BASES}\nNUMBER = 5\ndef hook(): ...\n", entry=entry)

    with pytest.raises(PluginLoadError) as caught:
        Plugins()
    check_message(str(caught.value), part)


@pytest.mark.parametrize("name", ["a b", "ä", "-x", "a,b"])
def test_name_that_cannot_be_blocked_is_refused(name: str, install: Install) -> None:
    install(name, service("pass"), module="fake_wobbly")

    with pytest.raises(PluginLoadError, match="invalid name"):
        Plugins()


@pytest.mark.parametrize("name", ["core", "CORE", "Same"])
def test_name_of_another_plugin_is_refused(name: str, install: Install) -> None:
    install("SAME", service("pass"), module="fake_one")
    install(name, storage("pass"), module="fake_two")

    with pytest.raises(PluginConflictError, match=r"duplicate plugin name.*mastaba-fake-two"):
        Plugins()
    assert "tape" not in Plugins(tolerant=True).storages


def test_module_that_is_two_plugins_is_refused(install: Install) -> None:
    install("one", service("pass"), module="fake_one")
    install("two", "", module="fake_two", entry="fake_one")

    with pytest.raises(PluginLoadError, match="is also the plugin"):
        Plugins()


def test_middleware_that_is_no_function_is_reported(install: Install) -> None:
    install("wobbly", f"{HOOK}def wsgi_middleware(): return 'no function'")

    with pytest.raises(PluginLoadError) as caught:
        Plugins(["cog", "metrics"]).middleware(None)
    check_message(str(caught.value), "return a function that takes the application")


@pytest.mark.parametrize(
    ("wrap", "part"),
    [
        ("lambda application: None", "returns None; return the wrapped application"),
        ("lambda: None", "fails in its middleware: TypeError"),
        ("lambda application: 1 / 0", "fails in its middleware: ZeroDivisionError"),
    ],
)
def test_middleware_that_wraps_nothing_is_reported(wrap: str, part: str, install: Install) -> None:
    install("wobbly", f"{HOOK}def wsgi_middleware(): return {wrap}")

    (wrapper,) = Plugins(["cog", "metrics"]).middleware(None)
    with pytest.raises(PluginLoadError) as caught:
        wrapper(print)
    check_message(str(caught.value), part)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("nobody", "no plugin has this name"),
        ("core", "the core cannot be blocked"),
        ("File", "no "),
    ],
)
def test_blocking_what_cannot_be_blocked_is_an_error(
    name: str, part: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--block", name, "schema", "server"]) == 1
    assert re.search(f"cannot block '{name}': {part}", capsys.readouterr().err)
    assert main(["--block", name, "plugins"]) == 1
    assert f"error: cannot block '{name}'" in capsys.readouterr().out
    monkeypatch.setenv("MASTABA_BLOCKED_PLUGINS", name)
    with pytest.raises(PluginLoadError, match="MASTABA_BLOCKED_PLUGINS"):
        Plugins()


def test_directory_of_plugins_that_does_not_exist_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--plugins", str(tmp_path / "nowhere"), "schema", "server"]) == 1
    assert "correct --plugins" in capsys.readouterr().err
