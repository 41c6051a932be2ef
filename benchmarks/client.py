"""A client for slow responses, which completes every request that it starts.

wrk drops unfinished requests when its time is over. The server has worked on them all the same,
which takes a large part of the CPU time of a run if responses are slow.
"""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_PATIENCE = 600.0


@dataclass
class Answers:
    """Results of some requests.

    Attributes:
        latencies: seconds, of correct responses.
        errors: responses with status 400 or higher or another media type, broken connections.
        first_error: description of the first error.
        elapsed: seconds from the first request to the last response.
    """

    latencies: list[float] = field(default_factory=list)
    errors: int = 0
    first_error: str = ""
    elapsed: float = 0.0

    def add(self, path: str, error: str, seconds: float) -> None:
        """Add a response; the error is empty if it is correct."""
        if error:
            self.errors += 1
            self.first_error = self.first_error or f"{path}: {error}"
        else:
            self.latencies.append(seconds)

    def percentile(self, part: float) -> float:
        """Return the latency in seconds that this fraction of the responses does not exceed."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0


def ask(
    address: str,
    paths: Iterator[str],
    *,
    connections: int,
    go_on: Callable[[], bool] = lambda: True,
    media_type: str = "",
) -> Answers:
    """Request paths over keep-alive connections until none are left or `go_on` returns False."""
    answers = Answers()
    lock = threading.Lock()
    host = urlsplit(address).netloc

    def work() -> None:
        connection = http.client.HTTPConnection(host, timeout=_PATIENCE)
        while go_on():
            with lock:
                path = next(paths, None)
            if path is None:
                break
            started = time.perf_counter()
            error = _fault(connection, path, media_type)
            taken = time.perf_counter() - started
            with lock:
                answers.add(path, error, taken)
        connection.close()

    threads = [threading.Thread(target=work) for _ in range(connections)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers.elapsed = time.perf_counter() - started
    return answers


def ask_steadily(
    address: str,
    paths: Iterable[str],
    *,
    rate: float,
    connections: int,
    headers: Mapping[str, str] | None = None,
    spread: float = 0.0,
) -> Answers:
    """Request paths one after another, over keep-alive connections in turn.

    Args:
        rate: requests a second, if the server is as fast.
        spread: part of the time between two requests by which it may be shorter or longer.
    """
    host = urlsplit(address).netloc
    opened = [http.client.HTTPConnection(host, timeout=_PATIENCE) for _ in range(connections)]
    for connection in opened:
        connection.connect()
    answers, chance = Answers(), random.Random()
    begin = due = time.perf_counter()
    for number, path in enumerate(paths):
        due += chance.uniform(1 - spread, 1 + spread) / rate
        time.sleep(max(0.0, due - time.perf_counter()))
        started = time.perf_counter()
        error = _fault(opened[number % connections], path, "", headers)
        answers.add(path, error, time.perf_counter() - started)
    answers.elapsed = time.perf_counter() - begin
    for connection in opened:
        connection.close()
    return answers


def _fault(
    connection: http.client.HTTPConnection,
    path: str,
    media_type: str,
    headers: Mapping[str, str] | None = None,
) -> str:
    """Send a request; return the error in the response, or an empty text."""
    try:
        connection.request("GET", path, headers=headers or {})
        response = connection.getresponse()
        body = response.read()
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        return repr(error)
    got = response.headers.get("Content-Type") or ""
    if response.status < 400 and got.startswith(media_type):
        return ""
    return f"status {response.status}, {got}: {body[:200].decode('utf-8', 'replace')}"
