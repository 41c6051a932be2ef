"""Archives in each kind of store: their tiles, also while they are replaced under many readers."""

from __future__ import annotations

import io
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from PIL import Image
from tests.container_cog.files import ground
from tests.container_cog.files import stored_tiles as tiles_of_cog
from tests.container_cog.served import SIDE, add_layer, addresses, cog_of, place_of
from tests.container_pmtiles.test_archives import LAYER, MVT, PNG, archive
from tests.container_sqlite.ground import picture, web_tiles, write_geopackage, write_mbtiles
from tests.containers.stores import STORES, store_of
from tests.sizes import sized
from tests.storage_http.test_conformance import Site
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.api.tools import create_application
from mastaba_pmtiles.tile_ids import ZoomIds

T = TypeVar("T")

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
    tiles = web_tiles(version)
    written = write_mbtiles(directory / "written.mbtiles", tiles).read_bytes()
    return written, {(str(zoom), row, col): tile for (zoom, col, row), tile in tiles.items()}


def geopackage(directory: Path, version: int) -> tuple[bytes, Tiles]:
    """Return a database of JPEG tiles in a grid of its own."""
    places = [(1, column, row) for column in range(4) for row in range(3)]
    first = 100 * version
    tiles = {place: picture(first + sum(place) + place[1] * 4, kind="JPEG") for place in places}
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
# Databases in other stores are copied first: tests/container_sqlite/test_staging.py.
UNDER_TILES = [*product(STORES, ("tif", "pmtiles")), ("file", "mbtiles"), ("file", "gpkg")]
UNDER_MAPS = [*product(("file", "s3"), ("tif", "pmtiles")), ("file", "mbtiles")]


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


def test_a_web_server_that_begins_to_ignore_ranges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, tiles = raster(tmp_path, 0)
    with closing(Site()) as web:
        monkeypatch.setenv("MASTABA_HTTP_HOSTS", web.host)
        web.put("a.pmtiles", data)
        server = tiny_installation(tmp_path / "site")
        add_layer(tmp_path / "site", "A", {"path": f"http://{web.host}/a.pmtiles"})
        client = Client(create_application(str(server)))
        web.state["ignores_ranges"] = True
        place = next(iter(tiles))
        grid = client.application.site.catalogue.layers["A"].pyramid.tile_matrix_set.id
        for protocol, address in addresses("A", *place, "image/png", "png", grid).items():
            answer = client.get(address)
            assert answer.status_code == 503, protocol
            assert answer.headers["Retry-After"] == "10"
            assert tiles[place] not in answer.data


def found_while_replaced(
    read: Callable[[random.Random], T], readers: int, replace: Callable[[int], None], turns: int
) -> list[T]:
    """Return what readers in threads find while an archive is replaced so many times.

    It is replaced whenever each of them has read twice on average, on a machine of any speed.
    """
    found: list[T] = []
    stop = threading.Event()

    def reading(seed: int) -> None:
        chance = random.Random(seed)
        while not stop.is_set():
            found.append(read(chance))

    with ThreadPoolExecutor(readers) as pool:
        running = [pool.submit(reading, seed) for seed in range(readers)]
        try:
            for turn in range(1, turns + 1):
                wanted = len(found) + 2 * readers
                while len(found) < wanted and not any(reader.done() for reader in running):
                    stop.wait(0.01)
                replace(turn)
        finally:
            stop.set()
        for reader in running:
            reader.result()
    return found


@pytest.mark.parametrize(("name", "suffix"), UNDER_TILES)
@pytest.mark.thorough
def test_replacements_under_many_readers(
    name: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty readers and many replacements: no answer is mixed, and hardly one is 503."""
    make, media_type, extension, _ = ARCHIVES[suffix]
    files, versions = zip(*(make(tmp_path, version) for version in (0, 1)), strict=True)
    places = list(versions[0])
    with store_of(name, tmp_path, monkeypatch) as store:
        store.put(f"a.{suffix}", files[0])
        server = tiny_installation(tmp_path / "site", services=["tms"])
        add_layer(tmp_path / "site", "A", {"path": f"{store.prefix}a.{suffix}"})
        application = create_application(str(server))
        grid = application.site.catalogue.layers["A"].pyramid.tile_matrix_set.id
        seen: set[int] = set()

        def reading(chance: random.Random) -> int:
            place = chance.choice(places)
            address = addresses("A", *place, media_type, extension, grid)["TMS"]
            answer = Client(application).get(address)
            wanted = versions[0][place], versions[1][place]
            if answer.data in wanted:
                seen.add(wanted.index(answer.data))
            elif answer.status_code == 200:
                return 0
            return answer.status_code

        def replace(turn: int) -> None:
            store.put(f"a.{suffix}", files[turn % 2])
            if name == "file":
                # Files stay open until then.
                application.site.catalogue.indices.clear()

        found = found_while_replaced(reading, 50, replace, sized(12, 200))
    assert set(found) <= {200, 503}
    assert found.count(503) <= len(found) // 1000
    assert seen == {0, 1}


def plain(suffix: str, directory: Path, version: int) -> bytes:
    """Return an archive whose tiles all have one colour, which is that of the version."""
    colour = [(250, 10, 10), (10, 10, 250)][version]
    pixels = np.full((256 * SIDE, 256 * SIDE, 3), colour, np.uint8)
    if suffix == "tif":
        return cog_of(directory, pixels, COMPRESS="DEFLATE", LEVEL=1 + 8 * version)
    stream = io.BytesIO()
    Image.fromarray(pixels[:256, :256]).save(stream, "PNG", compress_level=9 * version)
    side = range(4)
    if suffix == "pmtiles":
        tiles = {(row, column): stream.getvalue() for row in range(8) for column in range(8)}
        return _archive(tiles, b"x" * version, PNG)[0]
    tiles = {(4, 8 + column, 4 + row): stream.getvalue() for row in side for column in side}
    return write_mbtiles(directory / "written.mbtiles", tiles).read_bytes()


@pytest.mark.parametrize(("name", "suffix"), UNDER_MAPS)
@pytest.mark.thorough
def test_maps_never_mix_versions(
    name: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [plain(suffix, tmp_path, version) for version in (0, 1)]
    with store_of(name, tmp_path, monkeypatch) as store:
        store.put(f"a.{suffix}", files[0])
        # Cached tiles are not read, so nobody notices that they were replaced.
        settings = {"cache": {"decoded_mebibytes": 0}}
        server = tiny_installation(tmp_path / "site", services=["wms"], server_overrides=settings)
        add_layer(tmp_path / "site", "A", {"path": f"{store.prefix}a.{suffix}"})
        application = create_application(str(server))

        def drawing(chance: random.Random) -> tuple[int, bytes]:
            x, y = chance.randint(100, 4000) * 1000, chance.randint(4500, 5500) * 1000
            side = chance.randint(200, 4000) * 1000
            answer = Client(application).get(
                "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&STYLES=&LAYERS=A&CRS=EPSG:3857"
                f"&BBOX={x},{y},{x + side},{y + side}&WIDTH=100&HEIGHT=100&FORMAT=image/png"
            )
            if answer.status_code != 200:
                return answer.status_code, b""
            with Image.open(io.BytesIO(answer.data)) as picture:
                colours = np.unique(np.asarray(picture.convert("RGB")).reshape(-1, 3), axis=0)
            return 200, colours.astype(np.uint8).tobytes()

        def replace(turn: int) -> None:
            store.put(f"a.{suffix}", files[turn % 2])
            # Files stay open until then.
            application.site.catalogue.indices.clear()

        found = found_while_replaced(drawing, 8, replace, sized(8, 200))
    statuses = [status for status, _ in found]
    assert set(statuses) <= {200, 503}
    assert statuses.count(503) <= 1 + len(found) // 100
    assert {colours for status, colours in found if status == 200} == {
        bytes((250, 10, 10)),
        bytes((10, 10, 250)),
    }
