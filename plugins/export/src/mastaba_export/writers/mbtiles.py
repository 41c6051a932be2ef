"""MBTiles 1.3: rows are counted from the bottom, equal tiles are stored once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mastaba_export.errors import InterruptedExportError
from mastaba_export.writers.dedup import Seen
from mastaba_export.writers.metadata import bounds_of, described, zooms
from mastaba_export.writers.sqlite import SQLiteWriter

if TYPE_CHECKING:
    from mastaba_export.journal import Journal
    from mastaba_export.plan import ExportPlan, Unit
    from mastaba_export.sources import Batch

_ROWS: Final = 1024
"""Tiles that are read again between two questions whether to stop."""
# Tables and view have the names by which the programs of martin and Planetiler know this form.
_TABLES: Final = (
    "CREATE TABLE metadata (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID",
    "CREATE TABLE tiles_data (tile_data_id INTEGER PRIMARY KEY, tile_data BLOB NOT NULL)",
    "CREATE TABLE tiles_shallow (zoom_level INTEGER NOT NULL, tile_column INTEGER NOT NULL, "
    "tile_row INTEGER NOT NULL, tile_data_id INTEGER NOT NULL, "
    "PRIMARY KEY (zoom_level, tile_column, tile_row)) WITHOUT ROWID",
    "CREATE VIEW tiles AS SELECT zoom_level, tile_column, tile_row, tile_data "
    "FROM tiles_shallow JOIN tiles_data USING (tile_data_id)",
)


class MBTilesWriter(SQLiteWriter):
    """Writes MBTiles."""

    def __init__(self, plan: ExportPlan, part: Path, journal: Journal) -> None:
        super().__init__(plan, part, journal)
        self._seen = Seen(journal, everything=plan.request.dedup == "all")

    def create(self) -> None:
        for statement in _TABLES:
            self.run(statement)
        # "MPBX"
        self.run(f"PRAGMA application_id = {0x4D504258}")

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self.run("DELETE FROM tiles_data WHERE tile_data_id > ?", (self.last,))
        self._seen.restore()

    def undo(self, units: Iterable[Unit]) -> None:
        for unit in units:
            level = self.plan.levels[unit.level]
            source = level.source
            top, left = unit.row * source.height, unit.column * source.width
            lowest = (1 << level.zoom) - 1
            self.run(
                "DELETE FROM tiles_shallow WHERE zoom_level = ? AND tile_column BETWEEN ? AND ? "
                "AND tile_row BETWEEN ? AND ?",
                (
                    *(level.zoom, left, left + source.width - 1),
                    *(lowest - top - source.height + 1, lowest - top),
                ),
            )

    def add(self, unit: Unit, batch: Batch) -> None:
        zoom = self.plan.levels[unit.level].zoom
        lowest = (1 << zoom) - 1
        places, payloads = [], []
        for tile in batch.tiles:
            digest, number = self._seen.find(tile.payload)
            if number is None:
                self.last += 1
                number = self.last
                payloads.append((number, tile.payload))
                self._seen.add(digest, len(tile.payload), number)
            places.append((zoom, tile.column, lowest - tile.row, number))
        self.many("INSERT INTO tiles_data VALUES (?, ?)", payloads)
        # In the order of the key, so that fewer pages change.
        self.many("INSERT INTO tiles_shallow VALUES (?, ?, ?, ?)", sorted(places))

    def sync(self) -> dict[str, Any]:
        self._seen.sync()
        return super().sync()

    def finish(self, changed: Sequence[str]) -> None:
        values = {**self._metadata(changed), "agg_tiles_hash": self._hash()}
        self.many("INSERT OR REPLACE INTO metadata VALUES (?, ?)", sorted(values.items()))
        self.complete()

    def _hash(self) -> str:
        """Return the hash of all tiles, by which ``mbtiles`` of martin validates and compares."""
        digest = hashlib.md5(usedforsecurity=False)
        rows = self.rows(
            "SELECT zoom_level, tile_column, tile_row, tile_data FROM tiles "
            "ORDER BY zoom_level, tile_column, tile_row"
        )
        for number, (zoom, column, row, payload) in enumerate(rows):
            if number % _ROWS == 0 and self.should_stop is not None and self.should_stop():
                raise InterruptedExportError("the export was stopped")
            digest.update(b"%d%d%d" % (zoom, column, row))
            digest.update(payload)
        return digest.hexdigest().upper()

    def _metadata(self, changed: Sequence[str]) -> dict[str, str]:
        plan, box = self.plan, bounds_of(self.plan)
        assert plan.kind is not None
        found = described(plan, changed)
        layers = found.pop("vector_layers", None)
        slabs = found.pop("changed_slabs", None)
        low, high = zooms(plan)
        values = {name: str(value) for name, value in found.items()}
        values |= {
            "format": plan.kind.extension,
            "minzoom": str(low),
            "maxzoom": str(high),
            "bounds": ",".join(
                f"{value:.7f}" for value in (box.xmin, box.ymin, box.xmax, box.ymax)
            ),
            "center": f"{(box.xmin + box.xmax) / 2:.7f},{(box.ymin + box.ymax) / 2:.7f},"
            f"{(low + high) // 2}",
        }
        if layers is not None:
            values["json"] = json.dumps({"vector_layers": layers}, ensure_ascii=False)
        if slabs is not None:
            values["changed_slabs"] = json.dumps(slabs)
        return values
