"""An HTTP client for very many requests: it sends several before it reads the answers."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.live.client import Answer, BrokenAnswerError
from tests.live.processes import PATIENCE

_ATTEMPTS = 3
"""Connections on which nothing was answered, after which a server counts as broken."""


@dataclass(frozen=True)
class Asked:
    """One request.

    Attributes:
        path: target of the request.
        method: of the request.
        headers: beside Host.
    """

    path: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)


class Pipeline:
    """A connection that is kept; a server may end it between two answers.

    Args:
        url: of the server.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._address = parts.hostname or "", parts.port or 80
        self._host = f" HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._socket: socket.socket | None = None
        self._received = bytearray()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._received.clear()

    def send(self, requests: Iterable[Asked]) -> None:
        """Send requests. They should be few: their answers are not read yet."""
        new = [(one.method, self._text(one)) for one in requests]
        self._waiting += new
        data = b"".join(text for _, text in new)
        try:
            if self._socket is None:
                self._open()
            else:
                self._socket.sendall(data)
        except OSError:
            self.close()

    def receive(self) -> list[Answer]:
        """Return the answers to everything that was sent, in its order.

        Raises:
            BrokenAnswerError: the server does not answer.
        """
        answers: list[Answer] = []
        attempts = 0
        while self._waiting:
            try:
                if self._socket is None:
                    self._open()
                answer = self._answer(self._waiting[0][0])
            except OSError as error:
                self.close()
                attempts += 1
                if attempts == _ATTEMPTS:
                    raise BrokenAnswerError(repr(error)) from error
                continue
            attempts = 0
            self._waiting.popleft()
            answers.append(answer)
            if answer.headers.get("connection", "").lower() == "close":
                self.close()
        return answers

    def _text(self, asked: Asked) -> bytes:
        lines = "".join(f"{name}: {value}\r\n" for name, value in asked.headers.items())
        return f"{asked.method} {asked.path}{self._host}{lines}\r\n".encode("latin-1")

    def _open(self) -> None:
        self._socket = socket.create_connection(self._address, PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(b"".join(text for _, text in self._waiting))

    def _answer(self, method: str) -> Answer:
        end = self._through(b"\r\n\r\n", 0)
        first, *lines = self._taken(end).decode("latin-1").split("\r\n")[:-2]
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            name, value = name.lower(), value.strip()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        status = int(first.split(" ")[1])
        body = b""
        if method != "HEAD" and status not in (204, 304):
            if headers.get("transfer-encoding", "").lower() == "chunked":
                body = self._chunks()
            else:
                body = self._taken(int(headers["content-length"]))
        return Answer(status, headers, body)

    def _chunks(self) -> bytes:
        parts = []
        while True:
            line = self._taken(self._through(b"\r\n", 0))
            size = int(line.split(b";")[0], 16)
            if not size:
                break
            parts.append(self._taken(size + 2)[:-2])
        while self._taken(self._through(b"\r\n", 0)) != b"\r\n":
            pass
        return b"".join(parts)

    def _through(self, mark: bytes, start: int) -> int:
        """Return the position behind a mark, once it was received."""
        while (found := self._received.find(mark, start)) < 0:
            start = max(0, len(self._received) - len(mark))
            self._more()
        return found + len(mark)

    def _taken(self, size: int) -> bytes:
        while len(self._received) < size:
            self._more()
        taken = bytes(memoryview(self._received)[:size])
        del self._received[:size]
        return taken

    def _more(self) -> None:
        assert self._socket is not None
        data = self._socket.recv(1 << 18)
        if not data:
            raise ConnectionResetError("the connection ended within an answer")
        self._received += data
