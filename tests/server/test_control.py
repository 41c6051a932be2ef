"""Changes: one at a time, in all workers, answered when none is left without them."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from tests.server.running import RunningService

from mastaba_server.errors import ChangeRefusedError
from mastaba_server.processes.control import WorkerLink
from mastaba_server.processes.handover import Gate

# Answers with its process and all values that were put. A value "refused" is refused by the
# supervisor, "fragile" cannot be followed by the workers of which the file "fragile" names the
# index, "stuck" makes them wait for ever.
SERVER = """
import json, os, sys, time
from pathlib import Path
from mastaba_server.errors import ChangeRefusedError
from mastaba_server.processes import control
from mastaba_server.transport.fastcgi.connection import FastCGIConnection
from mastaba_server.transport.loop import Server
from mastaba_server.processes.epoch import Epoch
from mastaba_server.processes.handover import Handover
from mastaba_server.transport.listener import open_listener
from mastaba_server.processes.supervisor import Supervisor
from mastaba_server.processes.scoreboard import Scoreboard

home = Path(sys.argv[1])

class Served(Epoch):
    def __init__(self):
        self.values = []
        self.link = None

    def carry_out(self, change):
        if change["value"] == "refused":
            raise ChangeRefusedError("faulty", "it is refused")
        if change["value"] == "raise":
            raise RuntimeError("secret")
        self.follow(change)

    def follow(self, change):
        if self.link is not None:
            time.sleep(change.get("delay", 0) * self.link.index)
            # A file name has at most 255 bytes.
            named = home / change["value"][:100]
            if named.exists() and str(self.link.index) in named.read_text().split():
                if change["value"] == "stuck":
                    time.sleep(3600)
                raise RuntimeError("cannot follow")
        self.values = [*self.values, change["value"]]

    def serve(self, link):
        self.link = link
        link.follow(self.follow)
        Server(
            self, listener.socket, FastCGIConnection,
            threads=2, handover=handover, link=link,
        ).run()

    def __call__(self, environ, start_response):
        answer = {"pid": os.getpid(), "index": self.link.index}
        if environ["QUERY_STRING"] == "spent":
            self.link.spent()
        elif environ["QUERY_STRING"]:
            try:
                self.link.submit(json.loads(environ["QUERY_STRING"]))
            except ChangeRefusedError as error:
                answer["refusal"] = [error.reason, str(error)]
        answer["values"] = self.values
        start_response("200 OK", [])
        return [json.dumps(answer).encode()]

handover = Handover()
vars(control).update(eval(sys.argv[3]))
with open_listener(str(home / "socket")) as listener:
    # The workers give no signs of life.
    workers, board = int(sys.argv[2]), Scoreboard(8, 1)
    supervisor = Supervisor(
        Served(), workers=workers, reload=lambda _: Served(), watch=board, worker_timeout=3600
    )
    print("up")
    supervisor.run()
"""


class Service(RunningService):
    def __init__(self, process: Any, protocol: Any, home: Path, workers: int) -> None:
        super().__init__(process, protocol, home)
        self.workers = workers
        assert self.process.line() == "up"

    def connect_to_all(self) -> dict[int, Any]:
        """A kept connection to each worker, by index."""
        found: dict[int, Any] = {}
        while len(found) < self.workers:
            client = self.connect()
            found.setdefault(ask(client)["index"], client)
        return found


def ask(client: Any, query: str = "", **change: Any) -> Any:
    params = {"QUERY_STRING": query or (json.dumps(change) if change else "")}
    return json.loads(client.ask(params).body)


@pytest.fixture
def run(spawn: Any, protocol: Any, tmp_path: Path) -> Iterator[Callable[..., Service]]:
    with ExitStack() as stack:

        def start(workers: int = 3, options: str = "{}") -> Service:
            process = spawn(SERVER, str(tmp_path), str(workers), options)
            return stack.enter_context(closing(Service(process, protocol, tmp_path, workers)))

        yield start


def test_all_workers_have_a_change_before_the_answer(run: Any) -> None:
    service = run()
    clients = service.connect_to_all()
    expected = []
    for number, client in enumerate([*clients.values()] * 3):
        expected.append(f"value {number}")
        # The others are slower than the one that answers.
        answer = ask(client, value=f"value {number}", delay=0.05)
        assert answer["values"] == expected
        assert [ask(other)["values"] for other in clients.values()] == [expected] * 3


def test_changes_are_made_in_one_order(run: Any) -> None:
    service = run()
    clients = service.connect_to_all()

    def work(index: int) -> None:
        for number in range(30):
            ask(clients[index], value=f"{index}-{number}")

    threads = [threading.Thread(target=work, args=(index,)) for index in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first, *others = [ask(client)["values"] for client in clients.values()]
    assert len(first) == 90
    assert others == [first, first]


def test_a_refused_change_is_made_nowhere(run: Any) -> None:
    service = run()
    clients = service.connect_to_all()
    answer = ask(clients[1], value="refused")
    assert answer["refusal"] == ["faulty", "it is refused"]
    assert ask(clients[1], value="raise")["refusal"] == ["failed", "internal error"]
    assert [ask(client)["values"] for client in clients.values()] == [[]] * 3


def test_a_large_change(run: Any) -> None:
    service = run()
    clients = service.connect_to_all()
    before = service.children()
    value = "x" * 900_000
    ask(clients[0], value=value)
    assert [ask(client)["values"] for client in clients.values()] == [[value]] * 3
    assert service.children() == before


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("indices", ["0", "1 2", "0 1 2"])
def test_a_worker_that_cannot_follow_is_replaced(run: Any, indices: str) -> None:
    service = run()
    clients = service.connect_to_all()
    before = service.children()
    (service.home / "fragile").write_text(indices)
    # Whoever asks: the one that cannot follow among them.
    answer = ask(clients[0], value="fragile")
    assert "refusal" not in answer
    lost = len(indices.split())
    while len(service.children() & before) != 3 - lost or len(service.children()) != 3:
        time.sleep(0.01)
    for client in service.connect_to_all().values():
        assert ask(client)["values"] == ["fragile"]


def test_a_worker_that_hangs_is_ended(run: Any) -> None:
    service = run(options="{'_PATIENCE': 3.0}")
    clients = service.connect_to_all()
    before = service.children()
    (service.home / "stuck").write_text("1")
    assert "refusal" not in ask(clients[0], value="stuck")
    while len(service.children()) != 3:
        time.sleep(0.01)
    assert len(service.children() & before) == 2


def test_the_death_of_a_worker_does_not_hold_up_a_change(run: Any) -> None:
    service = run()
    clients = service.connect_to_all()
    (service.home / "stuck").write_text("1")
    done: list[Any] = []
    thread = threading.Thread(target=lambda: done.append(ask(clients[0], value="stuck")))
    thread.start()
    pid = ask(clients[1])["pid"]
    os.kill(pid, signal.SIGKILL)
    thread.join()
    assert done[0]["values"] == ["stuck"]


def test_workers_forked_later_have_the_changes(run: Any) -> None:
    service = run()
    clients = service.connect_to_all()
    ask(clients[0], value="one")
    ask(clients[1], value="two")
    before = service.children()
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    while len(service.children()) != 3 or service.children() & before:
        time.sleep(0.01)
    for client in service.connect_to_all().values():
        assert ask(client)["values"] == ["one", "two"]


def test_a_spent_worker_is_replaced_without_a_lost_request(run: Any) -> None:
    service = run(workers=2)
    clients = service.connect_to_all()
    before = service.children()
    gone = {ask(client, "spent")["pid"] for client in clients.values()}
    assert gone == before
    while service.children() & before:
        for client in clients.values():
            ask(client)
    assert len(service.children()) == 2


def test_the_stop_does_not_wait_for_changes(run: Any, protocol: Any) -> None:
    service = run()
    clients = service.connect_to_all()
    ask(clients[0], value="one")
    service.process.send(signal.SIGTERM)
    assert service.process.wait() == 0


def test_a_change_is_refused_when_the_supervisor_goes() -> None:
    ours, theirs = socket.socketpair()
    link = WorkerLink(0, theirs, Gate())
    link.follow(lambda change: None)
    refusals: list[str] = []

    def submit() -> None:
        try:
            link.submit({"value": "one"})
        except ChangeRefusedError as error:
            refusals.append(str(error))

    waiting = threading.Thread(target=submit, daemon=True)
    waiting.start()
    assert ours.recv(100)
    ours.close()
    waiting.join(60)
    submit()
    assert refusals == ["the server is about to stop"] * 2
    theirs.close()
