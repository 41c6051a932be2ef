"""Cost of a stored tile inside the server, without sockets (``python -m benchmarks.inside``).

Each request is the bytes that nginx or a browser sends; the response is built, but not sent. All
are repeated, and the shortest time counts, so other programs on the machine hardly matter: of all
requests together, divided by their number, and of each one. Median and 99 % are those of the
different requests. They do not contain the access lines, which are made for 32 requests at a time.
"""

from __future__ import annotations

import argparse
import json
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from flup.server.fcgi_base import (
    FCGI_BEGIN_REQUEST,
    FCGI_KEEP_CONN,
    FCGI_PARAMS,
    FCGI_RESPONDER,
    FCGI_BeginRequestBody,
)

from benchmarks.classes import CLASSES, RequestClass, from_installation
from benchmarks.demo import demo_installation
from mastaba.config.server import load_server
from mastaba.plugins.manager import Plugins
from mastaba.site.application import Application
from mastaba.site.logs import configure_logging
from mastaba.wsgi import create_application
from mastaba_documents.faults import Faults
from mastaba_server.log.destination import begin_batches
from mastaba_server.transport.connection import Buffers, Connection, Limits
from mastaba_server.transport.fastcgi.connection import FastCGIConnection
from mastaba_server.transport.fastcgi.records import encode_pairs, end_of_request, record
from mastaba_server.transport.http import HTTPConnection

_MEDIA_TYPE = "image/jpeg"
_REQUEST_ID = 1
# Whether requests are counted and logged. Users have both.
_OBSERVED = {
    "plain": (False, False),
    "metrics": (True, False),
    "lines": (False, True),
    "both": (True, True),
}


class _Socket:
    """Takes everything that is sent, and drops it."""

    family = socket.AF_UNIX

    def fileno(self) -> int:
        return -1

    def getpeername(self) -> str:
        return ""

    def sendmsg(self, buffers: Buffers, *_: object) -> int:
        return sum(map(len, buffers))


class _Owner:
    """What a connection uses of a server."""

    closing = False

    def __init__(self, application: Application, protocol: type[Connection]) -> None:
        self.application = application
        self.stored_tile = application.stored_tile
        self.limits = Limits()
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            self.environ: dict[str, Any] = {**protocol.environ(sock), "wsgi.errors": sys.stderr}


def main() -> int:
    """Print a row for each class of requests, protocol and set of plugins."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.inside", description=__doc__)
    parser.add_argument("--server-json", type=Path, metavar="FILE")
    parser.add_argument("--count", type=int, default=500, help="different tiles")
    parser.add_argument("--rounds", type=int, default=60)
    arguments = parser.parse_args()
    server_json = arguments.server_json or demo_installation()
    classes = from_installation(
        server_json, names=CLASSES, media_type=_MEDIA_TYPE, count=arguments.count, seed=1
    )
    with tempfile.TemporaryDirectory(prefix="mastaba-inside-") as folder:
        changed = {
            label: _changed(server_json, Path(folder) / label, metrics=metrics, lines=lines)
            for label, (metrics, lines) in _OBSERVED.items()
        }
        applications = {label: create_application(str(file)) for label, file in changed.items()}
        configure_logging(load_server(str(changed["both"]), Plugins(), Faults()))
        begin_batches()
        columns = ("us", "p50 us", "p99 us", "p99/p50")
        print(f"{'requests':<20}{'protocol':<10}{'':<14}" + "".join(f"{one:>9}" for one in columns))
        for item in classes:
            for name, protocol, encode in (
                ("FastCGI", FastCGIConnection, _as_fastcgi),
                ("HTTP", HTTPConnection, _as_http),
            ):
                etags = _etags(applications["plain"], item)
                data = [encode(*pair) for pair in zip(item.paths, etags, strict=True)]
                runs = [
                    (label, protocol(_Socket(), _Owner(application, protocol)))  # type: ignore[arg-type]
                    for label, application in applications.items()
                ]
                best = {label: [float("inf")] * len(data) for label in applications}
                whole = dict.fromkeys(applications, float("inf"))
                for _ in range(arguments.rounds):
                    for label, connection in runs:
                        taken = _measure(connection, data, best[label])
                        whole[label] = min(whole[label], taken)
                for label, seconds in best.items():
                    ordered = sorted(seconds)
                    p50, p99 = (ordered[int(len(ordered) * part)] * 1e6 for part in (0.5, 0.99))
                    print(
                        f"{item.title:<20}{name:<10}{label:<14}"
                        f"{whole[label] / len(data) * 1e6:>9.1f}"
                        f"{p50:>9.1f}{p99:>9.1f}{p99 / p50:>9.2f}"
                    )
    return 0


def _measure(connection: Connection, data: Sequence[bytes], best: list[float]) -> float:
    """Return the seconds of all requests, and note those of each one that took less than before."""
    clock, receive = time.perf_counter, connection.receive
    whole = clock()
    for number, request in enumerate(data):
        begin = clock()
        receive(request)
        seconds = clock() - begin
        if seconds < best[number]:
            best[number] = seconds
    return clock() - whole


def _etags(application: Application, item: RequestClass) -> list[str]:
    if not item.conditional:
        return [""] * len(item.paths)
    etags = []
    for target in item.paths:
        path, _, query = target.partition("?")
        response = application.stored_tile(path, query, {})
        assert response is not None
        etags.append(dict(response.headers)["ETag"])
    return etags


def _as_http(target: str, etag: str) -> bytes:
    condition = f"If-None-Match: {etag}\r\n" if etag else ""
    return f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n{condition}\r\n".encode()


def _as_fastcgi(target: str, etag: str) -> bytes:
    path, _, query = target.partition("?")
    pairs = {
        "SCRIPT_NAME": unquote(path),
        "QUERY_STRING": query,
        "REQUEST_METHOD": "GET",
        "CONTENT_TYPE": "",
        "CONTENT_LENGTH": "",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "SERVER_NAME": "",
        "SERVER_PORT": "8080",
        "HTTP_HOST": "127.0.0.1:8080",
    }
    if etag:
        pairs["HTTP_IF_NONE_MATCH"] = etag
    begin = struct.pack(FCGI_BeginRequestBody, FCGI_RESPONDER, FCGI_KEEP_CONN)
    encoded = encode_pairs((name.encode(), value.encode()) for name, value in pairs.items())
    return (
        record(FCGI_BEGIN_REQUEST, _REQUEST_ID, begin)
        + record(FCGI_PARAMS, _REQUEST_ID, encoded)
        + end_of_request(_REQUEST_ID)
    )


def _changed(server_json: Path, folder: Path, *, metrics: bool, lines: bool) -> Path:
    """Write a configuration with or without metrics and access lines; return its server.json."""
    folder.mkdir()
    document = json.loads(server_json.read_text(encoding="utf-8"))
    services = json.loads(Path(document["configurations"]["services"]).read_text(encoding="utf-8"))
    services["metrics"] = {"enabled": metrics}
    (folder / "services.json").write_text(json.dumps(services), encoding="utf-8")
    document["configurations"]["services"] = str(folder / "services.json")
    document["logger"] = {
        "output": "static_file",
        "file_prefix": str(folder / "log"),
        "access": "text" if lines else "off",
    }
    changed = folder / "server.json"
    changed.write_text(json.dumps(document), encoding="utf-8")
    return changed


if __name__ == "__main__":
    sys.exit(main())
