"""A smaller pyramid: slabs and their masks as they are, those at the border with fewer tiles."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mastaba.api.catalogue import MASK_FORMAT
from mastaba_coverage import mask_pyramid
from mastaba_export.errors import DestinationError
from mastaba_export.sources import Batch, StoredTiles
from mastaba_export.writers.base import Writer, synchronise
from mastaba_export.writers.sets import set_document
from mastaba_writer.descriptor import LevelPlan, pyramid_descriptor, slab_list
from mastaba_writer.installation import layer_of
from mastaba_writer.slab_names import slab_path
from mastaba_writer.slab_writer import SlabAssembler

if TYPE_CHECKING:
    from mastaba.api.catalogue import Table
    from mastaba_export.journal import Journal
    from mastaba_export.plan import ExportPlan, Unit

_PATH_DEPTH: Final = 2


class PyramidWriter(Writer):
    """Writes the descriptor NAME.json, slabs in NAME/, and documents beside it."""

    makes_directory = True

    def __init__(self, plan: ExportPlan, part: Path, journal: Journal) -> None:
        super().__init__(plan, part, journal)
        self.name = part.name.removesuffix(".part").removesuffix(".json")
        self._slabs = self.first_made = part.with_name(self.name)
        self._written: list[Path] = []

    def start(self) -> None:
        for end in (".list", ".layer.json"):
            path = self.part.with_name(f"{self.name}{end}")
            if path.exists():
                raise DestinationError(f"{path} exists; remove it, or choose another name")
        self._check_set()
        self.part.write_bytes(b"")
        self._slabs.mkdir(exist_ok=True)

    def undo(self, units: Iterable[Unit]) -> None:
        for unit in units:
            self._path(unit).unlink(missing_ok=True)

    def fetch(self, unit: Unit) -> Batch:
        batch = self._fetch(unit)
        return replace(batch, count=0) if self.plan.levels[unit.level].is_mask else batch

    def _fetch(self, unit: Unit) -> Batch:
        level = self.plan.levels[unit.level]
        source = level.source
        assert isinstance(source, StoredTiles)
        if source.is_whole(unit.row, unit.column):
            return source.slab(unit.row, unit.column)
        batch = source.read(unit.row, unit.column)
        if not batch.tiles:
            return batch
        payloads: list[bytes | None] = [None] * (source.height * source.width)
        for tile in batch.tiles:
            place = tile.row % source.height * source.width + tile.column % source.width
            payloads[place] = tile.payload
        pyramid, matrix = self.plan.layer.pyramid, level.matrix
        if level.is_mask:
            pyramid = mask_pyramid(pyramid)
        slab = SlabAssembler(
            format=pyramid.format.name,
            channels=3 if pyramid.raster is None else pyramid.raster.channels,
            tile_width=matrix.tile_width,
            tile_height=matrix.tile_height,
            tiles_per_width=source.width,
            tiles_per_height=source.height,
        )
        for payload in payloads:
            slab.add(payload)
        return replace(batch, tiles=(), whole=bytes(slab.finish()))

    def add(self, unit: Unit, batch: Batch) -> None:
        if batch.whole is None:
            return
        path = self._path(unit)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(batch.whole)
        self._written.append(path)

    def sync(self) -> dict[str, Any]:
        for path in self._written:
            synchronise(path)
        self._written.clear()
        return {}

    def finish(self, changed: Sequence[str]) -> None:
        descriptor = self._descriptor()
        folder = self.part.parent
        tile_matrix_set = self.plan.tile_matrix_set
        document = set_document(tile_matrix_set)
        known = self._set_path()
        known.parent.mkdir(exist_ok=True)
        if not known.exists():
            _write(known, document)
        root = str(self._slabs.absolute())
        listed = slab_list([root], ((0, name) for name in self._names()))
        listing = folder / f"{self.name}.list"
        listing.write_text(listed, "utf-8")
        layer = layer_of(
            str(folder.absolute() / f"{self.name}.json"),
            descriptor,
            tile_matrix_sets={tile_matrix_set.id: document},
            title=self.plan.layer.title,
            abstract=self.plan.layer.abstract,
        )
        if self.plan.layer.styles:
            layer["styles"] = [style.id for style in self.plan.layer.styles]
        if changed:
            layer["abstract"] += f" Slabs changed during the export: {', '.join(changed)}"
        layer_path = folder / f"{self.name}.layer.json"
        _write(layer_path, layer)
        _write(self.part, descriptor)
        for path in (listing, known, layer_path, self.part):
            synchronise(path)

    def size(self, path: Path) -> int:
        slabs = (one.stat().st_size for one in self._slabs.rglob("*") if one.is_file())
        return path.stat().st_size + sum(slabs)

    def _set_path(self) -> Path:
        return self.part.parent / "tilematrixsets" / f"{self.plan.tile_matrix_set.id}.json"

    def _check_set(self) -> None:
        """Check that no other tile matrix set of the same name is beside the pyramid.

        Raises:
            DestinationError: there is one.
        """
        path = self._set_path()
        if not path.exists():
            return
        try:
            document = json.loads(path.read_text("utf-8"))
            found = {one["id"]: _grid(one) for one in document["tileMatrices"]}
        except (OSError, ValueError, KeyError, TypeError):
            found = {}
        wanted = set_document(self.plan.tile_matrix_set)
        if found != {one["id"]: _grid(one) for one in wanted["tileMatrices"]}:
            raise DestinationError(
                f"{path} is another tile matrix set; write the pyramid to another directory"
            )

    def _path(self, unit: Unit) -> Path:
        level = self.plan.levels[unit.level]
        folder = self._slabs / ("MASK" if level.is_mask else "DATA") / level.matrix.id
        return folder / slab_path(unit.column, unit.row, _PATH_DEPTH)

    def _names(self) -> Iterator[str]:
        """Yield the slabs in the order of levels, below the directory of the pyramid."""
        for unit in self.plan.units():
            path = self._path(unit)
            if path.exists():
                yield path.relative_to(self._slabs).as_posix()

    def _descriptor(self) -> dict[str, Any]:
        plan, pyramid = self.plan, self.plan.layer.pyramid
        limits = {level.matrix.id: level.selection.limits for level in plan.levels}
        sources = {level.matrix.id: level.source for level in plan.levels}
        levels = [
            LevelPlan(name, one.min_row, one.max_row, one.min_col, one.max_col)
            for name, one in limits.items()
        ]
        masked = {level.matrix.id for level in plan.levels if level.is_mask}
        raster = pyramid.raster
        document = pyramid_descriptor(
            plan.tile_matrix_set.id,
            pyramid.format.name,
            levels,
            slab_size=(1, 1),
            storage=lambda level: {
                "type": "FILE",
                "image_directory": f"{self.name}/DATA/{level}",
                **({"mask_directory": f"{self.name}/MASK/{level}"} if level in masked else {}),
                "path_depth": _PATH_DEPTH,
            },
            channels=3 if raster is None else raster.channels,
            nodata=None if raster is None else raster.nodata,
            interpolation=plan.layer.resampling,
            mask_format=MASK_FORMAT if masked else None,
            tables=lambda level: map(_table, pyramid.levels[level].tables),
        )
        for entry in document["levels"]:
            source = sources[entry["id"]]
            entry["tiles_per_width"] = source.width
            entry["tiles_per_height"] = source.height
        if raster is not None:
            specifications = document["raster_specifications"]
            specifications["photometric"] = raster.photometric
            if plan.layer.registration == "post":
                specifications["registration"] = "post"
        return document


def _grid(matrix: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what determines the tiles of a matrix."""
    names = ("cellSize", "tileWidth", "tileHeight", "matrixWidth", "matrixHeight")
    return *(matrix[name] for name in names), *matrix["pointOfOrigin"]


def _table(table: Table) -> dict[str, Any]:
    attributes = []
    for one in table.attributes:
        found: dict[str, Any] = {"name": one.name, "type": one.type}
        if one.count is not None:
            found["count"] = one.count
        if one.values:
            found["values"] = list(one.values)
        if one.minimum is not None:
            found["min"] = one.minimum
        if one.maximum is not None:
            found["max"] = one.maximum
        attributes.append(found)
    return {"name": table.name, "geometry": table.geometry, "attributes": attributes}


def _write(path: Path, document: Any) -> None:
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")
