"""Worker processes: replaced, reloaded without a lost request, and stopped gracefully."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from tests.server.running import RunningService

# A FastCGI server that answers with its generation and process. The reload fails when the file
# "broken" exists, hangs when "hang" exists, and makes workers that die when "fatal" exists, that
# are never ready when "lazy" exists. It follows the file "source" if there is one at the start,
# drains while "drain" exists, and has as many companions as the file "companions" says.
SERVER = """
import logging, os, signal, sys, threading, time
from pathlib import Path

# A shell that runs the tests in the background leaves these ignored.
for number in (signal.SIGINT, signal.SIGQUIT):
    signal.signal(number, signal.SIG_DFL)

from mastaba_server.processes.epoch import Epoch
from mastaba_server.transport.fastcgi.connection import FastCGIConnection
from mastaba_server.transport.loop import Server
from mastaba_server.processes.handover import Handover
from mastaba_server.transport.listener import open_listener
from mastaba_server.processes import supervisor, watching
from mastaba_server.processes.supervisor import Supervisor
from mastaba_server.processes.scoreboard import Scoreboard

home = Path(sys.argv[1])

def say(text):
    # In one piece, since several processes write here.
    os.write(1, f"{text}\\n".encode())

workers = int(sys.argv[2])
options = eval(sys.argv[3])
constants = options.pop("constants", {})
for name, value in constants.items():
    owners = [module for module in (supervisor, watching) if hasattr(module, name)]
    assert owners, name
    for module in owners:
        setattr(module, name, value)
generation = 0

class Report(logging.Handler):
    def emit(self, record):
        say(record.getMessage())

logging.getLogger().addHandler(Report())

def application(environ, start_response):
    if environ["PATH_INFO"] == "/wait":
        say("waiting")
        while not (home / "open").exists():
            time.sleep(0.01)
    if environ["PATH_INFO"] == "/obstacles":
        body = ";".join(board.obstacles).encode()
        start_response("200 OK", [("Content-Length", str(len(body)))])
        return [body]
    body = f"{generation} {os.getpid()}".encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]

def load(served=None):
    global generation, seen
    if (home / "source").exists():
        seen = (home / "source").read_text()
    if (home / "hang").exists():
        say("loading")
        time.sleep(3600)
    if (home / "slow").exists():
        say("loading")
        while (home / "slow").exists():
            time.sleep(0.01)
    if (home / "broken").exists():
        raise ValueError("broken configuration")
    generation += 1
    say(f"loaded {generation}")
    return Served()

class Served(Epoch):
    def __init__(self):
        # Decided before the fork: a worker of the first generation may come late to this.
        self.lazy = (home / "lazy").exists()
        self.follows = (home / "source").exists()
        drain = home / "drain"
        self.drain = float(drain.read_text()) if drain.exists() else 0

        self.number = generation

    def companions(self):
        count = home / "companions"
        return [self.accompany] * (int(count.read_text()) if count.exists() else 0)

    def accompany(self):
        say(f"companion of {self.number}: {os.getpid()}")
        if (home / "fatal").exists():
            os._exit(3)
        signal.pause()

    def await_change(self):
        say(f"following {os.getpid()}")
        if (home / "unfollowable").exists():
            raise ValueError("cannot follow")
        # What the last load has seen, also if it failed.
        while (home / "source").read_text() == seen:
            time.sleep(0.01)

    def serve(self, link):
        if (home / "fatal").exists():
            os._exit(3)
        say(f"worker {link.index if link else 0}")
        while self.lazy and (home / "lazy").exists():
            time.sleep(0.01)
        Server(
            application,
            listener.socket,
            FastCGIConnection,
            threads=2,
            handover=handover,
            link=link,
        ).run()

seen = ""
board = Scoreboard(2 * workers or 1, 2)
handover = Handover()
with open_listener(str(home / "socket")) as listener:
    Supervisor(load(), workers=workers, reload=load, watch=board, **options).run()
"""


class Service(RunningService):
    def __init__(self, process: Any, protocol: Any, home: Path, workers: int) -> None:
        super().__init__(process, protocol, home)
        # Other processes may speak before the last worker does.
        self._said: list[str] = []
        self.await_line("loaded 1")
        said = []
        for _ in range(max(1, workers)):
            while not (line := self.process.line()).startswith("worker "):
                assert line, "the server ended at its start"
                said.append(line)
        self._said = said

    def await_line(self, start: str) -> str:
        while not (line := self._line()).startswith(start):
            assert line, f"the server ended before it said {start!r}"
        return line

    def _line(self) -> str:
        line: str = self._said.pop(0) if self._said else self.process.line()
        return line

    def ask(self) -> tuple[int, int]:
        """Epoch and process that answer on a new connection."""
        client = self.connect()
        try:
            generation, pid = client.ask(keep=False).body.split()
        finally:
            client.close()
        return int(generation), int(pid)

    def request(self) -> bytes:
        """A request on a connection that stays open."""
        request: bytes = self._protocol.request()
        return request

    def begin_waiting(self) -> Any:
        """Client with a running request, which is answered when there is a file ``open``."""
        client = self.connect()
        client.send(self._protocol.request({"PATH_INFO": "/wait"}))
        self.await_line("waiting")
        return client

    def order_stop(self) -> None:
        """Order a graceful stop as a service manager does: one signal after the other."""
        self.process.send(signal.SIGQUIT)
        self.process.send(signal.SIGTERM)

    def obstacles(self) -> list[str]:
        """Why the server is not ready."""
        client = self.connect()
        try:
            client.send(self._protocol.request({"PATH_INFO": "/obstacles"}))
            body: bytes = client.answer().body
        finally:
            client.close()
        return body.decode().split(";") if body else []

    def await_generation(self, generation: int) -> None:
        while self.ask()[0] != generation:
            time.sleep(0.01)


def put(source: Path, text: str) -> None:
    """Replace a file that the server reads at any moment; an empty one would be a change too."""
    new = source.with_suffix(".new")
    new.write_text(text)
    new.replace(source)


@pytest.fixture
def run(spawn: Any, protocol: Any, tmp_path: Path) -> Iterator[Callable[..., Service]]:
    with ExitStack() as stack:

        def start(workers: int = 2, options: str = "{}") -> Service:
            process = spawn(SERVER, str(tmp_path), str(workers), options)
            return stack.enter_context(closing(Service(process, protocol, tmp_path, workers)))

        yield start


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # In a container, the first process may never reap orphans.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT, signal.SIGINT])
@pytest.mark.parametrize("workers", [0, 2])
def test_an_idle_server_stops_on_signals(run: Any, number: int, workers: int) -> None:
    service = run(workers)
    children = service.children()
    assert len(children) == workers
    kept = service.connect()
    kept.ask()
    service.process.send(number)
    assert service.process.wait() == 0
    assert kept.is_closed()
    assert not (service.home / "socket").exists()
    assert not any(is_alive(pid) for pid in children)


def test_a_killed_worker_is_replaced(run: Any) -> None:
    service = run()
    before = service.children()
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    while len(service.children() - before) < 2:
        time.sleep(0.01)
    assert service.ask()[1] not in before
    assert len(service.children()) == 2


@pytest.mark.thorough
def test_workers_that_die_at_once_do_not_keep_the_parent_from_its_signals(run: Any) -> None:
    service = run()
    (service.home / "fatal").touch()
    for pid in service.children():
        os.kill(pid, signal.SIGKILL)
    for _ in range(4):
        while "exited with status 3" not in service.await_line("worker "):
            pass
    (service.home / "fatal").unlink()
    service.process.send(signal.SIGHUP)
    service.await_line("loaded 2")
    service.await_generation(2)
    service.process.send(signal.SIGTERM)
    assert service.process.wait() == 0


@pytest.mark.thorough
def test_workers_that_die_at_once_are_started_ever_later_until_one_lives(run: Any) -> None:
    """The delay doubles, and is the first one again after a worker that lived for a while."""
    service = run(1)

    def die_and_return() -> float:
        """Kill the worker; returns the seconds until the next one, and what a busy machine adds."""
        (pid,) = service.children()
        killed = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        service.await_line("worker 0, process")
        service.await_line("worker 0")
        return time.monotonic() - killed

    delays = [die_and_return() for _ in range(5)]
    assert sum(delays) > 0.1 + 0.2 + 0.4 + 0.8 + 1.6
    assert delays[4] > 1.6
    time.sleep(5.1)
    die_and_return()
    # The first one again, and not the seventh.
    assert die_and_return() < 0.1 * 2**6


def shared_with(parent: int, worker: int) -> tuple[set[str], set[str]]:
    """Return the sockets, and the writing ends of pipes, that a worker has from its parent."""

    def held(pid: int) -> tuple[set[str], set[str]]:
        sockets, pipes = set(), set()
        for link in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = os.readlink(link)
                flags = Path(f"/proc/{pid}/fdinfo/{link.name}").read_text()
            except FileNotFoundError:
                continue
            if target.startswith("socket:"):
                sockets.add(target)
            # Of the standard streams, those of the test.
            elif target.startswith("pipe:") and int(link.name) > 2:
                (mode,) = re.findall(r"flags:\s+(\d+)", flags)
                if int(mode, 8) & os.O_ACCMODE != os.O_RDONLY:
                    pipes.add(target)
        return sockets, pipes

    ours, theirs = held(parent), held(worker)
    return ours[0] & theirs[0], ours[1] & theirs[1]


def test_a_worker_inherits_no_descriptors_of_the_parent_or_of_other_workers(run: Any) -> None:
    """A descriptor that workers hold open would hide the exit of its owner."""
    service = run(3)
    first = min(service.children())
    os.kill(first, signal.SIGKILL)
    service.await_line("worker ")
    service.await_line("worker ")
    service.ask()
    shared = [shared_with(service.process.pid, pid) for pid in service.children()]
    assert len(shared) == 3
    sockets, pipes = shared[0]
    assert sockets
    assert pipes == set()
    assert all(found == (sockets, pipes) for found in shared)


def test_a_generation_that_dies_at_once_leaves_the_present_one_serving(run: Any) -> None:
    service = run()
    before = service.children()
    (service.home / "fatal").touch()
    service.process.send(signal.SIGHUP)
    service.await_line("reload failed: the new workers exit")
    assert service.ask()[0] == 1
    while service.children() != before:
        time.sleep(0.01)
    (service.home / "fatal").unlink()
    service.process.send(signal.SIGHUP)
    service.await_line("loaded 3")
    service.await_generation(3)


@pytest.mark.thorough
def test_an_accident_to_a_new_worker_does_not_fail_the_reload(run: Any) -> None:
    service = run()
    before = service.children()
    (service.home / "lazy").touch()
    service.process.send(signal.SIGHUP)
    for _ in range(2):
        service.await_line("worker ")
    os.kill((service.children() - before).pop(), signal.SIGKILL)
    service.await_line("worker ")
    (service.home / "lazy").unlink()
    service.await_generation(2)
    while before & service.children():
        time.sleep(0.01)
    assert len(service.children()) == 2


def test_the_present_generation_serves_until_the_next_one_is_ready(run: Any) -> None:
    service = run()
    before = service.children()
    (service.home / "lazy").touch()
    service.process.send(signal.SIGHUP)
    for _ in range(2):
        service.await_line("worker ")
    for _ in range(50):
        generation, pid = service.ask()
        assert generation == 1
        assert pid in before
    (service.home / "lazy").unlink()
    service.await_generation(2)


@pytest.mark.thorough
def test_a_generation_that_is_never_ready_is_given_up(run: Any) -> None:
    service = run(options="{'start_timeout': 0.2}")
    before = service.children()
    (service.home / "lazy").touch()
    service.process.send(signal.SIGHUP)
    service.await_line("reload failed: the new workers are not ready in time")
    assert service.ask()[0] == 1
    while service.children() != before:
        time.sleep(0.01)


def test_the_stop_waits_for_running_requests(run: Any) -> None:
    service = run()
    client = service.begin_waiting()
    service.order_stop()
    (service.home / "open").touch()
    assert client.answer().status == "200 OK"
    assert service.process.wait() == 0


def test_the_stop_is_bounded(run: Any) -> None:
    service = run(options="{'stop_timeout': 0.5}")
    client = service.begin_waiting()
    service.process.send(signal.SIGTERM)
    assert service.process.wait() == 0
    assert client.is_closed()


def test_workers_do_not_survive_their_parent(run: Any) -> None:
    service = run()
    children = service.children()
    service.process.send(signal.SIGKILL)
    service.process.wait()
    while any(is_alive(pid) for pid in children):
        time.sleep(0.01)


def test_a_reload_replaces_all_workers(run: Any) -> None:
    service = run()
    before = service.children()
    service.process.send(signal.SIGHUP)
    service.await_line("loaded 2")
    # While the present generation lives, the next one has other indices.
    assert {service.await_line("worker ") for _ in range(2)} == {"worker 2", "worker 3"}
    while before & service.children():
        time.sleep(0.01)
    assert service.ask()[0] == 2


def test_a_failed_reload_changes_nothing(run: Any) -> None:
    service = run()
    before = service.children()
    (service.home / "broken").touch()
    for _ in range(2):
        service.process.send(signal.SIGHUP)
        service.await_line("reload failed")
    assert service.children() == before
    (service.home / "broken").unlink()
    service.process.send(signal.SIGHUP)
    service.await_line("loaded 2")
    service.await_generation(2)


def test_one_pending_reload_is_kept(run: Any) -> None:
    service = run()
    (service.home / "slow").touch()
    service.process.send(signal.SIGHUP)
    service.await_line("loading")
    for _ in range(5):
        service.process.send(signal.SIGHUP)
        time.sleep(0.01)
    (service.home / "slow").unlink()
    service.await_line("loaded 2")
    service.await_line("loaded 3")
    service.await_generation(3)
    service.process.send(signal.SIGTERM)
    assert service.process.wait() == 0
    rest = []
    while line := service.process.line():
        rest.append(line)
    assert "loaded 4" not in rest


def test_a_reload_that_hangs_does_not_hold_up_the_stop(run: Any) -> None:
    service = run()
    (service.home / "hang").touch()
    service.process.send(signal.SIGHUP)
    service.await_line("loading")
    service.process.send(signal.SIGTERM)
    assert service.process.wait() == 0


def test_a_change_at_the_source_causes_a_reload(run: Any, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("1")
    service = run()
    for generation in range(2, 5):
        service.await_line("following")
        put(source, str(generation))
        service.await_line(f"loaded {generation}")
        service.await_generation(generation)
    assert service.obstacles() == []


def test_a_source_that_cannot_be_loaded_makes_the_server_unready(run: Any, tmp_path: Path) -> None:
    source, broken = tmp_path / "source", tmp_path / "broken"
    source.write_text("1")
    service = run()
    broken.touch()
    put(source, "2")
    service.await_line("reload failed")
    # It is not loaded again before it changes.
    service.await_line("following")
    assert service.ask()[0] == 1
    assert service.obstacles() == ["the newest configuration cannot be loaded"]
    broken.unlink()
    put(source, "3")
    service.await_line("loaded 2")
    service.await_generation(2)
    while service.obstacles():
        time.sleep(0.01)


def test_a_source_whose_workers_die_makes_the_server_unready(run: Any, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("1")
    service = run()
    (tmp_path / "fatal").touch()
    put(source, "2")
    service.await_line("reload failed: the new workers exit")
    assert service.obstacles() == ["the newest configuration cannot be loaded"]


def test_a_failed_reload_by_signal_is_reported_until_one_succeeds(run: Any) -> None:
    service = run()
    broken = service.home / "broken"
    broken.touch()
    service.process.send(signal.SIGHUP)
    service.await_line("reload failed")
    kept = "the last reload has failed: the configuration before it stays in use"
    while service.obstacles() != [kept]:
        time.sleep(0.01)
    broken.unlink()
    service.process.send(signal.SIGHUP)
    while service.obstacles():
        time.sleep(0.01)


def test_the_process_that_follows_is_started_again(run: Any, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("1")
    service = run()
    os.kill(int(service.await_line("following").split()[1]), signal.SIGKILL)
    service.await_line("the process that follows the configuration failed")
    service.await_line("following")
    put(source, "2")
    service.await_line("loaded 2")
    service.await_generation(2)


def test_the_process_that_follows_does_not_survive_the_server(run: Any, tmp_path: Path) -> None:
    (tmp_path / "source").write_text("1")
    service = run()
    follower = int(service.await_line("following").split()[1])
    service.process.send(signal.SIGTERM)
    assert service.process.wait() == 0
    assert not is_alive(follower)


def test_a_draining_server_answers_and_is_not_ready(run: Any, tmp_path: Path) -> None:
    (tmp_path / "drain").write_text("3600")
    service = run()
    before = service.children()
    service.process.send(signal.SIGTERM)
    while service.obstacles() != ["the server is about to stop"]:
        time.sleep(0.01)
    assert service.ask()[0] == 1
    # Workers are replaced as before, and nothing is reloaded.
    service.process.send(signal.SIGHUP)
    os.kill(before.pop(), signal.SIGKILL)
    service.await_line("worker ")
    assert service.ask()[0] == 1
    assert is_alive(service.process.pid)


def test_a_drain_ends_with_a_graceful_stop(run: Any, tmp_path: Path) -> None:
    (tmp_path / "drain").write_text("0.5")
    service = run()
    client = service.begin_waiting()
    service.order_stop()
    while not service.obstacles():
        time.sleep(0.01)
    (service.home / "open").touch()
    assert client.answer().status == "200 OK"
    assert service.process.wait() == 0


@pytest.mark.parametrize("keep", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_no_request_is_lost_by_reloads(run: Any, keep: bool) -> None:
    service = run()
    done = threading.Event()
    generations: list[int] = []
    failures: list[BaseException] = []

    def work() -> None:
        try:
            client = service.connect()
            while not done.is_set():
                answer = client.ask(keep=keep)
                assert answer.status == "200 OK"
                generations.append(int(answer.body.split()[0]))
                if not keep:
                    client.close()
                    client = service.connect()
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for generation in range(2, 8):
        service.process.send(signal.SIGHUP)
        service.await_line(f"loaded {generation}")
        while generations[-1:] != [generation]:
            assert failures == []
            time.sleep(0.001)
    done.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert set(generations) == set(range(1, 8))


@pytest.mark.thorough
def test_no_answer_is_older_than_one_before(run: Any) -> None:
    """A request that is sent after an answer of a generation is not answered by an older one."""
    service = run()
    done = threading.Event()
    latest, answers = [1], [0]
    failures: list[object] = []

    def work(keep: bool) -> None:
        client = service.connect()
        try:
            while not done.is_set():
                before = latest[0]
                generation = int(client.ask(keep=keep).body.split()[0])
                if generation < before:
                    failures.append((generation, before, keep))
                # Not exact if another thread has seen a later one at the same time, which then
                # is noted with its next answer.
                latest[0] = max(latest[0], generation)
                answers[0] += 1
                if not keep:
                    client.close()
                    client = service.connect()
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=work, args=(number % 2 > 0,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for generation in range(2, 12):
        before = answers[0]
        while answers[0] < before + 20 and not failures:
            time.sleep(0.001)
        service.process.send(signal.SIGHUP)
        while latest[0] < generation and not failures:
            time.sleep(0.001)
    done.set()
    for thread in threads:
        thread.join()
    assert failures == []


def begin_switch(service: Service) -> tuple[int, Any]:
    """Reload with a suspended worker, so that the others have retired and it has not.

    Returns:
        the suspended process, and a client whose request waits.
    """
    suspended, other = service.children()
    os.kill(suspended, signal.SIGSTOP)
    service.process.send(signal.SIGHUP)
    while other in service.children():
        time.sleep(0.01)
    client = service.connect()
    client.send(service.request())
    client.socket.settimeout(0.3)
    with pytest.raises(TimeoutError):
        client.socket.recv(1)
    client.socket.settimeout(None)
    return suspended, client


def test_requests_wait_until_the_whole_previous_generation_has_left(run: Any) -> None:
    service = run()
    suspended, client = begin_switch(service)
    os.kill(suspended, signal.SIGCONT)
    # By any of them: the request was sent before the first answer of the next generation.
    assert client.answer().status == "200 OK"
    service.await_generation(2)


@pytest.mark.thorough
def test_a_stop_while_generations_change_answers_the_requests_that_wait(run: Any) -> None:
    service = run(options="{'stop_timeout': 5}")
    _, client = begin_switch(service)
    service.process.send(signal.SIGTERM)
    assert client.answer().body.startswith(b"2 ")
    assert service.process.wait() == 0


@pytest.mark.thorough
def test_a_worker_that_did_not_respond_may_finish_its_requests_when_retired(run: Any) -> None:
    """The workers of these tests never tick, so the supervisor takes them for busy ones."""
    service = run(options="{'constants': {'WATCH_PERIOD': 0.1, '_RETIRED_TIMEOUT': 0.5}}")
    client = service.begin_waiting()
    time.sleep(1)
    service.process.send(signal.SIGHUP)
    service.await_generation(2)
    time.sleep(1)
    (service.home / "open").touch()
    assert client.answer().body.startswith(b"1 ")


@pytest.mark.thorough
def test_idle_kept_connections_survive_reloads(run: Any) -> None:
    """They are more than the channel between the workers holds."""
    service = run()
    clients = [service.connect() for _ in range(600)]
    for client in clients:
        client.ask()
    for generation in (2, 3):
        before = service.children()
        service.process.send(signal.SIGHUP)
        service.await_line(f"loaded {generation}")
        while before & service.children():
            time.sleep(0.01)
        for client in clients:
            assert client.ask().body.startswith(str(generation).encode())


def test_requests_in_progress_finish_with_their_configuration(run: Any) -> None:
    service = run()
    client = service.begin_waiting()
    service.process.send(signal.SIGHUP)
    service.await_line("loaded 2")
    service.await_generation(2)
    (service.home / "open").touch()
    assert client.answer().body.startswith(b"1 ")


def test_signals_for_workers_do_not_harm_the_parent(run: Any) -> None:
    service = run()
    for number in (signal.SIGUSR1, signal.SIGPIPE):
        service.process.send(number)
    assert service.ask()[0] == 1


def test_one_process_serves_by_itself(run: Any) -> None:
    service = run(workers=0)
    assert service.ask() == (1, service.process.pid)
    service.process.send(signal.SIGHUP)
    assert service.ask() == (1, service.process.pid)


def test_workers_ignore_the_signals_of_a_terminal(run: Any) -> None:
    """It sends them to all processes of its group; the workers stop when the supervisor says so."""
    service = run()
    service.ask()
    for pid in service.children():
        status = Path(f"/proc/{pid}/status").read_text()
        ignored = int(re.findall(r"^SigIgn:\s*(\w+)", status, re.MULTILINE)[0], 16)
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
            assert ignored >> (number - 1) & 1


def companion(service: Service, generation: int) -> int:
    """Wait until a companion of an epoch says that it runs; returns its process."""
    return int(service.await_line(f"companion of {generation}: ").rpartition(" ")[2])


def test_companions_run_beside_the_workers_and_are_replaced(run: Any) -> None:
    service = run(1)
    (service.home / "companions").write_text("2")
    first, second = companion(service, 1), companion(service, 1)
    assert {first, second} < service.children()
    os.kill(first, signal.SIGKILL)
    assert f"process {first}, exited with signal 9" in service.await_line("companion ")
    third = companion(service, 1)
    assert third not in (first, second)
    assert service.ask()[0] == 1
    service.process.send(signal.SIGTERM)
    assert service.process.wait() == 0
    assert not any(map(is_alive, (second, third)))


def test_companions_of_a_retired_epoch_are_stopped_before_others_start(run: Any) -> None:
    service = run(1)
    (service.home / "companions").write_text("1")
    before = companion(service, 1)
    service.process.send(signal.SIGHUP)
    after = companion(service, 2)
    assert not is_alive(before)
    assert is_alive(after)
    service.process.send(signal.SIGTERM)
    assert service.process.wait() == 0


def test_companions_do_not_outlive_a_parent_that_is_killed(run: Any) -> None:
    service = run(1)
    (service.home / "companions").write_text("1")
    pid = companion(service, 1)
    os.kill(service.process.pid, signal.SIGKILL)
    service.process.wait()
    while is_alive(pid):
        time.sleep(0.01)
