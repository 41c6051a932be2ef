"""Files and tables that are replaced while they are read."""

from __future__ import annotations

import io
import logging
import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.container_cog.files import reader_of
from tests.container_cog.mosaic.ground import Sheet, X, Y, geojson, opened, sheets
from tests.container_cog.served import add_layer, client_of
from tests.sizes import sized
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.errors import StorageError


def flat(name: str, left: int, top: int, value: int, size: int = 200) -> Sheet:
    """Return a sheet of one value: a mix of versions is then obvious."""
    return Sheet(name, left, top, np.full((size, size, 3), value, np.uint8))


@pytest.mark.parametrize(
    ("readers", "requests"),
    [(4, 60), pytest.param(8, sized(500, 1500), marks=pytest.mark.thorough)],
)
def test_no_tile_mixes_versions_of_a_file(tmp_path: Path, readers: int, requests: int) -> None:
    """One file on four stored tiles of which each painted tile needs several."""
    versions = [tmp_path / f"version{number}" for number in (0, 1)]
    for number, folder in enumerate(versions):
        folder.mkdir()
        flat("a.tif", 0, 0, 50 + 100 * number).write(folder, COMPRESS="LZW", OVERVIEWS="NONE")
    # The other file moves the tiles of the set by half a tile.
    flat("0.tif", -64, 264, 7, 64).write(tmp_path, COMPRESS="LZW", OVERVIEWS="NONE")
    data = [(folder / "a.tif").read_bytes() for folder in versions]
    place = tmp_path / "a.tif"
    place.write_bytes(data[0])
    (tmp_path / "t.json").write_bytes(
        geojson([flat("0.tif", -64, 264, 0, 64), flat("a.tif", 0, 0, 0)])
    )
    found = opened(tmp_path / "t.json")
    reader = reader_of(found)
    limits = reader.level.limits
    stop = threading.Event()

    def replacing() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            (tmp_path / "new").write_bytes(data[turn % 2])
            (tmp_path / "new").rename(place)
            stop.wait(0.01)

    def reading(seed: int) -> list[Any]:
        chance, wrong = random.Random(seed), []
        for _ in range(requests):
            at = (
                chance.randint(limits.min_row, limits.max_row),
                chance.randint(limits.min_col, limits.max_col),
            )
            try:
                tile = reader.locate(*at)
                pixels = None if tile is None else reader.decoder.decode(tile.read())
            except StorageError:
                # So many replacements may exhaust the attempts.
                continue
            seen = {50, 150} & set(np.unique(pixels)) if pixels is not None else set()
            if len(seen) > 1:
                wrong.append((at, seen))
        return wrong

    with ThreadPoolExecutor(readers + 1) as pool:
        writer = pool.submit(replacing)
        try:
            assert [found for found in pool.map(reading, range(readers)) if found] == []
        finally:
            stop.set()
        writer.result()


@pytest.mark.thorough
def test_no_map_mixes_versions_of_a_file(tmp_path: Path) -> None:
    versions = [tmp_path / f"version{number}" for number in (0, 1)]
    for number, folder in enumerate(versions):
        folder.mkdir()
        sheet = flat("a.tif", 0, 0, 50 + 100 * number, 640)
        sheet.write(folder, COMPRESS="LZW", OVERVIEWS="NONE")
    data = [(folder / "a.tif").read_bytes() for folder in versions]
    place = tmp_path / "a.tif"
    place.write_bytes(data[0])
    (tmp_path / "t.json").write_bytes(geojson([flat("a.tif", 0, 0, 0, 640)]))
    server = tiny_installation(tmp_path / "site")
    # Decoded tiles are kept as long as a version counts as known.
    options = {"refresh": 1}
    entry = {"path": str(tmp_path / "t.json"), "container": "mosaic", "options": options}
    add_layer(tmp_path / "site", "MOSAIC", entry)
    application = client_of(server).application
    address = (
        "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&STYLES=&FORMAT=image/png&LAYERS=MOSAIC"
        f"&CRS=EPSG:32631&BBOX={X + 100},{Y - 6300},{X + 6300},{Y - 100}&WIDTH=620&HEIGHT=620"
    )
    stop = threading.Event()
    found: list[set[int]] = []

    def reading() -> None:
        client = Client(application)
        while not stop.is_set():
            answer = client.get(address)
            if answer.status_code == 200:
                with Image.open(io.BytesIO(answer.data)) as picture:
                    found.append(set(np.unique(np.asarray(picture))))

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(reading) for _ in range(4)]
        try:
            for turn in range(1, 1 + sized(12, 60)):
                (tmp_path / "new").write_bytes(data[turn % 2])
                (tmp_path / "new").rename(place)
                wanted = len(found) + 5
                while len(found) < wanted and not any(reader.done() for reader in readers):
                    stop.wait(0.01)
            # Each version is seen in the end, on a machine of any speed.
            for number in (1, 0):
                (tmp_path / "new").write_bytes(data[number])
                (tmp_path / "new").rename(place)
                assert later(lambda wanted=50 + 100 * number: found[-1] == {wanted})
        finally:
            stop.set()
        for reader in readers:
            reader.result()
    kinds = Counter(tuple(sorted(map(int, one))) for one in found)
    assert set(kinds) == {(50,), (150,)}, kinds


def later(condition: Any, seconds: float = 120.0) -> bool:
    """Return whether a condition is fulfilled within some seconds."""
    end = monotonic() + seconds
    while monotonic() < end:
        if condition():
            return True
        sleep(0.05)
    return False


def test_a_new_row_is_served_without_a_reload(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    those = sheets("uint8", 3, 128)
    for one in those:
        one.write(tmp_path, COMPRESS="JPEG", OVERVIEWS="NONE")
    table = tmp_path / "table.json"
    table.write_bytes(geojson(those[:3]))
    box = [*those[2].box[:2], *those[1].box[2:]]
    found = opened(table, refresh=1, extent=box)
    reader = reader_of(found)
    reports: list[str] = []
    reader.mosaic.report = lambda: reports.append(reader.mosaic.fault)
    assert reader.locate(0, 0) is not None
    assert reader.locate(1, 1) is None

    # A table with an error changes nothing.
    (tmp_path / "new").write_bytes(b'{"features": [')
    (tmp_path / "new").rename(table)
    assert later(lambda: reader.locate(0, 0) and reports)
    assert reports == ["it is not valid JSON; write a FeatureCollection of GeoJSON"]
    assert "the one before stays in use" in caplog.text
    assert reader.locate(0, 1) is not None

    (tmp_path / "new").write_bytes(geojson(those))
    (tmp_path / "new").rename(table)
    assert later(lambda: reader.locate(1, 1) is not None)
    assert later(lambda: reports[-1] == "")

    # What is outside of the published limits waits for a reload.
    with caplog.at_level(logging.WARNING):
        (tmp_path / "new").write_bytes(geojson([*those, flat("far.tif", 5000, 5000, 1)]))
        (tmp_path / "new").rename(table)
        assert later(lambda: reader.locate(0, 0) and "reload to publish" in caplog.text)


def test_a_removed_row_is_no_longer_served(tmp_path: Path) -> None:
    those = sheets("uint8", 3, 128)
    for one in those:
        one.write(tmp_path, COMPRESS="JPEG", OVERVIEWS="NONE")
    table = tmp_path / "table.json"
    table.write_bytes(geojson(those))
    reader = reader_of(opened(table, refresh=1))
    tile = reader.locate(1, 1)
    assert tile is not None
    (tmp_path / "new").write_bytes(geojson(those[:3]))
    (tmp_path / "new").rename(table)
    (tmp_path / "1-1.tif").unlink()
    assert later(lambda: reader.locate(1, 1) is None)
