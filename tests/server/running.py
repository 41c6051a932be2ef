"""A FastCGI server with workers, in its own process."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any


class RunningService:
    """A running server and what is needed to ask it.

    Attributes:
        process: of the supervisor.
        home: the folder of its socket, and of the files that tell it what to do.
    """

    def __init__(self, process: Any, protocol: Any, home: Path) -> None:
        self.process = process
        self.home = home
        self._protocol = protocol
        self._clients: list[Any] = []

    def connect(self) -> Any:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(self.home / "socket"))
        client = self._protocol.Client(sock)
        self._clients.append(client)
        return client

    def children(self) -> set[int]:
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return {int(pid) for pid in path.read_text().split()}

    def close(self) -> None:
        for client in self._clients:
            client.close()
