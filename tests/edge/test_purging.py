"""Purges: the requests to caches, the files of nginx, and the agent beside it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.forked import run
from tests.tiny import tiny_installation

from mastaba.api.catalogue import BoundingBox
from mastaba.api.services import LayerChange
from mastaba.api.tools import create_application
from mastaba_edge.agent import Agent
from mastaba_edge.nginx import forget
from mastaba_edge.purging import PurgeError, purge, purge_changes, read_secret

SECRET = "correct horse"
NAME = "b7f54b2df7773722d382f4809d65029c"


class Cache(ThreadingHTTPServer):
    """Answers PURGE with a status, and remembers what it was told."""

    def __init__(self) -> None:
        self.status = 200
        self.told: list[tuple[str | None, list[str]]] = []
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class Handler(BaseHTTPRequestHandler):
    server: Cache

    def do_PURGE(self) -> None:
        keys = self.headers["Surrogate-Key"].split()
        assert len(self.headers["Surrogate-Key"]) < 8000
        self.server.told.append((self.headers["X-Purge-Secret"], keys))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def cache() -> Iterator[Cache]:
    with Cache() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def secret_file(tmp_path: Path) -> str:
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\n", "ascii")
    return str(path)


def test_many_keys_are_sent_in_parts(cache: Cache, secret_file: str) -> None:
    keys = [f"slab-A/14/{number}/7" for number in range(2000)]
    purge({"caches": [cache.url], "secret_file": secret_file}, keys)
    assert [key for _, part in cache.told for key in part] == keys
    assert {secret for secret, _ in cache.told} == {SECRET}
    assert len(cache.told) > 1


def test_an_updated_area_is_purged(cache: Cache, secret_file: str, tmp_path: Path) -> None:
    file = installation(tmp_path, caches=[cache.url], secret_file=secret_file, repeat_after=0)
    site = create_application(file).site
    # One metre in the tile 10/6 of level 4, whose side is 2504688 m.
    x, y = 20037508.34 * (10.5 / 8 - 1), 20037508.34 * (1 - 6.5 / 8)
    purge_changes(
        site,
        [
            LayerChange("RGB_JPG", "a", "b", BoundingBox(x, y, x + 1, y + 1)),
            LayerChange("RGB_PNG", "a", "b"),
            LayerChange("gone", "a", None),
        ],
    )
    ((_, keys),) = cache.told
    levels = site.catalogue.layers["RGB_JPG"].pyramid.levels
    slabs = [key for key in keys if key.startswith("slab-")]
    assert len(slabs) == len({key.split("/")[1] for key in slabs}) == len(levels)
    assert set(keys) - set(slabs) == {"documents", "drawn-RGB_JPG", "layer-RGB_PNG", "layer-gone"}


def test_a_cache_that_fails_does_not_keep_others_from_purging(cache: Cache) -> None:
    gone = "http://127.0.0.1:1/"
    with pytest.raises(PurgeError, match=gone):
        purge({"caches": [gone, cache.url]}, ["layer-A"])
    assert cache.told == [("", ["layer-A"])]


def test_a_refusal_is_an_error(cache: Cache) -> None:
    cache.status = 403
    with pytest.raises(PurgeError, match="403 Forbidden"):
        purge({"caches": [cache.url]}, ["layer-A"])


@pytest.mark.parametrize("content", ["", "\n", "two\nlines", "é"])
def test_an_unusable_secret_is_reported(content: str, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(content, "utf-8")
    with pytest.raises(PurgeError):
        read_secret(str(path))
    with pytest.raises(PurgeError, match="cannot be read"):
        read_secret(str(tmp_path / "none"))


# ---------------------------------------------------------------- the files of nginx


def cached(folder: Path, keys: str, name: str = NAME, key: str = "/a", body: bytes = b"") -> Path:
    """Write a file as nginx does for FastCGI."""
    path = folder / name[-1] / name[-3:-1] / name
    path.parent.mkdir(parents=True, exist_ok=True)
    head = f"Status: 200 OK\r\nContent-Type: x\r\n{keys}ETag: x\r\n\r\n".encode()
    record = b"\x01\x06\0\x01\x10\0\0\0"
    path.write_bytes(bytes(range(256)) + f"\nKEY: {key}\n".encode() + record + head + body)
    return path


@pytest.mark.parametrize(
    ("keys", "is_removed"),
    [
        ("Surrogate-Key: layer-A gen-1\r\n", True),
        ("surrogate-key:slab-A/4/1/2  layer-A\r\n", True),
        ("Surrogate-Key: layer-AB gen-1\r\n", False),
        ("X-Surrogate-Key: layer-A\r\n", False),
        ("", False),
    ],
)
def test_files_with_a_key_are_removed(keys: str, is_removed: bool, tmp_path: Path) -> None:
    path = cached(tmp_path, keys, body=b"\r\nSurrogate-Key: layer-A\r\n\r\n")
    assert forget(str(tmp_path), ["layer-A", "layer-C"]) == is_removed
    assert path.exists() is not is_removed


def test_a_long_header_is_read_whole(tmp_path: Path) -> None:
    path = cached(tmp_path, f"X: {'x' * 9000}\r\nSurrogate-Key: layer-A\r\n")
    assert forget(str(tmp_path), ["layer-A"]) == 1
    assert not path.exists()


def test_an_address_is_no_key(tmp_path: Path) -> None:
    path = cached(tmp_path, "", key="/a?Surrogate-Key: layer-A")
    assert forget(str(tmp_path), ["layer-A"]) == 0
    assert path.exists()


def test_other_files_stay(tmp_path: Path) -> None:
    unfinished = cached(tmp_path, "Surrogate-Key: layer-A\r\n", name=f"{NAME}.0000000001")
    empty = tmp_path / ("a" * 32)
    empty.touch()
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    assert forget(str(tmp_path), ["layer-A"]) == 0
    assert unfinished.exists()
    assert empty.exists()


# ---------------------------------------------------------------- the agent


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    (tmp_path / "cache").mkdir()
    with Agent("127.0.0.1", 0, str(tmp_path / "cache"), SECRET) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(agent: Agent, method: str = "PURGE", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", agent.server_port, timeout=60)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, "/", headers=named)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text


def test_the_agent_removes_what_it_is_asked_to(agent: Agent) -> None:
    folder = Path(agent.folder)
    gone = cached(folder, "Surrogate-Key: layer-A\r\n")
    kept = cached(folder, "Surrogate-Key: layer-B\r\n", name="0" * 32)
    assert ask(agent, X_Purge_Secret=SECRET, Surrogate_Key="layer-A") == (200, "purged: 1\n")
    assert not gone.exists()
    assert kept.exists()


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (403, {"Surrogate_Key": "layer-A"}),
        (403, {"Surrogate_Key": "layer-A", "X_Purge_Secret": ""}),
        (403, {"Surrogate_Key": "layer-A", "X_Purge_Secret": SECRET + "x"}),
        (403, {"Surrogate_Key": "layer-A", "X_Purge_Secret": "é"}),
        (400, {"X_Purge_Secret": SECRET}),
        (400, {"X_Purge_Secret": SECRET, "Surrogate_Key": " "}),
    ],
)
def test_the_agent_refuses_others(agent: Agent, status: int, headers: dict[str, str]) -> None:
    path = cached(Path(agent.folder), "Surrogate-Key: layer-A\r\n")
    assert ask(agent, **headers)[0] == status
    assert path.exists()


def test_the_agent_has_no_other_method(agent: Agent) -> None:
    assert ask(agent, "GET", X_Purge_Secret=SECRET, Surrogate_Key="layer-A")[0] == 501


def test_a_missing_cache_is_an_error_without_its_path(agent: Agent) -> None:
    Path(agent.folder).rmdir()
    status, text = ask(agent, X_Purge_Secret=SECRET, Surrogate_Key="layer-A")
    assert (status, text) == (500, "the cache cannot be purged\n")


def test_it_listens_on_addresses_of_ipv6(tmp_path: Path) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("the machine has no IPv6")
    with Agent("::1", 0, str(tmp_path), SECRET) as agent:
        assert agent.server_address[0] == "::1"


# ---------------------------------------------------------------- commands


def installation(folder: Path, **settings: Any) -> str:
    server_json = tiny_installation(folder / "i", server_overrides={"plugins": {"edge": settings}})
    return str(server_json)


def test_a_layer_is_purged_by_hand(cache: Cache, secret_file: str, tmp_path: Path) -> None:
    file = installation(tmp_path, caches=[cache.url], secret_file=secret_file)
    done = run("purge", "RGB_JPG", "Été", "-f", file)
    assert (done.returncode, done.stderr) == (0, "")
    assert cache.told == [(SECRET, ["documents", "layer-RGB_JPG", "layer-%C3%89t%C3%A9"])]


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["RGB_JPG"], "$.plugins.edge.caches is missing"),
        (["none", "--bbox", "0", "0", "1", "1"], "there is no layer 'none'"),
        (["RGB_JPG", "--bbox", "3", "0", "1", "1"], "XMIN <= XMAX"),
        (["RGB_JPG", "--bbox", "0", "3", "1", "1"], "YMIN <= YMAX"),
        (["RGB_JPG", "--bbox", "nan", "0", "1", "1"], "--bbox requires numbers"),
        (["RGB_JPG", "--bbox", "0", "0", "inf", "1"], "--bbox requires numbers"),
        (["RGB_JPG", "--bbox", "0", "0", "1e308", "1"], "--bbox requires numbers"),
        (["RGB_JPG", "-f", "none.json"], "none.json"),
    ],
)
def test_errors_of_the_command_are_reported(
    arguments: list[str], words: str, tmp_path: Path
) -> None:
    caches = {"caches": ["http://127.0.0.1:1/"]} if "--bbox" in arguments else {}
    file = installation(tmp_path, **caches)
    done = run("purge", "-f", file, *arguments)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "listen", ["6082", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:x", "::1:6082"]
)
def test_an_invalid_address_is_reported(listen: str, secret_file: str, tmp_path: Path) -> None:
    arguments = ["--cache", str(tmp_path), "--secret-file", secret_file, "--listen", listen]
    done = run("purge-agent", *arguments)
    assert done.returncode == 1
    assert "is not HOST:PORT" in done.stderr


def test_control_characters_in_messages_are_escaped(secret_file: str, tmp_path: Path) -> None:
    file = installation(tmp_path, caches=["http://127.0.0.1:1/"], secret_file=secret_file)
    absent = f"{file}\x1b]0;title\x07"
    done = run("purge", "-f", absent, "RGB_JPG")
    assert done.returncode == 1
    assert r"\x1b]0;title\x07" in done.stderr
    assert done.stderr.rstrip("\n").isprintable()


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("url", ["ftp://a/", "http://", "http://user@a/", "a", "http://a b/"])
def test_an_invalid_address_of_a_cache_is_reported(url: str, tmp_path: Path) -> None:
    done = run("check", "-f", installation(tmp_path, caches=[url]), "--format", "json")
    assert done.returncode != 0
    faults = json.loads(done.stdout)["faults"]
    assert any(fault["path"] == "$.plugins.edge.caches[0]" for fault in faults)
