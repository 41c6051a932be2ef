"""Requests for tiles with an index store and with index packs; slabs that are replaced."""

from __future__ import annotations

import json
import random
import shutil
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from werkzeug.test import Client

from mastaba.config.server import load_server
from mastaba.containers.index_cache import IndexCache
from mastaba.errors import MastabaError, ObjectNotFoundError, SlabFormatError
from mastaba.plugins.manager import Plugins
from mastaba.services.base import Site
from mastaba.site.application import Application
from mastaba.site.loading import open_site
from mastaba.slab.layout import PrefixLayout
from mastaba.slab.reader import LevelReader, StoredTile
from mastaba.storage_pool import StoragePool
from mastaba_conformance.object_server import ObjectServer
from mastaba_documents.faults import Faults
from mastaba_index_store.store import DiskStore
from mastaba_server.processes.scoreboard import Scoreboard
from mastaba_storage.environment import Environment
from mastaba_writer.index_packs import IndexRecord, PackLayout, encode_record, make_pack
from mastaba_writer.installation import NORMAL_STYLE, write_installation
from mastaba_writer.pyramids import LevelPlan, object_pyramid
from mastaba_writer.slab_writer import build_slab
from mastaba_writer.tile_matrix_sets import web_mercator

SIDE = 4
COUNT = SIDE * SIDE
OpenReader = Callable[..., LevelReader]


def payload(row: int, col: int, generation: int = 0) -> bytes:
    name = f"{generation}:{row}/{col};".encode()
    return name * (20 + (row * 7 + col * 3 + generation * 5) % 60)


def slab(slab_col: int, slab_row: int, generation: int = 0) -> bytes:
    tiles: list[bytes | None] = [
        payload(slab_row * SIDE + row, slab_col * SIDE + col, generation)
        for row in range(SIDE)
        for col in range(SIDE)
    ]
    tiles[generation % COUNT] = None
    return build_slab(tiles, format="TIFF_PBF_MVT", tiles_per_width=SIDE, tiles_per_height=SIDE)


def absent(generation: int) -> tuple[int, int]:
    """Return row and column of the tile that a generation of each slab does not have."""
    return divmod(generation % COUNT, SIDE)


def put_slab(server: ObjectServer, slab_col: int, slab_row: int, generation: int = 0) -> None:
    server.put("maps", f"P/DATA_9_{slab_col}_{slab_row}", slab(slab_col, slab_row, generation))


def put_pack(server: ObjectServer) -> None:
    """Write the pack of the slabs as they are now."""
    layout = PackLayout.of(COUNT)
    records = {}
    for (container, key), stored in list(server._objects.items()):
        if container == "maps" and key.startswith("P/DATA_9_"):
            place = tuple(map(int, key.removeprefix("P/DATA_9_").split("_")))
            link, target = "", ""
            if stored.data.startswith(b"SYMLINK#"):
                link, target = stored.etag, stored.data[8:].decode()
                stored = server._objects["maps", target.removeprefix("maps/")]
            index = stored.data[2048 : 2048 + 8 * COUNT]
            record = IndexRecord(stored.etag, stored.modified, index, target, link)
            records[place[0], place[1]] = encode_record(*place, record) or b""
    server.put("maps", "P/INDEX_9_0_0", make_pack(layout, (0, 0), records))


@pytest.fixture
def open_reader(server: ObjectServer, tmp_path: Path) -> Iterator[OpenReader]:
    pools: list[StoragePool] = []

    def open_reader(
        *, packs: bool = False, store: bool = True, cache_size: int = 100
    ) -> LevelReader:
        """Return a reader as a new process has it."""
        given = {"S3_URL": server.url, "S3_KEY": "key", "S3_SECRETKEY": "secret"}
        environment = Environment({f"MASTABA_{name}": text for name, text in given.items()})
        pool = StoragePool(Plugins().storages, environment)
        pools.append(pool)
        level: Any = SimpleNamespace(tiles_per_width=SIDE, tiles_per_height=SIDE)
        shared = (
            DiskStore.open({"directory": str(tmp_path / "store"), "mebibytes": 1024})
            if store
            else None
        )
        return LevelReader(
            level,
            PrefixLayout("P/DATA_9"),
            pool.open("s3", "maps"),
            IndexCache(cache_size, 60, store=shared),
            lambda name: pool.open("s3", name),
            PrefixLayout("P/INDEX_9") if packs else None,
        )

    yield open_reader
    for pool in pools:
        pool.close()


def tile(reader: LevelReader, row: int, col: int) -> bytes | None:
    """Return a tile as the publisher does."""
    found = reader.expect(row, col)
    try:
        return None if found is None else found.read()
    except ObjectNotFoundError:
        return None


def cost(server: ObjectServer, reader: LevelReader, row: int, col: int) -> list[str]:
    """Return the requests for a tile, which must be the right one."""
    server.requests.clear()
    assert tile(reader, row, col) == payload(row, col)
    return [request.method for request in server.requests]


def test_a_tile_needs_one_request_after_a_restart(
    server: ObjectServer, open_reader: OpenReader
) -> None:
    put_slab(server, 0, 0)
    assert cost(server, open_reader(), 2, 3) == ["GET", "GET"]
    reader = open_reader()
    assert cost(server, reader, 3, 3) == ["GET"]
    assert cost(server, reader, 2, 3) == ["GET"]
    assert cost(server, open_reader(store=False), 2, 3) == ["GET", "GET"]


def test_with_a_pack_each_first_tile_of_a_slab_needs_one_request(
    server: ObjectServer, open_reader: OpenReader
) -> None:
    for slab_col in range(20):
        put_slab(server, slab_col, slab_col % 3)
    put_pack(server)
    reader = open_reader(packs=True)
    counts = [
        len(cost(server, reader, slab_col % 3 * SIDE + 1, slab_col * SIDE))
        for slab_col in range(20)
    ]
    # The first request for any of them reads the pack.
    assert counts == [2] + 19 * [1]
    assert cost(server, open_reader(packs=True), 1, 1) == ["GET"]


def test_a_pack_that_does_not_exist_is_requested_once(
    server: ObjectServer, open_reader: OpenReader
) -> None:
    put_slab(server, 0, 0)
    put_slab(server, 1, 0)
    assert len(cost(server, open_reader(packs=True), 1, 1)) == 3
    reader = open_reader(packs=True)
    assert len(cost(server, reader, 1, 5)) == 2
    assert len(cost(server, reader, 1, 1)) == 1


@pytest.mark.parametrize("data", [b"", b"x" * 40000, b"MASTABA\x1a"])
def test_a_damaged_pack_is_not_used(
    server: ObjectServer, open_reader: OpenReader, data: bytes
) -> None:
    put_slab(server, 0, 0)
    server.put("maps", "P/INDEX_9_0_0", data)
    reader = open_reader(packs=True)
    assert len(cost(server, reader, 1, 1)) == 3
    assert len(cost(server, reader, 1, 2)) == 1


def test_a_slab_that_was_replaced_costs_one_more_round(
    server: ObjectServer, open_reader: OpenReader
) -> None:
    put_slab(server, 0, 0)
    put_pack(server)
    assert tile(open_reader(packs=True), 1, 1) == payload(1, 1)
    put_slab(server, 0, 0, 1)
    reader = open_reader(packs=True)
    server.requests.clear()
    assert tile(reader, 1, 1) == payload(1, 1, 1)
    assert [request.status for request in server.requests] == [412, 206, 206]
    # The store contains the new index.
    server.requests.clear()
    assert tile(open_reader(packs=True), 1, 2) == payload(1, 2, 1)
    assert [request.status for request in server.requests] == [206]


def test_a_tile_that_was_absent_or_disappears(
    server: ObjectServer, open_reader: OpenReader
) -> None:
    put_slab(server, 0, 0, 3)
    assert tile(open_reader(), *absent(3)) is None
    put_slab(server, 0, 0, 4)
    assert tile(open_reader(), *absent(3)) == payload(*absent(3), 4)
    assert tile(open_reader(), *absent(4)) is None
    put_slab(server, 0, 0, 5)
    assert tile(open_reader(), *absent(5)) is None
    server.delete("maps", "P/DATA_9_0_0")
    assert tile(open_reader(), 1, 1) is None


def test_a_symbolic_object_is_confirmed(server: ObjectServer, open_reader: OpenReader) -> None:
    server.put("maps", "old/DATA_9_0_0", slab(0, 0))
    server.put("maps", "new/DATA_9_0_0", slab(0, 0, 1))
    server.put("maps", "P/DATA_9_0_0", b"SYMLINK#maps/old/DATA_9_0_0")
    put_pack(server)
    assert cost(server, open_reader(), 1, 1) == ["GET", "GET", "GET"]
    assert cost(server, open_reader(), 1, 1) == ["HEAD", "GET"]
    assert cost(server, open_reader(packs=True), 1, 2) == ["GET", "HEAD", "GET"]
    assert cost(server, open_reader(packs=True), 1, 2) == ["HEAD", "GET"]
    # The old target still exists, and is unchanged.
    server.put("maps", "P/DATA_9_0_0", b"SYMLINK#maps/new/DATA_9_0_0")
    for packs in (True, False):
        assert tile(open_reader(packs=packs), 1, 1) == payload(1, 1, 1)
    put_slab(server, 0, 0, 2)
    for packs in (True, False):
        assert tile(open_reader(packs=packs), 1, 1) == payload(1, 1, 2)
    server.put("maps", "P/DATA_9_0_0", b"SYMLINK#nowhere/x")
    for packs in (True, False):
        with pytest.raises(MastabaError):
            tile(open_reader(packs=packs), 1, 1)


def test_a_store_that_ignores_conditions_is_checked_by_its_answers(
    server: ObjectServer, open_reader: OpenReader
) -> None:
    put_slab(server, 0, 0)
    assert tile(open_reader(), 1, 1) == payload(1, 1)
    server.ignores_conditions = True
    put_slab(server, 0, 0, 1)
    assert tile(open_reader(), 1, 1) == payload(1, 1, 1)


def test_a_slab_that_is_damaged_is_reported_until_it_is_repaired(
    server: ObjectServer, open_reader: OpenReader
) -> None:
    put_slab(server, 0, 0)
    reader = open_reader()
    assert tile(reader, 1, 1) == payload(1, 1)
    server.put("maps", "P/DATA_9_0_0", b"II*\0" + bytes(100))
    for _ in range(2):
        with pytest.raises(SlabFormatError):
            tile(open_reader(), 1, 1)
    put_slab(server, 0, 0, 1)
    assert tile(open_reader(), 1, 1) == payload(1, 1, 1)


def test_a_store_that_fails_is_an_error_and_changes_nothing(
    server: ObjectServer, open_reader: OpenReader
) -> None:
    put_slab(server, 0, 0)
    put_pack(server)
    with server.outage(), pytest.raises(MastabaError, match="503"):
        tile(open_reader(packs=True), 1, 1)
    assert len(cost(server, open_reader(packs=True), 1, 1)) == 2
    with server.outage(), pytest.raises(MastabaError, match="503"):
        tile(open_reader(packs=True), 1, 1)
    assert cost(server, open_reader(packs=True), 1, 1) == ["GET"]


def stored_now(server: ObjectServer, row: int, col: int) -> bytes | None:
    """Return a tile as it is in the objects of the server."""
    stored = server._objects.get(("maps", f"P/DATA_9_{col // SIDE}_{row // SIDE}"))
    if stored is not None and stored.data.startswith(b"SYMLINK#maps/"):
        stored = server._objects["maps", stored.data.decode().removeprefix("SYMLINK#maps/")]
    if stored is None:
        return None
    number = row % SIDE * SIDE + col % SIDE
    index = struct.unpack_from(f"<{2 * COUNT}I", stored.data, 2048)
    offset, size = index[number], index[COUNT + number]
    return stored.data[offset : offset + size] or None


@pytest.mark.thorough
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in (1, 2))]
)
def test_tiles_are_the_same_with_and_without_store_and_packs(
    server: ObjectServer, open_reader: OpenReader, tmp_path: Path, seed: int
) -> None:
    chooser = random.Random(seed)
    readers = {
        name: open_reader(cache_size=2, **options)
        for name, options in {
            "store": {},
            "packs": {"packs": True},
        }.items()
    }
    for step in range(120):
        slab_col, slab_row = chooser.randrange(4), chooser.randrange(3)
        choice = chooser.random()
        if choice < 0.12:
            put_slab(server, slab_col, slab_row, step)
        elif choice < 0.15:
            server.delete("maps", f"P/DATA_9_{slab_col}_{slab_row}")
        elif choice < 0.18:
            server.put("maps", f"old_{step}", slab(slab_col, slab_row, step))
            link = f"SYMLINK#maps/old_{step}".encode()
            server.put("maps", f"P/DATA_9_{slab_col}_{slab_row}", link)
        elif choice < 0.22:
            put_pack(server)
        elif choice < 0.26:
            name = chooser.choice(["store", "packs"])
            readers[name] = open_reader(cache_size=2, packs=name == "packs")
        elif choice < 0.27:
            shutil.rmtree(tmp_path / "store")
            (tmp_path / "store").mkdir(mode=0o700)
        row, col = slab_row * SIDE + chooser.randrange(4), slab_col * SIDE + chooser.randrange(4)
        now = stored_now(server, row, col)
        for name, reader in readers.items():
            found = tile(reader, row, col)
            if found != now:
                # As long as a cached index is valid, it knows that a tile does not exist, and where
                # a symbolic object leads.
                place = reader.place_of(row, col)[0]
                index = reader._indices.peek(place)
                assert index is not None, (name, step)
                assert found is None or index.key.startswith("old_"), (name, step)
                reader.forget(place, index)
                found = tile(reader, row, col)
            assert found == now, (name, step)


@pytest.mark.thorough
def test_threads_that_need_the_same_pack(server: ObjectServer, open_reader: OpenReader) -> None:
    for slab_col in range(8):
        put_slab(server, slab_col, 0)
    put_pack(server)
    reader = open_reader(packs=True)
    places = [(1, number % 32) for number in range(200)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda place: tile(reader, *place), places))
    assert found == [payload(*place) for place in places]


def test_a_tile_is_confirmed_once(server: ObjectServer, open_reader: OpenReader) -> None:
    put_slab(server, 0, 0)
    assert tile(open_reader(), 1, 1) == payload(1, 1)
    reader = open_reader()
    found = reader.expect(1, 1)
    assert isinstance(found, StoredTile)
    server.requests.clear()
    found.confirm()
    again = reader.expect(1, 1)
    assert again is not None
    again.confirm()
    assert [request.method for request in server.requests] == ["HEAD"]
    assert again.version == found.version


LEVELS = [LevelPlan("4", 4, 7, 8, 11)]


@pytest.fixture
def open_client(server: ObjectServer, tmp_path: Path) -> Callable[..., tuple[Client, Site, str]]:
    """Opens a server with a layer in the bucket; returns the problems, too."""

    def put(generation: int = 0) -> None:
        descriptor, slabs = object_pyramid(
            "Q",
            storage={"type": "S3", "bucket_name": "maps"},
            tile_matrix_set=web_mercator(),
            format="TIFF_PBF_MVT",
            levels=LEVELS,
            tile=lambda level, row, col: f"{generation} {level}/{row}/{col}".encode(),
        )
        for key, data in slabs:
            server.put("maps", key, data)
        descriptor["levels"][0]["storage"]["index_prefix"] = "Q/INDEX_4"
        server.put("maps", "Q.json", json.dumps(dict(descriptor)).encode())

    def open_client(
        generation: int | None = None, store: dict[str, str] | None = None
    ) -> tuple[Client, Site, str]:
        if generation is not None:
            put(generation)
        layer = {
            "title": "t",
            "abstract": "a",
            "pyramids": [{"path": "s3://maps/Q.json", "bottom_level": "4", "top_level": "4"}],
        }
        server_json = write_installation(
            tmp_path / "server",
            layers={"L": layer},
            tile_matrix_sets={"PM": web_mercator()},
            styles={"normal": NORMAL_STYLE},
            services=["tms"],
            server_overrides={"plugins": {} if store is None else {"index_store": store}},
        )
        given = {"S3_URL": server.url, "S3_KEY": "key", "S3_SECRETKEY": "secret"}
        environment = Environment({f"MASTABA_{name}": text for name, text in given.items()})
        plugins, faults = Plugins(), Faults()
        config = load_server(str(server_json), plugins, faults)
        site = open_site(config, plugins, Scoreboard(1, 1), faults, environment)
        return Client(Application(site)), site, "\n".join(map(str, faults.all))

    return open_client


PATH = "/tms/1.0.0/L/4/9/5.pbf"


def test_a_client_that_has_an_outdated_tile_does_not_get_304(
    server: ObjectServer, open_client: Callable[..., Any], tmp_path: Path
) -> None:
    store = {"directory": str(tmp_path / "indices")}
    client, _, problems = open_client(0, store=store)
    assert problems == ""
    first = client.get(PATH)
    assert first.data == b"0 4/5/9"
    headers = {"If-None-Match": first.headers["ETag"]}
    client, *_ = open_client(store=store)
    server.requests.clear()
    assert client.get(PATH, headers=headers).status_code == 304
    assert [request.method for request in server.requests] == ["HEAD"]
    client, *_ = open_client(1, store=store)
    second = client.get(PATH, headers=headers)
    assert (second.status_code, second.data) == (200, b"1 4/5/9")
    # A slab that no longer exists.
    for key in [key for _, key in server._objects if key.startswith("Q/DATA")]:
        server.delete("maps", key)
    client, *_ = open_client(store=store)
    headers = {"If-None-Match": second.headers["ETag"]}
    assert client.get(PATH, headers=headers).status_code == 404
    assert client.get(PATH).status_code == 404


def test_answers_are_the_same_with_and_without_a_store(
    open_client: Callable[..., Any], tmp_path: Path
) -> None:
    plain, *_ = open_client(0)
    stored, *_ = open_client(store={"directory": str(tmp_path / "indices")})
    again, *_ = open_client(store={"directory": str(tmp_path / "indices")})
    for path in (PATH, PATH.replace("/9/5", "/8/4"), PATH.replace("/9/5", "/0/0")):
        answers = [client.get(path) for client in (plain, stored, again)]
        assert len({(answer.status, answer.data) for answer in answers}) == 1
        assert len({str(answer.headers) for answer in answers}) == 1


def test_a_store_that_cannot_be_used_is_a_warning(
    open_client: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    client, site, problems = open_client(0, store={"directory": str(tmp_path / "file")})
    assert "$.plugins.index_store" in problems
    assert site.catalogue.indices.store is None
    assert client.get(PATH).data == b"0 4/5/9"
