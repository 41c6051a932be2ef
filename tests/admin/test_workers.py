"""A change through one worker reaches all of them before the response is sent."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.sizes import only_full

Ask = Callable[..., Any]


@contextmanager
def load(server: Any, ask: Ask) -> Iterator[list[int]]:
    """Keep asking for the list of layers and for tiles while the block runs."""
    statuses: list[int] = []
    done = threading.Event()

    def work(path: str) -> None:
        connection = server.connect()
        while not done.is_set():
            statuses.append(ask(connection, "GET", path).status)
            # Changes would mostly wait for a processor.
            done.wait(0.005)
        connection.close()

    paths = (
        "/tms/1.0.0",
        "/tms/1.0.0/RGB_JPG/4/9/5.jpeg",
        "/wmts?SERVICE=WMTS&REQUEST=GetCapabilities",
    )
    threads = [threading.Thread(target=work, args=(path,)) for path in paths]
    for thread in threads:
        thread.start()
    try:
        yield statuses
    finally:
        done.set()
        for thread in threads:
            thread.join()


def test_all_workers_serve_a_replaced_slab_as_soon_as_told(start: Any, ask: Ask) -> None:
    server = start()
    pyramids = server.folder / "pyramids"
    folder = pyramids / "RGB_PNG"
    shared = folder.resolve()
    folder.unlink()
    shutil.copytree(shared, folder)
    server.reload()
    workers = server.connect_to_all().values()
    path = "/tms/1.0.0/RGB_PNG/3/4/2.png"
    before = {ask(worker, "GET", path).text for worker in workers}
    expected = ask(next(iter(workers)), "GET", path.replace("RGB_", "RGBA_")).text
    for slab in [item for item in folder.rglob("*") if item.is_file()]:
        other = pyramids / "RGBA_PNG" / slab.relative_to(folder)
        new = slab.with_suffix(".new")
        shutil.copyfile(other, new)
        new.replace(slab)
    # Until the cached index expires.
    assert {ask(worker, "GET", path).text for worker in workers} == before
    for worker in workers:
        assert ask(worker, "DELETE", "/admin/indices").status == 204
        break
    assert {ask(worker, "GET", path).text for worker in workers} == {expected}
    assert {expected} != before


@pytest.mark.parametrize("count", [pytest.param(8, marks=pytest.mark.thorough), *only_full(60)])
def test_layers_through_four_workers_while_requests_run(
    start: Any, ask: Ask, descriptor: dict[str, Any], count: int
) -> None:
    server = start()
    workers = server.connect_to_all()
    connections = list(workers.values())
    revision = 0

    def change(number: int, method: str, path: str, title: str | None = None) -> None:
        nonlocal revision
        body = None if title is None else json.dumps({**descriptor, "title": title}).encode()
        answer = ask(connections[number % len(connections)], method, path, body)
        assert (answer.status, answer.text) == (204, "")
        revision += 1
        for pid, connection in workers.items():
            seen = ask(connection, "GET", "/tms/1.0.0")
            assert seen.getheader("X-Mastaba-Worker") == str(pid)
            assert seen.getheader("X-Mastaba-Generation") == f"1.{revision}"
            yielded.append(seen.text)
        assert len(set(yielded[-len(workers) :])) == 1

    yielded: list[str] = []
    with load(server, ask) as statuses:
        for number in range(count):
            path = f"/admin/layers/layer-{number}"
            change(number, "POST", path, f"Created {number}")
            assert f"Created {number}" in yielded[-1]
            change(number + 1, "PUT", path, f"Replaced {number}")
            assert f"Replaced {number}" in yielded[-1]
            assert f"Created {number}" not in yielded[-1]
            change(number + 2, "DELETE", path)
            assert f"layer-{number}" not in yielded[-1]
    assert statuses
    assert set(statuses) == {200}
    # The last process that reports changes exits by itself.
    server.wait_until(lambda: server.children() == set(workers))


@pytest.mark.thorough
def test_concurrent_changes_through_all_workers(
    start: Any, ask: Ask, descriptor: dict[str, Any]
) -> None:
    server = start()
    workers = server.connect_to_all()
    body = json.dumps(descriptor).encode()
    statuses: list[int] = []

    def work(pid: int) -> None:
        for number in range(8):
            connection = workers[pid]
            statuses.append(ask(connection, "POST", f"/admin/layers/{pid}-{number}", body).status)
            # All of them want the same one: it exists for all but the first.
            statuses.append(ask(connection, "POST", f"/admin/layers/same-{number}", body).status)

    threads = [threading.Thread(target=work, args=(pid,)) for pid in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses.count(204) == 4 * 8 + 8
    assert statuses.count(409) == 3 * 8
    for connection in workers.values():
        assert json.loads(ask(connection, "GET", "/admin").text)["layers"] == 9 + 4 * 8 + 8


@pytest.mark.thorough
def test_a_worker_started_later_has_the_changes(
    start: Any, ask: Ask, descriptor: dict[str, Any]
) -> None:
    server = start()
    workers = server.connect_to_all()
    for number, connection in enumerate(workers.values()):
        body = json.dumps(descriptor).encode()
        assert ask(connection, "POST", f"/admin/layers/new-{number}", body).status == 204
    assert ask(connection, "PUT", "/admin/off").status == 204
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    server.wait_until(lambda: len(server.children()) == 4 and not server.children() & set(workers))
    for connection in server.connect_to_all().values():
        answer = ask(connection, "GET", "/admin")
        assert json.loads(answer.text)["layers"] == 9 + 4
        assert json.loads(answer.text)["enabled"] is False
        assert answer.getheader("X-Mastaba-Generation") == "1.5"


@pytest.mark.thorough
def test_a_reload_goes_back_to_the_files_and_to_what_is_kept(
    start: Any, ask: Ask, descriptor: dict[str, Any], tmp_path: Path
) -> None:
    server = start({"persist": str(tmp_path / "kept")})
    connection = server.connect()
    assert ask(connection, "POST", "/admin/layers/new", json.dumps(descriptor).encode()).status
    assert ask(connection, "DELETE", "/admin/layers/RGB_PNG").status == 204
    assert ask(connection, "PUT", "/admin/off").status == 204
    server.reload()
    for connection in server.connect_to_all().values():
        answer = ask(connection, "GET", "/tms/1.0.0")
        assert answer.status == 200
        assert answer.getheader("X-Mastaba-Generation") == "2.0"
        assert "RGB_PNG" in answer.text
        assert "/new" in answer.text


@pytest.mark.thorough
def test_changes_go_on_while_workers_die_and_reloads_run(
    start: Any, ask: Ask, descriptor: dict[str, Any], tmp_path: Path
) -> None:
    server = start({"persist": str(tmp_path / "kept")})
    body = json.dumps(descriptor).encode()
    names = []
    for number in range(15):
        if number % 3 == 0:
            os.kill(sorted(server.children())[0], signal.SIGKILL)
        if number % 5 == 0:
            os.kill(server.process.pid, signal.SIGHUP)
        while True:
            try:
                answer = ask(server.connect(), "POST", f"/admin/layers/new-{number}", body)
            except OSError:
                continue  # the worker was the one that died: whether it was made is not known
            assert answer.status in (204, 409)
            break
        names.append(f"new-{number}")
    while True:
        try:
            answers = [
                ask(connection, "GET", "/healthcheck/info")
                for connection in server.connect_to_all().values()
            ]
            break
        except OSError:
            continue  # a worker that a reload retires
    for answer in answers:
        assert set(names) <= set(json.loads(answer.text)["layers"])


def test_the_secret_is_not_written_anywhere(start: Any, ask: Ask, capfd: Any) -> None:
    server = start()
    answer = ask(server.connect(), "PUT", "/admin/nowhere")
    assert answer.status == 404
    server.process.terminate()
    server.process.wait()
    written = "".join(capfd.readouterr()) + answer.text
    assert "swordfish" not in written


def test_a_reload_can_be_requested(start: Any, ask: Ask) -> None:
    server = start()
    before = server.children()
    answer = ask(server.connect(), "PUT", "/admin/reload")
    assert (answer.status, answer.text) == (202, "")
    server.wait_until(lambda: len(server.children()) == 4 and not server.children() & before)
    for connection in server.connect_to_all().values():
        assert ask(connection, "GET", "/admin").getheader("X-Mastaba-Generation") == "2.0"
