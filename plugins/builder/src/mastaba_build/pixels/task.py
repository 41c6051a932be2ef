"""One slab, one task: its pixels, its bytes and its quarter image."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from mastaba.api.catalogue import MASK_FORMAT, TileLimits
from mastaba_build.errors import BuildError
from mastaba_build.output.numbers import NumberedSlab
from mastaba_build.output.storage import OutputStore, Written
from mastaba_build.pixels.drawing import Drawer
from mastaba_build.pixels.number_slabs import NumberSlab, NumberTiles
from mastaba_build.pixels.owners import Numbers
from mastaba_build.pixels.quarters import Quarter, has_quarter, read_quarter, write_quarter
from mastaba_build.pixels.stored import stored_rows
from mastaba_build.plan.levels import Level
from mastaba_build.plan.names import SOURCE, slab_key
from mastaba_build.plan.plan import Plan, SlabKey
from mastaba_build.samples import Raster
from mastaba_render.api.resampling import decimate
from mastaba_writer.deflate import deflater
from mastaba_writer.slab_writer import SlabAssembler
from mastaba_writer.tile_encoder import encode_tile


@dataclass(frozen=True, slots=True)
class SlabResult:
    """What the journal keeps of a slab.

    Attributes:
        size, md5: of the stored slab; 0 and empty if it has no data and is not stored.
        version: of the stored slab; None if the storage has no versions.
        tiles: tiles with data.
        limits: tiles with data, in the matrix; None without any.
        seconds: time of the task.
        quarter: hash of the quarter image; empty if there is none.
        losses: which source pixels it lacks, if the build accepts that; not in the journal.
        numbers: the slab of source numbers beside it; None if there is none.
    """

    slab: SlabKey
    size: int
    md5: str
    version: str | None
    tiles: int
    limits: TileLimits | None
    seconds: float
    quarter: str
    losses: str = ""
    numbers: NumberedSlab | None = None


class SlabDrawer(Protocol):
    """Draws slabs, row of tiles by row of tiles.

    Attributes:
        losses: as in `Drawer`.
        payloads: of the row that was yielded last, the tiles that are stored as they are, by
            their column.
        numbers: of the same row, where its sources are in the table, shape (rows, columns). They
            have no meaning where it has no data. None if the plan has no numbers.
        table: number of the source at each position; 0 at the first one.
    """

    losses: str
    payloads: Mapping[int, bytes]
    numbers: Numbers | None
    table: npt.NDArray[np.uint32] | None

    def rows(self, slab: SlabKey) -> Iterator[Raster | None]:
        """Yield the rows of tiles of a slab, each as one image; None for those without data.

        Raises:
            BuildError: a source cannot be used.
        """


class SlabBuilder:
    """Computes slabs of one plan, in one process.

    Args:
        plan: the build.
        target: where slabs are written; None to compute only.
        work: where quarter images are.
        drawer: of the slabs that are not computed from others; by default from the sources.
    """

    def __init__(
        self,
        plan: Plan,
        target: OutputStore | None = None,
        work: OutputStore | None = None,
        drawer: SlabDrawer | None = None,
    ) -> None:
        self._plan = plan
        self._type = plan.pixel_type
        self._has_alpha = self._type.has_alpha
        self._stores_empty = plan.configuration.empty_tiles == "store"
        self._deflate = deflater(plan.encoder)
        self._drawer = drawer or Drawer(plan, work)
        self._target = target
        self._work = work
        self._blank: dict[tuple[int, int], bytes] = {}
        self._number_tiles = NumberTiles()
        self._quarter: Raster | None = None

    @classmethod
    def for_output(cls, plan: Plan, drawer: SlabDrawer | None = None) -> SlabBuilder:
        """Return a builder that writes to the output and the work directory of the plan.

        Raises:
            OutputError: the output cannot be opened.
        """
        configuration = plan.configuration
        target = configuration.output.open().below(plan.root)
        return cls(plan, target, OutputStore.of_directory(configuration.work_directory), drawer)

    def build(self, slab: SlabKey, children: Sequence[SlabKey] = ()) -> SlabResult:
        """Compute a slab, write its quarter image, then the slab.

        Args:
            children: those of its children that contain data.

        Raises:
            BuildError: a source or an intermediate image cannot be used.
            OutputError: something cannot be written.
        """
        started = time.monotonic()
        matrix = self._plan.levels[slab.level].matrix
        width, height = self._plan.configuration.slab
        shape = matrix.tile_height, matrix.tile_width
        data = self._assembler(self._type.format, self._type.channels, shape)
        masks = self._assembler(MASK_FORMAT, 1, shape) if self._plan.configuration.masks else None
        numbers = self._number_slab(slab, shape)
        quarter = self._blank_quarter(slab, shape)
        found: list[tuple[int, int]] = []
        for number, row in enumerate(self._rows(slab, children)):
            full = [] if row is None else tiles_with_data(row, width)
            if row is not None and full:
                self._add(data, row, full)
                if masks is not None:
                    self._add_masks(masks, row, full)
                if numbers is not None and self._drawer.numbers is not None:
                    numbers.add(self._drawer.numbers, row, full)
                if quarter is not None:
                    self._decimate(slab, row, full, quarter, number)
            else:
                _append(data, [self._nodata_tile(*shape)] * width)
                if masks is not None:
                    _append(masks, [self._empty_mask(*shape)] * width)
                if numbers is not None:
                    numbers.skip()
            top, left = slab.row * height + number, slab.column * width
            for column in full:
                found.append((top, left + column))
        size, written, quarter_hash = 0, Written("", None), ""
        numbered: NumberedSlab | None = None
        if found:
            if quarter is not None and self._work is not None:
                quarter_hash = write_quarter(self._work, slab, quarter)
            stored = data.finish()
            size = len(stored)
            if self._target is not None:
                if numbers is not None:
                    facts, numbered_bytes = numbers.finish()
                    md5 = self._target.write(slab_key(self._plan, slab, SOURCE), numbered_bytes).md5
                    numbered = facts._replace(md5=md5)
                if masks is not None:
                    # Directly before the pixels: readers pair both.
                    self._target.write(slab_key(self._plan, slab, "MASK"), masks.finish())
                written = self._target.write(slab_key(self._plan, slab), stored)
        return SlabResult(
            slab,
            size,
            *written,
            len(found),
            limits_around(found),
            time.monotonic() - started,
            quarter_hash,
            self._drawer.losses if self._plan.levels[slab.level].from_sources else "",
            numbered,
        )

    def empty_tile_size(self, level: Level) -> int:
        """Return the bytes of a tile without data in a stored slab; 0 if it is absent."""
        matrix = level.matrix
        return len(self._nodata_tile(matrix.tile_height, matrix.tile_width) or b"")

    def prepare(self, source: int) -> None:
        """Do what all slabs need of a source, once; see `Drawer.prepare`."""
        assert isinstance(self._drawer, Drawer)
        self._drawer.prepare(source)

    def restore(self, slab: SlabKey, holder: str, expected: str) -> bool:
        """Make sure that the quarter image of an unchanged slab is in the work directory.

        If it was not kept, it is made from the stored slab.

        Args:
            holder: root of the pyramid that contains the slab.
            expected: hash of the quarter image when the slab was built; empty if the stored pixels
                are wanted.

        Returns:
            Whether the pixels are those from which the slab was encoded.

        Raises:
            BuildError: the slab cannot be read.
        """
        assert self._work is not None
        if has_quarter(self._work, slab, expected):
            return True
        matrix = self._plan.levels[slab.level].matrix
        quarter = self._blank_quarter(slab, (matrix.tile_height, matrix.tile_width))
        assert quarter is not None
        with closing(self._plan.configuration.output.open()) as store:
            masks = self._plan.configuration.masks
            rows = stored_rows(self._plan, store.below(holder), slab, masks=masks)
            has_data = False
            for number, row in enumerate(rows):
                full = tiles_with_data(row, self._plan.configuration.slab[0])
                self._decimate(slab, row, full, quarter, number)
                has_data = has_data or bool(full)
        if not has_data:
            raise BuildError(f"{slab_key(self._plan, slab)}: contains no data; use --replace")
        return write_quarter(self._work, slab, quarter) == expected or not expected

    def _assembler(self, format: str, channels: int, tile: tuple[int, int]) -> SlabAssembler:
        width, height = self._plan.configuration.slab
        return SlabAssembler(
            format=format,
            channels=channels,
            tile_width=tile[1],
            tile_height=tile[0],
            tiles_per_width=width,
            tiles_per_height=height,
        )

    def _number_slab(self, slab: SlabKey, shape: tuple[int, int]) -> NumberSlab | None:
        """Return what becomes the slab of source numbers beside a slab; None if there is none."""
        if self._drawer.table is None or not self._plan.is_numbered(slab):
            return None
        width, height = self._plan.configuration.slab
        corner = slab.row * height * shape[0], slab.column * width * shape[1]
        return NumberSlab(
            (width, height),
            shape,
            corner,
            self._drawer.table,
            self._number_tiles,
            has_alpha=self._has_alpha,
            stores_empty=self._stores_empty,
        )

    def _empty_mask(self, rows: int, columns: int) -> bytes | None:
        if not self._stores_empty:
            return None
        return encode_tile(MASK_FORMAT, np.zeros((rows, columns), np.uint8), self._deflate)

    def _nodata_tile(self, rows: int, columns: int) -> bytes | None:
        """Return a stored tile without data; None if such tiles are absent."""
        if not self._stores_empty:
            return None
        shape = rows, columns
        if shape not in self._blank:
            pixels = self._type.stored(self._type.blank(rows, columns))
            self._blank[shape] = encode_tile(self._type.format, pixels, self._deflate)
        return self._blank[shape]

    def _blank_quarter(self, slab: SlabKey, tile: tuple[int, int]) -> Raster | None:
        """Return an image without data, the same memory for each slab; None without a parent."""
        if self._plan.parent(slab) is None or self._work is None:
            return None
        width, height = self._plan.configuration.slab
        factor = self._plan.levels[slab.level + 1].factor
        rows, columns = height * tile[0] // factor, width * tile[1] // factor
        if self._quarter is None or self._quarter.valid.shape != (rows, columns):
            self._quarter = self._type.blank(rows, columns)
        self._quarter.valid[...] = False
        return self._quarter

    def _add(self, slab: SlabAssembler, row: Raster, full: list[int]) -> None:
        """Append a row of tiles to a slab.

        Args:
            full: the tiles with data.
        """
        height, width = len(row.valid), row.valid.shape[1] // self._plan.configuration.slab[0]
        tiles = [self._nodata_tile(height, width)] * self._plan.configuration.slab[0]
        parts = [slice(column * width, (column + 1) * width) for column in full]
        # Tile by tile: whole ones need no look at their gaps.
        pixels = [
            self._type.stored(Raster(row.samples[:, part], row.valid[:, part])) for part in parts
        ]
        given = self._drawer.payloads
        for column, tile in zip(full, pixels, strict=True):
            tiles[column] = given.get(column) or encode_tile(self._type.format, tile, self._deflate)
        for payload in tiles:
            slab.add(payload)

    def _add_masks(self, slab: SlabAssembler, row: Raster, full: list[int]) -> None:
        """Append the masks of a row of tiles to a mask slab."""
        height, width = len(row.valid), row.valid.shape[1] // self._plan.configuration.slab[0]
        tiles = [self._empty_mask(height, width)] * self._plan.configuration.slab[0]
        pixels = np.where(row.valid, np.uint8(255), np.uint8(0))
        for column in full:
            tile = pixels[:, column * width : (column + 1) * width]
            tiles[column] = encode_tile(MASK_FORMAT, tile, self._deflate)
        _append(slab, tiles)

    def _decimate(
        self, slab: SlabKey, row: Raster, full: list[int], quarter: Raster, number: int
    ) -> None:
        """Put the tiles with data of a row into the quarter image of a slab."""
        factor = self._plan.levels[slab.level + 1].factor
        width = row.valid.shape[1] // self._plan.configuration.slab[0]
        rows, columns = len(row.valid) // factor, width // factor
        for column in full:
            tile = np.s_[:, column * width : (column + 1) * width]
            part = np.s_[
                number * rows : (number + 1) * rows, column * columns : (column + 1) * columns
            ]
            decimate(
                row.samples[tile],
                row.valid[tile],
                factor,
                self._plan.configuration.decimation,
                has_alpha=self._has_alpha,
                into=(quarter.samples[part], quarter.valid[part]),
            )

    def _rows(self, slab: SlabKey, children: Sequence[SlabKey]) -> Iterator[Raster | None]:
        if self._plan.levels[slab.level].from_sources:
            return self._drawer.rows(slab)
        return self._from_quarters(slab, children)

    def _from_quarters(self, slab: SlabKey, children: Sequence[SlabKey]) -> Iterator[Raster | None]:
        """Yield the rows of tiles of a slab from the quarter images of its children."""
        assert self._work is not None
        level = self._plan.levels[slab.level]
        matrix, factor = level.matrix, level.factor
        width, height = self._plan.configuration.slab
        quarter_height = height * matrix.tile_height // factor
        quarter_width = width * matrix.tile_width // factor
        quarters: dict[SlabKey, Quarter] = {}
        for top in range(0, height * matrix.tile_height, matrix.tile_height):
            bottom = top + matrix.tile_height
            # Quarter images that these tiles need; the others are not kept in memory.
            rows = range(top // quarter_height, (bottom - 1) // quarter_height + 1)
            near = [child for child in children if child.row % factor in rows]
            quarters = {
                child: quarters.get(child) or read_quarter(self._work, child, self._type)
                for child in near
            }
            whole: Raster | None = None
            for child, (raster, row, column) in quarters.items():
                down = child.row % factor * quarter_height + row
                left = child.column % factor * quarter_width + column
                first, last = max(top, down), min(bottom, down + len(raster.valid))
                if first >= last:
                    continue
                source = slice(first - down, last - down)
                whole = whole or self._type.blank(matrix.tile_height, width * matrix.tile_width)
                target = np.s_[first - top : last - top, left : left + raster.valid.shape[1]]
                whole.samples[target] = raster.samples[source]
                whole.valid[target] = raster.valid[source]
            yield whole


def _append(slab: SlabAssembler, tiles: Iterable[bytes | None]) -> None:
    for tile in tiles:
        slab.add(tile)


def tiles_with_data(row: Raster, count: int) -> list[int]:
    """Return the tiles with data of a row of tiles."""
    width = row.valid.shape[1] // count
    return [
        column
        for column in range(count)
        if row.valid[:, column * width : (column + 1) * width].any()
    ]


def limits_around(tiles: list[tuple[int, int]]) -> TileLimits | None:
    """Return the smallest limits that contain tiles, given by row and column; None for none."""
    if not tiles:
        return None
    rows, columns = zip(*tiles, strict=True)
    return TileLimits(min(rows), max(rows), min(columns), max(columns))
