"""A storage of slabs that a formula gives, as distant as wanted: pyramids of any size."""

from __future__ import annotations

import json
import random
import struct
import time
from pathlib import Path
from typing import Any, ClassVar, Self

import mastaba
from mastaba.api.storages import ByteRange, Environment, ObjectRead, ObjectStat, Storage
from mastaba_writer.descriptor import LevelPlan
from mastaba_writer.pyramids import write_pyramid
from mastaba_writer.slab_writer import HEADER_SIZE, build_slab
from mastaba_writer.tile_matrix_sets import web_mercator

SLAB = 16
_NAME = struct.Struct(">4sII")
"""Start of a tile: signature of PNG, hash of its slab, number in it."""


class FormulaStorage(Storage):
    """Slabs with tiles of equal sizes, all of them different.

    Args:
        container: bytes of a tile, and milliseconds that each read takes, as ``40000-20``.
    """

    name: ClassVar[str] = "formula"
    container_field: ClassVar[str | None] = "formula_name"

    def __init__(self, container: str) -> None:
        super().__init__(container)
        size, wait = map(int, container.split("-"))
        self._wait = wait / 1000
        noise = random.Random(1).randbytes(size)
        tiles = [noise] * SLAB**2
        options = {"tiles_per_width": SLAB, "tiles_per_height": SLAB}
        self._slab = memoryview(build_slab(tiles, format="TIFF_PNG_UINT8", **options))
        count = SLAB**2
        self._offsets = struct.unpack_from(f"<{count}I", self._slab, HEADER_SIZE)

    @classmethod
    def open(cls, container: str, environment: Environment) -> Self:
        return cls(container)

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        time.sleep(self._wait)
        start, length = byte_range or ByteRange(0, len(self._slab))
        data = bytearray(self._slab[start : start + length])
        slab = hash(key) & 0xFFFFFFFF
        for number, offset in enumerate(self._offsets):
            if start <= offset <= start + length - _NAME.size:
                _NAME.pack_into(data, offset - start, b"\x89PNG", slab, number)
        return ObjectRead(bytes(data), "1", 0)

    def stat(self, key: str) -> ObjectStat:
        time.sleep(self._wait)
        return ObjectStat(len(self._slab), "1", 0)


class FormulaPlugin:
    """Registers the storage."""

    @mastaba.hookimpl
    def register_storages(self) -> list[type[Storage]]:
        return [FormulaStorage]


def formula_pyramid(directory: Path, level: LevelPlan, size: int, latency: int) -> Path:
    """Write the descriptor of a pyramid by formula; return its path."""
    path = write_pyramid(
        directory,
        "IMAGES",
        tile_matrix_set=web_mercator(),
        format="TIFF_PNG_UINT8",
        levels=[level],
        tile=lambda *_: None,
        tiles_per_width=SLAB,
        tiles_per_height=SLAB,
    )
    document: dict[str, Any] = json.loads(path.read_text("utf-8"))
    (one,) = document["levels"]
    storage = {"type": "FORMULA", "formula_name": f"{size}-{latency}", "image_prefix": "noise"}
    one["storage"] = storage
    path.write_text(json.dumps(document), "utf-8")
    return path
