"""Nodes in network namespaces behind HAProxy, on one machine (Linux, as root)."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.servers import (
    Missing,
    Target,
    find_program,
    free_port,
    is_answering,
    start_process,
    wait_for,
)

_SAMPLE = Path(__file__).resolve().parent.parent / "deploy" / "haproxy" / "haproxy.cfg"
_SAMPLE_SERVERS = "    server a 192.0.2.11:8080\n    server b 192.0.2.12:8080\n"
_PATIENCE = 100.0
PORT = 8080
"""Of each node, in its own namespace."""


class Network:
    """A bridge, and a namespace connected to it for each node.

    The addresses are from the block for benchmarks (RFC 2544).
    """

    def __init__(self, nodes: int) -> None:
        number = os.getpid() % 250 + 1
        self.bridge = f"mastaba{number}"
        self.gateway = f"198.18.{number}.1"
        self.namespaces = {
            f"mastaba{number}-{n}": f"198.18.{number}.{n + 10}" for n in range(nodes)
        }

    @contextmanager
    def up(self) -> Iterator[Network]:
        """Create it, and remove it in the end.

        Raises:
            Missing: the system does not allow it.
        """
        if os.geteuid() != 0:
            raise Missing("network namespaces need root")
        try:
            _ip("link", "add", self.bridge, "type", "bridge")
            _ip("addr", "add", f"{self.gateway}/24", "dev", self.bridge)
            _ip("link", "set", self.bridge, "up")
            for n, (name, address) in enumerate(self.namespaces.items()):
                outside = f"{self.bridge}v{n}"
                _ip("netns", "add", name)
                _ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", name)
                _ip("link", "set", outside, "master", self.bridge, "up")
                _ip("-n", name, "link", "set", "lo", "up")
                _ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
                _ip("-n", name, "link", "set", "eth0", "up")
            yield self
        finally:
            for name in self.namespaces:
                with suppress(Missing):
                    _ip("netns", "delete", name)
            with suppress(Missing):
                _ip("link", "delete", self.bridge)


class Node:
    """A server in its namespace, which can be started again."""

    def __init__(
        self,
        namespace: str,
        address: str,
        server_json: Path,
        log: Path,
        environment: Mapping[str, str],
    ) -> None:
        self.name = namespace
        self.host = address
        self.url = f"http://{address}:{PORT}"
        self.log = log
        self._command = ["ip", "netns", "exec", namespace, "env"]
        self._command += [f"{name}={value}" for name, value in environment.items()]
        self._command += [sys.executable, "-m", "mastaba", "-f", str(server_json)]
        self._command += ["--http", f"{address}:{PORT}"]
        self._target = Target(namespace, self.url)

    @property
    def pid(self) -> int:
        """Of the supervisor."""
        return self._target.processes[-1].pid

    def start(self) -> None:
        process = start_process(self._target, self._command, self.log)
        wait_for(lambda: is_answering(self.url), process, self.log)

    def kill(self) -> None:
        """Kill all processes at once."""
        os.killpg(self.pid, signal.SIGKILL)
        self._target.processes.pop().wait()

    def stop(self) -> None:
        """Stop gracefully, and wait for it."""
        if self._target.processes:
            self._target.stop()
            self._target.processes.clear()


class Balancer:
    """HAProxy with the sample from deploy/, in front of nodes."""

    def __init__(self, nodes: list[Node], folder: Path, balance: str) -> None:
        self.names = [node.name for node in nodes]
        self._socket = folder / "haproxy.sock"
        self.target = Target("HAProxy", f"http://127.0.0.1:{free_port()}")
        servers = "".join(f"    server {node.name} {node.host}:{PORT}\n" for node in nodes)
        text = _SAMPLE.read_text("utf-8")
        for old, new in (
            ("bind :80\n", f"bind {self.target.address.removeprefix('http://')}\n"),
            ("bind 127.0.0.1:8404\n", f"bind 127.0.0.1:{free_port()}\n"),
            ("/run/haproxy/admin.sock", str(self._socket)),
            ("balance leastconn\n", f"balance {balance}\n"),
            (_SAMPLE_SERVERS, servers),
        ):
            if old not in text:
                raise Missing(f"{_SAMPLE} does not contain {old.strip()!r}")
            text = text.replace(old, new)
        conf, log = folder / "haproxy.cfg", folder / "haproxy.log"
        conf.write_text(text, "utf-8")
        program = find_program("haproxy") or "haproxy"
        process = start_process(self.target, [program, "-f", str(conf)], log)
        wait_for(lambda: is_answering(self.target.address), process, log)

    def use(self, count: int) -> None:
        """Send requests only to the first nodes."""
        for number, name in enumerate(self.names):
            self._tell(f"set server mastaba/{name} state {'ready' if number < count else 'maint'}")
        self.wait_for(lambda: [self.is_up(name) for name in self.names].count(True) == count)

    def is_up(self, name: str) -> bool:
        # "UP 1/2" after the first of two failed checks.
        return self._statistics()[name]["status"].startswith("UP")

    def repeated(self) -> int:
        """Return the number of requests sent again so far."""
        return sum(int(row["wretr"] or 0) for row in self._statistics().values())

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait for a state of the nodes."""
        deadline = time.monotonic() + _PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                raise Missing(f"HAProxy does not reach the expected state: {self._statistics()}")
            time.sleep(0.05)

    def _statistics(self) -> dict[str, dict[str, str]]:
        header, *lines = self._tell("show stat").removeprefix("# ").splitlines()
        names = header.split(",")
        rows = (dict(zip(names, line.split(","), strict=False)) for line in lines if line)
        return {row["svname"]: row for row in rows if row["pxname"] == "mastaba"}

    def _tell(self, command: str) -> str:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(self._socket))
            sock.sendall(f"{command}\n".encode())
            pieces = []
            while piece := sock.recv(65536):
                pieces.append(piece)
        return b"".join(pieces).decode()


def _ip(*words: str) -> None:
    program = shutil.which("ip") or "/usr/sbin/ip"
    try:
        done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    except OSError as error:
        raise Missing(f"{program}: {error.strerror}") from error
    if done.returncode:
        raise Missing(f"ip {' '.join(words)}: {done.stderr.strip()}")
