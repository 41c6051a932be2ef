"""A storage of slabs that a formula gives, as distant as wanted: pyramids of any size."""

from __future__ import annotations

import json
import random
import struct
import time
import zlib
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

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

    reads: ClassVar[list[int]] = []
    """Bytes of each read of this process."""

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
        self.reads.append(length)
        data = bytearray(self._slab[start : start + length])
        slab = zlib.crc32(key.encode())
        for number, offset in enumerate(self._offsets):
            if start <= offset <= start + length - _NAME.size:
                _NAME.pack_into(data, offset - start, b"\x89PNG", slab, number)
        return ObjectRead(bytes(data), "1", 0)

    def stat(self, key: str) -> ObjectStat:
        time.sleep(self._wait)
        return ObjectStat(len(self._slab), "1", 0)


class FormulaHeights(Storage):
    """Slabs of heights: few different tiles, in an order that does not repeat soon.

    Args:
        container: a number of bytes, and milliseconds that each read takes, as ``0-20``. The
            number says nothing.
    """

    name: ClassVar[str] = "heights"
    container_field: ClassVar[str | None] = "heights_name"

    def __init__(self, container: str) -> None:
        super().__init__(container)
        self._wait = int(container.rpartition("-")[2]) / 1000
        self._tiles = encoded_heights()
        self._absent = build_slab([None] * SLAB**2, **_HEIGHTS)
        self._layout = lru_cache(maxsize=1024)(self._made)

    @classmethod
    def open(cls, container: str, environment: Environment) -> Self:
        return cls(container)

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        time.sleep(self._wait)
        head, kinds, offsets, size = self._layout(key)
        start, length = byte_range or ByteRange(0, size)
        stop = min(start + length, size)
        parts = [(0, head)] if start < len(head) else []
        first = max(0, bisect_right(offsets, start) - 1)
        for kind, offset in zip(kinds[first:], offsets[first:], strict=True):
            if offset >= stop:
                break
            if kind is not None:
                parts.append((offset, self._tiles[kind]))
        found = [
            memoryview(part)[max(0, start - offset) : max(0, stop - offset)]
            for offset, part in parts
        ]
        return ObjectRead(b"".join(found), "1", 0)

    def stat(self, key: str) -> ObjectStat:
        time.sleep(self._wait)
        return ObjectStat(self._layout(key)[3], "1", 0)

    # What is made up must cost little beside what is measured: it is kept, and nothing is searched.
    def _made(self, key: str) -> tuple[bytes, list[int | None], list[int], int]:
        """Return the head of a slab, the kind of each tile, where it begins, and its size."""
        _, column, row = key.rsplit("_", 2)
        kinds = [
            kind_of(int(row) * SLAB + i, int(column) * SLAB + j)
            for i in range(SLAB)
            for j in range(SLAB)
        ]
        sizes = [0 if kind is None else len(self._tiles[kind]) for kind in kinds]
        offsets = list(accumulate(sizes, initial=len(self._absent)))[:-1]
        index = struct.pack(f"<{2 * len(kinds)}I", *offsets, *sizes)
        head = self._absent[:HEADER_SIZE] + index + self._absent[HEADER_SIZE + len(index) :]
        return head, kinds, offsets, len(self._absent) + sum(sizes)


TILE = 256
KINDS = 61
"""Different tiles of heights; their order repeats after no column or row of slabs."""
_HEIGHTS: dict[str, Any] = {
    "format": "TIFF_ZIP_FLOAT32",
    "channels": 1,
    "tiles_per_width": SLAB,
    "tiles_per_height": SLAB,
}


def heights() -> list[npt.NDArray[np.float32]]:
    """Return the different tiles: slopes with noise; some values are not finite."""
    found = []
    for kind in range(KINDS):
        source = np.random.default_rng(kind)
        tile = np.linspace(kind, kind + 200, TILE * TILE, dtype=np.float32).reshape(TILE, TILE)
        tile += source.normal(0, 0.01, tile.shape).astype(np.float32)
        tile[kind, :5] = [np.nan, np.inf, -np.inf, -0.0, 1e-42]
        found.append(np.full_like(tile, np.nan) if kind == 7 else tile)
    return found


def encoded_heights() -> list[bytes]:
    """Return the different tiles as they are stored."""
    return [zlib.compress(tile.tobytes(), 1) for tile in heights()]


def kind_of(row: int, col: int) -> int | None:
    """Return which tile of heights is in a place; None where nothing is stored."""
    return None if (row // 5 + col // 3) % 11 == 0 else (row * 31 + col * 17) % KINDS


class FormulaPlugin:
    """Registers the storage."""

    @mastaba.hookimpl
    def register_storages(self) -> list[type[Storage]]:
        return [FormulaStorage, FormulaHeights]


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


def by_formula(path: Path, latency: int = 0) -> None:
    """Let the slabs of heights in the descriptor of a pyramid come from a formula."""
    document: dict[str, Any] = json.loads(path.read_text("utf-8"))
    for level in document["levels"]:
        level["storage"] = {
            "type": "HEIGHTS",
            "heights_name": f"0-{latency}",
            "image_prefix": f"level{level['id']}",
        }
    path.write_text(json.dumps(document), "utf-8")
