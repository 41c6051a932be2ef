"""A directory of tiles, ``z/x/y.ext``, with tilejson.json and metadata.json."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mastaba_export.writers.base import Writer
from mastaba_export.writers.metadata import bounds_of, described, zooms
from mastaba_export.writers.sets import set_document

if TYPE_CHECKING:
    from mastaba_export.journal import Journal
    from mastaba_export.plan import ExportPlan, Unit
    from mastaba_export.sources import Batch


class DirectoryWriter(Writer):
    """Writes a directory, in which every tile is a file."""

    makes_directory = True

    def __init__(self, plan: ExportPlan, part: Path, journal: Journal) -> None:
        super().__init__(plan, part, journal)
        self._made: str | None = None

    def start(self) -> None:
        if self.part.exists():
            shutil.rmtree(self.part)
        self.part.mkdir()

    def undo(self, units: Iterable[Unit]) -> None:
        for unit in units:
            source = self.plan.levels[unit.level].source
            for row, column in source.places(unit.row, unit.column):
                self._path(unit.level, row, column).unlink(missing_ok=True)

    def add(self, unit: Unit, batch: Batch) -> None:
        for tile in batch.tiles:
            path = self._path(unit.level, tile.row, tile.column)
            folder = str(path.parent)
            if folder != self._made:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._made = folder
            path.write_bytes(tile.payload)

    def sync(self) -> dict[str, Any]:
        # One call for thousands of files.
        os.sync()
        return {}

    def finish(self, changed: Sequence[str]) -> None:
        _write(self.part / "tilejson.json", self._tilejson())
        _write(self.part / "metadata.json", self._metadata(changed))
        os.sync()

    def size(self, path: Path) -> int:
        return sum(one.stat().st_size for one in path.rglob("*") if one.is_file())

    def _path(self, level: int, row: int, column: int) -> Path:
        assert self.plan.kind is not None
        found = self.plan.levels[level]
        if self.plan.request.scheme == "tms":
            row = found.matrix.matrix_height - 1 - row
        return self.part / str(found.zoom) / str(column) / f"{row}.{self.plan.kind.extension}"

    def _tilejson(self) -> dict[str, Any]:
        plan, box = self.plan, bounds_of(self.plan)
        assert plan.kind is not None
        low, high = zooms(plan)
        found = described(plan)
        names = ("name", "description", "attribution", "vector_layers")
        return {
            "tilejson": "3.0.0",
            "tiles": [f"{{z}}/{{x}}/{{y}}.{plan.kind.extension}"],
            "scheme": plan.request.scheme,
            "minzoom": low,
            "maxzoom": high,
            "bounds": [box.xmin, box.ymin, box.xmax, box.ymax],
            "center": [(box.xmin + box.xmax) / 2, (box.ymin + box.ymax) / 2, (low + high) // 2],
            **{name: found[name] for name in names if name in found},
        }

    def _metadata(self, changed: Sequence[str]) -> dict[str, Any]:
        plan = self.plan
        assert plan.kind is not None
        levels = {
            str(level.zoom): {
                "matrix": level.matrix.id,
                "min_row": level.selection.limits.min_row,
                "max_row": level.selection.limits.max_row,
                "min_col": level.selection.limits.min_col,
                "max_col": level.selection.limits.max_col,
            }
            for level in plan.levels
        }
        raster = plan.layer.pyramid.raster
        return {
            **described(plan, changed),
            "layer": plan.layer.key,
            "media_type": plan.kind.media_type,
            "format": plan.layer.pyramid.format.name,
            **({} if raster is None else {"nodata": list(raster.nodata)}),
            "levels": levels,
            "tile_matrix_set": set_document(plan.tile_matrix_set),
        }


def _write(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")
