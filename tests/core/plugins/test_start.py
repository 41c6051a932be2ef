"""Starts with broken plugins: the server goes on without those that it does not need."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.core.commands.test_serve import Server
from tests.forked import run
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.commands.main import main
from mastaba.errors import ConfigurationError, PluginLoadError
from mastaba.wsgi import create_application

from .conftest import Install
from .test_broken import HOOK, service, storage

# code, what the log says
CASES = {
    "own exception at import": (
        "class Stop(BaseException): ...\nraise Stop('here')",
        ["left out: the plugin 'wobbly'", "Stop: here", "--block wobbly"],
    ),
    "end of the process at import": (
        "import os\nos._exit(3)",
        ["left out: the plugin 'wobbly'", "os._exit(3)"],
    ),
    "escape characters": (
        "raise ValueError('\\x1b[2J')",
        ["left out: the plugin 'wobbly'", "\\x1b[2J"],
    ),
    "failing hook": (
        f"{HOOK}def register_services(): raise OSError('x')",
        ["left out: the plugin 'wobbly'", "fails in register_services"],
    ),
    "threads at import": (
        "import threading\n"
        "threading.Thread(target=threading.Event().wait, name='poller', daemon=True).start()",
        ["the plugin 'wobbly'", "starts threads at import (poller)"],
    ),
    "output at import": ("print('loud')", ["loud"]),
}


@pytest.fixture
def server_json(tmp_path: Path) -> Path:
    return tiny_installation(
        tmp_path / "i",
        services=["health", "tms"],
        server_overrides={"port": str(tmp_path / "port")},
    )


@pytest.fixture
def edited(server_json: Path) -> Any:
    """Return a function that changes one document of the installation."""

    def edit(name: str, **values: Any) -> None:
        path = server_json.parent / name
        document = json.loads(path.read_text("utf-8"))
        document.update(values)
        path.write_text(json.dumps(document), "utf-8")

    return edit


@pytest.fixture
def started(tmp_path: Path, install: Install) -> Iterator[Any]:
    """Return a function that starts a server with one more plugin."""
    servers: list[Server] = []

    def start(code: str) -> Server:
        install("wobbly", code)
        servers.append(Server(tmp_path, "tms"))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("case", CASES)
def test_a_server_starts_without_a_broken_plugin(case: str, started: Any) -> None:
    code, expected = CASES[case]
    server = started(code)
    log = server.log.read_text("utf-8")
    for part in expected:
        assert part in log
    assert "Traceback" not in log
    assert "\x1b" not in log
    report = json.loads(server.ask("/healthcheck/ready").body)
    is_broken = expected[0].startswith("left out")
    assert report["status"] == ("DEGRADED" if is_broken else "OK")
    flaw = "plugins left out, because they are broken: wobbly"
    assert report["reasons"] == ([flaw] if is_broken else [])
    assert server.ask("/tms/1.0.0").status == 200


def test_a_plugin_without_metadata_is_served(
    install: Install, tmp_path: Path, server_json: Path
) -> None:
    install("wobbly", "raise ValueError('x')")
    (metadata,) = tmp_path.glob("*/METADATA")
    metadata.unlink()
    application = create_application(str(server_json))
    report = Client(application).get("/healthcheck/ready").json
    assert report is not None
    assert report["reasons"] == ["plugins left out, because they are broken: wobbly"]


ANSWERS = (
    "def respond(self, request):\n"
    "        from mastaba.api.web import message\n"
    "        return message(200, 'hello', 'text/plain')\n    "
)


def test_a_service_that_fails_in_tile_addresses_is_served(
    install: Install, server_json: Path, edited: Any, caplog: pytest.LogCaptureFixture
) -> None:
    install("wobbly", service(f"{ANSWERS}tile_addresses = property(lambda self: 1 / 0)"))
    edited("services.json", greeting={"enabled": True})
    client = Client(create_application(str(server_json)))
    assert client.get("/greeting").text == "hello"
    assert client.get("/tms/1.0.0").status_code == 200
    assert "greeting" in caplog.text
    assert "tile_addresses" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_a_service_that_fails_in_summary_is_served(
    install: Install, server_json: Path, edited: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    install("wobbly", service(f"{ANSWERS}def summary(self): raise OSError('no summary')"))
    edited("services.json", greeting={"enabled": True})
    assert Client(create_application(str(server_json))).get("/greeting").text == "hello"
    assert main(["check", "-f", str(server_json)]) == 1
    assert "'greeting' fails in summary: OSError: no summary" in capsys.readouterr().out


def test_a_check_as_json_with_a_plugin_that_prints(install: Install, server_json: Path) -> None:
    install(
        "wobbly",
        f"print('at import')\n{HOOK}def register_services():\n    print('x')\n    return []",
    )
    done = run("check", "-f", str(server_json), "--format", "json")
    assert json.loads(done.stdout)["layers"] == 9


@pytest.mark.parametrize(
    "body",
    [
        "settings_schema = {{'a': {{'$ref': '{0}', 'description': 'A.'}}}}",
        "layer_schema = {{'a': {{'$ref': '{0}', 'description': 'A.'}}}}",
        None,
    ],
    ids=["service", "layers", "plugin"],
)
def test_a_schema_makes_no_request(
    install: Install, server_json: Path, capsys: pytest.CaptureFixture[str], body: str | None
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/schema.json"
        of_plugin = f"settings_schema = {{'a': {{'$ref': '{address}', 'description': 'A.'}}}}"
        install("wobbly", service(body.format(address)) if body else of_plugin)
        for command in (["plugins"], ["check", "-f", str(server_json)], ["schema", "services"]):
            main(command)
            printed = capsys.readouterr()
            assert "only references within the schema are allowed" in printed.out + printed.err
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_a_check_reports_a_broken_plugin_and_the_rest(
    install: Install, server_json: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install("wobbly", "raise ValueError('x')")
    assert main(["check", "-f", str(server_json), "--format", "json"]) == 1
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    (fault,) = [one for one in report["faults"] if one["severity"] == "error"]
    assert "the plugin 'wobbly'" in fault["reason"]
    assert report["layers"] == 9
    assert printed.err == ""


def test_other_commands_need_all_plugins(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install("wobbly", "raise ValueError('x')")
    assert main(["schema", "server"]) == 1
    assert "'wobbly'" in capsys.readouterr().err


def test_an_enabled_service_needs_its_plugin(
    install: Install, server_json: Path, edited: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    install("wobbly", "raise ValueError('x')")
    edited("services.json", greeting={"enabled": True})
    done = run("-f", str(server_json))
    assert done.returncode == 1
    assert "the service is enabled, but not available" in done.stderr
    assert "broken plugins are left out: wobbly" in done.stderr
    assert "ValueError: x" in done.stderr
    # Then the operator knows that the service is missing.
    assert main(["--block", "wobbly", "check", "-f", str(server_json)]) == 0
    assert "enabled, but not installed" in capsys.readouterr().out


def test_a_disabled_service_needs_no_plugin(
    install: Install, server_json: Path, edited: Any
) -> None:
    install("wobbly", "raise ValueError('x')")
    edited("services.json", greeting={"enabled": False})
    assert create_application(str(server_json)).site.services.keys() >= {"tms"}


@pytest.mark.parametrize("settings", [{}, {"key": 1}])
def test_settings_need_their_plugin(
    settings: dict[str, int], install: Install, server_json: Path, edited: Any
) -> None:
    install("wobbly", "raise ValueError('x')")
    edited("server.json", plugins={"wobbly": settings})
    with pytest.raises(ConfigurationError, match="is needed, because it has settings"):
        create_application(str(server_json))
    done = run("-f", str(server_json))
    assert done.returncode == 1
    assert "ValueError: x" in done.stderr


def test_empty_settings_fit_a_plugin_without_any(
    install: Install, server_json: Path, edited: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    install("greeting", service("pass"))
    edited("server.json", plugins={"greeting": {}})
    assert main(["check", "-f", str(server_json)]) == 0
    assert "unknown key" not in capsys.readouterr().out


def test_layers_on_the_storage_of_a_broken_plugin_are_left_out(
    install: Install, server_json: Path, caplog: pytest.LogCaptureFixture
) -> None:
    install("wobbly", storage("raise ValueError('x')"))
    path = server_json.parent / "pyramids" / "RGB_JPG.json"
    document = json.loads(path.read_text("utf-8"))
    for level in document["levels"]:
        level["storage"]["type"] = "TAPE"
    path.write_text(json.dumps(document), "utf-8")
    application = create_application(str(server_json))
    assert application.site.catalogue.missing_layers == {"RGB_JPG"}
    assert "broken plugins are left out: wobbly" in caplog.text


def test_a_failing_middleware_prevents_the_start(install: Install, server_json: Path) -> None:
    install("wobbly", f"{HOOK}def wsgi_middleware(site): raise OSError('x')")
    with pytest.raises(PluginLoadError, match=r"'wobbly'.*fails in wsgi_middleware"):
        create_application(str(server_json))


def test_a_wrong_choice_of_plugins_prevents_the_start(
    server_json: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASTABA_BLOCKED_PLUGINS", "nobody")
    with pytest.raises(PluginLoadError, match="cannot block 'nobody'"):
        create_application(str(server_json))
    assert run("--block", "nobody", "-f", str(server_json)).returncode == 1
