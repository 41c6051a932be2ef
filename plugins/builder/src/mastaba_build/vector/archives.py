"""What an archive of vector tiles contains, whatever its file format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from mastaba_build.errors import PlanError

Metadata = Mapping[str, Any]
_FORMATS = frozenset({"pbf", "mvt", "application/x-protobuf", "application/vnd.mapbox-vector-tile"})


class Tile(NamedTuple):
    """A stored tile: zoom, row from the top, column, and its bytes, possibly compressed."""

    zoom: int
    row: int
    column: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Block:
    """The tiles of an archive in one slab.

    Attributes:
        column, row: of the slab.
        rows, columns: first and last tile.
        tiles: number of tiles.
    """

    zoom: int
    column: int
    row: int
    rows: tuple[int, int]
    columns: tuple[int, int]
    tiles: int


class Archive(Protocol):
    """An open archive; used by one thread.

    All methods raise `SourceError` if the archive is damaged.
    """

    def metadata(self) -> Metadata:
        """Return its metadata in the words of MBTiles 1.3, with ``vector_layers``, if known."""

    def blocks(self, width: int, height: int) -> Iterable[Block]:
        """Yield the slabs of ``width`` x ``height`` tiles that are not empty."""

    def tiles(self, block: Block) -> Iterator[Tile]:
        """Yield the tiles of a slab."""

    def all_tiles(self) -> Iterator[Tile]:
        """Yield all tiles, coarse zooms first."""

    def close(self) -> None:
        """Close its files."""


def check_format(metadata: Metadata, path: str) -> None:
    """Check that the tiles of an archive are in the format of Mapbox Vector Tiles.

    Raises:
        PlanError: its metadata name another format.
    """
    format = metadata.get("format")
    if format is not None and str(format).lower() not in _FORMATS:
        raise PlanError(
            f"{path}: contains tiles of the format {format!r}; only vector tiles of the format pbf "
            "(MVT) are imported"
        )


def blocks_of(positions: Iterable[tuple[int, int, int]], width: int, height: int) -> list[Block]:
    """Return the blocks of tiles given as (zoom, row, column)."""
    found: dict[tuple[int, int, int], list[int]] = {}
    for zoom, row, column in positions:
        key = zoom, row // height, column // width
        known = found.get(key)
        if known is None:
            found[key] = [row, row, column, column, 1]
        else:
            known[:] = (
                min(known[0], row),
                max(known[1], row),
                min(known[2], column),
                max(known[3], column),
                known[4] + 1,
            )
    return [
        Block(zoom, column, row, (top, bottom), (left, right), tiles)
        for (zoom, row, column), (top, bottom, left, right, tiles) in found.items()
    ]


def with_layers(metadata: dict[str, Any], path: Path) -> Metadata:
    """Return metadata whose ``json`` entry, a document in a string, is merged into it.

    Raises:
        PlanError: that document is invalid.
    """
    text = metadata.pop("json", None)
    if text is not None:
        try:
            document = json.loads(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise PlanError(f"{path}: the JSON in its metadata is invalid: {error}") from None
        if isinstance(document, dict):
            metadata |= document
    return metadata
