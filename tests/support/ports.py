"""Ports for the servers of tests."""

from __future__ import annotations

import atexit
import socket


def free_port() -> int:
    """A port of the loopback for a server of this process, which no other one gets."""
    sock = socket.socket()
    atexit.register(sock.close)
    # A server that allows the same can listen there. No one else gets the port by chance, as could
    # happen until the server has started if this socket were closed.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", 0))
    port: int = sock.getsockname()[1]
    return port
