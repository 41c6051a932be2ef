"""Other systems than Linux: a server for development, or a message."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.tiny import tiny_installation

SCRIPT = Path(__file__).parents[2] / "support/other_system.py"
BLOCKED = "build,conformance,demo,elevation,ogcapi,render,viewer,wms"


def command(system: str, *arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, SCRIPT, system, *arguments],
        env=os.environ | {"MASTABA_BLOCKED_PLUGINS": BLOCKED},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture(scope="module")
def server_json(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("development")
    overrides = {
        "port": str(folder / "socket"),
        "logger": {"output": "standard_error", "level": "info"},
    }
    return tiny_installation(folder, services=["wmts", "tms"], server_overrides=overrides)


@pytest.fixture(scope="module")
def url(server_json: Path) -> Iterator[str]:
    with command("darwin", "-f", server_json, "--http", "127.0.0.1:0") as server:
        assert server.stdout is not None
        lines = iter(server.stdout.readline, "")
        found = (
            re.search(r"for development only, on (http://[\d.]+:\d+)/", line) for line in lines
        )
        yield next(match[1] for match in found if match)
        server.send_signal(signal.SIGINT)
        server.stdout.read()
    assert server.returncode == 0


def test_stored_tiles_are_served(url: str) -> None:
    with urllib.request.urlopen(f"{url}/tms/1.0.0/RGB_PNG/3/4/2.png") as response:
        assert response.read(4) == b"\x89PNG"
    tile = (
        "SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetTile&LAYER=RGB_PNG&STYLE=normal&FORMAT=image/png"
        "&TILEMATRIXSET=PM&TILEMATRIX=3&TILEROW=2&TILECOL=4"
    )
    with urllib.request.urlopen(f"{url}/wmts?{tile}") as response:
        assert response.read(4) == b"\x89PNG"


def test_errors_are_those_of_the_service(url: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(f"{url}/wmts?SERVICE=WMTS&REQUEST=GetNothing")
    with raised.value as answer:
        assert (answer.code, b"ExceptionReport" in answer.read()) == (400, True)


def test_fastcgi_needs_linux(server_json: Path) -> None:
    with command("darwin", "-f", server_json) as process:
        output, _ = process.communicate()
    assert "need Linux; for development, serve HTTP: --http 127.0.0.1:8080" in output
    assert process.returncode == 1


@pytest.mark.thorough
def test_errors_of_the_configuration_are_reported(tmp_path: Path) -> None:
    with command("darwin", "-f", tmp_path / "no.json", "--http", "127.0.0.1:0") as process:
        output, _ = process.communicate()
    assert output.startswith("mastaba: ")
    assert "no.json" in output
    assert process.returncode == 1


@pytest.mark.thorough
def test_the_configuration_is_checked(server_json: Path) -> None:
    with command("darwin", "check", "--deep", "-f", server_json) as process:
        output, _ = process.communicate()
    assert "Traceback" not in output
    assert process.returncode == 0, output


@pytest.mark.thorough
def test_windows_is_not_supported(server_json: Path) -> None:
    with command("win32", "-f", server_json) as process:
        output, _ = process.communicate()
    assert "Mastaba runs on Linux, and for development on macOS" in output
    assert process.returncode == 1
