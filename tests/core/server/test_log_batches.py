"""The log of a process that serves: whole lines, in batches, and no request waits for it."""

from __future__ import annotations

import http.client
import json
import logging
import os
import re
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.core.server.test_logs import make_record, make_server
from tests.core.server.test_logs import own_logging as own_logging
from tests.tiny import tiny_installation

from mastaba.site.logs import configure_logging
from mastaba_server import trace
from mastaba_server.log.batches import Batches, write_lines
from mastaba_server.log.destination import begin_batches, destination
from mastaba_server.log.entries import EntryLines, _are_plain
from mastaba_server.log.lines import JSONFormatter, LineFormatter

# From perf_counter to Unix time.
CLOCK = 1.8e9


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Return the reading and the writing end of a pipe that holds a page."""
    ends = os.pipe2(os.O_CLOEXEC)
    yield ends
    for end in ends:
        with suppress(OSError):
            os.close(end)


def fill(descriptor: int) -> int:
    """Write until a pipe takes no more; return how many bytes it has taken."""
    os.set_blocking(descriptor, False)
    taken = 0
    with suppress(BlockingIOError):
        while True:
            taken += os.write(descriptor, b"." * select.PIPE_BUF)
    os.set_blocking(descriptor, True)
    return taken


def until(is_true: Callable[[], object]) -> None:
    while not is_true():
        time.sleep(0.002)


def test_lines_of_many_threads_are_whole_and_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "log"
    with file.open("ab") as stream:
        batches = Batches(
            lambda lines: write_lines(stream.fileno(), lines), pytest.fail, pytest.fail
        )

        def work(name: int) -> None:
            for number in range(3000):
                batches.add(f"{name} {number} {'x' * (number % 50)}")

        threads = [threading.Thread(target=work, args=(name,)) for name in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        batches.flush(120)
    found: dict[int, list[int]] = {}
    for line in file.read_text().splitlines():
        name, number, rest = re.fullmatch(r"(\d) (\d+) (x*)", line).groups()  # type: ignore[union-attr]
        assert len(rest) == int(number) % 50
        found.setdefault(int(name), []).append(int(number))
    assert found == {name: list(range(3000)) for name in range(6)}


def test_lines_are_written_soon_without_being_asked(tmp_path: Path) -> None:
    file = tmp_path / "log"
    with file.open("ab") as stream:
        batches = Batches(
            lambda lines: write_lines(stream.fileno(), lines), pytest.fail, pytest.fail
        )
        batches.add("one")
        until(lambda: file.read_text() == "one\n")


def test_a_blocked_destination_holds_up_nothing_and_lost_lines_are_counted(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = pipe
    monkeypatch.setattr("mastaba_server.log.batches._MOST_WAITING", 10_000)
    filled = fill(writing)
    reports: list[int] = []
    batches = Batches(lambda lines: write_lines(writing, lines), reports.append, pytest.fail)
    batches.add("first")
    until(lambda: batches._is_writing)
    lines = [f"line {number:04}" for number in range(3000)]
    for line in lines:
        batches.add(line)  # returns although nothing is read
    batches.flush(0.01)
    assert reports == []
    data = b""
    while len(data) < filled:
        data += os.read(reading, 1 << 20)
    batches.flush(120)  # the pipe has room for all that waited
    os.set_blocking(reading, False)
    with suppress(BlockingIOError):
        while True:
            data += os.read(reading, 1 << 20)
    written = data[filled:].decode().splitlines()
    assert written[0] == "first"
    assert written[1:] == lines[: len(written) - 1]
    assert 1 < len(written) < 3000
    until(lambda: sum(reports) == 3000 - (len(written) - 1))


def test_lines_that_cannot_be_written_are_counted(tmp_path: Path) -> None:
    errors: list[Exception] = []
    reports: list[int] = []
    written: list[str] = []
    works = threading.Event()

    def write(lines: list[str]) -> None:
        if not works.is_set():
            raise OSError("full")
        written.extend(lines)

    batches = Batches(write, reports.append, errors.append)
    for number in range(5):
        batches.add(str(number))
    batches.flush(120)
    until(lambda: errors)
    works.set()
    batches.add("back")
    batches.flush(120)
    until(lambda: reports)
    assert (written, reports) == (["back"], [5])


@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize("blocking", [True, False])
def test_lines_of_several_processes_are_not_mixed_in_a_pipe(
    pipe: tuple[int, int], blocking: bool
) -> None:
    reading, writing = pipe
    os.set_blocking(writing, blocking)
    children = []
    for name in "abcd":
        pid = os.fork()
        if pid == 0:
            for _ in range(20):
                write_lines(writing, [name * (1 + number * 7 % 1500) for number in range(100)])
            os._exit(0)
        children.append(pid)
    os.close(writing)
    with open(reading, "rb", closefd=False) as stream:
        lines = stream.read().decode().splitlines()
    for pid in children:
        assert os.waitpid(pid, 0)[1] == 0
    assert len(lines) == 4 * 20 * 100
    assert all(line == line[0] * len(line) for line in lines)


def test_a_line_that_is_longer_than_a_pipe_holds_is_written(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    long = "é" * 300_000
    thread = threading.Thread(target=write_lines, args=(writing, ["a", long, "b"]))
    thread.start()
    data = b""
    while not data.endswith(b"b\n"):
        data += os.read(reading, 1 << 20)
    thread.join()
    assert data.decode() == f"a\n{long}\nb\n"


def test_what_cannot_be_encoded_is_escaped(tmp_path: Path) -> None:
    with (tmp_path / "log").open("ab") as stream:
        write_lines(stream.fileno(), ["\ud800", "é"])
    assert (tmp_path / "log").read_text() == "\\ud800\né\n"


@pytest.mark.parametrize("formatter", [LineFormatter(), JSONFormatter()])
@pytest.mark.parametrize("fields", [None, {"path": "/\x1b\né", "status": 200, "query": "a\u2028b"}])
def test_the_quick_line_is_that_of_the_formatter(formatter: Any, fields: Any) -> None:
    text = "a \x1b é" if fields is None else json.dumps(fields, ensure_ascii=False)
    record = make_record(text, logging.INFO)
    if fields is not None:
        record.fields = fields
    at = record.created, record.thread
    quick, usual = formatter.info("" if fields else text, fields, *at), formatter.format(record)
    assert quick == usual


QUERIES = (
    *("", "LAYER=A&TILEROW=1", "FORMAT=image%2Fpeg", "a=1&api%5Fkey=2", "Access_TOKEN=x&b=1"),
    *("password=1", "name=a\x1bb", "name=\xc3\xa9", "LAYER=DESIGN&KEYS=1", "sig=abc"),
)
PATHS = ("/wmts", "", "/tms/1.0.0/A/1/2/3.png", "/~key/wmts", "/\xc3\xa9", "/a\nb", "/a\x7f")


@pytest.mark.usefixtures("own_logging")
def test_lines_that_are_made_together_are_those_that_are_made_alone(tmp_path: Path) -> None:
    configure_logging(make_server(output="static_file", file_prefix=str(tmp_path / "log")))
    log = destination()
    assert log is not None
    lines = EntryLines("text", steps=False)
    random = Random(1)
    kinds = {True: 0, False: 0}
    for _ in range(300):
        is_plain = random.random() < 0.5
        entries = []
        for _ in range(random.randrange(1, 33)):
            notes = trace.Trace()
            notes.hits, notes.misses = random.randrange(2), random.randrange(2)
            begun, size = random.random() * 1e4, random.choice([None, 0, 5, 15774])
            who = random.choice(["127.0.0.1", None, *([] if is_plain else ["\x00", "\xe9"])])
            method = random.choice(["GET", *([] if is_plain else ["\x1b"])])
            path = random.choice(PATHS[:3] if is_plain else PATHS)
            query = random.choice(QUERIES[:2] if is_plain else QUERIES)
            times = begun, begun + random.random() * 3, random.randrange(1 << 47)
            status, whole = random.choice([200, 304, 404]), random.choice([0, 0, 9000])
            sent = who, None, method, path, query, status, size, whole
            entries.append((lines.of, *times, notes, *sent))
        alone = [log.info_line(*lines.content(one), one[2] + CLOCK, one[3]) for one in entries]
        assert lines.of(entries, CLOCK) == alone
        kinds[_are_plain(entries)] += 1
    assert min(kinds.values()) > 30


@pytest.mark.parametrize("fault", [ValueError("a line"), None])
def test_an_entry_whose_line_fails_is_lost_alone(fault: Exception | None) -> None:
    written: list[str] = []
    errors: list[Exception] = []
    reports: list[int] = []

    def make(entries: Sequence[Any]) -> list[str]:
        texts = [text for _, text in entries]
        if fault and "one" in texts:
            raise fault
        return texts

    batches = Batches(written.extend, reports.append, errors.append)
    batches.add("before")
    for text in ("zero", "one", "two"):
        batches.add_entry((make, text))
    batches.add("after")
    batches.flush(120)
    assert written == ["before", "zero", *([] if fault else ["one"]), "two", "after"]
    assert (errors, reports) == (([fault], [1]) if fault else ([], []))


@pytest.mark.usefixtures("own_logging")
def test_a_file_that_is_renamed_loses_no_line(tmp_path: Path) -> None:
    file = tmp_path / "log"
    configure_logging(make_server(output="static_file", file_prefix=str(file)))
    begin_batches()
    handler = destination()
    assert handler is not None
    assert handler.batches is not None
    for number in range(20):
        for part in range(50):
            handler.batches.add(f"{number}-{part}")
        if number % 5 == 4:
            file.rename(tmp_path / f"log.{number}")
            handler.batches.flush(120)
            assert file.exists()
    handler.flush()
    files = sorted(tmp_path.iterdir())
    assert len(files) == 5
    lines = [line for file in files for line in file.read_text().splitlines()]
    assert sorted(lines) == sorted(f"{n}-{part}" for n in range(20) for part in range(50))


@pytest.mark.usefixtures("own_logging")
def test_an_error_is_written_without_waiting_for_more(tmp_path: Path) -> None:
    file = tmp_path / "log"
    configure_logging(make_server(output="static_file", file_prefix=str(file)))
    begin_batches()
    logging.getLogger("mastaba").error("first %s", "a")
    until(lambda: file.read_text().endswith("\terror\tfirst a\n"))


@pytest.mark.usefixtures("own_logging")
def test_a_process_without_batches_does_not_wait_for_a_blocked_pipe(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = pipe
    filled = fill(writing)
    with open(writing, "w", closefd=False) as stream:
        monkeypatch.setattr("sys.stderr", stream)
        configure_logging(make_server(output="standard_error"))
        for number in range(10):
            logging.getLogger("mastaba").error("lost %d", number)
        data = b""
        while len(data) < filled:
            data += os.read(reading, 1 << 20)
        assert len(data) == filled
        logging.getLogger("mastaba").error("back")
        lines = os.read(reading, 1 << 20).decode().splitlines()
    assert lines[0].endswith("\terror\tback")
    assert "10 lines of the log are lost" in lines[1]


# The whole program


PROGRAM = """
import sys
from mastaba.commands.main import main
sys.exit(main(["-f", *sys.argv[1:]]))
"""


class Program:
    """Mastaba on a Unix socket."""

    def __init__(self, spawn: Any, protocol: Any, tmp_path: Path, *, is_http: bool, **logger: Any):
        self.path = str(tmp_path / "socket")
        self._protocol = protocol
        self._is_http = is_http
        server_json = tiny_installation(
            tmp_path,
            services=["health"],
            server_overrides={
                "workers": 2,
                "logger": {"level": "info", **logger},
                "port": self.path,
            },
        )
        arguments = ["--http", self.path] if is_http else []
        self.process = spawn(PROGRAM, str(server_json), *arguments)
        until(self._listens)

    def _listens(self) -> bool:
        # The file exists before the socket listens.
        with socket.socket(socket.AF_UNIX) as sock:
            return sock.connect_ex(self.path) == 0

    def ask(self, count: int) -> None:
        """Send requests, and receive their answers."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(60)
            sock.connect(self.path)
            client = self._protocol.Client(sock)
            for number in range(count):
                if not self._is_http:
                    answer = client.ask(
                        {"PATH_INFO": "/healthcheck", "QUERY_STRING": f"n={number}"}
                    )
                    assert answer.status == "200 OK"
                    continue
                sock.sendall(b"GET /healthcheck?n=%d HTTP/1.1\r\nHost: x\r\n\r\n" % number)
                response = http.client.HTTPResponse(sock)
                response.begin()
                assert response.status == 200
                response.read()

    def stop(self) -> None:
        self.process.send(signal.SIGTERM)
        assert self.process.wait() == 0


@pytest.mark.parametrize("is_http", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_all_lines_are_there_after_a_reload_and_a_stop(
    spawn: Any, protocol: Any, tmp_path: Path, is_http: bool
) -> None:
    file = tmp_path / "log"
    program = Program(
        spawn, protocol, tmp_path, is_http=is_http, output="static_file", file_prefix=str(file)
    )
    program.ask(300)
    program.process.send(signal.SIGHUP)
    until(lambda: "reload complete" in file.read_text())
    program.ask(300)
    program.stop()
    lines = file.read_text().splitlines()
    assert all(line.count("\t") == 4 for line in lines)
    numbers = [int(found[1]) for line in lines if (found := re.search(r"\?n=(\d+) 200 ", line))]
    assert sorted(numbers) == sorted([*range(300), *range(300)])


@pytest.mark.thorough
def test_requests_are_answered_while_nobody_reads_the_log(
    spawn: Any, protocol: Any, tmp_path: Path
) -> None:
    log = tmp_path / "pipe"
    os.mkfifo(log)
    reading = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
    writing = os.open(log, os.O_WRONLY)
    try:
        program = Program(
            spawn, protocol, tmp_path, is_http=True, output="static_file", file_prefix=str(log)
        )
        fill(writing)
        program.ask(500)
        program.stop()
    finally:
        os.close(reading)
        os.close(writing)
