"""Mastaba behind real caches, with the configurations of deploy/."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.forked import run
from tests.live.client import Answer, ask
from tests.live.fronts import Front, nginx_with
from tests.live.processes import (
    REPOSITORY,
    Command,
    Mastaba,
    accepts,
    changed,
    free_port,
    program,
    public_folder,
    wait_until,
)

from mastaba_conformance.tiny_installation import tiny_installation

_SEVERAL_BATCHES = 0.6
"""Seconds; the workers write lines at least every 0.25 s."""

DEPLOY = REPOSITORY / "deploy"
SECRET = "correct horse"
TILES = {"RGB_JPG": "jpg", "RGB_PNG": "png", "GREY_PNG": "png", "RGBA_PNG": "png", "VECTOR": "pbf"}
CACHING = {
    "RGB_JPG": "public, max-age=60, s-maxage=3600",
    "VECTOR": "public, s-maxage=3600",
    "RGB_PNG": "public, s-maxage=1",
    "GREY_PNG": "public, s-maxage=1, stale-while-revalidate=3600",
    "RGBA_PNG": "public, s-maxage=1, stale-if-error=3600",
    "RGB_RAW": "public, s-maxage=3600",
}


def tile(layer: str, place: str = "4/9/6") -> str:
    """The path of a tile over TMS: level, column and row."""
    return f"/maps/tms/1.0.0/{layer}/{place}.{TILES[layer]}"


class Edge:
    """A cache, and the server behind it.

    Attributes:
        url: of the cache.
        folder: of the installation.
        server: the running server.
        start: starts the server again.
    """

    def __init__(self, name: str, folder: Path, stack: ExitStack) -> None:
        self.name = name
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._stack = stack
        (folder / "secret").write_text(f"{SECRET}\n", "ascii")
        (folder / "secret").chmod(0o644)
        documents = "public, max-age=0, s-maxage=3600"
        self.server_json = tiny_installation(
            folder / "installation",
            public_url=f"{self.url}/maps",
            services_overrides={
                "global": {"caching": {"documents": documents, "surrogate_keys": True}}
            },
        )
        for layer, value in CACHING.items():
            self.change(layer, cache_control=value)
        self._backend = str(folder / "mastaba.sock") if name == "nginx-fastcgi" else free_port()
        self._seen: tuple[Path, int] | None = None
        self._begin = datetime.now(UTC)
        self.caches = getattr(self, f"_start_{name.replace('-', '_')}")()
        self.start()

    def change(self, layer: str, **values: object) -> None:
        """Change a layer descriptor."""
        path = self.folder / "installation" / "layers" / f"{layer}.json"
        document = json.loads(path.read_text("utf-8"))
        path.write_text(json.dumps({**document, **values}), "utf-8")

    def start(self) -> None:
        settings = {
            "caches": self.caches,
            "secret_file": str(self.folder / "secret"),
            "repeat_after": 0,
        }
        backend = self._backend
        file = changed(
            self.server_json,
            self.folder / "server.json",
            port=backend if isinstance(backend, str) else f"127.0.0.1:{backend}",
            logger={
                "output": "standard_output",
                "level": "info",
                "format": "json",
                "access": "json",
            },
            plugins={"edge": settings},
        )
        http = None if isinstance(backend, str) else backend
        self.server = self._stack.enter_context(Mastaba(file, self.folder, http=http))
        wait_until(lambda: self.get(tile("RGB_JPG", "2/2/1")).status == 200)

    def get(self, path: str, **options: Any) -> Answer:
        return ask(self.url, path, **options)

    def reload(self) -> None:
        """Reload the server; return when its change is purged from the cache."""
        before = self.purges()
        self.server.send(signal.SIGHUP)
        wait_until(lambda: self.purges() > before)

    def purge(self, *arguments: str) -> None:
        """Run `mastaba purge`."""
        file = str(self.folder / "server.json")
        done = run("purge", *arguments, "-f", file)
        assert done.returncode == 0, done.stderr

    def purges(self) -> int:
        return sum("purged from" in str(line.get("message")) for line in self._lines())

    def requests(self, path: str, count: int = 1) -> list[int]:
        """The statuses that the server has answered to requests for a path, with its query.

        Args:
            count: number of requests to wait for. Further ones are found if their lines are written
                soon.
        """
        wait_until(lambda: len(self._requests(path)) >= count)
        self._await_lines()
        return self._requests(path)

    def _requests(self, path: str) -> list[int]:
        path, _, query = path.removeprefix("/maps").partition("?")
        return [
            line["status"]
            for line in self._lines()
            if line.get("path") == path and line.get("query") == query
        ]

    def forget(self) -> None:
        """Empty the cache, and forget what the server has answered so far."""
        keys = " ".join(["documents", *(f"layer-{layer}" for layer in CACHING)])
        headers = {"X-Purge-Secret": SECRET, "Surrogate-Key": keys}
        for cache in self.caches:
            assert ask(cache.rstrip("/"), "/", method="PURGE", headers=headers).status == 200
        self._seen = self.server.log, self.server.log.stat().st_size
        # Lines that are written later may be of requests that were answered before.
        self._begin = datetime.now(UTC)

    def _await_lines(self) -> None:
        """Wait until the workers have written the lines of the requests they have answered."""
        size = -1
        while size != (size := self.server.log.stat().st_size):
            time.sleep(_SEVERAL_BATCHES)

    def _lines(self) -> list[dict[str, Any]]:
        log, start = self.server.log, 0
        if self._seen and self._seen[0] == log:
            start = self._seen[1]
        lines = log.read_bytes()[start:].splitlines()
        # The last one may not be complete.
        found = [
            json.loads(line) for line in lines if line.startswith(b"{") and line.endswith(b"}")
        ]
        return [line for line in found if datetime.fromisoformat(line["time"]) >= self._begin]

    def _sample(self, path: Path, replaced: Mapping[str, str]) -> Path:
        text = path.read_text("utf-8")
        for old, new in replaced.items():
            assert old in text, old
            text = text.replace(old, new)
        copy = self.folder / path.name
        copy.write_text(text, "utf-8")
        return copy

    def _start_nginx_fastcgi(self) -> list[str]:
        replaced = {"/run/mastaba/mastaba.sock": str(self._backend)}
        return self._start_nginx("mastaba-cache.conf", replaced)

    def _start_nginx_http(self) -> list[str]:
        replaced = {"server 127.0.0.1:8080": f"server 127.0.0.1:{self._backend}"}
        return self._start_nginx("mastaba-cache-http.conf", replaced)

    def _start_nginx(self, name: str, replaced: Mapping[str, str]) -> list[str]:
        cache = self.folder / "cache"
        values = {
            **replaced,
            "listen 80;": f"listen 127.0.0.1:{self.port};",
            "/var/cache/nginx/mastaba": str(cache),
        }
        sample = self._sample(DEPLOY / "nginx" / name, values)
        self._stack.enter_context(nginx_with(self.folder, f"include {sample};", [self.port]))
        port = free_port()
        words = ["purge-agent", "--cache", cache, "--listen", f"127.0.0.1:{port}"]
        words += ["--secret-file", self.folder / "secret"]
        agent = self._stack.enter_context(Command("purge-agent", words, self.folder))
        agent.wait_for(lambda: accepts(f"127.0.0.1:{port}"))
        self.cache = cache
        return [f"http://127.0.0.1:{port}/"]

    def _start_varnish(self) -> list[str]:
        binary = program("varnishd", "varnish")
        if not Path("/var/lib/dpkg/info/varnish-modules.list").exists():
            pytest.skip("install the Debian package varnish-modules (make live)")
        values = {
            '.port = "8080"': f'.port = "{self._backend}"',
            "/etc/varnish/mastaba-purge-secret": str(self.folder / "secret"),
        }
        sample = self._sample(DEPLOY / "varnish" / "mastaba.vcl", values)
        command = [binary, "-F", "-f", sample, "-a", f"127.0.0.1:{self.port}", "-T", "none"]
        command += [
            "-n",
            self.folder / "varnish",
            "-s",
            "malloc,160m",
            "-p",
            "vcc_allow_inline_c=off",
        ]
        self._stack.enter_context(Front("varnish", command, self.folder, [self.port]))
        return [f"{self.url}/"]


@pytest.fixture(scope="module", params=["nginx-fastcgi", "nginx-http", "varnish"])
def running_edge(request: pytest.FixtureRequest) -> Iterator[Edge]:
    with public_folder() as folder, ExitStack() as stack:
        yield Edge(request.param, folder, stack)


@pytest.fixture
def edge(running_edge: Edge) -> Edge:
    """A cache with the configuration of deploy/, empty, and the server behind it."""
    running_edge.forget()
    return running_edge
