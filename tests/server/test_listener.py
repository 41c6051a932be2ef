"""The listening socket: addresses, leftovers of other processes, and clean-up."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from mastaba_server.errors import ListenError
from mastaba_server.transport.listener import inherited_listener, open_listener


@pytest.mark.parametrize(
    ("port", "family", "host"),
    [
        (":0", socket.AF_INET, "0.0.0.0"),
        ("*:0", socket.AF_INET, "0.0.0.0"),
        ("127.0.0.1:0", socket.AF_INET, "127.0.0.1"),
        ("localhost:0", None, None),
        pytest.param(
            "[::1]:0",
            socket.AF_INET6,
            "::1",
            marks=pytest.mark.skipif(
                not Path("/proc/net/if_inet6").exists(), reason="no IPv6 on this machine"
            ),
        ),
    ],
)
def test_internet_addresses(port: str, family: int | None, host: str | None) -> None:
    with open_listener(port, backlog=7) as listener:
        if family is not None:
            assert listener.socket.family == family
            assert listener.socket.getsockname()[0] == host
        with socket.create_connection(listener.socket.getsockname()[:2]):
            accepted, _ = listener.socket.accept()
            with accepted:
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize(
    "port",
    [
        "",
        ":",
        ":x",
        ":65536",
        ":-1",
        ":٣",
        "::1:9000",
        "host.invalid:9000",
        "192.0.2.1:9000",
        "/nowhere/at/all",
        "x" * 200,
        "a\0b",
    ],
)
def test_unusable_addresses_are_named(port: str) -> None:
    with pytest.raises(ListenError) as caught:
        open_listener(port)
    assert repr(port) in str(caught.value) or not port


def test_an_address_in_use_is_refused() -> None:
    with open_listener("127.0.0.1:0") as listener:
        port = f"127.0.0.1:{listener.socket.getsockname()[1]}"
        with pytest.raises(ListenError, match=port):
            open_listener(port)
    open_listener(port).close()


def test_a_unix_socket_is_created_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    umask = os.umask(0o077)
    try:
        listener = open_listener(str(path))
    finally:
        os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666
    listener.close()
    listener.close()
    assert not path.exists()
    with open_listener(str(path), unix_mode=0o600):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_stale_unix_socket_is_replaced(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(path)
    with open_listener(path), socket.socket(socket.AF_UNIX) as client:
        client.connect(path)


def test_a_port_with_very_many_digits_is_refused_like_any_other() -> None:
    with pytest.raises(ListenError, match="the port is not a number up to 65535"):
        open_listener("127.0.0.1:" + "9" * 5000)


@pytest.mark.parametrize("queue_is_full", [False, True])
def test_a_live_unix_socket_is_refused(tmp_path: Path, queue_is_full: bool) -> None:
    path = str(tmp_path / "socket")
    with open_listener(path, backlog=1), socket.socket(socket.AF_UNIX) as filler:
        clients = [filler]
        filler.setblocking(False)
        filler.connect(path)
        while queue_is_full:
            clients.append(socket.socket(socket.AF_UNIX))
            clients[-1].setblocking(False)
            try:
                clients[-1].connect(path)
            except BlockingIOError:
                break
        with pytest.raises(ListenError, match="another process listens"):
            open_listener(path)
        for client in clients:
            client.close()
        assert os.path.exists(path)


def test_a_file_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("precious")
    with pytest.raises(ListenError, match="not a socket"):
        open_listener(str(path))
    assert path.read_text() == "precious"


def test_the_socket_of_a_successor_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    first = open_listener(str(path))
    path.rename(tmp_path / "aside")
    with open_listener(str(path)):
        first.close()
        assert path.exists()


def test_another_process_does_not_remove_the_socket(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with open_listener(str(path)) as listener:
        pid = os.fork()
        if not pid:
            listener.close()
            os._exit(0)
        os.waitpid(pid, 0)
        assert path.exists()


INHERIT = """
    from mastaba_server.transport.listener import inherited_listener
    listener = inherited_listener()
    print(listener is not None)
    if listener is not None:
        import select
        select.select([listener.socket], [], [])
        listener.socket.accept()[0].send(b"hello")
"""


@pytest.mark.parametrize("family", [socket.AF_UNIX, socket.AF_INET])
def test_a_listening_socket_is_inherited(spawn: Any, tmp_path: Path, family: int) -> None:
    with socket.socket(family) as listener:
        listener.bind(str(tmp_path / "socket") if family == socket.AF_UNIX else ("127.0.0.1", 0))
        listener.listen()
        process = spawn(INHERIT, stdin=listener)
        assert process.line() == "True"
        with socket.socket(family) as client:
            client.connect(listener.getsockname())
            assert client.recv(5) == b"hello"
        assert process.wait() == 0


def test_other_descriptors_are_not_taken_for_a_listener(spawn: Any, tmp_path: Path) -> None:
    left, right = socket.socketpair()
    with left, right, (tmp_path / "file").open("w+") as file, socket.socket() as unbound:
        for stdin in (left, file, unbound, -3):
            process = spawn(INHERIT, stdin=stdin)
            assert process.line() == "False"
            assert process.wait() == 0


def test_pytest_itself_inherits_nothing() -> None:
    assert inherited_listener() is None
