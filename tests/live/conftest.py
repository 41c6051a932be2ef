"""Ways to the server through real front servers."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.live import fronts
from tests.live.environments import program_for_web_users
from tests.live.installations import make_installation
from tests.live.processes import (
    SHARED_DATA,
    Mastaba,
    changed,
    free_port,
    public_folder,
    running,
)

WAYS = (
    "nginx-tcp",
    "nginx-tcp-kept",
    "nginx-unix",
    "nginx-unix-kept",
    "nginx-unbuffered",
    "nginx-http",
    "http",
    "apache-proxy-tcp",
    "apache-proxy-unix",
    "apache-fcgid",
)


@dataclass(frozen=True)
class Way:
    """An address, and what is behind it.

    Attributes:
        clients: how many may ask at a time without queueing for seconds.
        server: the running server; None when the front server starts it.
    """

    name: str
    url: str
    folder: Path
    clients: int = 32
    server: Mastaba | None = None


@dataclass
class Site:
    """An installation, and the servers started for it so far, each at the first need."""

    folder: Path
    server_json: Path
    stack: ExitStack
    servers: dict[str, Mastaba] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)

    def server(self, kind: str) -> Mastaba:
        if kind not in self.servers:
            port = str(self.folder / "mastaba.sock")
            if kind != "unix":
                port = f"127.0.0.1:{free_port()}"
            file = changed(self.server_json, self.folder / f"mastaba-{kind}.json", port=port)
            http = int(port.rpartition(":")[2]) if kind == "http" else None
            self.servers[kind] = self.stack.enter_context(Mastaba(file, self.folder, http=http))
        return self.servers[kind]

    def nginx(self) -> None:
        tcp, unix, http = (self.server(kind).port for kind in ("tcp", "unix", "http"))
        ways = {
            "nginx-tcp": fronts.fastcgi(tcp),
            "nginx-tcp-kept": fronts.fastcgi(tcp, keep=True),
            "nginx-unix": fronts.fastcgi(unix),
            "nginx-unix-kept": fronts.fastcgi(unix, keep=True),
            "nginx-unbuffered": fronts.fastcgi(
                unix, keep=True, directives="fastcgi_request_buffering off;"
            ),
            "nginx-http": fronts.proxy(http),
        }
        front = self.stack.enter_context(fronts.nginx(self.folder, list(ways.values())))
        self.addresses.update(zip(ways, front.urls, strict=True))

    def apache(self) -> None:
        ways = {
            "apache-proxy-tcp": fronts.proxy_fcgi(self.server("tcp").port),
            "apache-proxy-unix": fronts.proxy_fcgi(self.server("unix").port),
        }
        folder = self.folder / "apache"
        front = self.stack.enter_context(fronts.apache(folder, list(ways.values())))
        self.addresses.update(zip(ways, front.urls, strict=True))

    def apache_fcgid(self) -> None:
        program = program_for_web_users()
        file = changed(self.server_json, self.folder / "fcgid.json", threads=1)
        ways = [fronts.fcgid(f"{program} -f {file}")]
        front = self.stack.enter_context(fronts.apache(self.folder / "apache-fcgid", ways))
        self.addresses["apache-fcgid"] = front.urls[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the logs of all servers that run when a test fails."""
    report = yield
    if report.failed:
        for process in running:
            report.sections.append((f"log of {process.name}", process.tail()))
    return report


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    with public_folder() as folder, ExitStack() as stack:
        yield Site(folder, make_installation(folder / "tiny"), stack)


@pytest.fixture(params=WAYS, scope="session")
def way(request: pytest.FixtureRequest, site: Site) -> Way:
    """Each way from a client to the server."""
    name: str = request.param
    if name == "http":
        server = site.server("http")
        return Way(name, f"http://{server.port}", site.server_json.parent, server=server)
    if name not in site.addresses:
        start = {"nginx": site.nginx, "apache": site.apache, "apache-fcgid": site.apache_fcgid}
        start.get(name, start[name.partition("-")[0]])()
    if name == "apache-fcgid":
        # mod_fcgid gives a process one request at a time, and lets the others wait in seconds.
        return Way(name, site.addresses[name], site.server_json.parent, clients=2)
    kind = next((kind for kind in ("tcp", "http") if kind in name), "unix")
    server = site.server(kind)
    return Way(name, site.addresses[name], site.server_json.parent, server=server)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for one test that web servers can read."""
    with public_folder() as path:
        yield path


@pytest.fixture(scope="session")
def shared_data() -> Path:
    if not SHARED_DATA.is_dir():
        pytest.skip(f"{SHARED_DATA} is absent")
    return SHARED_DATA
