"""A download that has begun ends as it began, whatever becomes of its key meanwhile."""

from __future__ import annotations

import json
import signal
import socket
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.access.identification.conftest import Credentials
from tests.live.client import ask
from tests.live.processes import Mastaba, changed, free_port, wait_until
from tests.tiny import tiny_installation

pytestmark = pytest.mark.live

PATH = "/ogcapi/collections/FLOAT32_RAW/coverage?f=tiff"


def test_a_download_survives_the_end_of_its_key_and_a_reload(tmp_path: Path) -> None:
    credentials, port = Credentials(tmp_path), free_port()
    url = f"http://127.0.0.1:{port}"
    rules = [{"name": "partners", "who": ["group:partners"], "allow": {}}]
    (tmp_path / "rules.json").write_text(json.dumps({"default": "deny", "rules": rules}))
    key = credentials.key(groups=["partners"])
    installation = tiny_installation(
        tmp_path / "tiny",
        services=["ogcapi"],
        public_url=url,
        services_overrides={"ogcapi": {"enabled": True, "coverages": True}},
    )
    layer = tmp_path / "tiny" / "layers" / "FLOAT32_RAW.json"
    layer.write_text(json.dumps(json.loads(layer.read_text()) | {"coverages": True}))
    section = {"rules": str(tmp_path / "rules.json"), **credentials.section()}
    file = changed(installation, tmp_path / "server.json", plugins={"access": section})
    with Mastaba(file, tmp_path, http=port) as server:
        whole = ask(url, PATH, headers={"X-API-Key": key})
        assert whole.status == 200
        with socket.socket() as sock:
            # Only a part of the body fits into the buffers.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.connect(("127.0.0.1", port))
            request = f"GET {PATH} HTTP/1.1\r\nHost: x\r\nX-API-Key: {key}\r\nConnection: close\r\n"
            sock.sendall(request.encode() + b"\r\n")
            received = sock.recv(1000)
            record = credentials.store.find(key[3:11])
            assert record is not None
            credentials.store.save([replace(record, revoked=time.time())], "revoked")
            wait_until(lambda: ask(url, PATH, headers={"X-API-Key": key}).status == 401)
            before = set(server.children())
            server.send(signal.SIGHUP)
            wait_until(lambda: len(set(server.children()) - before) >= server.workers)
            assert ask(url, PATH, headers={"X-API-Key": key}).status == 401
            while piece := sock.recv(65536):
                received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert body == whole.body
