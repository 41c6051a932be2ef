"""Two nodes behind HAProxy with the sample configuration.

What differs from the sample: ports, the addresses of the nodes, and the place of the socket.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.blocked import BLOCKED
from tests.live.client import Load, ask, ask_raw, load
from tests.live.fronts import Front
from tests.live.installations import TILE, make_installation, stored_tile
from tests.live.processes import Mastaba, changed, free_port, program, public_folder, wait_until

pytestmark = pytest.mark.live

PATH = "/maps/tms/1.0.0/RGB_JPG/{}/{}/{}.jpeg".format(*TILE)
MAP = (
    "/maps/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=RGB_JPG&STYLES=&CRS=EPSG:3857"
    "&BBOX=0,0,5000000,5000000&WIDTH=256&HEIGHT=256&FORMAT=image/png"
)
NAMES = ("a", "b")

_LARGE = 10_000
"""Bytes of a body: more than a request for the state of a node."""


class Nodes:
    """Two servers and HAProxy.

    Args:
        settings: added to server.json of both.

    Attributes:
        url: of HAProxy.
        servers: by their names in the sample.
    """

    def __init__(self, folder: Path, deploy: Path, settings: dict[str, Any]) -> None:
        self._folder = folder
        self._settings = settings
        self.server_json = changed(
            make_installation(folder / "installation"), folder / "server.json"
        )
        self.tile = stored_tile(folder / "installation", "RGB_JPG", *TILE)
        self.ports = {name: free_port() for name in NAMES}
        self.servers: dict[str, Mastaba] = {}
        self._socket = folder / "admin.sock"
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        replaced = {
            "bind :80\n": f"bind 127.0.0.1:{port}\n",
            "bind 127.0.0.1:8404\n": f"bind 127.0.0.1:{free_port()}\n",
            "/run/haproxy/admin.sock": str(self._socket),
            "192.0.2.11:8080": f"127.0.0.1:{self.ports['a']}",
            "192.0.2.12:8080": f"127.0.0.1:{self.ports['b']}",
        }
        text = (deploy / "haproxy" / "haproxy.cfg").read_text("utf-8")
        for old, new in replaced.items():
            assert old in text, old
            text = text.replace(old, new)
        assert "192.0.2" not in text
        conf = folder / "haproxy.cfg"
        conf.write_text(text, "utf-8")
        command = [program("haproxy", "haproxy"), "-f", conf]
        for name in NAMES:
            self.start(name)
        self.front = Front("haproxy", command, folder, [port])
        wait_until(lambda: all(map(self.is_up, NAMES)))

    def start(self, name: str) -> None:
        file = changed(self.server_json, self._folder / f"{name}.json", **self._settings)
        self.servers[name] = Mastaba(file, self._folder, http=self.ports[name])

    def is_up(self, name: str) -> bool:
        # "UP 1/2" after the first of two failed checks.
        return self.statistics(name)["status"].startswith("UP")

    def statistics(self, name: str) -> dict[str, str]:
        header, *lines = self.tell("show stat").removeprefix("# ").splitlines()
        rows = [
            dict(zip(header.split(","), line.split(","), strict=True)) for line in lines if line
        ]
        (row,) = [row for row in rows if (row["pxname"], row["svname"]) == ("mastaba", name)]
        return row

    def repeated(self) -> int:
        return sum(int(self.statistics(name)["wretr"]) for name in NAMES)

    def tell(self, command: str) -> str:
        """Send a command to the socket for administrators."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(self._socket))
            sock.sendall(f"{command}\n".encode())
            return b"".join(iter(lambda: sock.recv(65536), b"")).decode()

    def stop(self) -> None:
        for server in self.servers.values():
            server.stop()


@pytest.fixture
def nodes(deploy: Path, request: pytest.FixtureRequest) -> Iterator[Nodes]:
    with public_folder() as folder, ExitStack() as stack:
        made = Nodes(folder, deploy, getattr(request, "param", {}))
        stack.callback(made.stop)
        stack.enter_context(made.front)
        yield made


def more(state: Load) -> None:
    """Wait for more answers."""
    already = len(state.answers)
    wait_until(lambda: len(state.answers) > already + 100)


@pytest.mark.parametrize("nodes", [{"drain": 5}], indirect=True, ids=["drain"])
def test_a_rolling_restart_loses_no_request(nodes: Nodes) -> None:
    with load(nodes.url, PATH) as state:
        for name in NAMES:
            more(state)
            nodes.servers[name].send(signal.SIGTERM)
            # While it still answers, HAProxy notices that it is not ready.
            wait_until(lambda: not nodes.is_up(name))  # noqa: B023
            assert nodes.servers[name].wait() == 0
            more(state)
            nodes.start(name)
            wait_until(lambda: nodes.is_up(name))  # noqa: B023
        more(state)
    assert not state.broken
    assert {(answer.status, answer.body == nodes.tile) for answer in state.answers} == {(200, True)}


@pytest.mark.parametrize("path", [PATH, MAP], ids=["tile", "map"])
def test_a_killed_node_loses_no_request_that_can_be_repeated(nodes: Nodes, path: str) -> None:
    expected = ask(nodes.url, path).body
    before = nodes.repeated()
    # Without a pause, some requests are in progress at the node.
    with load(nodes.url, path, clients=8, pause=0) as state:
        more(state)
        os.killpg(nodes.servers["a"].pid, signal.SIGKILL)
        nodes.servers["a"].wait()
        wait_until(lambda: not nodes.is_up("a"))
        more(state)
    # An answer that has begun cannot be repeated. Whatever was answered is right.
    assert len(state.broken) <= 8
    assert all("IncompleteRead" in str(error) for error in state.broken)
    assert {(answer.status, answer.body == expected) for answer in state.answers} == {(200, True)}
    assert nodes.repeated() > before


def test_a_node_that_is_not_ready_gets_no_requests(nodes: Nodes) -> None:
    services = nodes.server_json.parent / "installation" / "services.json"
    original = services.read_text("utf-8")
    services.write_text(original.replace('"enabled": true', '"enabled": false', 1), "utf-8")
    nodes.servers["a"].send(signal.SIGHUP)
    wait_until(lambda: not nodes.is_up("a"))
    assert all(ask(nodes.url, PATH).status == 200 for _ in range(20))
    services.write_text(original, "utf-8")
    nodes.servers["a"].send(signal.SIGHUP)
    wait_until(lambda: nodes.is_up("a"))


@pytest.mark.parametrize("nodes", [{"follow": {"period": 1}}], indirect=True, ids=["follow"])
def test_nodes_that_are_not_ready_are_better_than_none(nodes: Nodes) -> None:
    """An error in shared documents: each node keeps what it had, and says so."""
    layers = nodes.server_json.parent / "installation" / "layers.txt"
    with load(nodes.url, PATH) as state:
        more(state)
        layers.unlink()
        wait_until(lambda: not any(map(nodes.is_up, NAMES)))
        more(state)
    assert not state.broken
    assert {(answer.status, answer.body == nodes.tile) for answer in state.answers} == {(200, True)}


def test_a_drained_node_finishes_and_gets_no_more(nodes: Nodes) -> None:
    with load(nodes.url, PATH) as state:
        more(state)
        nodes.tell("set server mastaba/a state drain")
        more(state)
        before = int(nodes.statistics("a")["stot"])
        more(state)
        assert int(nodes.statistics("a")["stot"]) == before
        nodes.tell("set server mastaba/a state ready")
        wait_until(lambda: int(nodes.statistics("a")["stot"]) > before)
    assert not state.broken
    assert state.statuses == {200}


def test_what_is_for_operators_is_not_public(nodes: Nodes) -> None:
    outside = ("/healthcheck", "/tms/1.0.0", "//maps/healthcheck")
    for target in (*(f"/maps{one}" for one in BLOCKED), *outside):
        answer = ask_raw(nodes.url, target.encode())
        assert answer.split(b" ", 2)[1] in (b"400", b"404"), (target, answer[:500])
        assert b'"status"' not in answer


def unread(port: int) -> int:
    """Return the most bytes of a connection to a port that the server has not read."""
    lines = Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]
    found = [line.split() for line in lines]
    return max(
        (
            int(queues.partition(":")[2], 16)
            for _, local, _, state, queues, *_ in found
            if local.endswith(f":{port:04X}") and state == "01"
        ),
        default=0,
    )


def test_requests_that_change_something_are_not_repeated(nodes: Nodes) -> None:
    """A request with a body is sent to one node only."""
    nodes.tell("set server mastaba/b state maint")
    # Otherwise, a request that is late would go to any node, since none would be ready.
    nodes.tell("disable health mastaba/a")
    os.killpg(nodes.servers["a"].pid, signal.SIGSTOP)
    try:
        before = nodes.repeated()
        request = b"POST /maps/wms HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        request += b"Content-Length: %d\r\n\r\n" % _LARGE + b"<>".ljust(_LARGE)
        with socket.create_connection(("127.0.0.1", int(nodes.url.rpartition(":")[2]))) as sock:
            sock.sendall(request)
            # A request that has not been sent yet may go to the other node.
            wait_until(lambda: unread(nodes.ports["a"]) > _LARGE)
            nodes.tell("set server mastaba/b state ready")
            os.killpg(nodes.servers["a"].pid, signal.SIGKILL)
            answer = b"".join(iter(lambda: sock.recv(65536), b""))
    finally:
        nodes.servers["a"].stop()
    assert answer.split(b" ", 2)[1] == b"502"
    assert nodes.repeated() == before
