"""Clients whose requests are refused are served after the others, and not never."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.transport import PATIENCE, Client, Served

from mastaba_server.transport.http import HTTPConnection

REFUSED, OTHERS = 12, 40


def send(client: Client, path: str) -> None:
    client.send(f"GET /{path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())


def receive(client: Client) -> bytes:
    """Return the status of an answer without a body."""
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        data += client.socket.recv(4096)
    return data.split(b" ")[1]


class Order:
    """An application that notes what it is asked for; the path is the status."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.begun, self.free = threading.Event(), threading.Event()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        path = environ["PATH_INFO"][1:]
        self.asked.append(path)
        if path == "wait":
            self.begun.set()
            assert self.free.wait(PATIENCE)
        status = "200 OK" if path == "wait" else f"{path[:3]} Status"
        start_response(status, [("Content-Length", "0")])
        return []


def served(serve: Callable[..., Served], threads: int) -> tuple[Order, Served]:
    order = Order()
    options = {"family": socket.AF_INET, "protocol": HTTPConnection, "threads": threads}
    return order, serve(order, **options)


def held(order: Order, server: Served) -> Client:
    """Return the client of a request that does not end until `Order.free` is set."""
    client = server.connect()
    send(client, "wait")
    assert order.begun.wait(PATIENCE)
    return client


def connected(server: Served, count: int, status: str) -> list[Client]:
    """Return clients whose first request got a status."""
    clients = [server.connect() for _ in range(count)]
    for client in clients:
        send(client, status)
        assert receive(client) == status.encode()
    return clients


def answered(order: Order, server: Served, asked: dict[Client, str]) -> list[str]:
    """Return the order in which requests are answered that have all arrived."""
    order.begun.clear()
    order.free.clear()
    waiting = held(order, server)
    order.asked.clear()
    for client, path in asked.items():
        send(client, path)
    order.free.set()
    for client in (waiting, *asked):
        receive(client)
    return order.asked


@pytest.mark.parametrize("status", ["401", "429"])
def test_the_refused_are_served_after_others(serve: Callable[..., Served], status: str) -> None:
    order, server = served(serve, 1)
    refused, others = connected(server, REFUSED, status), connected(server, 3, "200")
    asked = {**dict.fromkeys(refused, "404"), **dict.fromkeys(others, "200")}
    assert answered(order, server, asked) == ["200"] * 3 + ["404"] * REFUSED
    # Once: the next request was not refused.
    assert answered(order, server, asked) == ["404"] * REFUSED + ["200"] * 3


def test_the_refused_are_not_served_last_for_ever(serve: Callable[..., Served]) -> None:
    order, server = served(serve, 1)
    refused, others = connected(server, 1, "401"), connected(server, OTHERS, "200")
    asked = {**dict.fromkeys(refused, "404"), **dict.fromkeys(others, "200")}
    found = answered(order, server, asked).index("404")
    # A thread takes sixteen events at a time.
    assert 15 <= found < OTHERS


@pytest.mark.parametrize("threads", [1, 3])
def test_the_refused_are_served_while_the_server_stops(
    serve: Callable[..., Served], threads: int
) -> None:
    order, server = served(serve, threads)
    refused = connected(server, REFUSED, "401")
    for client in refused:
        send(client, "404")
    for client in refused:
        assert receive(client) == b"404"
    clients = connected(server, REFUSED, "401")
    waiting = held(order, server)
    for client in clients:
        send(client, "404")
    server.stop()
    order.free.set()
    for client in (waiting, *clients):
        assert receive(client) in (b"200", b"404")
    server.join()
