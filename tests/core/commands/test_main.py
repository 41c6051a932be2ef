"""The command line (server-config.md sections 3 and 5)."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.forked import run
from tests.tiny import tiny_installation

import mastaba
from mastaba.commands.main import main
from mastaba.config.schema import SCHEMA_NAMES
from mastaba.plugins.manager import Plugins


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


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize(
    "arguments",
    [
        ["-f"],
        ["-x"],
        ["--verbose"],
        ["server.json"],
        ["--http"],
        ["--http", ""],
        ["--http", "localhost"],
        ["--htt", "127.0.0.1:0"],
        ["check", "-f"],
        ["check", "extra"],
        ["schema"],
        ["schema", "colours"],
        ["plugins", "-f", "x"],
        ["--block"],
    ],
)
def test_wrong_usage_is_reported_on_stderr_with_status_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("usage: mastaba")


@pytest.mark.parametrize("before", [True, False])
def test_check_of_a_healthy_configuration_ends_with_status_0(
    before: bool, server_json: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = ["-f", str(server_json)]
    assert main([*file, "check"] if before else ["check", *file]) == 0
    assert capsys.readouterr().out == (
        "drawn in grey in picture formats, by default: FLOAT32_RAW, FLOAT32_ZIP\n"
        "0 errors, 0 warnings, 9 layers usable\n"
    )


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


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_stop_during_the_start_is_graceful(number: int, hanging_start: Any) -> None:
    hanging_start.send_signal(number)
    assert hanging_start.wait(120) == 0
    assert "Traceback" not in hanging_start.stderr.read()


@pytest.mark.thorough
def test_reload_during_the_start_follows_the_start(
    hanging_start: Any, server_json: Path, tmp_path: Path
) -> None:
    hanging_start.send_signal(signal.SIGHUP)
    edit(server_json, lambda d: d.update(port=str(tmp_path / "socket"), workers=1))
    with hanging_start.pipe as pipe:
        pipe.write("go on")
    # Opens when the server reads its configuration a second time.
    with open(tmp_path / "second", "w", encoding="utf-8"):
        assert hanging_start.poll() is None


@pytest.fixture
def hanging_start(tmp_path: Path, server_json: Path) -> Iterator[Any]:
    """A server that reads a FIFO before its server.json: ``pipe``, and ``second`` in a reload."""
    paths = [str(tmp_path / name) for name in ("first", "second")]
    for path in paths:
        os.mkfifo(path)
    program = (
        "import signal, sys\n"
        # A shell that runs the tests in the background leaves these ignored.
        "for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):\n"
        "    signal.signal(number, signal.SIG_DFL)\n"
        "from mastaba.commands.main import main\n"
        "from mastaba.commands import serve\n"
        "from mastaba.site import reloading\n"
        "read = serve.load_server\n"
        f"paths = {paths!r}\n"
        "def slowly(*arguments):\n"
        "    open(paths.pop(0)).read()\n"
        "    return read(*arguments)\n"
        "serve.load_server = reloading.load_server = slowly\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, "-f", str(server_json)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        # Returns when the server has opened the other end.
        with open(paths[0], "w", encoding="utf-8") as process.pipe:  # type: ignore[attr-defined]
            yield process
        process.kill()


def test_closed_pipe_is_not_an_error(tmp_path: Path) -> None:
    command = f"{sys.executable} -m mastaba schema services | head -n 1"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("{\n", "")


@pytest.mark.thorough
@pytest.mark.parametrize("arguments", [["schema", "services"], ["plugins"], ["check"]])
def test_output_that_cannot_be_written_is_reported(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "mastaba", *arguments]
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "mastaba: No space left on device\n")


def test_an_unexpected_error_of_a_file_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_arguments: Any) -> None:
        (tmp_path / "absent").read_bytes()

    monkeypatch.setattr("mastaba.commands.main._print_schema", fail)
    status = run("schema", "services")
    expected = f"mastaba: {tmp_path}/absent: No such file or directory\n"
    assert (status.returncode, status.stderr) == (1, expected)


@pytest.mark.thorough
@pytest.mark.parametrize(("closed", "status"), [(">&- 2>&-", 0), (">&-", 0), ("-x 2>&-", 2)])
def test_streams_may_be_closed(closed: str, status: int) -> None:
    command = f"{sys.executable} -m mastaba schema services {closed}"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (status, "")


@pytest.mark.thorough
def test_output_is_possible_in_any_encoding(tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    old.write_text('{"provider": "Établissement × 2", "contact": {}}', "utf-8")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "mastaba", *arguments],
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
            capture_output=True,
            text=True,
            check=False,
        )

    done = run("convert-services", str(old))
    assert done.returncode == 0
    assert json.loads(done.stdout)["global"]["provider"] == "Établissement × 2"
    done = run("check", "-f", "é\x1b[31m.json")
    assert done.stdout.startswith(r"error: \xe9\x1b[31m.json: $")
    assert done.stderr == ""


@pytest.mark.parametrize("name", ["/dev/zero", "pipe"])
def test_what_is_not_a_regular_file_is_refused_at_once(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for options in ((), ("check",)):
        done = run(*options, "-f", str(tmp_path / name))
        assert done.returncode == 1
        assert "it is not a regular file" in done.stdout + done.stderr


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "server.json"
    with path.open("wb") as stream:
        stream.truncate(64 * 1024**2 + 1)
    done = run("check", "-f", str(path))
    assert done.returncode == 1
    assert "larger than 64 MiB" in done.stdout


def test_missing_server_json_stops_the_start_with_status_1(tmp_path: Path) -> None:
    ended = run("-f", str(tmp_path / "no.json"))
    assert ended.returncode == 1
    assert "no.json" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_reason_is_reported_once_before_there_is_a_log() -> None:
    done = run("-f", "nowhere.json")
    assert done.stderr.count("nowhere.json") == 1


def test_every_error_stops_the_start_and_is_on_stderr(server_json: Path) -> None:
    edit(server_json, lambda d: d.update(port=5, threads=0, logger={"level": "loud"}))
    ended = run("-f", str(server_json))

    assert ended.returncode == 1
    for path in ("$.port", "$.threads", "$.logger.level"):
        assert path in ended.stderr


def test_missing_port_stops_the_start(server_json: Path) -> None:
    edit(server_json, lambda document: document.pop("port"))
    ended = run("-f", str(server_json))

    assert ended.returncode == 1
    assert "$.port" in ended.stderr


def test_listening_address_in_use_stops_the_start_and_is_named(server_json: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        edit(server_json, lambda document: document.update(port=address))
        ended = run("-f", str(server_json))

    assert ended.returncode == 1
    assert address in ended.stderr
    assert "Traceback" not in ended.stderr


def test_log_file_that_cannot_be_written_stops_the_start(server_json: Path, tmp_path: Path) -> None:
    logger = {"output": "static_file", "file_prefix": str(server_json / "no/such/log")}
    edit(server_json, lambda document: document.update(logger=logger))
    ended = run("-f", str(server_json))

    assert ended.returncode == 1
    assert "$.logger.file_prefix" in ended.stderr


def test_invalid_services_file_stops_the_start_with_all_its_errors(server_json: Path) -> None:
    services = server_json.with_name("services.json")
    edit(services, lambda document: document.update(enabled="x", health=[]))
    ended = run("-f", str(server_json))

    assert ended.returncode == 1
    assert "$.enabled" in ended.stderr
    assert "$.health" in ended.stderr
