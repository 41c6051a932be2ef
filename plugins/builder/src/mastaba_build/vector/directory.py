"""Directories of vector tiles, ``zoom/column/row.pbf``, as tippecanoe and ogr2ogr write them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from mastaba_build.errors import PlanError, SourceError
from mastaba_build.vector.archives import Block, Metadata, Tile, blocks_of, with_layers

_NUMBER = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
_ENDS = (".pbf", ".mvt")


class Directory:
    """A directory of tiles; rows are counted from the top.

    Raises:
        PlanError: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def metadata(self) -> Metadata:
        path = self._path / "metadata.json"
        try:
            self._check_link(path)
            document = json.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            raise PlanError(f"{path}: cannot be read: {error}") from None
        if not isinstance(document, dict):
            raise PlanError(f"{path}: is not a JSON object")
        return with_layers(document, path)

    def blocks(self, width: int, height: int) -> Iterable[Block]:
        positions = ((zoom, row, column) for zoom, row, column, _ in self._files())
        return blocks_of(positions, width, height)

    def tiles(self, block: Block) -> Iterator[Tile]:
        for column in range(block.columns[0], block.columns[1] + 1):
            folder = self._path / str(block.zoom) / str(column)
            if folder.is_dir():
                for row in range(block.rows[0], block.rows[1] + 1):
                    for end in _ENDS:
                        path = folder / f"{row}{end}"
                        if path.exists():
                            yield Tile(block.zoom, row, column, self._read(path))

    def all_tiles(self) -> Iterator[Tile]:
        for zoom, row, column, path in self._files():
            yield Tile(zoom, row, column, self._read(path))

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def _read(self, path: Path) -> bytes:
        self._check_link(path)
        try:
            return path.read_bytes()
        except OSError as error:
            raise SourceError(f"{path}: cannot be read: {error.strerror}") from None

    def _check_link(self, path: Path) -> None:
        """Check that a file is not a link to one outside the directory."""
        real = os.path.realpath(path)
        if not real.startswith(os.path.realpath(self._path) + os.sep):
            raise SourceError(f"{path}: is a link to {real}, outside the directory; copy the file")

    def _files(self) -> Iterator[tuple[int, int, int, Path]]:
        """Yield the tiles, coarse zooms first.

        Raises:
            SourceError: a name is not that of a tile, or two files are the same tile.
        """
        for zoom, zoom_folder in _numbered(self._path):
            for column, folder in _numbered(zoom_folder):
                rows: set[int] = set()
                for path in sorted(folder.iterdir()):
                    if path.name.startswith(".") or path.suffix not in _ENDS:
                        continue
                    if not _NUMBER.fullmatch(path.stem):
                        raise SourceError(
                            f"{path}: {path.stem!r} is not a tile row; rename or remove the file"
                        )
                    if int(path.stem) in rows:
                        raise SourceError(f"{path}: another file is the same tile; remove one")
                    rows.add(int(path.stem))
                    yield zoom, int(path.stem), column, path


def _numbered(folder: Path) -> list[tuple[int, Path]]:
    """Return the folders in a folder whose names are numbers, in order."""
    found = [
        (int(path.name), path)
        for path in folder.iterdir()
        if _NUMBER.fullmatch(path.name) and path.is_dir()
    ]
    strange = sorted(
        path.name
        for path in folder.iterdir()
        if path.is_dir() and path.name.isdigit() and not _NUMBER.fullmatch(path.name)
    )
    if strange:
        raise SourceError(f"{folder / strange[0]}: is not a zoom or a tile column; rename it")
    return sorted(found)
