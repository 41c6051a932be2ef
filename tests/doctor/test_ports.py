"""The port: free, ours, or another program's."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.doctor.conftest import open_application
from tests.tiny import tiny_installation

from mastaba.site.application import Application
from mastaba_doctor.ports import PortFinding, PortState, look_at_port
from mastaba_documents.faults import Severity
from mastaba_server.transport.fastcgi.connection import FastCGIConnection
from mastaba_server.transport.listener import open_listener
from mastaba_server.transport.loop import Server


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    found = open_application(tiny_installation(tmp_path_factory.mktemp("tiny")))
    yield found
    found.site.catalogue.storages.close()


def look(port: str, application: Application) -> PortFinding:
    return look_at_port(port, "server.json", application)


def reason(finding: PortFinding) -> str:
    (fault,) = finding.faults
    assert (fault.file, fault.path) == ("server.json", "$.port")
    assert fault.remedy
    return fault.reason


@contextmanager
def serving(port: str, application: Application) -> Iterator[str]:
    """Serve FastCGI in a thread; gives the address."""
    listener = open_listener(port)
    if ":" in port:
        port = f"127.0.0.1:{listener.socket.getsockname()[1]}"
    server = Server(application, listener.socket, FastCGIConnection, linger=0.0)
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield port
    finally:
        server.stop()
        thread.join()
        server.close()
        listener.close()


@contextmanager
def answering(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """Listen, and talk to each client."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def run() -> None:
            connection, _ = server.accept()
            with connection:
                talk(connection)

        thread = threading.Thread(target=run)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.parametrize("host", ["127.0.0.1", "", "*", "localhost"])
def test_a_free_port(host: str, application: Application) -> None:
    assert look(f"{host}:{free_port()}", application) == PortFinding(PortState.FREE)


def test_looking_does_not_listen(application: Application) -> None:
    port = free_port()
    look(f"127.0.0.1:{port}", application)
    open_listener(f"127.0.0.1:{port}").close()


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_our_own_server(kind: str, tmp_path: Path, application: Application) -> None:
    port = "127.0.0.1:0" if kind == "tcp" else str(tmp_path / "mastaba.sock")
    with serving(port, application) as address:
        assert look(address, application) == PortFinding(PortState.OURS)


def test_our_own_server_with_another_configuration(
    tmp_path: Path, application: Application
) -> None:
    other = open_application(tiny_installation(tmp_path, public_url="http://maps.example.org"))
    with serving("127.0.0.1:0", other) as address:
        finding = look(address, application)
    other.site.catalogue.storages.close()
    assert finding.state is PortState.OURS
    assert "configuration that differs" in reason(finding)
    assert finding.faults[0].severity is Severity.WARNING


def test_another_fastcgi_program(application: Application) -> None:
    def hello(environ: object, start_response: Callable[..., object]) -> list[bytes]:
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"hello"]

    with serving("127.0.0.1:0", hello) as address:  # type: ignore[arg-type]
        finding = look(address, application)
    assert finding.state is PortState.TAKEN
    assert "another FastCGI program" in reason(finding)


def http_400(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def silence(connection: socket.socket) -> None:
    connection.recv(65536)
    while connection.recv(65536):
        pass


@pytest.mark.parametrize("talk", [http_400, silence, lambda connection: None])
def test_another_program(
    talk: Callable[[socket.socket], None],
    application: Application,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mastaba_doctor.ports._TIMEOUT", 0.3)
    with answering(talk) as address:
        finding = look(address, application)
    assert finding.state is PortState.TAKEN
    assert "another program" in reason(finding)
    assert finding.faults[0].severity is Severity.ERROR


@pytest.mark.parametrize(
    ("port", "word"),
    [
        ("192.0.2.1:9000", "cannot listen"),
    ],
)
def test_an_address_that_cannot_be_used(
    port: str, word: str, application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mastaba_doctor.ports.connect", _refused)
    finding = look(port, application)
    assert finding.state is PortState.FREE
    assert word in reason(finding)


def _refused(port: str, timeout: float) -> socket.socket:
    raise ConnectionRefusedError(111, "Connection refused")


def test_the_directory_of_a_socket_is_missing(tmp_path: Path, application: Application) -> None:
    assert "there is no directory" in reason(look(str(tmp_path / "run" / "m.sock"), application))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_the_directory_of_a_socket_is_protected(tmp_path: Path, application: Application) -> None:
    tmp_path.chmod(0o500)
    assert "is not writable" in reason(look(str(tmp_path / "m.sock"), application))


def test_a_file_that_is_no_socket(tmp_path: Path, application: Application) -> None:
    path = tmp_path / "m.sock"
    path.write_text("x")
    assert "is not a socket" in reason(look(str(path), application))


def test_a_socket_that_was_left_behind(tmp_path: Path, application: Application) -> None:
    path = tmp_path / "m.sock"
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))
    assert look(str(path), application) == PortFinding(PortState.FREE)
    assert look(str(tmp_path / "none.sock"), application) == PortFinding(PortState.FREE)
