"""Many connections, slow ones and broken ones, with few threads; and the ordered stop."""

from __future__ import annotations

import socket
import struct
import threading
import time
from fcntl import ioctl
from typing import Any

import pytest

from mastaba_server.transport.connection import Limits
from mastaba_server.transport.fastcgi.connection import FastCGIConnection

SIOCOUTQNSD = 0x894B
"""Asks for the number of bytes that TCP has not sent yet."""


def small(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]


def large(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    start_response("200 OK", [])
    return [bytes(20_000_000)] if environ["PATH_INFO"] == "/large" else [b"ok"]


class Gate:
    """An application of which the requests to /wait can be held up."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.opened = threading.Event()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        if environ["PATH_INFO"] == "/wait":
            self.entered.release()
            assert self.opened.wait(120)
        return small(environ, start_response)


@pytest.mark.parametrize("threads", [1, 4])
def test_idle_connections_do_not_block_others(serve: Any, threads: int) -> None:
    served = serve(small, threads=threads)
    clients = [served.connect() for _ in range(300)]
    for _ in range(2):
        for client in clients:
            assert client.ask().body == b"ok"


def test_an_end_that_comes_with_the_request_is_seen(serve: Any, protocol: Any) -> None:
    """Both are announced by one event; nothing announces the end again."""
    gate = Gate()
    served = serve(gate, threads=1)
    busy, client = served.connect(), served.connect()
    client.ask()
    busy.send(protocol.request({"PATH_INFO": "/wait"}))
    assert gate.entered.acquire(timeout=120)
    # Nobody looks at this connection before both have arrived.
    client.send(protocol.request({"PATH_INFO": "/"}))
    client.socket.shutdown(socket.SHUT_WR)
    gate.opened.set()
    assert client.answer().body == b"ok"
    assert client.is_closed()
    assert busy.answer().body == b"ok"


def test_a_slow_sender_occupies_no_thread(serve: Any, protocol: Any) -> None:
    served = serve(small, threads=1)
    slow = [served.connect() for _ in range(20)]
    data = protocol.request({"PATH_INFO": "/"}, b"body")
    for number, client in enumerate(slow):
        client.send(data[: number * 4 + 1])
    assert served.connect().ask().body == b"ok"
    for number, client in enumerate(slow):
        client.send(data[number * 4 + 1 :])
        assert client.answer().body == b"ok"


@pytest.mark.thorough
def test_a_slow_receiver_of_a_whole_answer_occupies_no_thread(serve: Any, protocol: Any) -> None:
    served = serve(large, threads=1)
    slow = [served.connect() for _ in range(5)]
    for client in slow:
        client.send(protocol.request({"PATH_INFO": "/large"}), protocol.request())
    assert served.connect().ask().body == b"ok"
    for client in slow:
        assert len(client.answer().body) == 20_000_000
        assert client.answer().body == b"ok"


def test_a_receiver_that_stopped_is_given_up(serve: Any, protocol: Any) -> None:
    served = serve(large, threads=1, limits=Limits(send_time=0.1))
    stuck = served.connect()
    stuck.send(protocol.request({"PATH_INFO": "/large"}))
    assert served.connect().ask().body == b"ok"
    # The server closes, so the answer ends before its time.
    while served.server._watched:
        time.sleep(0.01)
    with pytest.raises(AssertionError, match="ends inside a record"):
        stuck.answer()


def test_a_receiver_of_a_generator_that_stopped_is_given_up(serve: Any, protocol: Any) -> None:
    closed = threading.Event()

    def application(environ: dict[str, Any], start_response: Any) -> Any:
        start_response("200 OK", [])
        try:
            while True:
                yield bytes(100_000)
        finally:
            closed.set()

    served = serve(application, threads=1, limits=Limits(send_time=0.1))
    served.connect().send(protocol.request())
    assert closed.wait(120)


@pytest.mark.thorough
def test_an_answer_in_pieces_that_is_not_read_costs_one_piece_and_no_thread(
    serve: Any, protocol: Any
) -> None:
    taken = 0

    def application(environ: dict[str, Any], start_response: Any) -> Any:
        if environ["PATH_INFO"] != "/pieces":
            return small(environ, start_response)
        return pieces(start_response)

    def pieces(start_response: Any) -> Any:
        nonlocal taken
        start_response("200 OK", [])
        for number in range(48):
            taken += 1
            yield bytes([number]) * 262_144

    served = serve(application, threads=1)
    slow = [served.connect() for _ in range(20)]
    for client in slow:
        client.send(protocol.request({"PATH_INFO": "/pieces"}), protocol.request())
    assert served.connect().ask().body == b"ok"
    # The socket takes some; of what it does not take there is one piece.
    assert taken <= 20 * 4
    whole = b"".join(bytes([number]) * 262_144 for number in range(48))
    for client in slow:
        assert client.answer().body == whole
        assert client.answer().body == b"ok"


def test_requests_run_in_parallel_in_threads(serve: Any, protocol: Any) -> None:
    gate = Gate()
    served = serve(gate, threads=3)
    clients = [served.connect() for _ in range(2)]
    for client in clients:
        client.send(protocol.request({"PATH_INFO": "/wait"}))
        assert gate.entered.acquire(timeout=120)
    other = served.connect()
    for _ in range(20):
        assert other.ask().body == b"ok"
    gate.opened.set()
    assert [client.answer().body for client in clients] == [b"ok", b"ok"]


@pytest.mark.thorough
def test_threads_that_rest_are_back_when_a_request_takes_long(serve: Any, protocol: Any) -> None:
    gate = Gate()
    served = serve(gate, threads=3)
    done = threading.Event()
    counts = [0] * 6

    def ask(number: int) -> None:
        client = served.connect()
        while not done.is_set():
            assert client.ask().body == b"ok"
            counts[number] += 1

    clients = [threading.Thread(target=ask, args=(number,)) for number in range(len(counts))]
    for thread in clients:
        thread.start()
    held: list[Any] = []
    # One thread after the other is taken away, all but one: each time, the rest serves all.
    for _ in range(3):
        target = [count + 200 for count in counts]
        while any(count < wanted for count, wanted in zip(counts, target, strict=True)):
            assert all(thread.is_alive() for thread in clients)
            time.sleep(0.001)
        if len(held) < 2:
            held.append(served.connect())
            held[-1].send(protocol.request({"PATH_INFO": "/wait"}))
            gate.entered.acquire()
    done.set()
    for thread in clients:
        thread.join()
    gate.opened.set()
    for client in held:
        assert client.answer().body == b"ok"


def test_many_clients_at_once(serve: Any) -> None:
    served = serve(small, threads=4)
    failures: list[object] = []

    def work(keep: bool) -> None:
        try:
            client = served.connect()
            for _ in range(100):
                if not keep:
                    client = served.connect()
                assert client.ask(keep=keep).body == b"ok"
                if not keep:
                    assert client.is_closed()
                    client.close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number % 2 == 0,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize("family", [socket.AF_UNIX, socket.AF_INET])
def test_clients_that_disconnect_do_not_affect_others(
    serve: Any, protocol: Any, family: int
) -> None:
    served = serve(large, family=family, threads=2)
    for path in ("/", "/large"):
        for cut in (1, 20, None):
            client = served.connect()
            client.send(protocol.request({"PATH_INFO": path})[:cut])
            if family == socket.AF_INET:
                # No orderly end: a reset.
                client.socket.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
            client.close()
    assert served.connect().ask().body == b"ok"


def test_a_client_that_closes_its_side_gets_its_answer(serve: Any, protocol: Any) -> None:
    served = serve(small)
    client = served.connect()
    client.ask()
    client.send(protocol.request())
    client.socket.shutdown(socket.SHUT_WR)
    assert client.answer().body == b"ok"
    assert client.is_closed()


def test_closed_connections_are_forgotten(serve: Any, protocol: Any) -> None:
    served = serve(small)
    for _ in range(20):
        client = served.connect()
        client.send(protocol.request())
        client.answer()
        client.close()
    last = served.connect()
    last.ask()
    while len(served.server._connections) > 1:
        last.ask()


def test_exhausted_descriptors_close_an_idle_connection(spawn: Any, protocol: Any) -> None:
    process = spawn(
        """
        import resource, socket, threading
        from mastaba_server.transport.fastcgi.connection import FastCGIConnection
        from mastaba_server.transport.loop import Server

        def application(environ, start_response):
            start_response("200 OK", [])
            return []

        listener = socket.create_server(("127.0.0.1", 0))
        server = Server(application, listener, FastCGIConnection)
        threading.Thread(target=server.serve, daemon=True).start()
        print(listener.getsockname()[1])
        resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))
        input()
        """,
        stdin=-1,
    )
    port = int(process.line())
    clients = []
    for _ in range(60):
        client = protocol.Client(socket.create_connection(("127.0.0.1", port)))
        clients.append(client)
        assert client.ask().status == "200 OK"
    assert clients[0].is_closed()
    for client in clients:
        client.close()


# The ordered stop


@pytest.mark.parametrize("threads", [1, 3])
def test_stop_with_idle_kept_connections(serve: Any, threads: int) -> None:
    served = serve(small, threads=threads)
    clients = [served.connect() for _ in range(10)]
    for client in clients:
        client.ask()
    served.stop()
    served.join()
    assert all(client.is_closed() for client in clients)


@pytest.mark.parametrize("threads", [1, 3])
def test_stop_finishes_running_requests(serve: Any, protocol: Any, threads: int) -> None:
    gate = Gate()
    served = serve(gate, threads=threads)
    client = served.connect()
    client.send(protocol.request({"PATH_INFO": "/wait"}))
    assert gate.entered.acquire(timeout=120)
    served.stop()
    gate.opened.set()
    assert client.answer().body == b"ok"
    assert client.is_closed()
    served.join()


def test_stop_finishes_requests_that_have_begun_to_arrive(serve: Any, protocol: Any) -> None:
    served = serve(small)
    client = served.connect()
    data = protocol.request()
    client.ask()
    client.send(data[:30])
    other = served.connect()
    other.ask()
    served.stop()
    assert other.is_closed()
    client.send(data[30:])
    assert client.answer().body == b"ok"
    served.join()


def test_stop_still_answers_on_kept_connections_for_a_while(serve: Any) -> None:
    served = serve(small, linger=600)
    clients = [served.connect() for _ in range(5)]
    for client in clients:
        client.ask()
    served.stop()
    while not served.server.draining:
        pass
    for client in clients:
        assert client.ask().body == b"ok"
        assert client.is_closed()
    served.join()


def test_the_last_answer_and_the_end_leave_together(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve(small, family=socket.AF_INET, linger=600)
    clients = [served.connect() for _ in range(5)]
    for client in clients:
        client.ask()
    served.stop()
    while not served.server.draining:
        pass
    close, held = FastCGIConnection.close, []

    def watched(connection: FastCGIConnection) -> None:
        unsent = struct.pack("i", 0)
        held.append(struct.unpack("i", ioctl(connection.socket, SIOCOUTQNSD, unsent))[0])
        close(connection)

    monkeypatch.setattr(FastCGIConnection, "close", watched)
    for client in clients:
        assert client.ask().body == b"ok"
        assert client.is_closed()
    served.join()
    assert len(held) == 5
    # The kernel holds an answer back for a while only.
    assert any(held)


def test_stop_sends_large_answers_to_their_end(serve: Any, protocol: Any) -> None:
    served = serve(large)
    client = served.connect()
    client.send(protocol.request({"PATH_INFO": "/large"}))
    first = client.socket.recv(1)
    served.stop()
    client._buffer = first
    assert len(client.answer().body) == 20_000_000
    served.join()
