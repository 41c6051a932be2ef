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
            _flood([ours], [b"GET / HTTP/1.1\r\n\r\n"], 1_000, 0.5)
