"""Conformance tests for storage drivers: subclass `StorageTests` and override its fixtures.

For example::

    class TestMyStorage(StorageTests):
        @pytest.fixture
        def storage(self, server):
            return MyStorage.open("tiles", server.environment)

        @pytest.fixture
        def writer(self, server):
            return server

A driver that passes these tests only needs further tests of its own settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from mastaba.api.slabs import LevelReader
from mastaba.api.storages import Storage
from mastaba.errors import SlabFormatError
from mastaba.tooling.slabs import IndexCache, PrefixLayout
from mastaba_conformance.storage.faults import FaultTests
from mastaba_conformance.storage.forks import ForkTests
from mastaba_conformance.storage.kit import ObjectWriter
from mastaba_conformance.storage.ranges import RangeTests
from mastaba_conformance.storage.reads import ReadTests
from mastaba_conformance.storage.sequences import SequenceTests
from mastaba_conformance.storage.threads import ThreadTests
from mastaba_conformance.storage.versions import VersionTests
from mastaba_conformance.storage.writes import WriteTests
from mastaba_writer.slab_writer import build_slab

__all__ = ["ObjectWriter", "StorageTests"]


class StorageTests(
    ReadTests,
    RangeTests,
    VersionTests,
    ThreadTests,
    ForkTests,
    FaultTests,
    WriteTests,
    SequenceTests,
):
    """The contract of `mastaba.api.storages.Storage`, in levels.

    Subclasses must override the fixtures ``storage`` and ``writer``. They may override ``prefix``.

    What a driver can do is declared by the class attributes and by the fixtures ``open_refused``,
    ``open_unreachable``, ``open_silent``, ``outage`` and ``writable``. What is not declared is not
    tested.

    Attributes:
        knows_versions: whether the storage can detect that an object was replaced.
        keys_are_paths: whether ``..`` and ``//`` in keys have a meaning, as for files.
        shares_connections: whether connections belong to the process and stay open when a
            container is closed.
        holds_large_objects: whether the store can hold objects larger than
            `mastaba.api.storages.MAX_WHOLE`.
        forks_while_reading: whether child processes may be created while other threads read. The
            server does not do that, and libraries with locks of their own, such as SQLite, cannot
            stand it.
        creates_exclusively: whether the store can refuse to replace an object. Some gateways ignore
            the condition.
        time_limit: seconds after which a test fails because the driver hangs.
        patience: seconds after which released connections must be closed.
        kit: kind of plugin, for the report.
        levels: levels of the tests, in the order of the report.
    """

    level = "reads"

    def test_tiles_of_a_slab(self, storage: Storage, writer: ObjectWriter, prefix: str) -> None:
        tiles = [None if number == 5 else bytes([number]) * (900 + number) for number in range(16)]
        slab = build_slab(tiles, format="TIFF_PBF_MVT", tiles_per_width=4, tiles_per_height=4)
        writer.put(f"{prefix}P/DATA_9_3_2", slab)
        writer.put(f"{prefix}P/DATA_9_4_2", slab[:3000])
        level: Any = SimpleNamespace(tiles_per_width=4, tiles_per_height=4)
        reader = LevelReader(level, PrefixLayout(f"{prefix}P/DATA_9"), storage, IndexCache(9, 60))
        indices = [(8 + number // 4, 12 + number % 4) for number in range(16)]
        assert _payloads(reader, indices) == tiles
        tile = reader.locate(11, 15)
        assert tile is not None
        assert tile.read() == tiles[15]
        assert reader.locate(9, 13) is None
        assert reader.locate(0, 0) is None
        with pytest.raises(SlabFormatError):
            _payloads(reader, [(11, 19)])


def _payloads(reader: LevelReader, places: Sequence[tuple[int, int]]) -> list[bytes | None]:
    """Return the bytes of tiles (row, column); None for those that are not stored."""
    return [None if tile is None else tile.read() for tile in reader.locate_all(places)]
