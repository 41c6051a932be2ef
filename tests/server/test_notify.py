"""Notifications to systemd, and the sockets that it passes on."""

from __future__ import annotations

import math
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mastaba_server.processes.notify import Notifier
from mastaba_server.transport.listener import activated_listener

SERVER = """
import os, sys, time
from pathlib import Path
from mastaba_server.transport.fastcgi.connection import FastCGIConnection
from mastaba_server.transport.loop import Server
from mastaba_server.processes.epoch import Epoch
from mastaba_server.processes.handover import Handover
from mastaba_server.transport.listener import open_listener
from mastaba_server.processes.notify import Notifier
from mastaba_server.processes.supervisor import Supervisor
from mastaba_server.processes.scoreboard import Scoreboard

home = Path(sys.argv[1])

def application(environ, start_response):
    start_response("200 OK", [])
    return [b"ok"]

class Served(Epoch):
    def serve(self, link):
        while (home / "lazy").exists():
            time.sleep(0.01)
        Server(
            application, listener.socket, FastCGIConnection, handover=handover, link=link
        ).run()

def reload(served):
    while (home / "slow").exists():
        time.sleep(0.01)
    if (home / "broken").exists():
        raise ValueError("broken")
    return Served()

os.environ["NOTIFY_SOCKET"] = str(home / "notify")
os.environ["WATCHDOG_USEC"] = sys.argv[2]
handover = Handover()
with open_listener(str(home / "socket")) as listener:
    supervisor = Supervisor(
        Served(),
        workers=2,
        reload=reload,
        watch=Scoreboard(4, 1),
        notifier=Notifier(os.environ),
    )
    supervisor.run()
"""


class Manager:
    """The socket of a service manager."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sock.settimeout(120)
        self._sock.bind(address)

    def states(self) -> dict[str, str]:
        """Return what the next datagram says."""
        return dict(line.split("=", 1) for line in self._sock.recv(4096).decode().split("\n"))

    def has_more(self) -> bool:
        self._sock.setblocking(False)
        try:
            self._sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        finally:
            self._sock.settimeout(120)
        return True

    def close(self) -> None:
        self._sock.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    made = Manager(str(tmp_path / "notify"))
    yield made
    made.close()


def test_the_life_of_a_service(manager: Manager, spawn: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "lazy").touch()
    process = spawn(SERVER, str(tmp_path), "0")
    while not (tmp_path / "socket").exists():
        pass
    assert not manager.has_more()
    (tmp_path / "lazy").unlink()
    assert manager.states() == {"READY": "1"}

    for name in ("lazy", "broken"):
        (tmp_path / name).touch()
        process.send(signal.SIGHUP)
        states = manager.states()
        assert states.pop("RELOADING") == "1"
        assert int(states.pop("MONOTONIC_USEC")) > 0
        assert states == {}
        (tmp_path / name).unlink()
        assert manager.states() == {"READY": "1"}

    process.send(signal.SIGTERM)
    assert manager.states() == {"STOPPING": "1"}
    assert process.wait() == 0
    assert not manager.has_more()


def test_signs_of_life(manager: Manager, spawn: Callable[..., Any], tmp_path: Path) -> None:
    process = spawn(SERVER, str(tmp_path), "20000")
    seen = [next(iter(manager.states())) for _ in range(10)]
    assert seen.count("WATCHDOG") >= 9
    assert set(seen) <= {"WATCHDOG", "READY"}
    process.send(signal.SIGTERM)
    assert process.wait() == 0


def test_signs_of_life_while_a_configuration_is_read(
    manager: Manager, spawn: Callable[..., Any], tmp_path: Path
) -> None:
    process = spawn(SERVER, str(tmp_path), "20000")
    while "READY" not in manager.states():
        pass
    (tmp_path / "slow").touch()
    process.send(signal.SIGHUP)
    while "RELOADING" not in manager.states():
        pass
    assert [*manager.states(), *manager.states(), *manager.states()] == ["WATCHDOG"] * 3
    (tmp_path / "slow").unlink()
    while "READY" not in manager.states():
        pass
    process.send(signal.SIGTERM)
    assert process.wait() == 0


def test_without_a_manager_nothing_happens() -> None:
    environment = {"WATCHDOG_USEC": "20000"}
    notifier = Notifier(environment)
    assert environment == {}
    assert notifier.timeout == math.inf
    notifier.reloading()
    notifier.ready()
    notifier.tick()
    notifier.stopping()


def test_an_abstract_socket() -> None:
    name = f"mastaba-test-{os.getpid()}"
    manager = Manager(f"\0{name}")
    Notifier({"NOTIFY_SOCKET": f"@{name}"}).ready()
    assert manager.states() == {"READY": "1"}
    manager.close()


def test_a_manager_that_is_gone_is_no_failure(tmp_path: Path) -> None:
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready()


def test_signs_of_life_come_twice_in_the_time_that_the_manager_waits(manager: Manager) -> None:
    """sd_watchdog_enabled(3) recommends half of it: a late sign must not end the service."""
    environment = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "7200000000"}
    notifier = Notifier(environment)
    assert notifier.timeout == 0
    notifier.tick()
    assert manager.states() == {"WATCHDOG": "1"}
    # Half of two hours, less what this test took.
    assert 3000 < notifier.timeout <= 3600
    notifier.tick()
    assert not manager.has_more()


def test_the_watchdog_of_another_process_is_not_ours(tmp_path: Path) -> None:
    environment = {"NOTIFY_SOCKET": str(tmp_path / "x"), "WATCHDOG_USEC": "20000"}
    assert Notifier({**environment, "WATCHDOG_PID": "1"}).timeout == math.inf
    assert Notifier({**environment, "WATCHDOG_PID": str(os.getpid())}).timeout < math.inf


# Socket activation


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"LISTEN_FDS": "1"},
        {"LISTEN_FDS": "1", "LISTEN_PID": "1"},
        {"LISTEN_FDS": "0", "LISTEN_PID": str(os.getpid())},
        {"LISTEN_FDS": "x", "LISTEN_PID": str(os.getpid())},
    ],
)
def test_no_socket_is_handed_over(environment: dict[str, str]) -> None:
    assert activated_listener(environment) is None
    assert environment == {}


ACTIVATED = """
import os, socket, sys
from mastaba_server.errors import ListenError
from mastaba_server.transport.listener import activated_listener

given = socket.socket()
if sys.argv[1] == "listening":
    given.bind(("127.0.0.1", 0))
    given.listen()
if sys.argv[1] == "none":
    os.open("/dev/null", os.O_RDONLY)
    os.dup2(0, 3)
elif given.fileno() != 3:
    os.dup2(given.fileno(), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES="x")
try:
    listener = activated_listener()
except ListenError as error:
    print("refused:", error)
else:
    print(listener.socket.getsockname() == given.getsockname(), os.get_inheritable(3))
print([name for name in os.environ if name.startswith("LISTEN_")])
"""


def test_a_socket_that_is_handed_over(spawn: Callable[..., Any]) -> None:
    process = spawn(ACTIVATED, "listening")
    assert process.line() == "True False"
    assert process.line() == "[]"


@pytest.mark.parametrize("kind", ["idle", "none"])
def test_what_does_not_listen_is_refused(spawn: Callable[..., Any], kind: str) -> None:
    process = spawn(ACTIVATED, kind)
    assert process.line().startswith("refused: the service manager ")
