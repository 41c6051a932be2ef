"""Stops, successors and reloads behind each front server with its sample, under load.

As in deploy/systemd, the service manager keeps the listening socket open, so that connections wait
for the successor.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.deploy.samples import PROXY, SOCKET, apache, nginx, sample
from tests.live.client import Load, load
from tests.live.fronts import Front
from tests.live.installations import TILE, make_installation, stored_tile
from tests.live.processes import Process, changed, free_port, public_folder, wait_until

pytestmark = pytest.mark.live

PATH = "/maps/tms/1.0.0/RGB_JPG/{}/{}/{}.jpeg".format(*TILE)
FORM = (
    "SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetTile&LAYER=RGB_JPG&STYLE=normal&FORMAT=image/jpeg"
    "&TILEMATRIXSET=PM&TILEMATRIX={}&TILECOL={}&TILEROW={}".format(*TILE).encode()
)
CLIENTS = 8
ROUNDS = 5

# The shell has the process identifier that the server will have.
_ACTIVATED = 'export LISTEN_FDS=1 LISTEN_PID=$$; exec "$@" 3<&0 0</dev/null'


class Activated(Process):
    """A server with the socket of the service manager."""

    def __init__(self, server_json: Path, folder: Path, listener: socket.socket) -> None:
        command = [sys.executable, "-m", "mastaba", "-f", server_json]
        super().__init__(
            "mastaba", ["/bin/sh", "-c", _ACTIVATED, "sh", *command], folder, stdin=listener
        )


class Operated:
    """A service behind a front server.

    Attributes:
        url: of the front server.
        tile: what it answers for `PATH`.
        server: the running server.
    """

    def __init__(self, folder: Path, front: str, deploy: Path, stack: ExitStack) -> None:
        port, path = free_port(), str(folder / "mastaba.sock")
        self.url = f"http://127.0.0.1:{port}"
        installation = make_installation(folder / "installation", public_url=f"{self.url}/maps")
        self.tile = stored_tile(folder / "installation", "RGB_JPG", *TILE)
        self._listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        self._listener.bind(path)
        os.chmod(path, 0o666)
        self._listener.listen(512)
        self._folder = folder
        self._server_json = changed(installation, folder / "server.json")
        stack.callback(lambda: self.server.stop())
        self.start()
        stack.enter_context(_FRONTS[front](folder, deploy, port, path))

    def start(self) -> None:
        self.server = Activated(self._server_json, self._folder, self._listener)


def _nginx(folder: Path, deploy: Path, port: int, path: str) -> Front:
    return nginx(folder, deploy, port, path)


def _apache(folder: Path, deploy: Path, port: int, path: str) -> Front:
    replaced = {"*:80": f"127.0.0.1:{port}", SOCKET: path}
    file = sample(deploy / "apache/mastaba-proxy.conf", folder, replaced)
    return apache(folder, file, port, PROXY)


_FRONTS = {"nginx": _nginx, "apache": _apache}


@pytest.fixture(params=[*_FRONTS])
def operated(request: pytest.FixtureRequest, deploy: Path) -> Iterator[Operated]:
    with public_folder() as folder, ExitStack() as stack:
        yield Operated(folder, request.param, deploy, stack)


def more(state: Load) -> None:
    already = len(state.answers)
    wait_until(lambda: len(state.answers) > already + 100)


def check(state: Load, tile: bytes) -> None:
    assert not state.broken
    assert {(answer.status, answer.body == tile) for answer in state.answers} == {(200, True)}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT])
def test_a_restart_loses_no_request(operated: Operated, number: signal.Signals) -> None:
    with load(operated.url, PATH, CLIENTS) as state:
        for _ in range(ROUNDS):
            more(state)
            operated.server.send(number)
            assert operated.server.wait() == 0
            operated.start()
        more(state)
    check(state, operated.tile)


@pytest.mark.parametrize("operated", ["nginx"], indirect=True)
def test_a_restart_loses_no_form(operated: Operated) -> None:
    with load(operated.url, "/maps/wmts", CLIENTS, FORM) as state:
        for _ in range(ROUNDS):
            more(state)
            operated.server.send(signal.SIGTERM)
            assert operated.server.wait() == 0
            operated.start()
        more(state)
    check(state, operated.tile)


def test_a_reload_loses_no_request(operated: Operated) -> None:
    with load(operated.url, PATH, CLIENTS) as state:
        for _ in range(ROUNDS):
            more(state)
            before = set(operated.server.children())
            operated.server.send(signal.SIGHUP)
            wait_until(lambda: before.isdisjoint(operated.server.children()))  # noqa: B023
        more(state)
    check(state, operated.tile)
