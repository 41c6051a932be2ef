"""A server as a service manager runs it: its log, and reloads by SIGHUP."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.documents.test_reading import BY_ALIASES, MOST_MEMORY
from tests.forked import Mastaba
from tests.tiny import tiny_installation

from mastaba_doctor.answer import Answer
from mastaba_doctor.fastcgi import connect, get

# Nothing here is slow: a test that waits this long would wait for ever.
_PATIENCE = 120.0


class Server:
    """A server on a Unix socket, with the default log."""

    def __init__(
        self, folder: Path, *services: str, options: Sequence[str] = (), **settings: object
    ) -> None:
        self.folder = folder / "i"
        overrides = {name: {"enabled": True} for name in services}
        self.server_json = tiny_installation(
            self.folder, services=["health"], services_overrides=overrides
        )
        self.layers = self.folder / "layers"
        self.port = str(folder / "s")
        document = json.loads(self.server_json.read_text("utf-8"))
        del document["logger"]
        document.update(port=self.port, workers=1, **settings)
        self.server_json.write_text(json.dumps(document), "utf-8")
        self.log = folder / "stderr"
        with self.log.open("wb") as stream:
            self.process = Mastaba(*options, "-f", str(self.server_json), stderr=stream)
        self.await_line("serves 9 layers")

    def await_line(self, words: str, times: int = 1) -> None:
        deadline = time.monotonic() + _PATIENCE
        while self.log.read_text("utf-8").count(words) < times:
            assert time.monotonic() < deadline, self.log.read_text("utf-8")
            assert self.process.poll() is None, self.log.read_text("utf-8")
            time.sleep(0.02)

    def reload(self, words: str, times: int = 1) -> None:
        os.kill(self.process.pid, signal.SIGHUP)
        self.await_line(words, times)

    def ask(self, path: str) -> Answer:
        with connect(self.port, _PATIENCE) as sock:
            return get(sock, path)

    def info(self) -> Any:
        return json.loads(self.ask("/healthcheck/info").body)

    def await_info(self, layers: int, outdated: list[str]) -> None:
        """Wait until all workers of the previous configuration have gone."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            info = self.info()
            if (len(info["layers"]), info["outdated_layers"]) == (layers, outdated):
                assert info["missing_layers"] == []
                return
            assert time.monotonic() < deadline, info
            time.sleep(0.02)

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(_PATIENCE)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    yield server
    server.stop()


def test_a_worker_is_replaced_after_its_number_of_requests(tmp_path: Path) -> None:
    server = Server(tmp_path, "tms", worker_requests=4)

    def asks(path: str) -> None:
        assert server.ask(path).status == 200

    asks("/tms/1.0.0/RGB_JPG/3/4/2.jpg")
    asks("/healthcheck")
    assert "is replaced" not in server.log.read_text("utf-8")
    asks("/tms/1.0.0/RGB_JPG/3/4/2.jpg")
    asks("/healthcheck")
    server.await_line("is replaced: it has served its number of requests")
    asks("/healthcheck")
    assert server.stop() == 0
    assert server.log.read_text("utf-8").count("is replaced") == 1


def test_a_reload_keeps_a_layer_whose_new_descriptor_is_invalid(server: Server) -> None:
    descriptor = server.layers / "RGB_JPG.json"
    whole = descriptor.read_text("utf-8")
    pyramid = server.folder / "pyramids" / "RGB_PNG.json"
    descriptor.write_text("{", "utf-8")
    pyramid.unlink()
    server.reload("reload complete")
    server.await_line("layers with errors, which stay as they were: RGB_JPG, RGB_PNG")
    server.await_info(9, ["RGB_JPG", "RGB_PNG"])
    ready = server.ask("/healthcheck/ready")
    assert ready.status == 200
    reason = "layers kept as they were, because of errors in their files: RGB_JPG, RGB_PNG"
    assert json.loads(ready.body)["reasons"] == [reason]
    # Also over one more reload, and until the file is whole again.
    descriptor.write_text(whole.replace('"title": "', '"title": "New '), "utf-8")
    server.reload("reload complete", 2)
    server.await_info(9, ["RGB_PNG"])
    (server.folder / "layers.txt").write_text(f"{descriptor}\n", "utf-8")
    server.reload("reload complete", 3)
    server.await_info(1, [])
    assert json.loads(server.ask("/healthcheck/ready").body)["status"] == "OK"


@pytest.mark.thorough
def test_a_reload_with_layers_whose_aliases_would_fill_the_memory(server: Server) -> None:
    layers = (server.folder / "layers.txt").read_text("utf-8")
    before = largest_memory(server.process.pid)
    for number, text in enumerate(BY_ALIASES.values(), 1):
        (server.layers / "RGB_JPG.yaml").write_text(text, "utf-8")
        listed = layers.replace("RGB_JPG.json", "RGB_JPG.yaml")
        assert listed != layers
        (server.folder / "layers.txt").write_text(listed, "utf-8")
        server.reload("reload complete", number)
        assert server.log.read_text("utf-8").count("by its aliases") == number
        server.await_info(9, ["RGB_JPG"])
    assert largest_memory(server.process.pid) - before < 2 * MOST_MEMORY


def largest_memory(pid: int) -> int:
    """Return the most memory that a process has had, bytes."""
    found = re.search(r"^VmHWM:\s+([0-9]+) kB", Path(f"/proc/{pid}/status").read_text(), re.M)
    assert found
    return int(found[1]) * 1024


def test_a_refused_reload_shows_errors_and_no_traceback(server: Server) -> None:
    (server.folder / "services.json").write_text("{", "utf-8")
    server.reload("reload failed")
    log = server.log.read_text("utf-8")
    assert "services.json: $: is not valid JSON" in log
    assert log.count("is not valid JSON") == 1
    assert "Traceback" not in log
    assert len(server.info()["layers"]) == 9
    services = server.folder / "services.json"
    services.unlink()
    server.reload("reload failed", 2)
    ready = server.ask("/healthcheck/ready")
    assert ready.status == 200
    report = json.loads(ready.body)
    reason = "the last reload has failed: the configuration before it stays in use"
    assert (report["status"], report["reasons"]) == ("DEGRADED", [reason])
    assert f"named by configurations.services of {server.server_json}" in server.log.read_text()


def test_a_fifo_is_refused_and_does_not_block(server: Server) -> None:
    for number, name in enumerate(("server.json", "services.json", "layers.txt"), 1):
        path = server.folder / name
        moved = path.rename(server.folder / "moved")
        os.mkfifo(path)
        server.reload("reload failed", number)
        path.unlink()
        moved.rename(path)
    assert server.log.read_text("utf-8").count("is not a regular file") == 3


def test_the_default_log_has_a_line_for_start_request_and_stop(server: Server) -> None:
    server.ask("/healthcheck")
    server.await_line(" GET /healthcheck 200 ")
    assert server.stop() == 0
    lines = server.log.read_text("utf-8").splitlines()
    columns = [line.split("\t") for line in lines]
    assert all(re.fullmatch(r"[-\dT:.]+[+-]\d\d:\d\d", column[0]) for column in columns)
    texts = [column[4] for column in columns]
    assert re.fullmatch(r"mastaba \S+ serves 9 layers on FastCGI on \S+ \(.*\)", texts[0])
    assert re.fullmatch(r"\S+ GET /healthcheck 200 \d+ 0\.\d{6} -", texts[1])
    assert texts[2:] == ["stopping: running requests are finished", "stopped"]


def test_an_invalid_layer_is_left_out_at_the_start(tmp_path: Path) -> None:
    installation = tiny_installation(tmp_path / "i", services=["health"])
    (tmp_path / "i" / "layers" / "RGB_JPG.json").write_text("{", "utf-8")
    from mastaba.wsgi import create_application

    catalogue = create_application(str(installation)).site.catalogue
    assert catalogue.missing_layers == {"RGB_JPG"}
    assert len(catalogue.layers) == 8
    catalogue.storages.close()


NOTING = """
import os

from mastaba import hookimpl
from mastaba.services.base import Service
from mastaba_server.web.response import message


class Noting(Service):
    name = "noting"
    title = "Noting"

    def after_fork(self):
        self._note("open")

    def close(self):
        self._note("close")

    def respond(self, request):
        return message(200, str(os.getpid()), "text/plain")

    def error_response(self, error, request):
        return message(500, "error", "text/plain")

    def _note(self, word):
        with open({file!r}, "a") as stream:
            stream.write(f"{{word}} {{os.getpid()}}\\n")


@hookimpl
def register_services():
    return [Noting]
"""


@pytest.mark.thorough
def test_services_are_opened_and_closed_in_each_worker(tmp_path: Path) -> None:
    notes, directory = tmp_path / "notes", tmp_path / "plugins"
    directory.mkdir()
    (directory / "noting.py").write_text(NOTING.format(file=str(notes)))
    server = Server(tmp_path, "noting", options=["--plugins", str(directory)])
    try:
        first = server.ask("/noting").body.decode()
        assert notes.read_text().split("\n")[0] == f"open {first}"
        server.reload("reload complete")
        deadline = time.monotonic() + _PATIENCE
        while f"close {first}" not in notes.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        second = server.ask("/noting").body.decode()
    finally:
        server.stop()
    assert str(server.process.pid) not in (first, second)
    assert sorted(notes.read_text().splitlines()) == sorted(
        f"{word} {pid}" for word in ("open", "close") for pid in (first, second)
    )
