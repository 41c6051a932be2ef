"""The flood of requests counts answers only."""

from __future__ import annotations

import socket

import pytest
from benchmarks.flood import _flood


def test_a_closed_connection_is_no_answer() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.shutdown(socket.SHUT_WR)
        with pytest.raises(ConnectionError, match="closed"):
            _flood(lambda: ours, 1, [b"GET / HTTP/1.1\r\n\r\n"], 1_000, 0.5)


def test_a_connection_is_replaced_after_its_last_response() -> None:
    pairs = [socket.socketpair() for _ in range(3)]
    for ours, theirs in pairs:
        ours.setblocking(False)
        theirs.sendall(b"HTTP/1.1 401 Unauthorized\r\nConnection: close\r\n\r\n")
    left = [ours for ours, _ in pairs]
    with pytest.raises(IndexError):
        _flood(lambda: left.pop(0), 1, [b"GET / HTTP/1.1\r\n\r\n"], 1_000, 0.5)
    assert [len(theirs.recv(100)) for _, theirs in pairs] == [18] * 3
    for ours, theirs in pairs:
        ours.close()
        theirs.close()
