"""A raw FastCGI client, and servers to talk to."""

from __future__ import annotations

import atexit
import os
import signal
import socket
import struct
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from io import TextIOWrapper
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import pytest
from tests.fork_server import Forked, ForkServer

from mastaba_server.transport.connection import Connection
from mastaba_server.transport.fastcgi.connection import FastCGIConnection
from mastaba_server.transport.loop import Server

BEGIN, ABORT, END, PARAMS, STDIN, STDOUT, STDERR, DATA, GET_VALUES, VALUES, UNKNOWN = range(1, 12)

# Nothing here is slow: a test that waits this long would wait for ever.
PATIENCE = 120


def encode_pair(name: bytes, value: bytes) -> bytes:
    sizes = b"".join(
        bytes([size]) if size < 128 else struct.pack("!L", size | 0x80000000)
        for size in (len(name), len(value))
    )
    return sizes + name + value


def record(kind: int, content: bytes = b"", *, request_id: int = 1, padding: int = 0) -> bytes:
    header = struct.pack("!BBHHBx", 1, kind, request_id, len(content), padding)
    return header + content + b"p" * padding


def begin(*, request_id: int = 1, keep: bool = True, role: int = 1) -> bytes:
    return record(BEGIN, struct.pack("!HB5x", role, keep), request_id=request_id)


def pairs(params: dict[str, str]) -> bytes:
    return b"".join(
        encode_pair(k.encode("latin-1"), v.encode("latin-1")) for k, v in params.items()
    )


def request(
    params: dict[str, str] | None = None,
    body: bytes = b"",
    *,
    request_id: int = 1,
    keep: bool = True,
    role: int = 1,
) -> bytes:
    """All the records of a request."""
    encoded = pairs({"REQUEST_METHOD": "GET", **(params or {})})
    parts = [begin(request_id=request_id, keep=keep, role=role)]
    for kind, data in ((PARAMS, encoded), (STDIN, body)):
        for start in range(0, len(data), 65535):
            parts.append(record(kind, data[start : start + 65535], request_id=request_id))
        parts.append(record(kind, request_id=request_id))
    return b"".join(parts)


@dataclass
class Record:
    kind: int
    request_id: int
    content: bytes
    padding: int


@dataclass
class Answer:
    status: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    stderr: bytes = b""
    protocol_status: int = -1


class Client:
    """A front server's end of a FastCGI connection."""

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(PATIENCE)
        self.socket = sock
        self._buffer = b""

    def send(self, *data: bytes) -> None:
        self.socket.sendall(b"".join(data))

    def ask(self, *args: Any, **options: Any) -> Answer:
        self.send(request(*args, **options))
        return self.answer()

    def read_record(self) -> Record | None:
        """The next record, None at the end of the connection."""
        header = self._read(8)
        if not header:
            return None
        _, kind, request_id, length, padding = struct.unpack("!BBHHBx", header)
        content = self._read(length)
        self._read(padding)
        return Record(kind, request_id, content, padding)

    def answer(self, request_id: int = 1) -> Answer:
        answer = Answer()
        stdout = []
        stderr = []
        while (found := self.read_record()) is not None:
            assert found.request_id == request_id
            if found.kind == STDOUT:
                stdout.append(found.content)
            elif found.kind == STDERR:
                stderr.append(found.content)
            elif found.kind == END:
                answer.protocol_status = found.content[4]
                break
            else:
                raise AssertionError(found)
        answer.stderr = b"".join(stderr)
        head, _, answer.body = b"".join(stdout).partition(b"\r\n\r\n")
        for line in head.decode("latin-1").split("\r\n") if head else []:
            name, _, value = line.partition(": ")
            answer.headers[name] = value
        answer.status = answer.headers.pop("Status", "")
        return answer

    def is_closed(self) -> bool:
        """Wait for the server to close; False if it sends anything instead."""
        try:
            return not self._buffer and self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self.socket.close()

    def _read(self, size: int) -> bytes:
        while len(self._buffer) < size:
            data = self.socket.recv(1 << 20)
            if not data:
                assert not self._buffer, "the connection ends inside a record"
                return b""
            self._buffer += data
        found, self._buffer = self._buffer[:size], self._buffer[size:]
        return found


class Served:
    """A server in threads of this process."""

    def __init__(
        self,
        application: Any,
        family: int,
        directory: Path,
        protocol: type[Connection] = FastCGIConnection,
        **options: Any,
    ) -> None:
        self._listener = socket.socket(family)
        self._listener.bind(
            str(directory / "socket") if family == socket.AF_UNIX else ("127.0.0.1", 0)
        )
        self._listener.listen()
        if family != socket.AF_UNIX:
            self._listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.address = self._listener.getsockname()
        self.server = Server(application, self._listener, protocol, **{"linger": 0, **options})
        self._thread = threading.Thread(target=self.server.serve, daemon=True)
        self._thread.start()
        self._clients: list[Client] = []

    def connect(self) -> Client:
        sock = socket.socket(self._listener.family)
        sock.connect(self.address)
        client = Client(sock)
        self._clients.append(client)
        return client

    def stop(self) -> None:
        self.server.stop()

    def join(self) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def tear_down(self) -> None:
        for client in self._clients:
            client.close()
        if self._thread.is_alive():
            self.stop()
            self.join()
        self.server.close()
        self._listener.close()


@pytest.fixture(name="protocol")
def protocol_fixture() -> Any:
    """The functions and constants of this module, for the tests to build records with."""
    return sys.modules[__name__]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Start a FastCGI server for a WSGI application: ``serve(application, **options)``."""
    started: list[Served] = []

    def start(application: Any, *, family: int = socket.AF_UNIX, **options: Any) -> Served:
        served = Served(application, family, tmp_path, **options)
        started.append(served)
        return served

    yield start
    for served in started:
        served.tear_down()


@cache
def _programs() -> ForkServer:
    """Return the process that forks programs: the start of an interpreter takes much longer."""
    modules = ("processes.supervisor", "transport.fastcgi.connection", "transport.http")
    names = (f"mastaba_server.{name}" for name in modules)
    server = ForkServer(__name__, *names, has_commands=False)
    atexit.register(server.close)
    return server


def program(text: str, arguments: Sequence[str]) -> int:
    """Run a Python program, as ``python -c`` does; each line that it prints is sent at once."""
    assert isinstance(sys.stdout, TextIOWrapper)
    sys.stdout.reconfigure(line_buffering=True)
    sys.argv = ["-c", *arguments]
    exec(compile(text, "<string>", "exec"), {"__name__": "__main__"})
    return 0


class Process:
    """A Python program that prints lines when something happened."""

    _output: IO[str]

    def __init__(self, text: str, *arguments: str, stdin: Any = None) -> None:
        text = textwrap.dedent(text)
        self._process = self._forked(text, arguments) if stdin is None else self._new(text, stdin)
        self.pid = self._process.pid

    def _forked(self, text: str, arguments: Sequence[str]) -> Forked:
        with TemporaryDirectory() as folder:
            output = Path(folder, "1")
            os.mkfifo(output)
            name = f"{__name__}:program"
            made = _programs().start(name, text, arguments, outputs=[output], in_session=True)
            self._output = output.open()
        return made

    def _new(self, text: str, stdin: Any) -> subprocess.Popen[str]:
        """Start an interpreter, for a program that inherits a descriptor."""
        command = [sys.executable, "-u", "-c", text]
        made = subprocess.Popen(
            command, stdin=stdin, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert made.stdout is not None
        self._output = made.stdout
        return made

    def line(self) -> str:
        """The next line that it prints."""
        return self._output.readline().rstrip("\n")

    def send(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        return self._process.wait(PATIENCE)

    def tear_down(self) -> None:
        if self._process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()
        self._output.close()
        if isinstance(self._process, subprocess.Popen) and self._process.stdin is not None:
            self._process.stdin.close()


@pytest.fixture
def spawn() -> Iterator[Callable[..., Process]]:
    """Run a program in its own process: ``spawn(source, *arguments)``."""
    started: list[Process] = []

    def start(program: str, *arguments: str, **options: Any) -> Process:
        process = Process(program, *arguments, **options)
        started.append(process)
        return process

    yield start
    for process in started:
        process.tear_down()
