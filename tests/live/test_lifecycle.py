"""Signals and accidents while clients ask: what they notice of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.live import fronts
from tests.live.client import BrokenAnswerError, ask, ask_many, load
from tests.live.environments import program_for_web_users
from tests.live.installations import TILE, make_installation, stored_tile
from tests.live.processes import Mastaba, accepts, changed, free_port, wait_until

pytestmark = pytest.mark.live

PATH = "/tms/1.0.0/RGB_JPG/{}/{}/{}.jpeg".format(*TILE)


class Setting:
    """A server behind nginx; the server can be started again at the same place."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder = folder / "tiny"
        self.kind = kind
        installation = make_installation(self.folder)
        self.services_json = self.folder / "services.json"
        port = str(folder / "mastaba.sock")
        if kind != "unix-kept":
            port = f"127.0.0.1:{free_port()}"
        self.server_json = changed(installation, folder / "server.json", port=port)
        self.tile = stored_tile(self.folder, "RGB_JPG", *TILE)
        self._folder = folder
        self.server = self.start()
        ways: dict[str, Callable[[], tuple[str, bool, str]]] = {
            "unix-kept": lambda: fronts.fastcgi(port, keep=True),
            "tcp": lambda: fronts.fastcgi(port),
            "tcp-kept": lambda: fronts.fastcgi(port, keep=True),
            "http": lambda: fronts.proxy(port),
        }
        try:
            self.front = fronts.nginx(folder, [ways[kind]()])
        except BaseException:
            self.server.stop()
            raise
        self.url = self.front.urls[0]

    def start(self) -> Mastaba:
        port: str = json.loads(self.server_json.read_text(encoding="utf-8"))["port"]
        http = int(port.rpartition(":")[2]) if self.kind == "http" else None
        self.server = Mastaba(self.server_json, self._folder, http=http)
        return self.server


@contextmanager
def _setting(folder: Path, kind: str) -> Iterator[Setting]:
    with ExitStack() as stack:
        setting = Setting(folder, kind)
        stack.callback(lambda: setting.server.stop())
        stack.enter_context(setting.front)
        yield setting


@pytest.fixture(params=["unix-kept", "tcp", "tcp-kept", "http"])
def setting(request: pytest.FixtureRequest, folder: Path) -> Iterator[Setting]:
    with _setting(folder, request.param) as made:
        yield made


def test_killed_worker_is_replaced(setting: Setting) -> None:
    server = setting.server
    victim = server.children()[0]

    def replaced() -> bool:
        children = server.children()
        return victim not in children and len(children) == server.workers

    with load(setting.url, PATH) as state:
        wait_until(lambda: len(state.answers) > 50)
        os.kill(victim, signal.SIGKILL)
        wait_until(replaced)
        already = len(state.answers)
        wait_until(lambda: len(state.answers) > already + 50)
    # Only requests that the victim was at may fail, and only as those of a dead back end.
    assert not state.broken
    assert state.statuses <= {200, 502}
    answers = ask_many(setting.url, [PATH] * 100, 8)
    assert all((answer.status, answer.body) == (200, setting.tile) for answer in answers)


def test_reload_fails_no_request(setting: Setting) -> None:
    server = setting.server
    with load(setting.url, PATH) as state:
        for number in range(10):
            wait_until(lambda: len(state.answers) > 50)
            title = f"Reload {number}"
            document = json.loads(setting.services_json.read_text(encoding="utf-8"))
            document["tms"]["title"] = title
            setting.services_json.write_text(json.dumps(document), encoding="utf-8")
            before = set(server.children())
            server.send(signal.SIGHUP)
            wait_until(lambda: before.isdisjoint(server.children()))  # noqa: B023
            wait_until(lambda: len(server.children()) == server.workers)
            assert title.encode() in ask(setting.url, "/tms/1.0.0").body
            state.answers, answers = [], state.answers
            assert {answer.status for answer in answers} == {200}
    assert not state.broken
    assert all((answer.status, answer.body) == (200, setting.tile) for answer in state.answers)


def test_invalid_reload_keeps_the_old_configuration(setting: Setting) -> None:
    setting.services_json.write_text("{", encoding="utf-8")
    with load(setting.url, PATH) as state:
        setting.server.send(signal.SIGHUP)
        wait_until(lambda: "reload failed" in setting.server.tail())
        wait_until(lambda: len(state.answers) > 50)
    assert not state.broken
    assert state.statuses == {200}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT, signal.SIGINT])
def test_graceful_stop(setting: Setting, number: signal.Signals) -> None:
    server = setting.server
    with load(setting.url, PATH) as state:
        wait_until(lambda: len(state.answers) > 50)
        server.send(number)
        assert server.wait() == 0
        assert not accepts(server.port)
    assert not state.broken
    # What was begun was finished; what came later was refused.
    assert state.statuses <= {200, 502}
    assert all(answer.body == setting.tile for answer in state.answers if answer.status == 200)


def test_restart_at_the_same_address(setting: Setting) -> None:
    for _ in range(3):
        ask_many(setting.url, [PATH] * 20, 4)
        setting.server.stop()
        assert ask(setting.url, PATH).status == 502
        setting.start()
        assert ask(setting.url, PATH).body == setting.tile


def test_start_after_an_abrupt_end(setting: Setting) -> None:
    """The file of the socket is left behind, and must not be in the way."""
    setting.server.send(signal.SIGKILL)
    setting.server.wait()
    wait_until(lambda: not accepts(setting.server.port))
    setting.server.stop()
    setting.start()
    assert ask(setting.url, PATH).body == setting.tile


def test_address_in_use(setting: Setting) -> None:
    with pytest.raises(AssertionError, match="cannot listen on"):
        setting.start()


def test_without_front_server(folder: Path) -> None:
    """The same ordered stop when the clients themselves hold the connections."""
    port = free_port()
    installation = make_installation(folder / "tiny")
    file = changed(installation, folder / "server.json", port="127.0.0.1:0")
    with Mastaba(file, folder, http=port) as server:
        url = f"http://127.0.0.1:{port}"
        with load(url, PATH) as state:
            wait_until(lambda: len(state.answers) > 50)
            server.send(signal.SIGTERM)
            assert server.wait() == 0
        assert state.statuses == {200}
        with pytest.raises(BrokenAnswerError):
            ask(url, PATH)


@pytest.fixture
def apache(folder: Path) -> Iterator[Apache]:
    program = program_for_web_users()
    installation = make_installation(folder / "tiny")
    file = changed(installation, folder / "server.json", threads=1)
    with fronts.apache(folder / "apache", [fronts.fcgid(f"{program} -f {file}")]) as front:
        yield Apache(front, file, stored_tile(folder / "tiny", "RGB_JPG", *TILE))


class Apache(NamedTuple):
    """Apache that starts the server itself."""

    front: fronts.Front
    server_json: Path
    tile: bytes

    def processes(self) -> set[int]:
        """The processes that mod_fcgid started."""
        name = str(self.server_json).encode()
        found = set()
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if name in path.read_bytes():
                    found.add(int(path.parent.name))
        return found


def test_killed_process_of_mod_fcgid_is_replaced(apache: Apache) -> None:
    url = apache.front.urls[0]
    with load(url, PATH, clients=2) as state:
        wait_until(lambda: len(state.answers) > 20)
        victims = apache.processes()
        assert victims
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
        wait_until(lambda: bool(apache.processes() - victims))
        already = len(state.answers)
        wait_until(lambda: len(state.answers) > already + 20)
    assert not state.broken
    # 503 is what mod_fcgid says while it notices.
    assert state.statuses <= {200, 500, 503}
    answers = ask_many(url, [PATH] * 20, 2)
    assert all((answer.status, answer.body) == (200, apache.tile) for answer in answers)


def test_graceful_restart_of_apache(apache: Apache) -> None:
    url = apache.front.urls[0]
    assert ask(url, PATH).body == apache.tile
    before = apache.processes()
    apache.front.send(signal.SIGUSR1)
    wait_until(lambda: before.isdisjoint(apache.processes()))
    assert ask(url, PATH).body == apache.tile


def test_stop_of_apache_stops_its_processes(apache: Apache) -> None:
    assert ask(apache.front.urls[0], PATH).body == apache.tile
    assert apache.processes()
    apache.front.send(signal.SIGTERM)
    assert apache.front.wait() == 0
    wait_until(lambda: not apache.processes())
