"""The samples, checked without starting a program."""

from __future__ import annotations

import configparser
import json
import re
from pathlib import Path

import pytest

from mastaba.commands.main import main


def unit(path: Path) -> dict[str, dict[str, list[str]]]:
    """The sections of a systemd unit; a key may stand there several times."""
    sections: dict[str, dict[str, list[str]]] = {}
    section: dict[str, list[str]] = {}
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            key, equals, value = line.partition("=")
            assert equals, line
            section.setdefault(key, []).append(value)
    return sections


# ---------------------------------------------------------------- systemd


def test_the_service_is_stopped_and_reloaded_as_the_server_expects(deploy: Path) -> None:
    service = unit(deploy / "systemd" / "mastaba.service")["Service"]
    assert service["Type"] == ["notify"]
    assert service["NotifyAccess"] == ["main"]
    assert service["ExecReload"] == ["/bin/kill -HUP $MAINPID"]
    assert service["KillSignal"] == ["SIGQUIT"]
    assert service["User"] == service["Group"] == ["mastaba"]
    assert service["WorkingDirectory"] == ["/etc/mastaba"]
    assert service["EnvironmentFile"] == ["-/etc/mastaba/env"]
    assert int(service["TimeoutStopSec"][0]) > 30


def test_the_socket_is_where_the_front_servers_look(deploy: Path) -> None:
    (path,) = unit(deploy / "systemd" / "mastaba.socket")["Socket"]["ListenStream"]
    runtime = unit(deploy / "systemd" / "mastaba.service")["Service"]["RuntimeDirectory"][0]
    assert path == f"/run/{runtime}/mastaba.sock"
    for name in ("nginx/mastaba.conf", "apache/mastaba-proxy.conf"):
        assert f"unix:{path}" in (deploy / name).read_text("utf-8")


def test_the_program_is_started_by_one_name(deploy: Path) -> None:
    (start,) = unit(deploy / "systemd" / "mastaba.service")["Service"]["ExecStart"]
    program = start.split()[0]
    assert program in (deploy / "apache" / "mastaba-fcgid.conf").read_text("utf-8")


def test_variables_of_the_environment_file_are_read_somewhere(
    deploy: Path, repository: Path
) -> None:
    text = (deploy / "systemd" / "env.sample").read_text("utf-8")
    lines = [line.lstrip("#") for line in text.splitlines() if re.match(r"#?[A-Z0-9_]+=", line)]
    names = {line.partition("=")[0] for line in lines}
    sources = "".join(
        path.read_text("utf-8")
        for folder in ("core/src", "plugins")
        for path in (repository / folder).rglob("*.py")
    )
    ours = {name.removeprefix("MASTABA_") for name in names if name.startswith("MASTABA_")}
    assert len(ours) > 10
    assert {name for name in ours if f'"{name}"' not in sources} == set()
    assert names - {f"MASTABA_{name}" for name in ours} == {"HTTPS_PROXY", "NO_PROXY"}
    # A file that has not been edited sets nothing.
    parser = configparser.ConfigParser()
    parser.read_string("[env]\n" + text)
    assert list(parser["env"]) == []


# ---------------------------------------------------------------- container


def test_the_image_installs_packages_that_exist(deploy: Path, repository: Path) -> None:
    text = (deploy / "container" / "Containerfile").read_text("utf-8")
    found = re.search(r'^ARG PACKAGES="(.*)"$', text, re.M)
    assert found
    for name in found[1].split():
        assert (repository / "plugins" / name / "pyproject.toml").exists()


def test_the_command_line_of_the_image_is_understood(
    deploy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (deploy / "container" / "Containerfile").read_text("utf-8")
    (entry,) = re.findall(r"^ENTRYPOINT (\[.*\])$", text, re.M)
    (command,) = re.findall(r"^CMD (\[.*\])$", text, re.M)
    # The file does not exist here. The arguments are valid, because no usage is printed.
    assert main([*json.loads(entry)[1:], *json.loads(command)]) == 1
    printed = capsys.readouterr().err
    assert "/etc/mastaba/server.json" in printed
    assert "usage" not in printed
