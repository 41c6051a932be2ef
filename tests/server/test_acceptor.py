"""Which connections a process takes: the decisions of one `Acceptor`, without a server."""

from __future__ import annotations

import copy
import math
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from mastaba_server.descriptors import DESCRIPTORS
from mastaba_server.processes.balance import Balance
from mastaba_server.processes.control import WorkerLink
from mastaba_server.processes.handover import Gate
from mastaba_server.transport import acceptor
from mastaba_server.transport.acceptor import Acceptor
from mastaba_server.transport.fastcgi.connection import FastCGIConnection
from mastaba_server.transport.loop import Server


class Process:
    """What one process has: its own epoll, and a share of the balance."""

    def __init__(self, listener: socket.socket, balance: Balance | None = None) -> None:
        self.listener = listener
        self.epoll = select.epoll()
        self.connections: list[socket.socket] = []
        self.acceptor = Acceptor(listener, self.epoll, self.connections, pytest.fail, None, balance)

    def take_announced(self) -> bool:
        """Take the connection that is announced, if one is; return whether one was taken."""
        for descriptor, _ in self.epoll.poll(0):
            if (sock := self.acceptor.arrived(descriptor)) is not None:
                self.connections.append(sock)
                self.acceptor.opened()
                return True
        return False

    def close(self) -> None:
        for sock in self.connections:
            sock.close()
        self.epoll.close()


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def listener(tmp_path: Path, opened: ExitStack) -> socket.socket:
    sock = opened.enter_context(socket.socket(socket.AF_UNIX))
    sock.bind(str(tmp_path / "socket"))
    sock.listen()
    return sock


def connect(listener: socket.socket, opened: ExitStack) -> None:
    client = opened.enter_context(socket.socket(socket.AF_UNIX))
    client.connect(listener.getsockname())


def test_short_connections_are_taken_at_once(
    listener: socket.socket, opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptor, "_PATIENCE", math.inf)
    monkeypatch.setattr(acceptor, "_SETTLED", math.inf)
    balance = Balance(2)
    other = copy.copy(balance)
    other.join(1)
    other.count(0)
    balance.join(0)
    process = opened.enter_context(closing(Process(listener, balance)))
    process.acceptor.begin()
    balance.count(1)
    connect(listener, opened)
    assert not process.take_announced()  # the other one has fewer
    process.acceptor.closed()
    balance.count(1)
    assert process.take_announced()


def test_nothing_is_taken_after_the_end(listener: socket.socket, opened: ExitStack) -> None:
    balance = Balance(1)
    balance.join(0)
    process = opened.enter_context(closing(Process(listener, balance)))
    bell = balance.fileno()
    process.acceptor.begin()
    connect(listener, opened)
    (claimed,) = process.acceptor.end()
    claimed.close()
    assert process.acceptor.end() == []
    process.acceptor.begin()
    connect(listener, opened)
    assert not process.acceptor.accepting
    assert process.epoll.poll(0) == []
    # Another process may have called this one just before.
    assert process.acceptor.arrived(bell) is None
    process.acceptor.take().close()  # type: ignore[union-attr]


def test_a_server_that_is_stopped_before_its_gate_opens_ends(listener: socket.socket) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        gate = Gate()
        link = WorkerLink(0, theirs, gate)
        server = Server(lambda *_: pytest.fail("a request"), listener, FastCGIConnection, link=link)
        thread = threading.Thread(target=server.serve, daemon=True)
        thread.start()
        assert b"ready" in ours.recv(100)
        server.stop()
        thread.join(120)
        assert not thread.is_alive()
        server.close()
        gate.close()


def test_a_connection_announced_to_a_process_that_hangs_is_found(
    listener: socket.socket, opened: ExitStack, protocol: Any
) -> None:
    hanging = opened.enter_context(closing(Process(listener)))
    hanging.acceptor.begin()
    woken = threading.Thread(target=hanging.epoll.poll, daemon=True)
    woken.start()

    def application(_environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b"found"]

    server = Server(application, listener, FastCGIConnection, linger=0)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    sock = opened.enter_context(socket.socket(socket.AF_UNIX))
    sock.connect(listener.getsockname())
    client = protocol.Client(sock)
    assert client.ask().body == b"found"
    client.close()
    server.stop()
    thread.join(120)
    server.close()
    if woken.is_alive():  # the server was faster, and nobody was woken
        connect(listener, opened)
        woken.join(120)


def test_open_files_give_way_to_connections(
    listener: socket.socket, opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DESCRIPTORS, "room", 2)
    process = opened.enter_context(closing(Process(listener)))
    process.acceptor.begin()
    rooms = []
    for _ in range(3):
        connect(listener, opened)
        assert process.take_announced()
        rooms.append(DESCRIPTORS.room)
    assert rooms == [2, 2, 4]
