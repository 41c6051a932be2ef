"""A flood of requests from one process: ``python -m benchmarks.flood PORT FILE``.

It takes little of the processor, so that the measured server has the rest. Requests are bytes made
beforehand. They leave at random moments with an even mean rate, like those of many independent
clients, over connections in turn. A connection that waits for its response is left out. One that
the server closes after a response is replaced. Responses are discarded.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import random
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

_SET_TIMER_SLACK: Final = 29
"""Of prctl(2): the kernel otherwise wakes a process up to 50 us late."""
_RESPONSE: Final = 1 << 16
_LAST: Final = b"\r\nConnection: close\r\n"


def main() -> int:
    """Print how many requests were answered a second, and which part of a processor was used."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.flood", description=__doc__)
    parser.add_argument("port", type=int, help="of the server, on the loopback interface")
    parser.add_argument("file", type=Path, help="JSON list of request heads")
    parser.add_argument("--rate", type=float, default=10_000, help="requests a second")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--connections", type=int, default=64)
    options = parser.parse_args()
    requests = [text.encode() for text in json.loads(options.file.read_text("utf-8"))]

    def connect() -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", options.port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        return sock

    ctypes.CDLL(None).prctl(_SET_TIMER_SLACK, 1)
    answered = _flood(connect, options.connections, requests, options.rate, options.seconds)
    rate, share = answered / options.seconds, time.process_time() / options.seconds
    print(json.dumps({"rate": rate, "processor": share}))
    return 0


def _flood(
    connect: Callable[[], socket.socket],
    connections: int,
    requests: Sequence[bytes],
    rate: float,
    seconds: float,
) -> int:
    """Send requests; return how many were answered.

    A connection whose response has not arrived is left out, with its request.

    Raises:
        ConnectionError: the server has closed a connection without a response that says so.
    """
    chance, response = random.Random(7), bytearray(_RESPONSE)
    gaps = itertools.cycle([chance.expovariate(rate) for _ in range(10_007)])
    sockets = [connect() for _ in range(connections)]
    waiting = [False] * connections
    due = time.perf_counter()
    end, answered = due + seconds, 0
    turns = itertools.cycle(range(connections))
    for number, request, gap in zip(turns, itertools.cycle(requests), gaps):
        due += gap
        if due > end:
            return answered
        pause = due - time.perf_counter()
        if pause > 0:
            time.sleep(pause)
        sock = sockets[number]
        if waiting[number]:
            try:
                size = sock.recv_into(response)
            except BlockingIOError:
                continue
            if not size:
                raise ConnectionError("the server has closed a connection")
            answered += 1
            if response.find(_LAST, 0, size) >= 0:
                sock.close()
                sock = sockets[number] = connect()
        sock.send(request)
        waiting[number] = True
    return answered


if __name__ == "__main__":
    raise SystemExit(main())
