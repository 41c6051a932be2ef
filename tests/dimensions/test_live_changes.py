"""Variants that change while workers serve them."""

from __future__ import annotations

import io
import json
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.admin.conftest import SECRET, Server, ask
from tests.dimensions.conftest import YEARS, document_of, replaced, with_stack, with_template
from tests.series import colour_of, rewrite_layer, write_value
from tests.sizes import sized

ADMIN = {"enabled": True, "secret": SECRET}
OPTIONS: dict[str, Any] = {
    "services": ("health", "wmts"),
    "services_overrides": {"admin": ADMIN},
}
READERS = sized(16, 50)
REPLACED, CHANGED = sized(6, 200), sized(3, 6)
"""Times that a variant is replaced before it was opened, and while it is read."""
TILE = (
    "/wmts?SERVICE=WMTS&REQUEST=GetTile&VERSION=1.0.0&LAYER=ORTHO&STYLE=normal&FORMAT=image/png"
    "&TILEMATRIXSET=PM&TILEMATRIX=2&TILEROW=1&TILECOL=2&TIME="
)

Colour = tuple[int, int, int]


def tile(connection: Any, year: str) -> tuple[int, Colour | None]:
    """Return the status and the colour of a stored tile."""
    connection.request("GET", TILE + year)
    response = connection.getresponse()
    body = response.read()
    if response.status != 200:
        return response.status, None
    ((red, _), (green, _), (blue, _)) = Image.open(io.BytesIO(body)).getextrema()
    return 200, (red, green, blue)


class Template:
    """Variants in files whose names have their values."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.server_json = with_template(folder, **OPTIONS)

    def write(self, year: str, colour: Colour) -> None:
        """Write or replace the pyramid of a year."""
        replaced(self._folder, year, colour)

    def remove(self, year: str) -> None:
        """Remove the pyramid of a year."""
        (self._folder / f"pyramids/ortho_{year}.json").unlink()


class Stack:
    """Variants in a stack without generations, beside the pyramids."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows = {}
        for position, year in enumerate(YEARS):
            path = write_value(folder, f"ortho_{year}", colour_of(position))
            self._rows[year] = {"at": {"time": year}, "path": path.name}
        self.server_json = with_stack(folder, list(self._rows.values()), **OPTIONS)

    def write(self, year: str, colour: Colour) -> None:
        """Write or replace the pyramid of a year."""
        replaced(self._folder, year, colour)
        self._rows[year] = {"at": {"time": year}, "path": f"ortho_{year}.json"}
        self._save()

    def remove(self, year: str) -> None:
        """Remove the pyramid of a year."""
        del self._rows[year]
        self._save()
        (self._folder / f"pyramids/ortho_{year}.json").unlink()

    def _save(self) -> None:
        path = self._folder / "pyramids/ortho.stack.json"
        new = path.with_suffix(".new")
        new.write_text(json.dumps({"variants": list(self._rows.values())}))
        os.replace(new, path)


@contextmanager
def readers(server: Server, year: str) -> Iterator[list[tuple[int, Colour | None]]]:
    """Ask for tiles of a year while the block runs, and return the answers."""
    found: list[tuple[int, Colour | None]] = []
    done = threading.Event()

    def read() -> None:
        connection = server.connect()
        while not done.is_set():
            found.append(tile(connection, year))
            # The changes need the processors too.
            done.wait(0.05)
        connection.close()

    threads = [threading.Thread(target=read) for _ in range(READERS)]
    for thread in threads:
        thread.start()
    try:
        yield found
    finally:
        done.set()
        for thread in threads:
            thread.join()


def refresh(server: Server) -> None:
    answer = ask(server.connect(), "POST", "/admin/layers/ORTHO/refresh")
    assert answer.status == 204


@pytest.fixture(params=[Template, Stack], ids=["template", "stack"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return request.param(tmp_path)


@pytest.fixture
def serve(source: Any) -> Iterator[Callable[[], Server]]:
    started: list[Server] = []

    def start() -> Server:
        started.append(Server(source.server_json, 2))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_all_workers_serve_a_variant_replaced_before_it_was_opened(
    source: Any, serve: Callable[[], Server]
) -> None:
    for number in range(REPLACED):
        source.write(f"2{number:03}", (9, 9, number))
    server = serve()
    workers = list(server.connect_to_all().values())
    others = [server.connect() for _ in range(READERS)]
    for number in range(REPLACED):
        year, colour = f"2{number:03}", (200, number, 10)
        source.write(year, colour)
        # Requests meet at the variant that nobody has opened.
        connections = [*workers, *others]
        with ThreadPoolExecutor(len(connections)) as pool:
            answers = list(pool.map(partial(tile, year=year), connections))
        assert set(answers) == {(200, colour)}


@pytest.mark.thorough
def test_a_layer_that_is_watched_shows_new_values_in_all_workers(
    source: Any, serve: Callable[[], Server], tmp_path: Path
) -> None:
    document = document_of(tmp_path)
    document["variants"]["watch"] = 1
    rewrite_layer(tmp_path, "ORTHO", document)
    server = serve()
    workers = list(server.connect_to_all().values())
    assert {tile(one, "1960")[0] for one in workers} == {400}
    with readers(server, YEARS[0]) as others:
        source.write("1960", (9, 9, 9))
        server.wait_until(lambda: {tile(one, "1960")[0] for one in workers} == {200})
    assert set(others) == {(200, colour_of(0))}
    # Also after the worker that looks has been replaced.
    server.reload()
    source.write("1961", (8, 8, 8))
    server.wait_until(lambda: tile(server.connect(), "1961")[0] == 200)


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_values_are_added_replaced_and_removed_while_they_are_read(
    source: Any, serve: Callable[[], Server]
) -> None:
    server = serve()
    workers = list(server.connect_to_all().values())
    for number in range(CHANGED):
        with readers(server, YEARS[0]) as others:
            year, colour = f"19{number:02}", (number, 50, 60)
            assert {tile(one, year)[0] for one in workers} == {400}
            source.write(year, colour)
            refresh(server)
            assert {tile(one, year) for one in workers} == {(200, colour)}
            newer = (number, 70, 80)
            with readers(server, year) as answers:
                source.write(year, newer)
                refresh(server)
                # Whoever asks from now on gets the new one.
                assert {tile(one, year) for one in workers} == {(200, newer)}
            assert set(answers) <= {(200, colour), (200, newer)}
            source.remove(year)
            refresh(server)
            assert {tile(one, year)[0] for one in workers} == {400}
        assert set(others) == {(200, colour_of(0))}
