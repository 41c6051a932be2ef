"""One slab, one task: its pixels, its bytes and its quarter image."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from mastaba.api.catalogue import TileLimits
from mastaba_build.errors import BuildError
from mastaba_build.output.storage import Place, Written
from mastaba_build.pixels.drawing import Drawer
from mastaba_build.pixels.quarters import Quarter, has_quarter, read_quarter, write_quarter
from mastaba_build.pixels.stored import stored_tiles
from mastaba_build.plan.names import MASK_FORMAT, slab_key
from mastaba_build.plan.plan import Level, Plan, SlabKey
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


class TileDrawer(Protocol):
    """Draws the tiles of slabs.

    Attributes:
        losses: as in `Drawer`.
    """

    losses: str

    def tiles(self, slab: SlabKey) -> Iterator[Raster | None]:
        """Yield the tiles of a slab in row-major order; None for those without data.

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
        target: Place | None = None,
        work: Place | None = None,
        drawer: TileDrawer | None = None,
    ) -> None:
        self._plan = plan
        self._type = plan.pixel_type
        self._stores_empty = plan.configuration.empty_tiles == "store"
        self._deflate = deflater(plan.encoder)
        self._drawer = drawer or Drawer(plan, work)
        self._target = target
        self._work = work
        self._blank: dict[tuple[int, int], bytes] = {}
        self._quarter: Raster | None = None

    @classmethod
    def for_output(cls, plan: Plan, drawer: TileDrawer | None = None) -> SlabBuilder:
        """Return a builder that writes to the output and the work directory of the plan.

        Raises:
            OutputError: the output cannot be opened.
        """
        configuration = plan.configuration
        target = configuration.output.open().below(plan.root)
        return cls(plan, target, Place.of_directory(configuration.work_directory), drawer)

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
        quarter = self._blank_quarter(slab, shape)
        found: list[tuple[int, int]] = []
        for number, tile in enumerate(self._tiles(slab, children)):
            row, column = divmod(number, width)
            if tile is None or not tile.valid.any():
                data.add(self._nodata_tile(*shape) if self._stores_empty else None)
                if masks is not None:
                    empty = np.zeros(shape, np.uint8)
                    masks.add(
                        encode_tile(MASK_FORMAT, empty, self._deflate)
                        if self._stores_empty
                        else None
                    )
                continue
            found.append((slab.row * height + row, slab.column * width + column))
            data.add(encode_tile(self._type.format, self._type.stored(tile), self._deflate))
            if masks is not None:
                mask = np.where(tile.valid, np.uint8(255), np.uint8(0))
                masks.add(encode_tile(MASK_FORMAT, mask, self._deflate))
            if quarter is not None:
                self._decimate(slab, tile, quarter, row, column)
        size, written, quarter_hash = 0, Written("", None), ""
        if found:
            if quarter is not None and self._work is not None:
                quarter_hash = write_quarter(self._work, slab, quarter)
            stored = data.finish()
            size = len(stored)
            if self._target is not None:
                if masks is not None:
                    self._target.write(slab_key(self._plan, slab, "MASK"), masks.finish())
                written = self._target.write(slab_key(self._plan, slab), stored)
        return SlabResult(
            slab,
            size,
            *written,
            len(found),
            _limits(found),
            time.monotonic() - started,
            quarter_hash,
            self._drawer.losses if self._plan.levels[slab.level].from_sources else "",
        )

    def empty_tile_size(self, level: Level) -> int:
        """Return the bytes of a tile without data in a stored slab; 0 if it is absent."""
        matrix = level.matrix
        if not self._stores_empty:
            return 0
        return len(self._nodata_tile(matrix.tile_height, matrix.tile_width))

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
        with closing(self._plan.configuration.output.open()) as place:
            masks = self._plan.configuration.masks
            tiles = stored_tiles(self._plan, place.below(holder), slab, masks=masks)
            for number, tile in enumerate(tiles):
                if tile.valid.any():
                    row, column = divmod(number, self._plan.configuration.slab[0])
                    self._decimate(slab, tile, quarter, row, column)
        if not quarter.valid.any():
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

    def _nodata_tile(self, rows: int, columns: int) -> bytes:
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

    def _decimate(
        self, slab: SlabKey, tile: Raster, quarter: Raster, row: int, column: int
    ) -> None:
        """Put a decimated tile of a slab into its quarter image."""
        factor = self._plan.levels[slab.level + 1].factor
        rows, columns = (size // factor for size in tile.valid.shape)
        part = np.s_[row * rows : (row + 1) * rows, column * columns : (column + 1) * columns]
        decimate(
            *tile,
            factor,
            self._plan.configuration.decimation,
            has_alpha=self._type.has_alpha,
            into=(quarter.samples[part], quarter.valid[part]),
        )

    def _tiles(self, slab: SlabKey, children: Sequence[SlabKey]) -> Iterator[Raster | None]:
        if self._plan.levels[slab.level].from_sources:
            return self._drawer.tiles(slab)
        return self._from_quarters(slab, children)

    def _from_quarters(self, slab: SlabKey, children: Sequence[SlabKey]) -> Iterator[Raster | None]:
        """Yield the tiles of a slab from the quarter images of its children."""
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
            for left in range(0, width * matrix.tile_width, matrix.tile_width):
                tile: Raster | None = None
                for child, (raster, row, column) in quarters.items():
                    down = child.row % factor * quarter_height + row - top
                    across = child.column % factor * quarter_width + column - left
                    shape = matrix.tile_height, matrix.tile_width
                    source, target = _overlap((down, across), raster.valid.shape, shape)
                    if source is None or not raster.valid[source].any():
                        continue
                    tile = tile or self._type.blank(*shape)
                    tile.samples[target] = raster.samples[source]
                    tile.valid[target] = raster.valid[source]
                yield tile


_Slices: TypeAlias = tuple[slice, slice]


def _overlap(
    place: tuple[int, int], part: tuple[int, ...], whole: tuple[int, int]
) -> tuple[_Slices, _Slices] | tuple[None, None]:
    """Return where an image at a place of another one is inside it: in itself, and in the other."""
    starts = [max(0, start) for start in place]
    ends = [min(start + size, all) for start, size, all in zip(place, part, whole, strict=True)]
    if any(start >= end for start, end in zip(starts, ends, strict=True)):
        return None, None
    own, other = (
        tuple(
            slice(start - shift, end - shift)
            for start, end, shift in zip(starts, ends, shifts, strict=True)
        )
        for shifts in (place, (0, 0))
    )
    return (own[0], own[1]), (other[0], other[1])


def _limits(tiles: list[tuple[int, int]]) -> TileLimits | None:
    if not tiles:
        return None
    rows, columns = zip(*tiles, strict=True)
    return TileLimits(min(rows), max(rows), min(columns), max(columns))
