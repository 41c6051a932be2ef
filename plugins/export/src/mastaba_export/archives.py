"""Archives as `verify` reads them: with code of its own, not with that of the writers."""

from __future__ import annotations

import gzip
import json
import sqlite3
import struct
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from mastaba.api.catalogue import MASK_FORMAT
from mastaba_export.errors import DamagedArchiveError
from mastaba_export.hilbert import first_number
from mastaba_writer.slab_names import slab_path

if TYPE_CHECKING:
    from mastaba_export.levels import ExportLevel
    from mastaba_export.plan import ExportPlan, Unit


class Archive(ABC):
    """An archive that is verified.

    Attributes:
        count: number of tiles; known after `check`.
    """

    count = 0

    def __init__(self, plan: ExportPlan, path: Path) -> None:
        self.plan = plan
        self.path = path

    @abstractmethod
    def check(self) -> None:
        """Check the rules of the format, and count the tiles."""

    @abstractmethod
    def tile(self, unit: Unit, level: ExportLevel, row: int, column: int) -> bytes | None:
        """Return a tile, or None if there is none."""

    def close(self) -> None:  # noqa: B027 - some have no file open
        """Close its files."""

    def fail(self, reason: str) -> None:
        """Report a rule that is broken.

        Raises:
            DamagedArchiveError: always.
        """
        raise DamagedArchiveError(f"{self.path.name}: {reason}")


@dataclass(frozen=True, slots=True)
class _Entry:
    number: int
    run: int
    length: int
    offset: int


class _PMTiles(Archive):
    def __init__(self, plan: ExportPlan, path: Path) -> None:
        super().__init__(plan, path)
        self._file = path.open("rb")
        self._list: list[_Entry] = []
        self._data = 0

    def check(self) -> None:
        head = self._part(0, 127)
        magic, version, *numbers = struct.unpack("<7sB11Q6B4iB2i", head)
        if magic != b"PMTiles" or version != 3:
            self.fail("is not PMTiles 3")
        sections = [(numbers[place], numbers[place + 1]) for place in range(0, 8, 2)]
        root, metadata, leaves, data = sections
        counts, flags = numbers[8:11], numbers[11:17]
        box, centre = numbers[17:21], numbers[21:]
        self._data = data[0]
        size = self.path.stat().st_size
        if size != 16384 + metadata[1] + leaves[1] + data[1]:
            self.fail(f"has {size:,} bytes, which are not those of its sections")
        if root[0] + root[1] > 16384 or not leaves[0]:
            self.fail("has its directories in the wrong place")
        json.loads(gzip.decompress(self._part(*metadata)))
        entries = list(self._entries(root, leaves[0]))
        self._check_entries(entries, data[1], counts, is_clustered=bool(flags[0]))
        zooms = [_zoom(entry.number) for entry in (entries[0], entries[-1])]
        if flags[4:6] != zooms or not zooms[0] <= centre[0] <= zooms[1]:
            self.fail("has other zooms than its header says")
        if box[0] >= box[2] or box[1] >= box[3]:
            self.fail("has bounds without an area")
        self._list = entries

    def _check_entries(
        self, entries: list[_Entry], data: int, counts: list[int], *, is_clustered: bool
    ) -> None:
        end = last = 0
        for entry in entries:
            if entry.run < 1 or entry.length < 1 or (end and entry.number < end):
                self.fail(f"has an invalid entry for tile {entry.number}")
            if entry.offset + entry.length > data:
                self.fail(f"has tile {entry.number} outside of its data")
            end = entry.number + entry.run
            if is_clustered and entry.offset > last:
                self.fail(f"says that it is clustered, but tile {entry.number} is not in order")
            last = max(last, entry.offset + entry.length)
        contents = len({entry.offset for entry in entries})
        self.count = sum(entry.run for entry in entries)
        if counts != [self.count, len(entries), contents]:
            self.fail("has other numbers of tiles than its header says")

    def tile(self, unit: Unit, level: ExportLevel, row: int, column: int) -> bytes | None:
        number = _number(level.zoom, column, row)
        place = bisect_right(self._list, number, key=lambda entry: entry.number) - 1
        if place < 0 or number >= self._list[place].number + self._list[place].run:
            return None
        found = self._list[place]
        return self._part(self._data + found.offset, found.length)

    def close(self) -> None:
        self._file.close()

    def _entries(self, section: tuple[int, int], leaves: int) -> Iterator[_Entry]:
        values = _varints(gzip.decompress(self._part(*section)))
        count = next(values)
        if not count:
            self.fail("has an empty directory")
        steps, runs, lengths, places = ([next(values) for _ in range(count)] for _ in range(4))
        number = offset = 0
        for position in range(count):
            number += steps[position]
            if places[position]:
                offset = places[position] - 1
            else:
                offset += lengths[position - 1]
            entry = _Entry(number, runs[position], lengths[position], offset)
            if entry.run:
                yield entry
            else:
                yield from self._entries((leaves + entry.offset, entry.length), leaves)

    def _part(self, start: int, length: int) -> bytes:
        self._file.seek(start)
        data = self._file.read(length)
        if len(data) != length:
            self.fail(f"ends before byte {start + length:,}")
        return data


def _zoom(number: int) -> int:
    zoom = 0
    while first_number(zoom + 1) <= number:
        zoom += 1
    return zoom


def _number(zoom: int, column: int, row: int) -> int:
    """Return the number of a tile (PMTiles 3, section 4.1)."""
    found, side = first_number(zoom), 1 << zoom
    x, y = column, row
    while side > 1:
        side //= 2
        right, lower = int(x & side > 0), int(y & side > 0)
        found += side * side * (3 * right ^ lower)
        x, y = x & (side - 1), y & (side - 1)
        if not lower:
            if right:
                x, y = side - 1 - x, side - 1 - y
            x, y = y, x
    return found


def _varints(data: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0


class _Database(Archive):
    query = ""
    table = ""

    def __init__(self, plan: ExportPlan, path: Path) -> None:
        super().__init__(plan, path)
        uri = f"file:{quote(str(path.absolute()))}?mode=ro"
        self._database = sqlite3.connect(uri, uri=True)

    def check(self) -> None:
        (found,) = self._database.execute("PRAGMA integrity_check").fetchone()
        if found != "ok":
            self.fail(f"is damaged: {found}")
        if self._database.execute("PRAGMA foreign_key_check").fetchone() is not None:
            self.fail("has a row that refers to none")
        zooms = {level.zoom for level in self.plan.levels}
        rows = self._database.execute(
            f"SELECT zoom_level, count(*) FROM {self.table} GROUP BY 1"  # noqa: S608 - a constant
        ).fetchall()
        if not {zoom for zoom, _ in rows} <= zooms:
            self.fail("has a zoom that is not one of the export")
        self.count = sum(count for _, count in rows)

    def tile(self, unit: Unit, level: ExportLevel, row: int, column: int) -> bytes | None:
        values = level.zoom, column, self.row(level, row)
        found = self._database.execute(
            "SELECT tile_data FROM "  # noqa: S608 - a constant
            f"{self.query} WHERE zoom_level = ? AND tile_column = ? AND tile_row = ?",
            values,
        ).fetchone()
        return None if found is None else bytes(found[0])

    def row(self, level: ExportLevel, row: int) -> int:
        """Return the row of a tile in the archive."""
        return row

    def close(self) -> None:
        self._database.close()


class _MBTiles(_Database):
    query = "tiles"
    table = "tiles_shallow"

    def check(self) -> None:
        super().check()
        values = dict(self._database.execute("SELECT name, value FROM metadata"))
        missing = {"name", "format", "bounds", "minzoom", "maxzoom"} - values.keys()
        if missing:
            self.fail(f"has no {min(missing)} in its metadata")
        if values["format"] == "pbf" and "json" not in values:
            self.fail("has vector tiles and no json in its metadata")
        (orphans,) = self._database.execute(
            "SELECT count(*) FROM tiles_shallow "
            "WHERE tile_data_id NOT IN (SELECT tile_data_id FROM tiles_data)"
        ).fetchone()
        if orphans:
            self.fail(f"has {orphans} tiles without data")

    def row(self, level: ExportLevel, row: int) -> int:
        return int((1 << level.zoom) - 1 - row)


class _GeoPackage(_Database):
    query = table = "map"

    def check(self) -> None:
        super().check()
        (application,) = self._database.execute("PRAGMA application_id").fetchone()
        if application != 0x47504B47:
            self.fail("is not a GeoPackage")
        outside = self._database.execute(
            "SELECT count(*) FROM map LEFT JOIN gpkg_tile_matrix AS m "
            "ON m.table_name = 'map' AND m.zoom_level = map.zoom_level "
            "WHERE m.zoom_level IS NULL OR tile_column NOT BETWEEN 0 AND matrix_width - 1 "
            "OR tile_row NOT BETWEEN 0 AND matrix_height - 1"
        ).fetchone()[0]
        if outside:
            self.fail(f"has {outside} tiles outside of their matrix")


class _Directory(Archive):
    def check(self) -> None:
        assert self.plan.kind is not None
        for name in ("tilejson.json", "metadata.json"):
            json.loads((self.path / name).read_text("utf-8"))
        extension = self.plan.kind.extension
        self.count = sum(1 for _ in self.path.glob(f"*/*/*.{extension}"))

    def tile(self, unit: Unit, level: ExportLevel, row: int, column: int) -> bytes | None:
        assert self.plan.kind is not None
        if self.plan.request.scheme == "tms":
            row = level.matrix.matrix_height - 1 - row
        name = f"{row}.{self.plan.kind.extension}"
        try:
            return (self.path / str(level.zoom) / str(column) / name).read_bytes()
        except FileNotFoundError:
            return None


class _Pyramid(Archive):
    """Slabs are read by their format: an index of offsets and sizes after 2048 bytes."""

    def __init__(self, plan: ExportPlan, path: Path) -> None:
        super().__init__(plan, path)
        self._levels: dict[str, Mapping[str, Any]] = {}
        self._open: tuple[Path, bytes] | None = None

    def check(self) -> None:
        descriptor = json.loads(self.path.read_text("utf-8"))
        self._levels = {level["id"]: level for level in descriptor["levels"]}
        wanted = {level.matrix.id for level in self.plan.levels}
        if self._levels.keys() != wanted:
            self.fail("has other levels than the export")
        masked = {level.matrix.id for level in self.plan.levels if level.is_mask}
        are_read = descriptor.get("mask_format") == MASK_FORMAT
        storages = {name: self._levels[name]["storage"] for name in wanted if are_read}
        found = {name for name, place in storages.items() if "mask_directory" in place}
        if masked != found:
            self.fail("has other masks than the layer" if found else "has no masks")
        for number in range(self.plan.count):
            unit = self.plan.unit(number)
            level = self.plan.levels[unit.level]
            for row, column in level.source.places(unit.row, unit.column):
                is_there = self._size(unit, level, row, column)[1] > 0
                self.count += is_there and not level.is_mask

    def tile(self, unit: Unit, level: ExportLevel, row: int, column: int) -> bytes | None:
        offset, size = self._size(unit, level, row, column)
        if not size:
            return None
        assert self._open is not None
        return self._open[1][offset : offset + size]

    def _size(self, unit: Unit, level: ExportLevel, row: int, column: int) -> tuple[int, int]:
        """Return offset and size of a tile in its slab."""
        entry = self._levels[level.matrix.id]
        storage = entry["storage"]
        name = slab_path(unit.column, unit.row, storage["path_depth"])
        folder = storage["mask_directory" if level.is_mask else "image_directory"]
        path = self.path.parent / folder / name
        if self._open is None or self._open[0] != path:
            self._open = path, path.read_bytes() if path.exists() else b""
        data = self._open[1]
        if not data:
            return 0, 0
        width, height = entry["tiles_per_width"], entry["tiles_per_height"]
        place = row % height * width + column % width
        (offset,) = struct.unpack_from("<I", data, 2048 + 4 * place)
        (size,) = struct.unpack_from("<I", data, 2048 + 4 * (width * height + place))
        if size and offset + size > len(data):
            self.fail(f"has a tile of level {level.matrix.id} outside of its slab")
        return int(offset), int(size)


ARCHIVES: Final[Mapping[str, type[Archive]]] = {
    "pmtiles": _PMTiles,
    "mbtiles": _MBTiles,
    "gpkg": _GeoPackage,
    "dir": _Directory,
    "pyramid": _Pyramid,
}
"""What reads an archive, by format."""
