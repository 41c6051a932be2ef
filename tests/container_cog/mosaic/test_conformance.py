"""The contract of containers, with tables of files that another library writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar

import pytest
from tests.container_cog.files import stored_tiles
from tests.container_cog.mosaic.ground import Sheet, geojson, geopackage, sheets

from mastaba.api.containers import OpenedContainer
from mastaba_cog.mosaic.container import MosaicContainer
from mastaba_conformance.containers import ContainerTests, MemoryStorage, TileAddress
from mastaba_conformance.counting_storage import CountingStorage


class _Mosaics(ContainerTests):
    """Two files beside each other; those of generation 1 have other names."""

    container = MosaicContainer
    files: ClassVar[dict[int, tuple[list[Sheet], dict[str, bytes], dict[TileAddress, bytes]]]] = {}

    @pytest.fixture(autouse=True)
    def _refreshed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the time to the next look at the table pass with each replacement."""
        self.passed = 0.0
        monkeypatch.setattr("mastaba_cog.mosaic.live.monotonic", lambda: monotonic() + self.passed)

    def make(self, path: Path, generation: int) -> Mapping[TileAddress, bytes]:
        those, _, tiles = self._written(path.parent, generation)
        self.table(path, those)
        return tiles

    def table(self, path: Path, those: list[Sheet]) -> None:
        path.write_bytes(geojson(those))

    def replace(
        self, storage: CountingStorage, key: str, generation: int
    ) -> Mapping[TileAddress, bytes]:
        # The files first, the table last.
        for name, data in self._written(Path(key).parent, generation)[1].items():
            self._put_file(storage, str(Path(key).parent / name), data)
        self.passed += 3600.0
        return super().replace(storage, key, generation)

    def remove(self, storage: CountingStorage, key: str) -> None:
        """Remove the files: without the table alone, the mosaic stays as it is."""
        for name in self._written(Path(key).parent, 0)[1]:
            super().remove(storage, str(Path(key).parent / name))

    def _put_file(self, storage: CountingStorage, key: str, data: bytes) -> None:
        below = storage._storage
        if isinstance(below, MemoryStorage):
            below.put(key, data)
        else:
            Path(key).write_bytes(data)

    def _written(self, folder: Path, generation: int) -> Any:
        if generation not in self.files:
            those = [
                Sheet(f"{generation}-{one.name}", one.left, one.top, one.values)
                for one in sheets("uint8", 3, 256, 2, seed=10 * generation)[:2]
            ]
            files: dict[str, bytes] = {}
            tiles: dict[TileAddress, bytes] = {}
            for one in those:
                one.write(folder, COMPRESS="JPEG", QUALITY=75 - 20 * generation)
                files[one.name] = (folder / one.name).read_bytes()
                (folder / one.name).unlink()
                for (level, row, col), tile in stored_tiles(files[one.name]).items():
                    tiles[level, row, one.left // 128 // (2 - int(level)) + col] = tile
            self.files[generation] = those, files, tiles
        return self.files[generation]


class TestGeoJSON(_Mosaics):
    def test_what_is_known_needs_no_read(
        self, storage: CountingStorage, opened: OpenedContainer, tiles: Mapping[TileAddress, bytes]
    ) -> None:
        name, row, col = next(iter(tiles))
        reader = opened.readers[name](opened.pyramid.levels[name])
        assert reader.known(row, col) is None
        assert storage.reads == []
        reader.locate(row, col)
        storage.clear()
        assert reader.known(row, col) is not None
        assert storage.reads == []


@pytest.mark.thorough
class TestGeoPackage(_Mosaics):
    head_length = 2048

    def table(self, path: Path, those: list[Sheet]) -> None:
        geopackage(path, those)
