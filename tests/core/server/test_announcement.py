"""Changed layers are reported to plugins, apart from requests, reloads and changes."""

from __future__ import annotations

import http.client
import json
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.forked import Mastaba
from tests.support.ports import free_port
from tests.tiny import tiny_installation

from mastaba.catalogue import Catalogue
from mastaba.model.bbox import BoundingBox
from mastaba.services.change import LayerChange, layer_changes
from mastaba.wsgi import create_application
from mastaba_server.processes.announcement import announce

PLUGIN = """
import json, os, time
from mastaba import hookimpl

@hookimpl
def generation_changed(site, changes):
    if os.path.exists({folder!r} + "/hang"):
        time.sleep(3600)
    with open({folder!r} + "/told", "a") as file:
        told = [[one.layer, one.before, one.after] for one in changes]
        file.write(json.dumps([os.getpid(), site.main_pid, told]) + chr(10))
    if os.path.exists({folder!r} + "/broken"):
        os.unlink({folder!r} + "/broken")
        raise OSError("the cache is down")
"""
# Nothing here is slow: a test that waits this long would wait for ever.
PATIENCE = 120.0


def test_only_those_that_fail_are_called_again(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[str] = []
    pauses: list[float] = []

    def failing() -> None:
        calls.append("failing")
        if calls.count("failing") < 3:
            raise OSError("down")

    announce({"one": lambda: calls.append("one"), "two": failing}, pauses.append)
    assert calls == ["one", "failing", "failing", "failing"]
    assert pauses == [1.0, 4.0]
    assert "the plugin 'two' fails in generation_changed: OSError: down; tried again in 4 s" in (
        caplog.text
    )


def test_one_that_always_fails_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    pauses: list[float] = []

    def failing() -> None:
        raise ValueError("never")

    announce({"two": failing}, pauses.append)
    assert len(pauses) == 5
    assert caplog.records[-1].levelno == logging.ERROR
    assert "caches may have outdated responses" in caplog.text


def test_changes_of_a_layer_are_found(tmp_path: Path) -> None:
    server_json = str(tiny_installation(tmp_path))
    before = create_application(server_json).site.catalogue
    assert layer_changes(before, create_application(server_json).site.catalogue) == []
    change(tmp_path, "RGB_JPG", title="Other")
    lines = (tmp_path / "layers.txt").read_text("utf-8").splitlines()
    kept = [line for line in lines if "VECTOR" not in line]
    (tmp_path / "layers.txt").write_text("\n".join(kept), "utf-8")
    after = create_application(server_json).site.catalogue
    expected = [
        LayerChange(
            "RGB_JPG", before.layers["RGB_JPG"].generation, after.layers["RGB_JPG"].generation
        ),
        LayerChange("VECTOR", before.layers["VECTOR"].generation, None),
    ]
    assert layer_changes(before, after) == expected
    assert [one.before for one in layer_changes(after, before)][-1] is None


def test_a_changed_slab_is_not_a_changed_layer_but_a_descriptor_is(tmp_path: Path) -> None:
    server_json = str(tiny_installation(tmp_path))
    before = create_application(server_json).site.catalogue
    path = tmp_path / "pyramids" / "RGB_JPG.json"
    document = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({**document, "version": "2"}), "utf-8")
    after = create_application(server_json).site.catalogue
    assert [one.layer for one in layer_changes(before, after)] == ["RGB_JPG"]


def test_layers_of_changed_virtual_services_are_found(tmp_path: Path) -> None:
    """Caches have them under the addresses of the virtual service, also where it was missing."""

    def catalogue(**virtual: dict[str, Any]) -> Catalogue:
        overrides = {"virtual": virtual} if virtual else {}
        path = tiny_installation(tmp_path, services_overrides=overrides)
        return create_application(str(path)).site.catalogue

    def names(old: Catalogue, new: Catalogue) -> list[str]:
        changes = layer_changes(old, new)
        assert all(one.before == one.after and one.bbox is None for one in changes)
        return [one.layer for one in changes]

    section = {"layers": ["RGB_*"], "title": "Partner", "services": {"wmts": {}}}
    colours = ["RGB_JPG", "RGB_PNG", "RGB_RAW"]
    without, with_one = catalogue(), catalogue(partner=section)
    assert names(with_one, catalogue(partner=section)) == []
    assert names(without, with_one) == names(with_one, without) == colours
    other = catalogue(partner={**section, "title": "Other"})
    assert names(with_one, other) == colours
    grey = catalogue(partner={**section, "layers": ["GREY_PNG"]})
    assert names(with_one, grey) == ["GREY_PNG", *colours]
    assert names(with_one, catalogue(partner=section, more={**section, "layers": ["VECTOR"]})) == [
        "VECTOR"
    ]


BOX = BoundingBox(1.0, 2.0, 3.0, 4.0)


def updated(folder: Path, **values: object) -> LayerChange:
    """Return the change of a layer after an update of its pyramid, and of the layer if wanted."""
    server_json = str(tiny_installation(folder))
    before = create_application(server_json).site.catalogue
    path = folder / "pyramids" / "RGB_JPG.json"
    document = json.loads(path.read_text("utf-8"))
    since = values.pop("since", before.layers["RGB_JPG"].pyramid.generation)
    limits = document["levels"][0]["tile_limits"]
    limits["max_row"] += 1
    update = {"since": since, "bbox": [1, 2, 3, 4]}
    path.write_text(json.dumps({**document, "update": update}), "utf-8")
    change(folder, "RGB_JPG", **values)
    (found,) = layer_changes(before, create_application(server_json).site.catalogue)
    assert found.before != found.after
    return found


def test_the_area_of_an_update_is_reported(tmp_path: Path) -> None:
    assert updated(tmp_path).bbox == BOX


def test_an_update_since_another_version_may_concern_everything(tmp_path: Path) -> None:
    assert updated(tmp_path, since="0123456789ab").bbox is None


def test_an_update_with_a_changed_layer_may_concern_everything(tmp_path: Path) -> None:
    assert updated(tmp_path, resampling={"interpolation": "nn"}).bbox is None


def test_an_update_with_other_levels_may_concern_everything(tmp_path: Path) -> None:
    server_json = str(tiny_installation(tmp_path))
    before = create_application(server_json).site.catalogue
    path = tmp_path / "pyramids" / "RGB_JPG.json"
    document = json.loads(path.read_text("utf-8"))
    del document["levels"][-1]
    since = before.layers["RGB_JPG"].pyramid.generation
    path.write_text(json.dumps({**document, "update": {"since": since, "bbox": [1, 2, 3, 4]}}))
    ends = [document["levels"][place]["id"] for place in (0, -1)]
    part = {"path": str(path), "top_level": ends[0], "bottom_level": ends[1]}
    change(tmp_path, "RGB_JPG", pyramids=[part])
    (found,) = layer_changes(before, create_application(server_json).site.catalogue)
    assert found.bbox is None


def test_an_update_of_one_of_several_pyramids_may_concern_everything(tmp_path: Path) -> None:
    server_json = str(tiny_installation(tmp_path))
    (level, *_, bottom) = json.loads((tmp_path / "pyramids" / "RGB_JPG.json").read_text("utf-8"))[
        "levels"
    ]
    pyramid = {"path": str(tmp_path / "pyramids" / "RGB_JPG.json")}
    parts = [
        {**pyramid, "top_level": one["id"], "bottom_level": one["id"]} for one in (level, bottom)
    ]
    change(tmp_path, "RGB_JPG", pyramids=parts)
    before = create_application(server_json).site.catalogue
    path = tmp_path / "pyramids" / "RGB_JPG.json"
    document = json.loads(path.read_text("utf-8"))
    since = before.layers["RGB_JPG"].pyramid.generation
    path.write_text(json.dumps({**document, "update": {"since": since, "bbox": [1, 2, 3, 4]}}))
    (found,) = layer_changes(before, create_application(server_json).site.catalogue)
    assert found.bbox is None


def change(folder: Path, layer: str, **values: object) -> None:
    path = folder / "layers" / f"{layer}.json"
    document = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({**document, **values}), "utf-8")


class Server:
    """A server with a plugin that writes down what it is told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "i"
        (folder / "plugins").mkdir()
        (folder / "plugins" / "listener.py").write_text(PLUGIN.format(folder=str(folder)), "utf-8")
        server_json = tiny_installation(
            self.folder, services=["health"], services_overrides={"admin": ADMIN}
        )
        document = json.loads(server_json.read_text("utf-8"))
        self.port = free_port()
        del document["logger"]
        document.update(workers=2)
        server_json.write_text(json.dumps(document), "utf-8")
        self.log, self.told = folder / "log", folder / "told"
        with self.log.open("wb") as stream:
            self.process = Mastaba(
                *("-f", str(server_json), "--http", f"127.0.0.1:{self.port}"),
                stderr=stream,
                variables={"MASTABA_PLUGINS_DIR": str(folder / "plugins")},
            )
        self.wait_for(lambda: "serves" in self.log.read_text("utf-8"))

    def wait_for(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, self.log.read_text("utf-8")
            time.sleep(0.02)

    def heard(self, count: int) -> list[Any]:
        """Wait until the plugin was told so often; return what."""
        self.wait_for(lambda: len(self._lines()) >= count)
        return [json.loads(line) for line in self._lines()]

    def _lines(self) -> list[str]:
        return self.told.read_text("utf-8").splitlines() if self.told.exists() else []

    def reload(self) -> None:
        before = self.log.read_text("utf-8").count("reload complete")
        os.kill(self.process.pid, signal.SIGHUP)
        self.wait_for(lambda: self.log.read_text("utf-8").count("reload complete") > before)

    def ask(self, method: str, path: str, body: bytes | None = None) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request(method, path, body, {"X-Mastaba-Secret": ADMIN["secret"]})
        response = connection.getresponse()
        response.read()
        connection.close()
        return response.status


ADMIN: dict[str, Any] = {"enabled": True, "secret": "swordfish"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    one = Server(tmp_path)
    yield one
    if one.process.poll() is None:
        one.process.terminate()
    one.process.wait(PATIENCE)


def test_a_reload_is_reported_once_by_a_process_of_its_own(server: Server) -> None:
    server.reload()
    change(server.folder, "RGB_JPG", title="Other")
    server.reload()
    ((pid, main_pid, told),) = server.heard(1)
    assert [layer for layer, _, _ in told] == ["RGB_JPG"]
    assert told[0][1] != told[0][2]
    assert main_pid == server.process.pid
    assert pid != main_pid


@pytest.mark.thorough
def test_a_change_by_an_administrator_is_reported(server: Server) -> None:
    document = json.loads((server.folder / "layers" / "RGB_JPG.json").read_text("utf-8"))
    body = json.dumps({**document, "title": "Other"}).encode()
    assert server.ask("PUT", "/admin/layers/RGB_JPG", body) == 204
    assert server.ask("DELETE", "/admin/layers/VECTOR") == 204
    told = sorted(entry[2][0][0] for entry in server.heard(2))
    assert told == ["RGB_JPG", "VECTOR"]


@pytest.mark.thorough
def test_a_failure_is_reported_and_tried_again(server: Server) -> None:
    (server.folder.parent / "broken").touch()
    change(server.folder, "RGB_JPG", title="Other")
    server.reload()
    first, second = server.heard(2)
    assert first == second
    assert "OSError: the cache is down; tried again in 1 s" in server.log.read_text("utf-8")


@pytest.mark.thorough
def test_a_plugin_that_hangs_delays_nothing(server: Server) -> None:
    (server.folder.parent / "hang").touch()
    for number in range(3):
        change(server.folder, "RGB_JPG", title=f"Title {number}")
        server.reload()
        assert server.ask("GET", "/healthcheck") == 200
    # Those that hang end with the server.
    server.process.terminate()
    assert server.process.wait(PATIENCE) == 0
