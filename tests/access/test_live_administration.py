"""Keys and virtual services are changed for all workers of a running server."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.access.identification.conftest import Credentials
from tests.live.processes import Mastaba, changed, free_port, wait_until
from tests.tiny import tiny_installation

pytestmark = pytest.mark.live

SECRET = {"X-Mastaba-Secret": "swordfish"}
WORKERS = 3
TILE = "/wmts{}/1.0.0/RGB_JPG/normal/PM/2/1/2.jpg"


class Server:
    """A server with several workers."""

    def __init__(self, folder: Path) -> None:
        rules = {"default": "deny", "rules": [{"name": "x", "who": ["group:x"], "allow": {}}]}
        (folder / "rules.json").write_text(json.dumps(rules))
        section = Credentials(folder).section(rules=str(folder / "rules.json"))
        self.port = free_port()
        installation = tiny_installation(
            folder / "installation",
            services=("wmts",),
            services_overrides={"admin": {"enabled": True, "secret": "swordfish"}},
        )
        file = changed(
            installation,
            folder / "server.json",
            port=f"127.0.0.1:{self.port}",
            workers=WORKERS,
            logger={"output": "standard_output", "level": "info"},
            plugins={"access": section},
        )
        self.process = Mastaba(file, folder, http=self.port)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return status and document of an answer, by a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            sent = None if body is None else json.dumps(body)
            connection.request(method, path, sent, SECRET)
            response = connection.getresponse()
            data = response.read()
            is_json = response.getheader("Content-Type") == "application/json"
            return response.status, json.loads(data) if is_json else data
        finally:
            connection.close()


def test_changes_reach_all_workers_while_requests_run(tmp_path: Path) -> None:
    server = Server(tmp_path)
    stop, seen = threading.Event(), Counter[int]()

    def load() -> None:
        while not stop.is_set():
            seen[server.ask("GET", TILE.format(f"/~{keeper}"))[0]] += 1

    try:
        _, made = server.ask("POST", "/admin/keys", {"label": "keeper", "groups": ["x"]})
        keeper = made["key"]
        _, made = server.ask("POST", "/admin/keys", {"label": "one", "groups": ["x"]})
        threads = [threading.Thread(target=load) for _ in range(2)]
        for thread in threads:
            thread.start()
        address = TILE.format(f"/~{made['key']}")
        assert {server.ask("GET", address)[0] for _ in range(30)} == {200}
        section = {"layers": ["RGB_*"], "services": {"wmts": {}}}
        for number in range(5):
            assert server.ask("POST", f"/admin/virtual/v{number}", section)[0] == 204
            path = TILE.format(f"/v/v{number}/~{keeper}")
            assert {server.ask("GET", path)[0] for _ in range(20)} == {200}
        assert server.ask("DELETE", f"/admin/keys/{made['id']}")[0] == 204
        # More than 30 in a minute would be too many.
        refused = 0
        while refused < 4 * WORKERS:
            refused = refused + 1 if server.ask("GET", address)[0] == 401 else 0
            time.sleep(0.2)
        wait_until(lambda: sum(seen.values()) > 100)
        stop.set()
        for thread in threads:
            thread.join()
        assert set(seen) == {200}
    finally:
        stop.set()
        server.process.stop()
    log = server.process.log.read_text("utf-8")
    assert '"event": "administration"' in log
    assert '"event": "key revoked"' in log
    assert keeper not in log
    assert "swordfish" not in log
