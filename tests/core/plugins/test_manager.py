"""Finding and loading plugins: what goes wrong is told with the name of the plugin."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import Client

from mastaba import hookimpl
from mastaba.commands.main import main
from mastaba.errors import PluginConflictError, PluginError, PluginLoadError
from mastaba.plugins import hookspecs
from mastaba.plugins.manager import Plugins, diagnose
from mastaba.wsgi import create_application
from mastaba_conformance.tiny_installation import tiny_installation

GOOD = """
from mastaba import hookimpl
from mastaba.web.response import message
from mastaba.services.base import Service


class Greeting(Service):
    name = "greeting"
    title = "Greeting"

    def respond(self, request):
        return message(200, "hello", "text/plain")

    def error_response(self, error, request):
        return message(500, "sorry", "text/plain")


@hookimpl
def register_services():
    return [Greeting]
"""

STORAGE = """
from mastaba import hookimpl
from mastaba.storage.file import FileStorage


class Vault(FileStorage):
    name = "{name}"


@hookimpl
def register_storages():
    return [Vault]
"""

COMMAND = """
from mastaba import hookimpl


def greet(arguments):
    print("hello", arguments.whom)
    return 3


@hookimpl
def register_commands(subparsers):
    parser = subparsers.add_parser("greet")
    parser.add_argument("whom")
    parser.set_defaults(run=greet)
"""

MIDDLEWARE = """
from mastaba import hookimpl


@hookimpl
def wsgi_middleware(site):
    def wrap(application):
        def wrapped(environ, start_response):
            def start(status, headers, *rest):
                return start_response(status, [*headers, ("X-Passed", "{mark}")], *rest)
            return application(environ, start)
        return wrapped
    return wrap
"""

# module text, word of the message
BROKEN = {
    "import": ("import no_such_module_anywhere", "no_such_module_anywhere"),
    "syntax": ("def (", "SyntaxError"),
    "exit": ("raise SystemExit(5)", "SystemExit"),
    "misspelt hook": (
        "from mastaba import hookimpl\n@hookimpl\ndef register_service(): return []",
        "register_service",
    ),
    "wrong argument": (
        "from mastaba import hookimpl\n@hookimpl\ndef register_services(wrong): return []",
        "wrong",
    ),
    "raising hook": (
        "from mastaba import hookimpl\n@hookimpl\ndef register_services(): raise KeyError('k')",
        "KeyError",
    ),
    "raising generator": (
        "from mastaba import hookimpl\n@hookimpl\ndef register_services():\n"
        "    yield from ()\n    raise KeyError('k')",
        "KeyError",
    ),
    "no list": (
        "from mastaba import hookimpl\n@hookimpl\ndef register_services(): return 5",
        "register_services",
    ),
    "instance": (
        "from mastaba import hookimpl\n@hookimpl\ndef register_storages(): return ['s3']",
        "Storage",
    ),
    "other class": (
        "from mastaba import hookimpl\n@hookimpl\ndef register_encoders(): return [dict]",
        "Encoder",
    ),
    "nameless class": (
        "from mastaba import hookimpl\nfrom mastaba.services.base import Service\n"
        "class Bare(Service):\n    title = 'x'\n"
        "@hookimpl\ndef register_services(): return [Bare]",
        "name",
    ),
}


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Return a function that puts a distribution with one plugin on the path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def install_it(name: str, code: str, version: str = "1.2.3", module: str = "") -> None:
        module = module or f"fake_{name}"
        (tmp_path / f"{module}.py").write_text(code)
        info = tmp_path / f"mastaba_{module}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: mastaba-{module.replace('_', '-')}\nVersion: {version}\n"
        )
        (info / "entry_points.txt").write_text(f"[mastaba]\n{name} = {module}\n")

    yield install_it
    for module in set(sys.modules) - before:
        if module.startswith("fake_"):
            del sys.modules[module]


@pytest.fixture
def listing(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Return a function that runs ``mastaba plugins``."""

    def run(*arguments: str) -> tuple[int, str]:
        status = main([*arguments, "plugins"])
        return status, capsys.readouterr().out

    return run


def row_of(output: str, plugin: str) -> list[str]:
    (line,) = [line for line in output.splitlines() if line.split()[0] == plugin]
    return line.split(None, 3)


def test_core_provides_its_features_through_the_hooks() -> None:
    plugins = Plugins(autoload=False)

    assert set(plugins.services) == {"root", "health"}
    assert set(plugins.storages) == {"file"}
    assert {"image/png", "image/jpeg", "image/tiff"} <= set(plugins.encoders)


def test_installed_plugin_is_found_and_listed(
    install: Callable[..., None], listing: Callable[..., tuple[int, str]]
) -> None:
    install("greeting", GOOD)

    assert "greeting" in Plugins().services
    status, output = listing()
    assert status == 0
    assert row_of(output, "greeting") == [
        "greeting",
        "mastaba-fake-greeting",
        "1.2.3",
        "service greeting",
    ]
    assert row_of(output, "core")[1] == "mastaba"


def test_blocked_plugin_is_not_loaded_but_listed(
    install: Callable[..., None], listing: Callable[..., tuple[int, str]]
) -> None:
    install("greeting", "raise RuntimeError('must not be imported')")

    assert "greeting" not in Plugins(["greeting"]).services
    for option in (["--block", "greeting"], ["--block=greeting"]):
        status, output = listing(*option)
        assert (status, row_of(output, "greeting")[3]) == (0, "blocked")


def test_environment_blocks_plugins(
    install: Callable[..., None],
    listing: Callable[..., tuple[int, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install("one", "raise RuntimeError")
    install("two", "raise RuntimeError")
    monkeypatch.setenv("MASTABA_BLOCKED_PLUGINS", "one, two")

    status, output = listing()
    assert status == 0
    assert [row_of(output, name)[3] for name in ("one", "two")] == ["blocked", "blocked"]


@pytest.mark.parametrize(("code", "word"), BROKEN.values(), ids=BROKEN.keys())
def test_broken_plugin_is_an_error_that_names_it(
    code: str,
    word: str,
    install: Callable[..., None],
    listing: Callable[..., tuple[int, str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    install("wobbly", code)
    install("greeting", GOOD)

    with pytest.raises(PluginLoadError, match="wobbly") as caught:
        Plugins()
    assert word in str(caught.value)

    status, output = listing()
    assert status == 1
    assert "BROKEN" in row_of(output, "wobbly")[3]
    assert word in output
    assert row_of(output, "greeting")[3] == "service greeting"

    for arguments in (["check", "-f", "x.json"], ["schema", "server"], ["-f", "x.json"]):
        assert main(arguments) == 1
        printed = capsys.readouterr().err
        assert "wobbly" in printed
        assert "Traceback" not in printed


@pytest.mark.parametrize(("code", "word"), BROKEN.values(), ids=BROKEN.keys())
def test_blocking_a_broken_plugin_lets_the_others_work(
    code: str, word: str, install: Callable[..., None]
) -> None:
    install("wobbly", code)
    install("greeting", GOOD)

    assert "greeting" in Plugins(["wobbly"]).services


def test_two_plugins_of_one_service_are_refused_and_both_named(
    install: Callable[..., None], listing: Callable[..., tuple[int, str]]
) -> None:
    install("aaa", GOOD)
    install("bbb", GOOD)

    with pytest.raises(PluginConflictError, match=r"greeting.*aaa.*bbb"):
        Plugins()
    status, output = listing()
    assert status == 1
    assert row_of(output, "aaa")[3] == "service greeting"
    assert "aaa" in row_of(output, "bbb")[3]


@pytest.mark.parametrize("name", ["file", "health"])
def test_plugin_cannot_replace_what_the_core_provides(
    name: str, install: Callable[..., None]
) -> None:
    install(
        "usurper",
        STORAGE.format(name="file") if name == "file" else GOOD.replace('"greeting"', '"health"'),
    )
    with pytest.raises(PluginConflictError, match=rf"{name}.*core.*usurper"):
        Plugins()


def test_two_distributions_with_one_plugin_name_are_refused_and_both_named(
    install: Callable[..., None], listing: Callable[..., tuple[int, str]]
) -> None:
    install("same", GOOD, module="fake_one")
    install("same", STORAGE.format(name="vault"), module="fake_two")

    with pytest.raises(PluginConflictError, match=r"mastaba-fake-one.*mastaba-fake-two"):
        Plugins()
    status, output = listing()
    assert status == 1
    assert "mastaba-fake-two" in output


def test_diagnosis_of_healthy_plugins_equals_their_listing(install: Callable[..., None]) -> None:
    install("greeting", GOOD)
    install("vault", STORAGE.format(name="vault"))
    assert diagnose() == Plugins().listing()


def test_storage_driver_of_a_plugin_reads_layers(
    install: Callable[..., None], tmp_path: Path
) -> None:
    install("vault", STORAGE.format(name="vault"))
    server_json = tiny_installation(tmp_path / "i", services=[])
    descriptor = tmp_path / "i/pyramids/RGB_PNG.json"
    descriptor.write_text(descriptor.read_text().replace('"FILE"', '"VAULT"'))

    application = create_application(str(server_json))
    readers = application.site.catalogue.readers["RGB_PNG"]
    assert {reader.storage.name for reader in readers.values()} == {"vault"}
    tile = readers["3"].locate(2, 4)
    assert tile is not None
    assert tile.read().startswith(b"\x89PNG")


def test_command_of_a_plugin_runs_and_gives_its_status(
    install: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    install("greeter", COMMAND)

    assert main(["greet", "world"]) == 3
    assert capsys.readouterr().out == "hello world\n"


def test_command_of_a_blocked_plugin_is_unknown(
    install: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    install("greeter", COMMAND)

    with pytest.raises(SystemExit) as caught:
        main(["--block", "greeter", "greet", "world"])
    assert caught.value.code == 2
    assert "greet" in capsys.readouterr().err


@pytest.mark.parametrize(
    "code",
    [
        COMMAND.replace('"greet"', '"check"'),
        COMMAND.replace("parser = ", "raise ValueError('no command')\n    parser = "),
    ],
)
def test_plugin_that_cannot_add_its_command_is_named(
    code: str,
    install: Callable[..., None],
    listing: Callable[..., tuple[int, str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    install("greeter", code)

    assert main(["schema", "server"]) == 1
    assert "greeter" in capsys.readouterr().err
    status, output = listing()
    assert row_of(output, "greeter")
    if "ValueError" in code:
        assert status == 1
        assert "no command" in output


def test_middleware_of_plugins_wraps_the_application_in_the_order_of_names(
    install: Callable[..., None], tmp_path: Path
) -> None:
    install("outer", MIDDLEWARE.format(mark="outer"))
    install("inner", MIDDLEWARE.format(mark="inner"))
    server_json = tiny_installation(tmp_path / "i", services=["health"])
    client = Client(create_application(str(server_json)))

    response = client.get("/healthcheck")
    # The innermost one adds its header first; "inner" comes before "outer" in the alphabet.
    assert response.headers.getlist("X-Passed") == ["outer", "inner"]


def test_middleware_may_decline(install: Callable[..., None], tmp_path: Path) -> None:
    install(
        "declining",
        "from mastaba import hookimpl\n@hookimpl\ndef wsgi_middleware(site): return None",
    )
    server_json = tiny_installation(tmp_path / "i", services=["health"])
    client = Client(create_application(str(server_json)))
    assert client.get("/healthcheck").status_code == 200


def test_failing_middleware_is_an_error_that_names_its_plugin(
    install: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(
        "wobbly",
        "from mastaba import hookimpl\n@hookimpl\ndef wsgi_middleware(site): raise OSError('x')",
    )
    server_json = tiny_installation(tmp_path / "i", services=["health"])

    with pytest.raises(PluginLoadError, match="wobbly"):
        create_application(str(server_json))
    assert main(["check", "-f", str(server_json)]) == 1
    assert "wobbly" in capsys.readouterr().out


def test_service_that_cannot_be_opened_is_an_error_that_names_it(
    install: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(
        "greeting",
        GOOD.replace("    title =", "    def __init__(self, *a): raise OSError('x')\n    title ="),
    )
    server_json = tiny_installation(
        tmp_path / "i", services=[], services_overrides={"greeting": {"enabled": True}}
    )

    with pytest.raises(PluginError, match="greeting"):
        create_application(str(server_json))
    assert main(["check", "-f", str(server_json)]) == 1
    assert "greeting" in capsys.readouterr().out


def test_service_of_a_plugin_answers_once_it_is_enabled(
    install: Callable[..., None], tmp_path: Path
) -> None:
    install("greeting", GOOD)
    for enabled, status in ((True, 200), (False, 404)):
        server_json = tiny_installation(
            tmp_path / str(enabled),
            services=[],
            services_overrides={"greeting": {"enabled": enabled}},
        )
        client = Client(create_application(str(server_json)))
        assert client.get("/greeting").status_code == status


def test_extra_plugins_are_blocked_by_name_as_well() -> None:
    class Failing:
        @hookimpl
        def register_services(self) -> Any:
            raise RuntimeError

    assert Plugins(["it"], {"it": Failing()}, autoload=False).services
    with pytest.raises(PluginLoadError, match="it"):
        Plugins((), {"it": Failing()}, autoload=False)


def test_every_hook_is_listed() -> None:
    assert hookspecs.hook_names() == [
        "register_commands",
        "register_encoders",
        "register_services",
        "register_storages",
        "wsgi_middleware",
    ]
