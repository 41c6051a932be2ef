"""Workers that are stopped, hang, or do not end: they are replaced, and the others serve on."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from tests.server.running import RunningService

SERVER = """
import ctypes, logging, os, sys, threading, time
from pathlib import Path
from mastaba_server.processes.scoreboard import Scoreboard
from mastaba_server.processes.epoch import Epoch
from mastaba_server.transport.fastcgi.connection import FastCGIConnection
from mastaba_server.transport.loop import Server
from mastaba_server.processes.handover import Handover
from mastaba_server.transport.listener import open_listener
from mastaba_server.processes.supervisor import Supervisor

home = Path(sys.argv[1])
board = Scoreboard(4, 2)

def say(text):
    os.write(1, f"{text}\\n".encode())

class Report(logging.Handler):
    def emit(self, record):
        say(record.getMessage())

logging.getLogger().addHandler(Report())

def application(environ, start_response):
    row = board.begin()
    path = environ["PATH_INFO"]
    if path != "/":
        say(f"at {path}")
    if path == "/native":
        # Never returns, keeps the interpreter locked, and no signal interrupts it.
        library, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(64)
        library.pthread_mutex_lock(mutex)
        library.pthread_mutex_lock(mutex)
    if path == "/stuck":
        time.sleep(3600)
    while path == "/long" and not (home / "open").exists():
        time.sleep(0.1)
        row.latest = time.monotonic()
    body = str(os.getpid()).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    board.end(row)
    return [body]

def tick():
    while True:
        board.tick()
        time.sleep(0.1)

class Served(Epoch):
    def serve(self, link):
        board.bind_worker(link.index)
        threading.Thread(target=tick, daemon=True).start()

        report = link.ready
        link.ready = lambda: (report(), say("ready"))
        Server(
            application, listener.socket, FastCGIConnection,
            threads=2, handover=handover, link=link,
        ).run()

handover = Handover()
with open_listener(str(home / "socket")) as listener:
    say("open")
    Supervisor(
        Served(),
        workers=2,
        reload=lambda _: Served(),
        watch=board,
        worker_timeout=float(sys.argv[2]),
        stop_timeout=1.0,
    ).run()
"""


class Service(RunningService):
    def __init__(self, process: Any, protocol: Any, home: Path) -> None:
        super().__init__(process, protocol, home)
        self.protocol = protocol
        self.await_line("open")
        self.await_workers(lambda pids: len(pids) == 2)
        # A worker has longer to get ready than it may be silent later.
        for _ in range(2):
            self.await_line("ready")

    def await_line(self, start: str) -> str:
        line: str
        while not (line := self.process.line()).startswith(start):
            assert line, f"the server ended before it said {start!r}"
        return line

    def await_workers(self, condition: Callable[[set[int]], bool]) -> None:
        deadline = time.monotonic() + 120
        while not condition(self.children()):
            assert time.monotonic() < deadline, "the workers are not those expected"
            time.sleep(0.02)

    def ask(self) -> int:
        """The process that answers on a new connection."""
        client = self.connect()
        try:
            return int(client.ask({"PATH_INFO": "/"}, keep=False).body)
        finally:
            client.close()

    def holder(self, path: str) -> int:
        """Begin a request; returns the process that is at it."""
        client = self.connect()
        pid = int(client.ask({"PATH_INFO": "/"}, keep=True).body)
        client.send(self.protocol.request({"PATH_INFO": path}))
        self.await_line(f"at {path}")
        return pid


@pytest.fixture
def service(
    request: pytest.FixtureRequest, spawn: Any, protocol: Any, tmp_path: Path
) -> Iterator[Service]:
    """A server that takes workers for hanging after 3 seconds, or after another time."""
    with ExitStack() as stack:
        process = spawn(SERVER, str(tmp_path), str(getattr(request, "param", 3.0)))
        yield stack.enter_context(closing(Service(process, protocol, tmp_path)))


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    # All threads of it have to stop, which takes a moment.
    deadline = time.monotonic() + 120
    for task in Path(f"/proc/{pid}/task").iterdir():
        while (task / "stat").read_text().rpartition(")")[2].split()[0] != "T":
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_stopped_worker_is_replaced_and_the_other_one_answers_meanwhile(
    service: Service,
) -> None:
    victim = min(service.children())
    stop(victim)
    # The kernel may announce a connection to the stopped process.
    assert victim not in {service.ask() for _ in range(20)}
    service.await_workers(lambda pids: victim not in pids and len(pids) == 2)
    assert victim not in {service.ask() for _ in range(20)}


@pytest.mark.thorough
def test_a_worker_in_an_endless_native_function_is_replaced(service: Service) -> None:
    victim = service.holder("/native")
    service.await_line("worker")
    service.await_workers(lambda pids: victim not in pids and len(pids) == 2)
    assert victim not in {service.ask() for _ in range(20)}


@pytest.mark.thorough
def test_a_worker_with_a_request_without_progress_is_replaced_gracefully(service: Service) -> None:
    victim = service.holder("/stuck")
    assert "makes no progress" in service.await_line(f"process {victim} is replaced")
    # First another one takes its place, then it is killed since it does not end.
    service.await_workers(lambda pids: len(pids - {victim}) == 2)
    service.await_workers(lambda pids: victim not in pids)


@pytest.mark.parametrize("service", [10.0], indirect=True)  # it must not pass on a busy machine
@pytest.mark.thorough
def test_a_long_request_that_makes_progress_is_not_stopped(service: Service) -> None:
    victim = service.holder("/long")
    time.sleep(13.0)
    assert victim in service.children()
    (service.home / "open").touch()


def test_a_stopped_worker_does_not_survive_a_reload(service: Service) -> None:
    before = service.children()
    stop(min(before))
    service.process.send(signal.SIGHUP)
    service.await_workers(lambda pids: not before & pids and len(pids) == 2)
    assert service.ask() not in before
