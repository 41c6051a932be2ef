"""Wrong credentials are refused at a limited pace, and nobody else waits."""

from __future__ import annotations

import base64
import http.client
import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from tests.access.identification.conftest import Credentials
from tests.live.processes import Mastaba, changed, free_port, wait_until
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.api.tools import create_application
from mastaba_access.identifiers import pace
from mastaba_access.keystore.form import new_id, new_key
from mastaba_server.messages import CLIENT

TILE = "/tms/~{}/1.0.0/RGB_JPG/4/9/6.jpg"
PLAIN = "/tms/1.0.0/RGB_JPG/4/9/6.jpg"
FRONT = "10.0.0.1"
SECRET = "swordfish"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(pace, "monotonic", found)
    return found


def test_a_burst_is_refused_at_once_and_then_so_many_a_second(clock: Clock) -> None:
    kept = pace.Pace()
    assert {kept.wait() for _ in range(400)} == {0.0}
    waits = [kept.wait() for _ in range(400)]
    assert waits == sorted(waits)
    assert 0 <= waits[0] < 0.01
    # 200 a second, and nobody waits longer than a second.
    assert waits[100] == pytest.approx(0.5, abs=0.02)
    assert waits[199] == pytest.approx(1.0, abs=0.02)
    assert max(waits) == 1.0
    clock.now += 0.5
    assert kept.wait() == pytest.approx(0.5, abs=0.02)
    # What was refused beyond that is forgotten.
    clock.now += 1.5
    assert kept.wait() == 0.0
    clock.now += 100
    assert {kept.wait() for _ in range(400)} == {0.0}
    assert kept.wait() <= 0.01
    assert kept.wait() > 0.0


class Waiting:
    """What the door asks of a transport."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def is_gone(self) -> bool:
        return False

    def delay(self, seconds: float) -> None:
        self.seconds.append(seconds)


class Installed:
    """An installation whose pace has no burst left."""

    def __init__(self, folder: Path) -> None:
        self.credentials = Credentials(folder)
        self.key = self.credentials.key(label="good")
        self.elsewhere = self.credentials.key(label="elsewhere", addresses=["198.51.100.0/24"])
        self.revoked = self.credentials.key(label="old", revoked="2020-01-01T00:00:00Z")
        self.credentials.user("anna", "secret")
        rules = folder / "rules.json"
        rules.write_text(json.dumps({"default": "allow", "rules": []}))
        path = tiny_installation(
            folder / "installation",
            services_overrides={
                "auth": {"enabled": True},
                "admin": {"enabled": True, "secret": SECRET},
            },
            server_overrides={
                "plugins": {
                    "access": {
                        "rules": str(rules),
                        "trusted_fronts": [FRONT],
                        **self.credentials.section(),
                    }
                }
            },
        )
        self.application = create_application(str(path))
        gate: Any = self.application.site.gate
        while not gate._grants._pace.wait():
            pass

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, int]:
        """Return the status of an answer, and for how many seconds it waits, rounded up."""
        client = Waiting()
        environ = {"REMOTE_ADDR": FRONT, CLIENT: client, **headers}
        answer = Client(self.application).open(path, method=method, environ_overrides=environ)
        assert len(client.seconds) <= 1
        assert all(0 < seconds <= 1 for seconds in client.seconds)
        return answer.status_code, len(client.seconds)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pace, "monotonic", Clock())
        yield Installed(tmp_path_factory.mktemp("refusals"))


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


def test_refusals_of_credentials_wait(installed: Installed) -> None:
    wrong, ask = new_key(new_id()), installed.ask
    assert ask(TILE.format(wrong)) == (401, 1)
    assert ask(TILE.format("s1.wrong.wrong")) == (401, 1)
    assert ask(TILE.format(installed.revoked)) == (401, 1)
    assert ask(f"{PLAIN}?apikey={wrong}") == (401, 1)
    assert ask(PLAIN, HTTP_AUTHORIZATION=f"Bearer {wrong}") == (401, 1)
    assert ask(PLAIN, HTTP_AUTHORIZATION=basic("anna:wrong")) == (401, 1)
    assert ask(PLAIN, HTTP_X_API_KEY=wrong) == (401, 1)
    assert ask(TILE.format(wrong), method="HEAD") == (401, 1)
    assert ask("/wms", method="POST", HTTP_X_API_KEY=wrong) == (401, 1)
    assert ask("/nothing/here", HTTP_X_API_KEY=wrong) == (401, 1)
    # What a front server asks for its clients.
    assert ask("/auth/check", HTTP_X_ORIGINAL_URI=TILE.format(wrong)) == (401, 1)
    # Without an address, the check is of the headers.
    assert ask("/auth/check", HTTP_X_ORIGINAL_URI=PLAIN, HTTP_X_API_KEY=wrong) == (401, 1)
    # Where no credential helps, and at any path of the service that checks them.
    assert ask("/auth/nothing", HTTP_X_API_KEY=wrong) == (404, 1)
    assert ask("/auth/check", HTTP_X_API_KEY=wrong) == (404, 1)
    assert ask("/auth/sign", method="POST", HTTP_X_API_KEY=wrong)[1] == 1
    guess = {"HTTP_X_MASTABA_SECRET": "guess", "HTTP_X_API_KEY": wrong}
    assert ask("/auth/sign", method="POST", **guess)[1] == 1
    # There, the secret of the administration has no effect.
    known = {"HTTP_X_MASTABA_SECRET": SECRET, "HTTP_X_API_KEY": wrong}
    assert ask("/auth/session", **known)[1] == 1
    assert ask(f"/auth/~{wrong}/check") == (404, 1)
    # An address that is blocked.
    there = {"HTTP_X_FORWARDED_FOR": "192.0.2.7"}
    found = {ask(TILE.format(new_key(new_id())), **there) for _ in range(40)}
    assert found == {(401, 1), (429, 1)}


def test_nobody_else_waits(installed: Installed) -> None:
    wrong, ask = new_key(new_id()), installed.ask
    for _ in range(2):  # a credential that is not known yet, and one that is
        assert ask(TILE.format(installed.key)) == (200, 0)
        assert ask(PLAIN, HTTP_AUTHORIZATION=basic("anna:secret")) == (200, 0)
        assert ask(PLAIN) == (200, 0)
    # The secret of the administration decides, and not what is shown besides.
    known = {"HTTP_X_MASTABA_SECRET": SECRET, "HTTP_X_API_KEY": wrong}
    assert ask("/auth/sign", method="POST", **known) == (200, 0)
    # It is known, but may not be used here.
    assert ask(TILE.format(installed.elsewhere)) == (403, 0)
    assert ask(PLAIN, method="OPTIONS", HTTP_X_API_KEY=wrong) == (204, 0)
    assert ask(f"{PLAIN}?apikey={wrong}&key=other") == (400, 0)
    assert ask("/auth/check", HTTP_X_ORIGINAL_URI=TILE.format(installed.key)) == (200, 0)
    assert ask("/auth/check", HTTP_X_ORIGINAL_URI=PLAIN) == (200, 0)
    # What a client shows besides has no effect.
    for _ in range(2):
        headers = {"HTTP_AUTHORIZATION": basic("a:b")}
        uri = TILE.format(installed.key)
        assert ask("/auth/check", HTTP_X_ORIGINAL_URI=uri, **headers) == (200, 0)
    assert ask("/tms/1.0.0/NOTHING/4/9/6.jpg") == (404, 0)


def test_transports_need_not_know_of_delays(installed: Installed) -> None:
    environ = {"REMOTE_ADDR": FRONT, CLIENT: object()}
    answer = Client(installed.application).get(
        TILE.format(new_key(new_id())), environ_overrides=environ
    )
    assert answer.status_code == 401


@pytest.mark.live
def test_a_flood_waits_and_tiles_do_not(tmp_path: Path) -> None:
    """Also on the connections of a front server that both have used; a reload ends the waiting."""
    credentials, port = Credentials(tmp_path), free_port()
    key = credentials.key()
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"default": "allow", "rules": []}))
    section = {"rules": str(rules), **credentials.section(), "trusted_fronts": ["127.0.0.1"]}
    path = tiny_installation(tmp_path / "i", public_url=f"http://127.0.0.1:{port}")
    file = changed(
        path,
        tmp_path / "server.json",
        workers=1,
        logger={"output": "standard_output", "level": "warn"},
        plugins={"access": section},
    )
    with ExitStack() as stack:
        server = stack.enter_context(Mastaba(file, tmp_path, http=port))

        def connect() -> http.client.HTTPConnection:
            return stack.enter_context(closing(http.client.HTTPConnection("127.0.0.1", port)))

        def get(connection: http.client.HTTPConnection, text: str, where: int = 0) -> int:
            headers = {"X-Forwarded-For": f"10.0.{where // 200}.{where % 200}"}
            connection.request("GET", TILE.format(text), headers=headers)
            response = connection.getresponse()
            response.read()
            return response.status

        def attack(number: int, until: threading.Event, found: list[int]) -> None:
            connection = connect()
            try:
                while not until.is_set():
                    found.append(get(connection, new_key(new_id()), number))
            except (OSError, http.client.HTTPException):
                found.append(0)

        steady, stop = connect(), threading.Event()
        assert get(steady, key) == 200
        found: list[list[int]] = [[] for _ in range(100)]
        threads = [
            threading.Thread(target=attack, args=(number + 1, stop, one))
            for number, one in enumerate(found)
        ]
        for thread in threads:
            thread.start()
        wait_until(lambda: sum(map(len, found)) >= 450)
        before, begun = sum(map(len, found)), time.monotonic()
        for _ in range(100):
            assert get(steady, key) == 200
        while time.monotonic() - begun < 3:
            assert get(steady, key) == 200
        seconds = time.monotonic() - begun
        # 200 a second, and what clients had not counted yet.
        assert sum(map(len, found)) - before <= 200 * seconds + 200
        workers = server.children()
        server.send(signal.SIGHUP)
        wait_until(lambda: not set(workers) & set(server.children()))
        stop.set()
        for thread in threads:
            thread.join()
        assert all(status in (401, 429) for one in found for status in one)
        # The connection of one that was refused serves whoever comes next.
        connection = connect()
        for where in range(5):
            assert get(connection, new_key(new_id()), where + 500) == 401
            assert get(connection, key) == 200
