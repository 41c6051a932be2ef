"""The contract of containers, with files that another library writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from tests.container_cog.files import by_gdal, ground, stored_tiles
from tests.container_cog.test_hostile import HEADS

from mastaba_cog.container import CogContainer
from mastaba_conformance.containers import ContainerTests, TileAddress


class _Cogs(ContainerTests):
    container = CogContainer
    head_length = 1024
    writing: ClassVar[Mapping[str, Any]]

    def corpus(self, path: Path) -> Mapping[str, bytes]:
        return {name: make() for name, make in HEADS.items()}

    def make(self, path: Path, generation: int) -> Mapping[TileAddress, bytes]:
        values = ground("uint8", 3, (200, 230), seed=generation)
        data = by_gdal(path.parent, values, BLOCKSIZE=128, **self.writing)
        path.write_bytes(data)
        return stored_tiles(data)


class TestJPEG(_Cogs):
    writing: ClassVar = {"COMPRESS": "JPEG"}


class TestWebP(_Cogs):
    writing: ClassVar = {"COMPRESS": "WEBP"}
