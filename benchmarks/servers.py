"""The measured servers: Mastaba with and without nginx in front, and others."""

from __future__ import annotations

import http.client
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:
    from benchmarks.classes import RequestClass

_START_TIMEOUT = 60.0

_NGINX_CONF = """
worker_processes 1; daemon off; pid {folder}/{name}.pid; error_log {folder}/{name}.log warn; {user}
events {{ worker_connections 512; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  keepalive_requests 100000000;
  {servers}
}}
"""
_SERVER = """
  {upstream}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      {location}
    }}
  }}
"""
# The cache is the sample of deploy/, without the prefix of its addresses.
_SAMPLE = Path(__file__).parents[1] / "deploy" / "nginx" / "mastaba-cache.conf"

_UPSTREAM = "upstream server {{ server unix:{socket}; {keepalive} }}"
_FASTCGI = """
      fastcgi_pass server;
      fastcgi_keep_conn {keep};
      fastcgi_buffers 16 64k;
      fastcgi_read_timeout 600s;
      fastcgi_param SCRIPT_NAME $uri;
      fastcgi_param QUERY_STRING $query_string;
      fastcgi_param REQUEST_METHOD $request_method;
      fastcgi_param CONTENT_TYPE $content_type;
      fastcgi_param CONTENT_LENGTH $content_length;
      fastcgi_param SERVER_PROTOCOL $server_protocol;
      fastcgi_param REMOTE_ADDR $remote_addr;
      fastcgi_param SERVER_NAME $server_name;
      fastcgi_param SERVER_PORT $server_port;
"""
_FILE = "/{layer}/{level}/{row}/{col}.{ext}"

_KEEPALIVE = "keepalive 128; keepalive_requests 100000000;"


class Missing(Exception):  # noqa: N818 - not an error of the program
    """Something required for the measurement is missing."""


@dataclass
class Target:
    """A running server.

    Attributes:
        name: name in the table.
        address: ``http://host:port``.
        template: form of its tile requests, if it differs from that of Mastaba.
        layers: layers whose maps it serves, if it serves nothing else.
        pid: process whose CPU time, with that of its descendants, is measured, or None.
    """

    name: str
    address: str
    template: str | None = None
    layers: frozenset[str] | None = None
    pid: int | None = None
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def stop(self) -> None:
        """Stop the processes of the target."""
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(35)
            if process.poll() is None:
                process.kill()
                process.wait()


def require_programs() -> None:
    """Raise `Missing` unless wrk and nginx are installed."""
    missing = [name for name in ("wrk", "nginx") if find_program(name) is None]
    if missing:
        raise Missing(f"install {' and '.join(missing)} (scripts/install-debian-packages)")


def fastcgi_behind_nginx(
    server_json: Path, folder: Path, *, workers: int, threads: int, observed: bool = True
) -> Target:
    """Start the server on a Unix socket, behind nginx with keep-alive connections.

    Args:
        observed: with access lines and metrics.
    """
    name = "fastcgi" if observed else "fastcgi-plain"
    path = folder / f"{name}.sock"
    target = Target(
        "nginx + FastCGI" if observed else "FastCGI, plain", f"http://127.0.0.1:{free_port()}"
    )
    changed = _changed(
        server_json, folder / f"{name}.json", str(path), workers, threads, observed=observed
    )
    log = folder / f"{name}.log"
    try:
        server = start_process(target, _mastaba(changed), log)
        target.pid = server.pid
        wait_for(path.exists, server, log)
        nginx_before(target, path, folder, f"nginx-{name}", keep=True)
    except BaseException:
        target.stop()
        raise
    return target


def nginx_before(target: Target, path: Path, folder: Path, name: str, *, keep: bool) -> None:
    """Start nginx at the address of a target, in front of a FastCGI server on a Unix socket.

    Args:
        name: stem of the file names in the folder.
        keep: whether connections to the server stay open. With a server that handles one
            connection at a time, the others would wait forever behind an open one.
    """
    keepalive = _KEEPALIVE if keep else ""
    upstream = _UPSTREAM.format(socket=path, keepalive=keepalive)
    _nginx(target, folder, name, _FASTCGI.format(keep="on" if keep else "off"), upstream)


def _nginx(
    target: Target, folder: Path, name: str, location: str, upstream: str = ""
) -> subprocess.Popen[bytes]:
    port = urlsplit(target.address).port
    servers = _SERVER.format(port=port, upstream=upstream, location=location)
    return _run_nginx(target, folder, name, servers)


def _run_nginx(target: Target, folder: Path, name: str, servers: str) -> subprocess.Popen[bytes]:
    """Start nginx with the rest of its configuration."""
    conf, log = folder / f"{name}.conf", folder / f"{name}.log"
    text = _NGINX_CONF.format(folder=folder, name=name, user=_user(), servers=servers)
    conf.write_text(text, encoding="utf-8")
    command = [find_program("nginx") or "nginx", "-e", str(log), "-c", str(conf)]
    nginx = start_process(target, command, log)
    wait_for(lambda: is_answering(target.address), nginx, log)
    return nginx


def nginx_cache(server_json: Path, folder: Path, *, workers: int, threads: int) -> Target:
    """Start nginx as a cache in front of the server; its own CPU time is measured."""
    path = folder / "cached.sock"
    target = Target("nginx cache", f"http://127.0.0.1:{free_port()}")
    changed = _changed(server_json, folder / "cached.json", str(path), workers, threads)
    _let_cache(changed, folder / "cached-services.json")
    replaced = {
        "/run/mastaba/mastaba.sock": str(path),
        "/var/cache/nginx/mastaba": str(folder / "cache"),
        "listen 80;": f"listen {urlsplit(target.address).netloc};",
        "location /maps/ {": "location / {",
        "^(/maps)(/.*)$": "^()(/.*)$",
    }
    sample = _SAMPLE.read_text(encoding="utf-8")
    for old, new in replaced.items():
        sample = sample.replace(old, new)
    try:
        server = start_process(target, _mastaba(changed), folder / "cached.log")
        wait_for(path.exists, server, folder / "cached.log")
        target.pid = _run_nginx(target, folder, "cache", sample).pid
    except BaseException:
        target.stop()
        raise
    return target


def _let_cache(server_json: Path, services_json: Path) -> None:
    """Change an installation so that its responses may be cached."""
    server = json.loads(server_json.read_text(encoding="utf-8"))
    places = server["configurations"]
    services = json.loads(Path(places["services"]).read_text(encoding="utf-8"))
    caching = {"layers": "public, s-maxage=86400", "documents": "public, s-maxage=86400"}
    services.setdefault("global", {})["caching"] = {**caching, "surrogate_keys": True}
    services_json.write_text(json.dumps(services), encoding="utf-8")
    places["services"] = str(services_json)
    server_json.write_text(json.dumps(server), encoding="utf-8")


def _user() -> str:
    return f"user {pwd.getpwuid(0).pw_name};" if os.geteuid() == 0 else ""


def plain_http(
    server_json: Path, folder: Path, *, workers: int, threads: int, observed: bool = True
) -> Target:
    """Start the server with HTTP, without a front-end server; see `fastcgi_behind_nginx`."""
    port, name = free_port(), "http" if observed else "http-plain"
    target = Target("HTTP" if observed else "HTTP, plain", f"http://127.0.0.1:{port}")
    changed = _changed(
        server_json, folder / f"{name}.json", "127.0.0.1:0", workers, threads, observed=observed
    )
    log = folder / f"{name}.log"
    try:
        server = start_process(target, [*_mastaba(changed), "--http", f"127.0.0.1:{port}"], log)
        target.pid = server.pid
        wait_for(lambda: is_answering(target.address), server, log)
    except BaseException:
        target.stop()
        raise
    return target


def folder_of_files(files: Path, folder: Path) -> Target:
    """Start nginx, which sends the files of a folder from the page cache.

    Args:
        folder: for what nginx writes.
    """
    target = Target("files", f"http://127.0.0.1:{free_port()}")
    try:
        _nginx(target, folder, "files", f"root {files}; sendfile on;")
    except BaseException:
        target.stop()
        raise
    return target


def static_files(source: Target, requests: RequestClass, folder: Path) -> Target:
    """Start nginx on files with the responses of a running server: the cost of any server."""
    target = Target("file", f"http://127.0.0.1:{free_port()}", _FILE)
    parts = urlsplit(source.address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    for path, tile in zip(requests.paths, requests.tiles, strict=True):
        connection.request("GET", path)
        file = folder / "files" / tile_path(_FILE, tile._asdict()).removeprefix("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(connection.getresponse().read())
    connection.close()
    nginx = _nginx(target, folder, "file", f"root {folder}/files;")
    target.pid = nginx.pid
    return target


def peer(name: str, url: str, pid: int | None) -> Target:
    """Return a target for a running server.

    Raises:
        Missing: it does not respond.
    """
    parts = urlsplit(url)
    address = f"{parts.scheme}://{parts.netloc}"
    if not is_answering(address):
        raise Missing(f"{name} does not answer at {address}")
    has_fields = "{" in url
    return Target(name, address, url[len(address) :] if has_fields else None, pid=pid)


def tile_path(template: str, fields: dict[str, object]) -> str:
    """Return the path of a tile on a server whose requests have another form."""
    values = {name: quote(str(value), safe="/;") for name, value in fields.items()}
    try:
        return template.format(**values)
    except (KeyError, IndexError) as error:
        raise Missing(f"{template}: no such field: {error}") from error


def free_port() -> int:
    """Return a free port of the loopback interface."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
    return port


def _mastaba(server_json: Path) -> list[str]:
    return [sys.executable, "-m", "mastaba", "-f", str(server_json)]


def _changed(
    original: Path, copy: Path, port: str, workers: int, threads: int, *, observed: bool = True
) -> Path:
    """Write a server.json with another port. Relative paths start at the working directory.

    Args:
        observed: with access lines, as by default, and metrics; otherwise with neither.
    """
    document = json.loads(original.read_text(encoding="utf-8"))
    places = document["configurations"]
    services = json.loads(Path(places["services"]).read_text(encoding="utf-8"))
    services["metrics"] = {"enabled": observed}
    places["services"] = str(copy.with_name(f"{copy.stem}-services.json"))
    Path(places["services"]).write_text(json.dumps(services), encoding="utf-8")
    document.update(
        port=port,
        workers=workers,
        threads=threads,
        logger={"output": "standard_output", "level": "info" if observed else "error"},
    )
    copy.write_text(json.dumps(document), encoding="utf-8")
    return copy


def start_process(
    target: Target, command: list[str], log: Path, stdin: int = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    """Start a process of a target, in its own process group."""
    stream: IO[bytes]
    with log.open("ab") as stream:
        process = subprocess.Popen(
            command, stdin=stdin, stdout=stream, stderr=stream, process_group=0
        )
    target.processes.append(process)
    return process


def wait_for(ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a process is ready.

    Raises:
        Missing: it exits or takes too long; the message contains its log.
    """
    deadline = time.monotonic() + _START_TIMEOUT
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise Missing(f"the server does not start:\n{log.read_text(errors='replace')}")
        time.sleep(0.05)


def is_answering(address: str) -> bool:
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    try:
        connection.request("GET", "/")
        connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return True


def find_program(name: str) -> str | None:
    """Return the path of a program; administration programs are found as well."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
