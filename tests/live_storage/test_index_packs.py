"""Tiles from a real object store with index packs: requests are counted on the way to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from tests.fork_server import ForkServer
from tests.live_storage.bad_network import BadNetwork
from tests.live_storage.conftest import Store, s3_writer
from tests.live_storage.test_build import Command, chosen, command, folder, ortho, patch, tiles
from werkzeug.test import Client

from mastaba.wsgi import create_application
from mastaba_writer.index_packs import PackLayout

__all__ = ["command", "folder", "ortho", "patch"]

SIDE = 2
Slab = tuple[str, int, int]


class Network(BadNetwork):
    """A way to a store that records requests when they arrive."""

    def __init__(self, url: str) -> None:
        super().__init__(url, is_reliable=True)
        self.arrived: list[str] = []

    def _forward(self, handler: BaseHTTPRequestHandler) -> None:
        self.arrived.append("pack" if "/INDEX_" in handler.path else handler.command)
        super()._forward(handler)


@pytest.fixture
def network(rgw: Store) -> Iterator[Network]:
    with Network(str(rgw.variables["MASTABA_S3_URL"])) as network:
        yield network


@pytest.fixture
def place(rgw: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    s3_writer(rgw, "packed")
    for name, text in chosen(rgw, "_S3_").items():
        monkeypatch.setenv(name, text)
    return f"s3://packed/{tmp_path.name}"


@pytest.fixture
def server_json(tmp_path: Path) -> Path:
    return tmp_path / "server/server.json"


def with_store(server_json: Path) -> None:
    """Configure an empty index store."""
    document = json.loads(server_json.read_text())
    directory = server_json.with_name(f"indices{len(list(server_json.parent.iterdir()))}")
    document["plugins"] = {"index_store": {"directory": str(directory)}}
    server_json.write_text(json.dumps(document))


def first_tiles(tiles: dict[str, bytes]) -> dict[Slab, str]:
    """Return one tile of each slab."""
    found: dict[Slab, str] = {}
    for name in tiles:
        level, column, row = name.split("/")
        found.setdefault((level, int(column) // SIDE, int(row) // SIDE), name)
    return found


def requests(
    server_json: Path, network: Network, names: dict[Slab, str], expected: dict[str, bytes]
) -> dict[Slab, list[str]]:
    """Return the requests to the store for one tile of each slab, by a new process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MASTABA_S3_URL", f"http://127.0.0.1:{network.port}")
        application = create_application(str(server_json))
        client = Client(application)
        found = {}
        for slab, name in names.items():
            network.arrived.clear()
            answer = client.get(f"/tms/1.0.0/ortho/{name}.jpeg")
            assert answer.data == expected[name]
            found[slab] = list(network.arrived)
        application.site.catalogue.storages.close()
    return found


def packs_of(slabs: dict[Slab, str]) -> int:
    layout = PackLayout.of(SIDE * SIDE)
    return len({(level, *layout.pack_of(column, row)) for level, column, row in slabs})


def test_a_cold_tile_is_one_request(
    mastaba: ForkServer,
    place: str,
    ortho: Path,
    network: Network,
    server_json: Path,
    command: Command,
) -> None:
    built = mastaba.run(*command(ortho, place, "--index-packs"))
    assert built.returncode == 0, built.stderr
    assert mastaba.run(*command(ortho, place, "--verify", "full")).returncode == 0
    expected = tiles(server_json)
    first = first_tiles(expected)
    assert len(first) > 15
    plain = requests(server_json, network, first, expected)
    assert set(map(tuple, plain.values())) == {("GET", "GET")}
    with_store(server_json)
    found = list(map(tuple, requests(server_json, network, first, expected).values()))
    # The first request for any slab of a pack reads the pack.
    assert found.count(("pack", "GET")) == packs_of(first)
    assert found.count(("GET",)) == len(first) - packs_of(first)
    # After a restart, and without packs once they are in the store.
    again = requests(server_json, network, first, expected)
    assert set(map(tuple, again.values())) == {("GET",)}


def test_packs_of_an_existing_pyramid(
    mastaba: ForkServer,
    place: str,
    ortho: Path,
    network: Network,
    server_json: Path,
    command: Command,
) -> None:
    assert mastaba.run(*command(ortho, place)).returncode == 0
    expected = tiles(server_json)
    packed = mastaba.run("pyramid", "pack", "ortho", "--output", place)
    assert packed.returncode == 0, packed.stderr
    first = first_tiles(expected)
    counts = f"{packs_of(first)} index packs of {len(first)} slabs"
    assert packed.stdout == f"{counts}, {len(first)} of them read; reload the server\n"
    packed = mastaba.run("pyramid", "pack", "ortho", "--output", place)
    assert packed.stdout == f"{counts}, 0 of them read; reload the server\n"
    assert mastaba.run(*command(ortho, place, "--verify", "full")).returncode == 0
    with_store(server_json)
    found = list(map(tuple, requests(server_json, network, first, expected).values()))
    assert found.count(("GET",)) == len(first) - packs_of(first)


def test_versions_have_their_own_packs(
    mastaba: ForkServer,
    place: str,
    ortho: Path,
    patch: Path,
    network: Network,
    server_json: Path,
    command: Command,
) -> None:
    assert mastaba.run(*command(ortho, place, "--index-packs")).returncode == 0
    before = tiles(server_json)
    updated = mastaba.run(*command(ortho, place, patch, "--update"))
    assert updated.returncode == 0, updated.stderr
    after = tiles(server_json)
    assert after != before
    first = first_tiles(after)
    with_store(server_json)
    requests(server_json, network, first, after)
    found = set(map(tuple, requests(server_json, network, first, after).values()))
    # A link is confirmed; a slab is confirmed by the read of its tile.
    assert found == {("GET",), ("HEAD", "GET")}
    rollback = ("pyramid", "rollback", "ortho", "--output", place)
    assert mastaba.run(*rollback).returncode == 0
    assert tiles(server_json) == before
    found = set(map(tuple, requests(server_json, network, first, before).values()))
    assert found == {("pack", "GET"), ("GET",)}
    assert mastaba.run(*rollback, "--to", "2").returncode == 0
    pruned = mastaba.run("pyramid", "prune", "ortho", "--output", place, "--linked-days", "0")
    assert pruned.returncode == 0, pruned.stderr
    assert tiles(server_json) == after
    with_store(server_json)
    found = set(map(tuple, requests(server_json, network, first, after).values()))
    assert ("pack", "GET") in found or ("pack", "HEAD", "GET") in found
    assert ("GET", "GET") not in found


def test_injected_slabs_are_served_before_and_after_their_pack_is_written(
    mastaba: ForkServer,
    place: str,
    ortho: Path,
    patch: Path,
    network: Network,
    server_json: Path,
    command: Command,
) -> None:
    assert mastaba.run(*command(ortho, place, "--index-packs")).returncode == 0
    before = tiles(server_json)
    first = first_tiles(before)
    with_store(server_json)
    requests(server_json, network, first, before)
    updated = mastaba.run(*command(ortho, place, patch, "--update", "--inject"))
    assert updated.returncode == 0, updated.stderr
    after = tiles(server_json)
    changed = {slab for slab, name in first.items() if before[name] != after[name]}
    assert changed
    # What the store contains is outdated for these slabs.
    found = requests(server_json, network, first, after)
    assert {tuple(found[slab]) for slab in changed} == {("GET", "GET", "GET")}
    assert [request for slab, request in found.items() if slab not in changed].count(["GET"]) > 5
    # The new packs are not.
    with_store(server_json)
    requests(server_json, network, first, after)
    found = requests(server_json, network, first, after)
    assert set(map(tuple, found.values())) == {("GET",)}


def test_packs_are_refused_for_files(
    mastaba: ForkServer, tmp_path: Path, ortho: Path, command: Command
) -> None:
    built = mastaba.run(*command(ortho, str(tmp_path / "files"), "--index-packs"))
    assert built.returncode == 2
    assert "index packs are for object stores" in built.stderr
    packed = mastaba.run("pyramid", "pack", "ortho", "--output", str(tmp_path / "files"))
    assert packed.returncode == 2
    assert packed.stderr == (
        "mastaba pyramid: index packs are for object stores; a server reads the slabs of files\n"
    )
