"""PMTiles 3: one file with a header, directories of tile numbers, and tiles."""

from __future__ import annotations

import json
import os
import weakref
import zlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from pmtiles.tile import (
    Compression,
    MagicNumberNotFound,
    SpecVersionUnsupported,
    TileType,
    deserialize_directory,
    deserialize_header,
    find_tile,
    tileid_to_zxy,
    zxy_to_tileid,
)

from mastaba_build.errors import PlanError, SourceError
from mastaba_build.vector.archives import Block, Metadata, Tile, blocks_of
from mastaba_build.vector.payload import inflated

_MLT = 6
_LEAVES = 64
_DEEPEST = 4


class PMTiles:
    """A PMTiles file of version 3.

    Raises:
        PlanError: the file is not one, or its tiles are not vector tiles.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            # Not mapped: a file that becomes shorter would end the process (SIGBUS).
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._close = weakref.finalize(self, os.close, self._file)
            self._header: dict[str, Any] = dict(deserialize_header(self._bytes(0, 127)))
        except (OSError, ValueError, IndexError, MagicNumberNotFound) as error:
            if _tile_type(path) == _MLT:
                raise PlanError(
                    f"{path}: contains mlt tiles; only vector tiles of the format pbf (MVT) are "
                    "imported"
                ) from None
            reason = getattr(error, "strerror", None) or str(error) or "no header"
            raise PlanError(f"{path}: is not a PMTiles file: {reason}") from None
        except SpecVersionUnsupported:
            raise PlanError(
                f"{path}: is not of version 3 of PMTiles; convert it with pmtiles convert"
            ) from None
        if self._header["tile_type"] != TileType.MVT:
            name = self._header["tile_type"].name.lower()
            raise PlanError(f"{path}: contains {name} tiles; only vector tiles are imported")
        for part in ("tile", "internal"):
            used = self._header[f"{part}_compression"]
            allowed = {Compression.GZIP, Compression.NONE, Compression.UNKNOWN}
            if used not in (allowed if part == "tile" else {Compression.GZIP}):
                raise PlanError(
                    f"{path}: is compressed with {used.name.lower()}; write it with gzip"
                )
        self._directory = lru_cache(_LEAVES)(self._read_directory)

    def metadata(self) -> Metadata:
        try:
            text = inflated(self._part("metadata_offset", 0, self._header["metadata_length"]))
            document = json.loads(text or b"{}")
        except (ValueError, RecursionError) as error:
            raise SourceError(f"{self._path}: its metadata are damaged: {error}") from None
        return document if isinstance(document, dict) else {}

    def blocks(self, width: int, height: int) -> Iterable[Block]:
        positions = ((zoom, row, column) for (zoom, column, row), _ in self._entries())
        return blocks_of(positions, width, height)

    def tiles(self, block: Block) -> Iterator[Tile]:
        for row in range(block.rows[0], block.rows[1] + 1):
            for column in range(block.columns[0], block.columns[1] + 1):
                place = self._find(zxy_to_tileid(block.zoom, column, row))
                if place is not None:
                    yield Tile(block.zoom, row, column, self._part("tile_data_offset", *place))

    def all_tiles(self) -> Iterator[Tile]:
        for (zoom, column, row), place in self._entries():
            yield Tile(zoom, row, column, self._part("tile_data_offset", *place))

    def close(self) -> None:
        self._close()

    def _entries(self) -> Iterator[tuple[tuple[int, int, int], tuple[int, int]]]:
        """Yield (zoom, column, row) and the place of each tile, in the order of tile numbers."""
        waiting = [self._root()]
        while waiting:
            place = waiting.pop()
            leaves = []
            for entry in self._directory(*place):
                if entry.run_length == 0:
                    leaves.append(("leaf_directory_offset", entry.offset, entry.length))
                for number in range(entry.tile_id, entry.tile_id + entry.run_length):
                    yield tileid_to_zxy(number), (entry.offset, entry.length)
            waiting += reversed(leaves)

    def _find(self, number: int) -> tuple[int, int] | None:
        place = self._root()
        for _ in range(_DEEPEST):
            entry = find_tile(self._directory(*place), number)
            if entry is None:
                return None
            if entry.run_length:
                return entry.offset, entry.length
            place = "leaf_directory_offset", entry.offset, entry.length
        raise SourceError(f"{self._path}: its directories are damaged")

    def _root(self) -> tuple[str, int, int]:
        # Its offset is in the header.
        return "root_offset", 0, self._header["root_length"]

    def _read_directory(self, section: str, offset: int, length: int) -> list[Any]:
        try:
            return list(deserialize_directory(self._part(section, offset, length)))
        except (OSError, EOFError, ValueError, TypeError, zlib.error) as error:
            raise SourceError(f"{self._path}: its directories are damaged: {error}") from None

    def _part(self, section: str, offset: int, length: int) -> bytes:
        start = self._header[section] + offset
        try:
            data = self._bytes(start, length)
        except OSError as error:
            raise SourceError(f"{self._path}: cannot be read: {error.strerror}") from None
        if len(data) < length:
            raise SourceError(f"{self._path}: is truncated: it ends before byte {start + length}")
        return data

    def _bytes(self, start: int, length: int) -> bytes:
        """Return bytes of the file; fewer at its end, whatever the numbers are. Raises OSError."""
        end = min(start + length, os.fstat(self._file).st_size)
        pieces: list[bytes] = []
        while start < end and (piece := os.pread(self._file, end - start, start)):
            pieces.append(piece)
            start += len(piece)
        return b"".join(pieces)


def _tile_type(path: Path) -> int | None:
    """Return the number of the tile type in a header; None if the file has none."""
    try:
        with path.open("rb") as file:
            header = file.read(100)
    except OSError:
        return None
    return header[99] if len(header) == 100 and header.startswith(b"PMTiles") else None
