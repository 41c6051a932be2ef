"""Archives in each kind of store: their tiles, also while they are replaced under many readers."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.container_cog.files import ground
from tests.container_cog.files import stored_tiles as tiles_of_cog
from tests.container_cog.served import SIDE, add_layer, addresses, cog_of, place_of
from tests.container_pmtiles.test_archives import LAYER, MVT, PNG, archive
from tests.container_sqlite.ground import picture, web_tiles, write_geopackage, write_mbtiles
from tests.containers.stores import STORES, store_of
from tests.sizes import sized
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.api.tools import create_application
from mastaba_pmtiles.tile_ids import ZoomIds

Tiles = dict[tuple[str, int, int], bytes]


def cog(directory: Path, version: int) -> tuple[bytes, Tiles]:
    """Return a COG of JPEG tiles, and its tiles with the shared tables, by place."""
    return _cog(directory, version, COMPRESS="JPEG", QUALITY=60 + 30 * version)


def webp(directory: Path, version: int) -> tuple[bytes, Tiles]:
    """Return a COG of WebP tiles, and its tiles."""
    return _cog(directory, version, COMPRESS="WEBP", QUALITY=60 + 30 * version)


def _cog(directory: Path, version: int, **options: Any) -> tuple[bytes, Tiles]:
    size = 256 * SIDE, 256 * SIDE
    data = cog_of(directory, ground("uint8", 3, size, version), **options)
    found = tiles_of_cog(data).items()
    return data, {place_of(str(int(n) + 2), *at): tile for (n, *at), tile in found}


def pmtiles(directory: Path, version: int) -> tuple[bytes, Tiles]:
    """Return an archive of vector tiles, which are elsewhere in each version."""
    tiles = {}
    for row in range(8):
        for column in range(8):
            name = f"{version}/{row}/{column}".encode().ljust(7 + version)
            layer = b"\x0a" + bytes([len(name)]) + name + b"\x78\x02"
            tiles[row, column] = b"\x1a" + bytes([len(layer)]) + layer
    return _archive(tiles, LAYER * version, MVT)


def raster(directory: Path, version: int) -> tuple[bytes, Tiles]:
    """Return an archive of PNG tiles."""
    places = [(row, column) for row in range(8) for column in range(8)]
    return _archive({place: picture(sum(place) + 8 * place[0]) for place in places}, b"", PNG)


def _archive(tiles: dict[tuple[int, int], bytes], data: bytes, kind: int) -> tuple[bytes, Tiles]:
    root, ids = [], ZoomIds(3)
    for place in sorted(tiles, key=lambda place: ids.of(*place)):
        root.append((ids.of(*place), 1, len(tiles[place]), len(data)))
        data += tiles[place]
    written = archive(root, data, kind=kind, zooms=(3, 3))
    return written, {("3", *place): tile for place, tile in tiles.items()}


def mbtiles(directory: Path, version: int) -> tuple[bytes, Tiles]:
    """Return a database of PNG tiles in the grid of web maps."""
    tiles = web_tiles()
    written = write_mbtiles(directory / "written.mbtiles", tiles).read_bytes()
    return written, {(str(zoom), row, col): tile for (zoom, col, row), tile in tiles.items()}


def geopackage(directory: Path, version: int) -> tuple[bytes, Tiles]:
    """Return a database of JPEG tiles in a grid of its own."""
    places = [(1, column, row) for column in range(4) for row in range(3)]
    tiles = {place: picture(sum(place) + place[1] * 4, kind="JPEG") for place in places}
    written = write_geopackage(directory / "written.gpkg", tiles).read_bytes()
    return written, {(str(zoom), row, col): tile for (zoom, col, row), tile in tiles.items()}


ALL = ("KVP", "REST", "TMS", "OGC")
ARCHIVES: dict[str, tuple[Callable[[Path, int], tuple[bytes, Tiles]], str, str, tuple[str, ...]]]
ARCHIVES = {
    "tif": (cog, "image/jpeg", "jpg", ALL),
    "webp.tif": (webp, "image/webp", "webp", ALL),
    "pmtiles": (pmtiles, "application/x-protobuf", "pbf", ("TMS",)),
    "png.pmtiles": (raster, "image/png", "png", ALL),
    "mbtiles": (mbtiles, "image/png", "png", ALL),
    "gpkg": (geopackage, "image/jpeg", "jpg", ALL),
}
REPLACED = ("tif", "pmtiles")


@pytest.mark.parametrize("suffix", ARCHIVES)
@pytest.mark.parametrize("name", STORES)
def test_tiles_are_those_that_are_stored(
    name: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, media_type, extension, protocols = ARCHIVES[suffix]
    data, tiles = make(tmp_path, 0)
    monkeypatch.setenv("MASTABA_STAGING_DIRECTORY", str(tmp_path / "staged"))
    with store_of(name, tmp_path, monkeypatch) as store:
        store.put(f"a.{suffix}", data)
        server = tiny_installation(tmp_path / "site")
        add_layer(tmp_path / "site", "A", {"path": f"{store.prefix}a.{suffix}"})
        application = create_application(str(server))
        client = Client(application)
        grid = application.site.catalogue.layers["A"].pyramid.tile_matrix_set.id
        for place, tile in tiles.items():
            for protocol in protocols:
                address = addresses("A", *place, media_type, extension, grid)[protocol]
                answer = client.get(address)
                assert (answer.status_code, answer.data) == (200, tile), (protocol, place)


@pytest.mark.parametrize("suffix", REPLACED)
@pytest.mark.parametrize("name", STORES)
@pytest.mark.thorough
def test_replacements_under_many_readers(
    name: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty readers and many replacements: no answer is mixed, and hardly one is 503."""
    make, media_type, extension, _ = ARCHIVES[suffix]
    files, versions = zip(*(make(tmp_path, version) for version in (0, 1)), strict=True)
    places, stop = list(versions[0]), threading.Event()
    with store_of(name, tmp_path, monkeypatch) as store:
        store.put(f"a.{suffix}", files[0])
        server = tiny_installation(tmp_path / "site", services=["tms"])
        add_layer(tmp_path / "site", "A", {"path": f"{store.prefix}a.{suffix}"})
        application = create_application(str(server))

        def reading(seed: int) -> list[int]:
            chance, client, found = random.Random(seed), Client(application), []
            while not stop.is_set():
                place = chance.choice(places)
                answer = client.get(addresses("A", *place, media_type, extension)["TMS"])
                is_right = answer.data in (versions[0][place], versions[1][place])
                found.append(answer.status_code if is_right or answer.status_code != 200 else 0)
            return found

        with ThreadPoolExecutor(50) as pool:
            readers = [pool.submit(reading, seed) for seed in range(50)]
            for turn in range(1, sized(61, 201)):
                stop.wait(0.04 if name == "file" else 0.15)
                store.put(f"a.{suffix}", files[turn % 2])
            stop.set()
            found = [status for reader in readers for status in reader.result()]
    assert set(found) <= {200, 503}
    assert found.count(503) <= len(found) // 1000
