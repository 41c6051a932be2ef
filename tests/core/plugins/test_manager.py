"""Finding and loading plugins, and what they provide."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba import hookimpl
from mastaba.commands.main import main
from mastaba.errors import PluginConflictError, PluginError, PluginLoadError
from mastaba.plugins import hookspecs
from mastaba.plugins.manager import Plugins
from mastaba.wsgi import create_application

GOOD = """
from mastaba import hookimpl
from mastaba_server.web.response import message
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
    assert set(plugins.encoders) == set()


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


def test_file_in_a_directory_is_a_plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hello.py").write_text(COMMAND)
    (tmp_path / "_helper.py").write_text("raise RuntimeError('not a plugin')")
    (tmp_path / "notes.txt").write_text("not a plugin")

    assert main(["--plugins", str(tmp_path), "greet", "world"]) == 3
    assert capsys.readouterr().out == "hello world\n"
    assert main([f"--plugins={tmp_path}", "--block", "hello", "plugins"]) == 0
    assert row_of(capsys.readouterr().out, "hello")[3] == "blocked"

    monkeypatch.setenv("MASTABA_PLUGINS_DIR", str(tmp_path))
    assert main(["greet", "world"]) == 3
    assert capsys.readouterr().out == "hello world\n"
    assert main(["plugins", "--json"]) == 0
    (info,) = [
        info for info in json.loads(capsys.readouterr().out)["plugins"] if info["name"] == "hello"
    ]
    assert info["provides"] == ["command greet"]
    assert (info["status"], info["distribution"]) == ("ok", str(tmp_path / "hello.py"))


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("def (", "SyntaxError"),
        ("def register_services(): return []", "without @mastaba.hookimpl"),
        (GOOD.replace('"greeting"', '"health"'), "duplicate service 'health'"),
    ],
)
def test_broken_file_is_reported(code: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "wobbly.py").write_text(code)

    with pytest.raises(PluginError, match=reason) as caught:
        Plugins(directory=str(tmp_path))
    assert f"the plugin 'wobbly' ({tmp_path / 'wobbly.py'})" in str(caught.value)
    assert str(caught.value).endswith("--block wobbly")
    assert "greeting" not in Plugins(["wobbly"], directory=str(tmp_path)).services


SETTINGS = """
from mastaba import hookimpl
from mastaba_render.encoder import Encoder
from mastaba.storage.file import FileStorage

settings_schema = {"colour": {"type": "string", "description": "A colour."}}
seen = {}


class Ppm(Encoder):
    name, media_type, extension = "ppm", "image/x-ppm", "ppm"

    def accepts(self, dtype, channels):
        return True

    def encode(self, raster, options):
        return b""


class Vault(FileStorage):
    name = "vault"

    @classmethod
    def open(cls, container, environment):
        seen["vault"] = environment.settings
        return super().open(container, environment)


@hookimpl
def register_encoders():
    return [Ppm]


@hookimpl
def register_storages():
    return [Vault]


@hookimpl
def wsgi_middleware(site):
    seen["middleware"] = site.plugin_settings.get("paint", {})
"""


def test_settings_reach_middleware_encoders_and_drivers(
    install: Callable[..., None], tmp_path: Path
) -> None:
    install("paint", SETTINGS)
    server_json = tiny_installation(
        tmp_path / "i", services=[], server_overrides={"plugins": {"paint": {"colour": "red"}}}
    )
    descriptor = tmp_path / "i/pyramids/RGB_PNG.json"
    descriptor.write_text(descriptor.read_text().replace('"FILE"', '"VAULT"'))

    site = create_application(str(server_json)).site
    seen = sys.modules["fake_paint"].seen
    assert seen == {"vault": {"colour": "red"}, "middleware": {"colour": "red"}}
    assert site.encoders["image/x-ppm"].settings == {"colour": "red"}
    assert site.encoders["image/png"].settings == {}


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"paint": {"colour": 5}}, "$.plugins.paint.colour"),
        ({"paint": {"color": "red"}}, "$.plugins.paint.color"),
        ({"pait": {}}, "$.plugins.pait"),
        ({"paint": 1}, "$.plugins.paint"),
    ],
)
def test_wrong_settings_are_reported(
    settings: Any,
    path: str,
    install: Callable[..., None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    install("paint", SETTINGS)
    server_json = tiny_installation(
        tmp_path / "i", services=[], server_overrides={"plugins": settings}
    )
    main(["check", "-f", str(server_json)])
    assert f"{path}\n" in capsys.readouterr().out


def test_every_hook_is_listed() -> None:
    assert hookspecs.hook_names() == [
        "access_gate",
        "generation_changed",
        "register_commands",
        "register_containers",
        "register_dimensions",
        "register_encoders",
        "register_identifiers",
        "register_index_stores",
        "register_services",
        "register_storages",
        "request_meters",
        "wsgi_middleware",
    ]


def test_services_of_this_workspace_keep_their_order_at_one_root_path() -> None:
    services = Plugins().services
    order = ("health", "admin", "tms", "wmts", "ogcapi", "wms", "viewer")
    found = [name for name in order if name in services]
    assert sorted(found, key=lambda name: services[name].rank) == found
