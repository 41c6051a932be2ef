"""Each front server with the sample configuration, on one machine.

What differs from the samples: the port where 80 cannot be had, and the places of socket, program
and server.json.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.deploy.blocked import ALLOWED, BLOCKED
from tests.deploy.samples import PROXY, SOCKET, apache, nginx, sample
from tests.live.client import ask, ask_raw
from tests.live.environments import program_for_web_users
from tests.live.installations import (
    TILE,
    make_installation,
    stored_tile,
)
from tests.live.processes import (
    Mastaba,
    changed,
    free_port,
    is_root,
    public_folder,
)

from mastaba.commands.main import main

pytestmark = pytest.mark.live


class Installed:
    """A front server that runs with a sample.

    Attributes:
        url: of the prefix under which the services are published.
        folder: of the installation.
        has_daemon: whether the server was started apart from the front server.
    """

    def __init__(self, url: str, folder: Path, server_json: Path, *, has_daemon: bool) -> None:
        self.url = url
        self.folder = folder
        self.server_json = server_json
        self.has_daemon = has_daemon


def _port() -> int:
    """80 where it can be had, as in the samples; else another one."""
    if is_root():
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                sock.bind(("127.0.0.1", 80))
            except OSError:
                return free_port()
        return 80
    return free_port()


@pytest.fixture(scope="module", params=["nginx", "apache-proxy", "apache-fcgid"])
def installed(request: pytest.FixtureRequest, deploy: Path) -> Iterator[Installed]:
    """Start a front server with its sample, and the server behind it."""
    with public_folder() as folder, ExitStack() as stack:
        port, sock = _port(), str(folder / "mastaba.sock")
        origin = "http://127.0.0.1" if port == 80 else f"http://127.0.0.1:{port}"
        url = f"{origin}/maps"
        server_json = make_installation(folder / "installation", public_url=url)
        file = changed(server_json, folder / "server.json", port=sock)
        virtual = {"*:80": f"127.0.0.1:{port}"}
        if request.param == "apache-fcgid":
            command = f"{program_for_web_users()} -f {file}"
            file = changed(server_json, file, port=sock, threads=1)
            replaced = {
                **virtual,
                "/opt/mastaba/bin/mastaba -f /etc/mastaba/server.json": command,
                # Two processors need no sixteen processes.
                "FcgidMinProcessesPerClass 4": "FcgidMinProcessesPerClass 1",
            }
            host = sample(deploy / "apache" / "mastaba-fcgid.conf", folder, replaced)
            stack.enter_context(apache(folder, host, port, ("rewrite",)))
        else:
            stack.enter_context(Mastaba(file, folder))
            if request.param == "nginx":
                stack.enter_context(nginx(folder, deploy, port, sock))
            else:
                replaced = {**virtual, SOCKET: sock}
                host = sample(deploy / "apache" / "mastaba-proxy.conf", folder, replaced)
                stack.enter_context(apache(folder, host, port, PROXY))
        # Apache starts the server for this request, which takes longer than the doctor waits.
        assert ask(url, "/maps/tms/1.0.0").status == 200
        has_daemon = request.param != "apache-fcgid"
        yield Installed(url, folder / "installation", file, has_daemon=has_daemon)


def test_the_doctor_reports_no_problem(
    installed: Installed, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["check", "-f", str(installed.server_json), "--deep", "--format", "json"]
    status = main(arguments)
    report = json.loads(capsys.readouterr().out)
    assert status == 0, report
    # Health is kept from the public by each of the samples.
    assert {fault["path"] for fault in report["faults"]} <= {"$.health.endpoint_uri"}
    assert report["examined"]["endpoints"] >= 4
    # Where Apache starts the processes, no program listens on the port of server.json.
    assert report["examined"]["port"] == ("ours" if installed.has_daemon else "free")


def test_a_tile_comes_through_as_it_is_stored(installed: Installed) -> None:
    level, col, row = TILE
    answer = ask(installed.url, f"/maps/tms/1.0.0/RGB_PNG/{level}/{col}/{row}.png")
    assert answer.status == 200
    assert answer.media_type == "image/png"
    assert answer.body == stored_tile(installed.folder, "RGB_PNG", level, col, row)
    again = ask(
        installed.url,
        f"/maps/tms/1.0.0/RGB_PNG/{level}/{col}/{row}.png",
        headers={"If-None-Match": answer.headers["etag"]},
    )
    assert again.status == 304


def test_the_query_comes_through(installed: Installed) -> None:
    query = "SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=RGB_JPG&STYLES=&CRS=CRS:84"
    query += "&BBOX=30,20,60,40&WIDTH=90&HEIGHT=60&FORMAT=image/png"
    answer = ask(installed.url, f"/maps/wms?{query}")
    assert answer.status == 200
    assert answer.body.startswith(b"\x89PNG")


def test_addresses_in_answers_have_the_prefix(installed: Installed) -> None:
    answer = ask(installed.url, "/maps/wmts?SERVICE=WMTS&REQUEST=GetCapabilities")
    assert answer.status == 200
    assert f"{installed.url}/wmts".encode() in answer.body


def test_difficult_names_come_through(installed: Installed) -> None:
    answer = ask(installed.url, "/maps/tms/1.0.0/%C3%89t%C3%A9%20%C3%A0%201%20m/metadata.json")
    assert answer.status == 200
    (address,) = json.loads(answer.body)["tiles"]
    assert "/%C3%89t%C3%A9%20%C3%A0%201%20m/" in address


def test_what_is_for_operators_is_not_public(installed: Installed) -> None:
    for target in BLOCKED:
        answer = ask_raw(installed.url, f"/maps{target}".encode())
        assert answer.split(b" ", 2)[1] in (b"400", b"403", b"404"), (target, answer[:500])
        assert b'"status"' not in answer
    for target in ALLOWED:
        status = int(ask_raw(installed.url, f"/maps{target}".encode()).split(b" ", 2)[1])
        assert status != 403, target


def test_other_paths_do_not_reach_the_server(installed: Installed) -> None:
    answer = ask(installed.url, "/other/wmts?SERVICE=WMTS&REQUEST=GetCapabilities")
    assert answer.status == 404
