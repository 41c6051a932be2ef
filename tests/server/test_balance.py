"""Connections spread evenly over the processes that accept on the same socket."""

from __future__ import annotations

import copy
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mastaba_server.processes.balance import Balance
from mastaba_server.processes.handover import Handover
from mastaba_server.transport import acceptor
from mastaba_server.transport.fastcgi.connection import FastCGIConnection
from mastaba_server.transport.loop import Server


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers wait for each other as long as it takes, however busy the machine is."""
    monkeypatch.setattr(acceptor, "_PATIENCE", 120.0)


@contextmanager
def serving(
    path: Path, balance: Balance, slots: range, handover: Handover | None = None
) -> Iterator[list[tuple[Server, threading.Thread]]]:
    """Run servers on one socket; each answers with its slot."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    running: list[tuple[Server, threading.Thread]] = []
    for slot in slots:
        share = copy.copy(balance)  # shared memory, and a slot of its own, as after a fork
        share.join(slot)
        share.count(0)  # as if it served already
        server = Server(
            answering(str(slot)),
            listener,
            FastCGIConnection,
            balance=share,
            handover=handover,
            linger=0,
        )
        thread = threading.Thread(target=server.serve, daemon=True)
        thread.start()
        running.append((server, thread))
    try:
        yield running
    finally:
        for server, _ in running:
            server.stop()
        for server, thread in running:
            thread.join(120)
            server.close()
        listener.close()


def answering(text: str) -> Callable[..., list[bytes]]:
    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [text.encode()]

    return application


def connect(protocol: Any, path: Path, count: int) -> list[Any]:
    """Open connections at once, then send a request on each."""
    clients = []
    for _ in range(count):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(path))
        clients.append(protocol.Client(sock))
    for client in clients:
        client.send(protocol.request())
    return clients


def owners(clients: list[Any], protocol: Any) -> list[str]:
    return [client.answer().body.decode() for client in clients]


@pytest.mark.usefixtures("patient")
def test_connections_opened_at_once_are_shared(tmp_path: Path, protocol: Any) -> None:
    path = tmp_path / "socket"
    with serving(path, Balance(4), range(3)):
        clients = connect(protocol, path, 12)
        found = owners(clients, protocol)
        assert sorted(found) == sorted("012" * 4)
        for client in clients:
            client.close()


@pytest.mark.usefixtures("patient")
def test_connections_of_a_retired_process_are_shared(tmp_path: Path, protocol: Any) -> None:
    path, balance, handover = tmp_path / "socket", Balance(4), Handover()
    with serving(path, balance, range(1), handover) as ((old, thread),):
        clients = connect(protocol, path, 8)
        assert owners(clients, protocol) == ["0"] * 8
        with serving(tmp_path / "other", balance, range(1, 3), handover):
            old.retire()
            thread.join(120)
            for client in clients:
                client.send(protocol.request())
            assert sorted(owners(clients, protocol)) == sorted("12" * 4)
            for client in clients:
                client.close()
    handover.close()


def test_a_process_that_hangs_does_not_keep_connections_waiting(
    tmp_path: Path, protocol: Any
) -> None:
    path, balance = tmp_path / "socket", Balance(2)
    hanging = copy.copy(balance)
    hanging.join(1)
    hanging.count(0)  # never accepts
    with serving(path, balance, range(1)):
        clients = connect(protocol, path, 3)
        assert owners(clients, protocol) == ["0"] * 3
        for client in clients:
            client.close()


def test_a_slot_too_many_is_not_balanced(tmp_path: Path, protocol: Any) -> None:
    path = tmp_path / "socket"
    with serving(path, Balance(1), range(2)):
        clients = connect(protocol, path, 4)
        assert set(owners(clients, protocol)) <= {"0", "1"}
        for client in clients:
            client.close()
