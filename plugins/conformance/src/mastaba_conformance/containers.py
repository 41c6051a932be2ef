"""Conformance tests for containers: subclass `ContainerTests` and write archives.

For example::

    class TestMyContainer(ContainerTests):
        container = MyContainer

        def make(self, path, generation):
            tiles = {("0", 0, 0): b"...", ("1", 1, 0): b"..."}
            write_with_another_library(path, tiles)
            return tiles

A container that passes these tests only needs further tests of its own format.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from mastaba.api.catalogue import WORLD, Layer
from mastaba.api.containers import IndexCache, OpenedContainer
from mastaba.api.tiles import TilePublisher
from mastaba.api.web import Request, Response
from mastaba.errors import (
    NotAcceptableError,
    ObjectNotFoundError,
    StorageError,
    TileNotFoundError,
    TileOutOfRangeError,
)
from mastaba_conformance.container_attacks import HonestyTests, HostilityTests, ProcessTests
from mastaba_conformance.container_kit import (
    ContainerKit,
    MemoryStorage,
    TileAddress,
    body_at,
    body_of,
    cold,
    readers_of,
)
from mastaba_conformance.counting_storage import CountingStorage

__all__ = ["ContainerTests", "MemoryStorage", "TileAddress"]

_MOST_READS: Final = 4
_UNVERSIONED: Final = 60.0
"""After so many seconds, an index of an object without a version is read again."""
_CODINGS: Final[Sequence[Mapping[str, str]]] = (
    {},
    {"HTTP_ACCEPT_ENCODING": "gzip"},
    {"HTTP_ACCEPT_ENCODING": "identity"},
)
"""Headers of requests, by their keys in the WSGI environment."""
_ANSWERS: Final = 2000
"""Tiles that are read while the archive is replaced."""


class _ModelTests(ContainerKit):
    level = "model"

    def test_levels_are_coarse_to_fine_and_have_readers(self, opened: OpenedContainer) -> None:
        levels = opened.pyramid.levels
        sizes = [level.matrix.cell_size for level in levels.values()]
        assert sizes == sorted(sizes, reverse=True)
        assert levels.keys() == opened.readers.keys()

    def test_matrices_are_those_of_the_set(self, opened: OpenedContainer) -> None:
        matrices = opened.pyramid.tile_matrix_set.matrices
        for name, level in opened.pyramid.levels.items():
            assert matrices[name] == level.matrix
            assert level.limits.intersection(level.matrix.all_tiles) == level.limits

    def test_the_set_is_valid(self, opened: OpenedContainer) -> None:
        """OGC 17-083r4, tables 2 and 3."""
        found = opened.pyramid.tile_matrix_set
        assert found.id
        assert not set(found.id) & set('<>/\\"')
        assert found.crs.code
        assert found.matrices
        for name, matrix in found.matrices.items():
            assert name == matrix.id
            sizes = matrix.tile_width, matrix.tile_height, matrix.matrix_width, matrix.matrix_height
            assert min(sizes) >= 1
            assert 0 < matrix.cell_size < float("inf")

    def test_each_tile_is_inside_the_limits(
        self, opened: OpenedContainer, tiles: Mapping[TileAddress, bytes]
    ) -> None:
        for name, row, column in tiles:
            assert opened.pyramid.levels[name].limits.contains(row, column), (name, row, column)

    def test_pixels_are_possible_in_the_format(self, opened: OpenedContainer) -> None:
        pyramid = opened.pyramid
        assert (pyramid.raster is None) == pyramid.format.is_vector
        if pyramid.raster is not None:
            assert pyramid.raster.channels in pyramid.format.channels
            assert len(pyramid.raster.nodata) == pyramid.raster.channels


class _AnswerTests(ContainerKit):
    level = "answers"

    def test_tiles_are_those_that_were_written(
        self, opened: OpenedContainer, tiles: Mapping[TileAddress, bytes]
    ) -> None:
        readers = readers_of(opened)
        for place, data in tiles.items():
            assert body_at(readers, place) == data, place

    def test_other_tiles_are_absent(
        self, opened: OpenedContainer, tiles: Mapping[TileAddress, bytes]
    ) -> None:
        for name, reader in readers_of(opened).items():
            limits = reader.level.limits
            for row in range(limits.min_row, min(limits.max_row, limits.min_row + 20) + 1):
                for column in range(limits.min_col, min(limits.max_col, limits.min_col + 20) + 1):
                    found = reader.locate(row, column)
                    assert (found is not None) == ((name, row, column) in tiles)

    def test_all_ways_lead_to_the_same_tile(
        self, opened: OpenedContainer, tiles: Mapping[TileAddress, bytes]
    ) -> None:
        readers = readers_of(opened)
        for name, reader in readers.items():
            places = [place[1:] for place in tiles if place[0] == name]
            together = reader.locate_all(places)
            for place, one in zip(places, together, strict=True):
                assert one is not None
                for other in (reader.locate(*place), reader.expect(*place), reader.known(*place)):
                    assert other is not None
                    assert (other.version, other.identity) == (one.version, one.identity)

    def test_the_tile_table_answers_as_respond(
        self, opened: OpenedContainer, tiles: Mapping[TileAddress, bytes]
    ) -> None:
        """Tiles have the same answers on both paths; the table leaves out absent ones."""
        layer = Layer("kit", "", "", opened.pyramid, WORLD, WORLD, ())
        for name, reader in readers_of(opened).items():
            publisher = TilePublisher(layer, reader, None)
            limits = reader.level.limits
            places = {place[1:] for place in tiles if place[0] == name}
            places |= {(limits.min_row, limits.min_col), (limits.max_row + 1, limits.max_col)}
            for place in sorted(places):
                for headers in (*_CODINGS, {"HTTP_IF_NONE_MATCH": _tag(publisher, place)}):
                    wanted = _responded(publisher, headers, place)
                    try:
                        found = publisher.find(headers, *place)
                    except NotAcceptableError:
                        assert reader.requires_coding
                        assert wanted is None
                        assert (name, *place) in tiles
                        continue
                    assert _parts(found) == _parts(wanted), (name, place, headers)
                    assert (found is not None) == ((name, *place) in tiles)


class _ReadTests(ContainerKit):
    level = "reads"

    def test_opening_takes_few_reads(
        self, storage: CountingStorage, key: str, tiles: Mapping[TileAddress, bytes]
    ) -> None:
        self.open(storage, key)
        assert len(storage.reads) <= _MOST_READS

    def test_a_tile_takes_few_reads(
        self, storage: CountingStorage, opened: OpenedContainer, tiles: Mapping[TileAddress, bytes]
    ) -> None:
        if self.container.reads == "local":
            pytest.skip("not declared: the container reads without the storage")
        for place in tiles:
            readers = cold(readers_of(opened), storage)
            for most in (self.cold_reads, self.warm_reads):
                storage.clear()
                body_at(readers, place)
                assert 0 < len(storage.reads) <= most, place
            storage.clear()
            tile = readers[place[0]].expect(*place[1:])
            assert tile is not None
            tile.confirm()
            assert storage.reads == []

    def test_neighbours_are_located_with_few_reads(
        self, storage: CountingStorage, opened: OpenedContainer, tiles: Mapping[TileAddress, bytes]
    ) -> None:
        readers = cold(readers_of(opened), storage)
        name = list(tiles)[-1][0]
        places = [place[1:] for place in tiles if place[0] == name][:16]
        readers[name].locate_all(places)
        assert len(storage.reads) <= self.cold_reads


class _GenerationTests(ContainerKit):
    level = "generations"

    def test_a_tile_located_before_a_replacement_is_of_one_version(
        self,
        storage: CountingStorage,
        key: str,
        opened: OpenedContainer,
        tiles: Mapping[TileAddress, bytes],
    ) -> None:
        readers = readers_of(opened)
        located = {place: readers[place[0]].locate(*place[1:]) for place in tiles}
        new = self.replace(storage, key, 1)
        for place, tile in located.items():
            assert tile is not None
            before, data = tile.version, body_of(tile)
            # A storage may still give the bytes of the version that it has open.
            assert data == (tiles[place] if tile.version == before else new[place])

    def test_a_replacement_is_another_generation(
        self,
        storage: CountingStorage,
        key: str,
        opened: OpenedContainer,
        tiles: Mapping[TileAddress, bytes],
    ) -> None:
        self.replace(storage, key, 1)
        assert self.open(storage, key).pyramid.generation != opened.pyramid.generation

    def test_without_versions_a_replacement_is_seen_after_a_minute(self, key: str) -> None:
        if self.container.reads == "local":
            pytest.skip("not declared: the container reads local files only")
        storage = CountingStorage(MemoryStorage(has_versions=False))
        tiles = self.replace(storage, key, 0)
        seconds = 0.0
        indices = IndexCache(1_000_000, 3600.0, lambda: seconds)
        opened = readers_of(self.open(storage, key))
        readers = {name: reader.moved(storage, indices) for name, reader in opened.items()}
        for place, data in tiles.items():
            assert body_at(readers, place) == data, place
            tile = readers[place[0]].locate(*place[1:])
            assert tile is not None
            # An ETag would promise that the bytes are still the same.
            assert tile.version is None
        new = self.replace(storage, key, 1)
        seconds = _UNVERSIONED
        for place, data in new.items():
            assert body_at(readers, place) == data, place

    def test_no_answer_mixes_versions(
        self,
        storage: CountingStorage,
        key: str,
        opened: OpenedContainer,
        tiles: Mapping[TileAddress, bytes],
    ) -> None:
        other = self.replace(storage, key, 1)
        files = {}
        for generation in (0, 1):
            path = Path(f"{key}.kept{Path(key).suffix}")
            self.make(path, generation)
            files[generation] = path.read_bytes()
        readers, places = readers_of(opened), list(tiles)
        stop = threading.Event()

        def replacing() -> None:
            turn = 0
            while not stop.is_set():
                turn += 1
                self.put(storage, key, files[turn % 2])
                stop.wait(0.01)

        def reading(seed: int) -> list[TileAddress]:
            chosen, wrong = random.Random(seed), []  # noqa: S311 - the same tiles in each run
            for _ in range(_ANSWERS // 8):
                place = chosen.choice(places)
                # So many replacements may exhaust the attempts.
                with suppress(StorageError):
                    data = body_at(readers, place)
                    if data not in (tiles[place], other[place]):
                        wrong.append(place)
            return wrong

        with ThreadPoolExecutor(9) as pool:
            writer = pool.submit(replacing)
            try:
                assert [found for found in pool.map(reading, range(8)) if found] == []
            finally:
                stop.set()
            writer.result()

    def test_an_archive_that_is_gone_is_an_error(
        self,
        storage: CountingStorage,
        key: str,
        opened: OpenedContainer,
        tiles: Mapping[TileAddress, bytes],
    ) -> None:
        self.remove(storage, key)
        readers = cold(readers_of(opened), storage)
        with pytest.raises(StorageError) as caught:
            body_at(readers, next(iter(tiles)))
        # That would be answered as a tile that is not stored.
        assert not isinstance(caught.value, ObjectNotFoundError)


def _responded(
    publisher: TilePublisher, headers: Mapping[str, str], place: tuple[int, int]
) -> Response | None:
    """Return the response of the general path; None for a tile that is not stored or refused."""
    try:
        return publisher.respond(Request("GET", "", "", dict(headers)), *place)
    except (NotAcceptableError, TileNotFoundError, TileOutOfRangeError):
        return None


def _tag(publisher: TilePublisher, place: tuple[int, int]) -> str:
    found = _responded(publisher, {}, place)
    return "" if found is None else dict(found.headers).get("ETag", "")


def _parts(response: Response | None) -> tuple[int, list[tuple[str, str]], object] | None:
    return None if response is None else (response.status, response.headers, response.body)


class ContainerTests(
    _ModelTests,
    _AnswerTests,
    _ReadTests,
    _GenerationTests,
    ProcessTests,
    HostilityTests,
    HonestyTests,
):
    """The contract of `mastaba.api.containers.Container`, in levels.

    Subclasses set `container` and override `make`. The other attributes have defaults.

    Attributes:
        container: the tested class.
        options: with which archives are opened.
        cold_reads: most reads of a tile if nothing is cached.
        warm_reads: most reads of a tile if its index is cached.
        head_length: bytes at the start of archives that attacks cut off and change.
        time_limit: seconds after which a test fails because the container hangs.
        kit: kind of plugin, for the report.
        levels: levels of the tests, in the order of the report.
    """
