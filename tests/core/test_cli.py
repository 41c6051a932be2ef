"""The command line (server-config.md sections 3 and 5)."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mastaba
from mastaba.cli import main
from mastaba.config.schema import SCHEMA_NAMES
from mastaba.plugins import Plugins
from mastaba.testing.tiny_installation import tiny_installation


def edit(path: Path, change: Callable[[Any], None]) -> None:
    document = json.loads(path.read_text("utf-8"))
    change(document)
    path.write_text(json.dumps(document), "utf-8")


@pytest.fixture
def server_json(tmp_path: Path) -> Path:
    return tiny_installation(tmp_path / "i", services=["health"])


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_is_printed_and_ends_with_status_0(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main([option])
    assert caught.value.code == 0
    assert "server.json" in capsys.readouterr().out


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"mastaba {mastaba.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["-f"],
        ["-x"],
        ["--verbose"],
        ["server.json"],
        ["--http"],
        ["--htt", "127.0.0.1:0"],
        ["check", "-f"],
        ["check", "extra"],
        ["schema"],
        ["schema", "colours"],
        ["plugins", "-f", "x"],
        ["--block"],
    ],
)
def test_wrong_usage_is_told_on_stderr_with_status_1(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("usage: mastaba")


@pytest.mark.parametrize("before", [True, False])
def test_check_of_a_healthy_configuration_ends_with_status_0(
    before: bool, server_json: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = ["-f", str(server_json)]
    assert main([*file, "check"] if before else ["check", *file]) == 0
    assert capsys.readouterr().out == "0 errors, 0 warnings, 9 layers usable\n"


def test_check_with_warnings_only_ends_with_status_0(
    server_json: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(server_json, lambda document: document.update(api=True))

    assert main(["check", "-f", str(server_json)]) == 0
    printed = capsys.readouterr().out
    assert f"warning: {server_json}: $.api" in printed
    assert "0 errors, 1 warnings, 9 layers usable" in printed


def test_check_without_file_reads_the_usual_place(
    server_json: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (server_json.parent / "bin").mkdir()
    (server_json.parent / "config").mkdir()
    server_json.rename(server_json.parent / "config" / "server.json")
    monkeypatch.chdir(server_json.parent / "bin")

    assert main(["check"]) == 0
    assert main(["check", "-f", "nowhere.json"]) == 1
    assert "nowhere.json: $" in capsys.readouterr().out


def test_check_does_not_listen_nor_write_a_log(server_json: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        logger = {"output": "static_file", "file_prefix": str(tmp_path / "log")}
        port = f"127.0.0.1:{taken.getsockname()[1]}"
        edit(server_json, lambda document: document.update(port=port, logger=logger))

        assert main(["check", "-f", str(server_json)]) == 0
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_schema_is_printed_as_json(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", name]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["type"] == "object"


def test_schema_of_services_has_the_settings_of_every_installed_service(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["schema", "services"])
    sections = json.loads(capsys.readouterr().out)["properties"]

    for name, service in Plugins().services.items():
        if name != "root":
            assert set(service.settings_schema) < set(sections[name]["properties"])
            assert "endpoint_uri" in sections[name]["properties"]


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MASTABA", "ROK4"))}
    return subprocess.run(
        [sys.executable, "-m", "mastaba", *arguments],
        env={**environment, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_absent_server_json_ends_the_start_with_status_1(tmp_path: Path) -> None:
    ended = run("-f", str(tmp_path / "no.json"))
    assert ended.returncode == 1
    assert "no.json" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_every_fault_ends_the_start_and_is_on_stderr(server_json: Path) -> None:
    edit(server_json, lambda d: d.update(port=5, threads=0, logger={"level": "loud"}))
    ended = run("-f", str(server_json))

    assert ended.returncode == 1
    for path in ("$.port", "$.threads", "$.logger.level"):
        assert path in ended.stderr


def test_missing_port_ends_the_start(server_json: Path) -> None:
    edit(server_json, lambda document: document.pop("port"))
    ended = run("-f", str(server_json))

    assert ended.returncode == 1
    assert "$.port" in ended.stderr


def test_listening_address_in_use_ends_the_start_and_is_named(server_json: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        edit(server_json, lambda document: document.update(port=address))
        ended = run("-f", str(server_json))

    assert ended.returncode == 1
    assert address in ended.stderr
    assert "Traceback" not in ended.stderr


def test_log_file_that_cannot_be_written_ends_the_start(server_json: Path, tmp_path: Path) -> None:
    logger = {"output": "static_file", "file_prefix": str(tmp_path / "no/such/log")}
    edit(server_json, lambda document: document.update(logger=logger))
    ended = run("-f", str(server_json))

    assert ended.returncode == 1
    assert "$.logger.file_prefix" in ended.stderr


def test_faulty_services_file_ends_the_start_with_all_its_faults(server_json: Path) -> None:
    services = server_json.with_name("services.json")
    edit(services, lambda document: document.update(enabled="x", health=[]))
    ended = run("-f", str(server_json))

    assert ended.returncode == 1
    assert "$.enabled" in ended.stderr
    assert "$.health" in ended.stderr
