"""The log: its lines and its files (server-config.md sections 2 and 8)."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from mastaba.config.server import ServerConfig
from mastaba.errors import ConfigurationError
from mastaba.site.logs import configure_logging, log_faults
from mastaba_documents.faults import Fault, Severity
from mastaba_server.log import audit
from mastaba_server.log.destination import LoggerConfig
from mastaba_server.log.handlers import FileHandler
from mastaba_server.log.lines import JSONFormatter, LineFormatter

LINE = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}[+-]\d\d:\d\d)\t(?P<pid>\d+)\t(?P<thread>\d+)\t"
    r"(?P<severity>fatal|error|warning|info|debug)\t(?P<text>[^\t\r\n]*)"
)


def make_record(text: str, level: int = logging.INFO, **attributes: object) -> logging.LogRecord:
    record = logging.LogRecord("mastaba", level, "", 0, text, (), None)
    vars(record).update(attributes)
    return record


def make_server(**logger: object) -> ServerConfig:
    # Nothing but the log is looked at here.
    other: dict[str, Any] = {field.name: None for field in fields(ServerConfig)}
    config = replace(LoggerConfig(), **logger)  # type: ignore[arg-type]
    return ServerConfig(**{**other, "file": "server.json", "logger": config})


@pytest.fixture
def own_logging(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give the root logger its handlers and levels back, and threads their hook."""
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    root = logging.getLogger()
    own = [logging.getLogger(name) for name in ("", "mastaba", "mastaba.audit")]
    handlers, levels = root.handlers[:], [one.level for one in own]
    root.handlers = []
    yield
    for handler in root.handlers:
        handler.close()
    root.handlers = handlers
    for one, level in zip(own, levels, strict=True):
        one.setLevel(level)


@pytest.mark.parametrize(
    ("level", "severity"),
    [
        (logging.CRITICAL, "fatal"),
        (logging.ERROR, "error"),
        (logging.WARNING, "warning"),
        (logging.INFO, "info"),
        (logging.DEBUG, "debug"),
    ],
)
def test_line_has_five_columns(level: int, severity: str) -> None:
    match = LINE.fullmatch(LineFormatter().format(make_record("text é", level)))

    assert match is not None
    assert int(match["pid"]) == os.getpid()
    assert (match["severity"], match["text"]) == (severity, "text é")


def test_control_characters_of_client_text_cannot_forge_a_line() -> None:
    text = "a\nb\r\tc\x00\x1b[31m\x85\u2028\ud800\U0001f5fa"
    line = LineFormatter().format(make_record(text))

    match = LINE.fullmatch(line)
    assert match is not None
    assert match["text"] == r"a\nb\r\tc\x00\x1b[31m\x85\u2028\ud800" + "\U0001f5fa"
    line.encode()


def test_traceback_is_part_of_the_one_line() -> None:
    try:
        raise ValueError("inner")
    except ValueError:
        line = LineFormatter().format(make_record("failed", exc_info=sys.exc_info()))

    match = LINE.fullmatch(line)
    assert match is not None
    assert "ValueError: inner" in match["text"]
    assert "Traceback" in match["text"]


def test_rolling_file_is_named_by_its_begin(tmp_path: Path) -> None:
    handler = FileHandler(str(tmp_path / "log"), 3600)
    handler.setFormatter(LineFormatter())
    handler.emit(make_record("one"))
    handler.close()

    (file,) = tmp_path.iterdir()
    assert re.fullmatch(r"log-\d{4}(-\d\d){5}\.log", file.name)
    begun = time.mktime(time.strptime(file.stem.removeprefix("log-"), "%Y-%m-%d-%H-%M-%S"))
    assert abs(begun - time.time()) < 3600
    assert file.read_text().endswith("\tone\n")


def test_rolling_file_changes_after_each_period(tmp_path: Path) -> None:
    handler = FileHandler(str(tmp_path / "log"), 60)
    start = handler._start
    for seconds in (0, 59, 60, 61, 200):
        handler.emit(make_record(f"at {seconds}", created=float(start + seconds)))
    handler.close()

    files = sorted(tmp_path.iterdir())
    assert [re.findall(r"at \d+", file.read_text()) for file in files] == [
        ["at 0", "at 59"],
        ["at 60", "at 61"],
        ["at 200"],
    ]
    names = [time.strftime("%H-%M-%S", time.localtime(start + begin)) for begin in (0, 60, 180)]
    assert [file.stem[-8:] for file in files] == names


def test_record_of_an_earlier_time_does_not_stop_the_log(tmp_path: Path) -> None:
    handler = FileHandler(str(tmp_path / "log"), 60)
    handler.emit(make_record("early", created=float(handler._start - 1000)))
    handler.close()

    assert sum("early" in file.read_text() for file in tmp_path.iterdir()) == 1


def test_log_directory_that_goes_away_does_not_end_a_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "logs"
    handler = FileHandler(str(directory / "log"), 60)
    for file in directory.iterdir():
        file.unlink()
    directory.rmdir()
    directory.touch()

    handler.emit(make_record("lost", created=float(handler._start + 100)))
    handler.close()
    found = capsys.readouterr().err
    assert "cannot write the log" in found
    assert "Traceback" not in found


def test_log_that_cannot_begin_a_new_file_goes_on_in_the_old_one(tmp_path: Path) -> None:
    directory = tmp_path / "logs"
    directory.mkdir()
    handler = FileHandler(str(directory / "log"), 60)
    directory.rename(tmp_path / "moved")
    directory.touch()

    handler.emit(make_record("late", created=float(handler._start + 100)))
    handler.close()
    assert [file.read_text() for file in (tmp_path / "moved").iterdir()] == ["late\n"]


@pytest.mark.usefixtures("own_logging")
def test_static_file_that_is_renamed_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "log"
    configure_logging(make_server(output="static_file", file_prefix=str(path)))
    logging.getLogger("mastaba").error("before")
    path.rename(tmp_path / "log.1")
    logging.getLogger("mastaba").error("after")

    assert path.read_text().endswith("\tafter\n")
    assert (tmp_path / "log.1").read_text().endswith("\tbefore\n")


@pytest.mark.usefixtures("own_logging")
def test_static_file_whose_directory_goes_away_does_not_end_a_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "logs"
    directory.mkdir()
    configure_logging(make_server(output="static_file", file_prefix=str(directory / "log")))
    directory.rename(tmp_path / "moved")
    directory.touch()
    for _ in range(3):
        logging.getLogger("mastaba").error("lost")

    assert capsys.readouterr().err.count("cannot write the log") == 1
    assert (tmp_path / "moved" / "log").read_text().count("lost") == 3
    directory.unlink()
    logging.getLogger("mastaba").error("found")
    assert (directory / "log").read_text().endswith("\tfound\n")


@pytest.mark.thorough
@pytest.mark.usefixtures("own_logging")
def test_static_log_comes_back_after_the_disk_was_full_and_the_file_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    path.symlink_to("/dev/full")
    configure_logging(make_server(output="static_file", file_prefix=str(path)))
    for _ in range(3):
        logging.getLogger("mastaba").error("lost")
    assert capsys.readouterr().err.count("cannot write the log") == 1
    path.unlink()
    logging.getLogger("mastaba").error("back")
    assert [line.split("\t")[4] for line in path.read_text().splitlines()] == ["back"]


@pytest.mark.thorough
def test_rolling_log_comes_back_after_the_disk_was_full(tmp_path: Path) -> None:
    handler = FileHandler(str(tmp_path / "log"), 60)
    (file,) = tmp_path.iterdir()
    file.unlink()
    file.symlink_to("/dev/full")
    handler.emit(make_record("lost", created=float(handler._start)))
    file.unlink()
    handler.emit(make_record("back", created=float(handler._start)))
    handler.emit(make_record("next", created=float(handler._start + 60)))
    handler.close()
    assert [file.read_text() for file in sorted(tmp_path.iterdir())] == ["back\n", "next\n"]


def test_old_rolling_files_are_removed(tmp_path: Path) -> None:
    others = ["log-x.log", "log-2020-01-01-00-00-00.txt", "logs-2020-01-01-00-00-00.log"]
    for name in [*others, "log-2020-01-01-00-00-00.log", "log-2020-01-01-00-00-01.log"]:
        (tmp_path / name).touch()
    handler = FileHandler(str(tmp_path / "log"), 60, 2)
    assert len(list(tmp_path.iterdir())) == len(others) + 2
    for seconds in (60, 120, 180):
        handler.emit(make_record(f"at {seconds}", created=float(handler._start + seconds)))
    handler.close()
    left = sorted(tmp_path.iterdir())
    assert [file.read_text() for file in left if file.stat().st_size] == ["at 120\n", "at 180\n"]
    assert len(left) == len(others) + 2


@pytest.mark.usefixtures("own_logging")
@pytest.mark.parametrize("output", ["static_file", "rolling_file"])
def test_a_missing_folder_is_made(output: str, tmp_path: Path) -> None:
    prefix = tmp_path / "a" / "b" / "log"
    configure_logging(make_server(output=output, file_prefix=str(prefix)))
    logging.getLogger("mastaba").error("seen")
    (file,) = prefix.parent.iterdir()
    assert file.read_text().endswith("\tseen\n")


@pytest.mark.usefixtures("own_logging")
def test_a_fifo_without_a_reader_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigurationError):
        configure_logging(make_server(output="static_file", file_prefix=str(tmp_path / "pipe")))


@pytest.mark.usefixtures("own_logging")
def test_log_goes_to_standard_error_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(make_server())
    logging.getLogger("mastaba").info("seen")
    assert capsys.readouterr().err.endswith("\tinfo\tseen\n")


@pytest.mark.usefixtures("own_logging")
def test_static_file_has_the_name_of_the_prefix_and_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "mastaba.log"
    for _ in range(2):
        configure_logging(make_server(output="static_file", file_prefix=str(path), level="info"))
        logging.getLogger("mastaba.x").info("again")

    assert [line.split("\t")[4] for line in path.read_text().splitlines()] == ["again", "again"]


@pytest.mark.usefixtures("own_logging")
@pytest.mark.parametrize(
    ("level", "written"),
    [
        ("fatal", ["fatal"]),
        ("error", ["fatal", "error"]),
        ("warn", ["fatal", "error", "warning"]),
        ("info", ["fatal", "error", "warning", "info"]),
        ("debug", ["fatal", "error", "warning", "info", "debug"]),
    ],
)
def test_messages_below_the_level_are_not_written(
    level: str, written: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "log"
    configure_logging(make_server(output="static_file", file_prefix=str(path), level=level))
    for severity in (50, 40, 30, 20, 10):
        logging.getLogger("mastaba.x").log(severity, "x")

    assert [line.split("\t")[3] for line in path.read_text().splitlines()] == written


@pytest.mark.usefixtures("own_logging")
def test_log_goes_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(make_server(output="standard_output"))
    logging.getLogger("mastaba").error("seen")

    assert capsys.readouterr().out.endswith("\terror\tseen\n")


@pytest.mark.usefixtures("own_logging")
@pytest.mark.parametrize("output", ["static_file", "rolling_file"])
@pytest.mark.parametrize("name", ["no/log", "\0"])
def test_log_that_cannot_be_written_is_an_error_in_its_setting(
    output: str, name: str, tmp_path: Path
) -> None:
    (tmp_path / "no").touch()
    with pytest.raises(ConfigurationError) as caught:
        configure_logging(make_server(output=output, file_prefix=str(tmp_path / name)))

    (fault,) = caught.value.faults
    assert (fault.file, fault.path) == ("server.json", "$.logger.file_prefix")
    assert fault.remedy


@pytest.mark.usefixtures("own_logging")
def test_failed_change_of_the_log_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "log"
    configure_logging(make_server(output="static_file", file_prefix=str(path)))
    with pytest.raises(ConfigurationError):
        configure_logging(make_server(output="rolling_file", file_prefix=str(path / "log")))

    logging.getLogger("mastaba").error("still here")
    assert "still here" in path.read_text()


def test_errors_are_logged_with_their_severity(caplog: pytest.LogCaptureFixture) -> None:
    log_faults(
        (
            Fault(Severity.ERROR, "a.json", "$.x", "bad", "mend it"),
            Fault(Severity.WARNING, "b.json", "$", "odd"),
        )
    )
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.ERROR, "a.json: $.x: bad (mend it)"),
        (logging.WARNING, "b.json: $: odd"),
    ]


def test_a_line_of_json() -> None:
    text = "a\nb\x1b\u2028\ud800é"
    line = JSONFormatter().format(make_record(text, logging.WARNING))
    assert line.isascii()
    assert "\n" not in line
    entry = json.loads(line)
    assert set(entry) == {"time", "process", "thread", "severity", "message"}
    assert (entry["severity"], entry["message"]) == ("warning", text)


def test_traceback_is_a_member_of_the_json_line() -> None:
    try:
        raise ValueError("inner")
    except ValueError:
        line = JSONFormatter().format(make_record("failed", exc_info=sys.exc_info()))
    assert "ValueError: inner" in json.loads(line)["exception"]


@pytest.mark.usefixtures("own_logging")
def test_the_format_is_that_of_all_lines(tmp_path: Path) -> None:
    file = tmp_path / "log"
    configure_logging(
        make_server(output="static_file", file_prefix=str(file), level="error", format="json")
    )
    logging.getLogger("mastaba.x").error("one")
    logging.getLogger("mastaba.x").info("two")
    # Whatever the level.
    logging.getLogger("mastaba.access").info("%s", "three", extra={"fields": {"path": "/"}})
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line.get("message") for line in lines] == ["one", None]
    assert lines[1]["path"] == "/"


@pytest.mark.usefixtures("own_logging")
@pytest.mark.parametrize("level", ["fatal", "warn", "info"])
def test_the_audit_log_is_written_at_every_level(level: str, tmp_path: Path) -> None:
    file = tmp_path / "log"
    configure_logging(make_server(output="static_file", file_prefix=str(file), level=level))
    audit.record("key created", id="7f3k9q2d")
    (line,) = file.read_text().splitlines()
    assert '"event": "key created"' in line


@pytest.mark.usefixtures("own_logging")
def test_a_file_that_was_moved_away_is_opened_again(tmp_path: Path) -> None:
    file = tmp_path / "log"
    server = make_server(output="static_file", file_prefix=str(file), level="error")
    configure_logging(server)
    logging.getLogger("mastaba").error("one")
    file.rename(tmp_path / "log.1")
    configure_logging(server)
    logging.getLogger("mastaba").error("two")
    assert file.read_text().endswith("\ttwo\n")
