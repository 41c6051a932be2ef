"""The tiles of a slab from the sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mastaba.api.catalogue import TileMatrix
from mastaba_build.errors import SourceError
from mastaba_build.output.storage import OutputStore
from mastaba_build.pixels.numbering import Numbering
from mastaba_build.pixels.owners import Numbers, Owners
from mastaba_build.pixels.placement import Placement, Placer, Rectangle, Row
from mastaba_build.pixels.reading import Reader
from mastaba_build.pixels.resampling import is_full, resampled
from mastaba_build.plan.plan import Plan, SlabKey
from mastaba_build.plan.styling import Styling
from mastaba_build.samples import Raster, fill, paste
from mastaba_build.sources.coverage import Coverage


class Drawer:
    """Draws tiles of one plan from its sources; datasets stay open.

    Args:
        work: work directory; None if there is none.

    Attributes:
        losses: which source pixels the tiles drawn last lack; empty for none.
        payloads: empty, because all tiles are encoded.
        numbers, table: as in `SlabDrawer`.
    """

    def __init__(self, plan: Plan, work: OutputStore | None = None) -> None:
        self._plan = plan
        self._type = plan.source_type
        self._has_alpha = self._type.has_alpha
        configuration = plan.configuration
        self._reader = Reader(
            plan.source_type, configuration.decimation, configuration.access, work
        )
        self._placers: dict[tuple[int, int], Placer] = {}
        self._reaches: dict[int, npt.NDArray[np.int64]] = {}
        self._coverages: dict[int, Coverage] = {}
        self._missing: list[int] = []
        self.losses = ""
        self.payloads: Mapping[int, bytes] = {}
        self._numbering: Numbering | None = None
        if plan.provenance is not None:
            self._numbering = Numbering(plan, plan.provenance, self._reader)
        self.numbers: Numbers | None = None
        self.table = None if self._numbering is None else self._numbering.table

    def prepare(self, number: int) -> None:
        """Find out once, for all workers, what the pixels of a source depend on.

        Args:
            number: of the source in the plan.

        Raises:
            SourceError: the source cannot be read or has changed.
            OutputError: the result cannot be stored.
        """
        self._reader.find_outside(self._plan.sources[number])

    def rows(self, slab: SlabKey) -> Iterator[Raster | None]:
        """Yield the rows of tiles of a slab, each as one image; None for those without data.

        Raises:
            SourceError: a source cannot be read, or has changed.
        """
        width, height = self._plan.configuration.slab
        first, left = slab.row * height, slab.column * width
        self._reader.start()
        self._missing.clear()
        if self._plan.styling is None:
            for tile_row in range(first, first + height):
                yield self._row(slab.level, tile_row, left, width)
        else:
            yield from self._styled(slab.level, self._plan.styling, (first, left))
        self._reader.check_sources()
        self._check_coverage(slab.level)

    def _check_coverage(self, level: int) -> None:
        """Compare the tiles drawn last with the samples of the sources.

        Raises:
            SourceError: source pixels with data are missing, and the build does not accept that.
        """
        coverage, sources = self._coverage(level), self._plan.sources if self._missing else []
        self.losses = ""
        if coverage is None or not self._missing:
            return
        lost = coverage.lost(self._missing, sources, self._reader.is_valid)
        if lost:
            sample = coverage.sample(lost[0])
            self.losses = (
                f"{sources[sample.source].path}: {len(lost)} sampled pixels with data are missing "
                f"in level {self._plan.levels[level].matrix.id}, the first is row {sample.row}, "
                f"column {sample.column}"
            )
            if not self._plan.configuration.accept_losses:
                raise SourceError(
                    f"{self.losses}; reproject it with gdalwarp, or publish the rest with "
                    "--accept-losses"
                )

    def _coverage(self, level: int) -> Coverage | None:
        """Return the samples in a level; None for plans without any."""
        plan = self._plan
        if plan.samples is None:
            return None
        if level not in self._coverages:
            matrix = plan.levels[level].matrix
            self._coverages[level] = Coverage(plan.samples, plan.groups, plan.crs, matrix)
        return self._coverages[level]

    def _styled(
        self, level: int, styling: Styling, corner: tuple[int, int]
    ) -> Iterator[Raster | None]:
        """Yield the rows of tiles of a slab in a style, from the pixels around them."""
        matrix = self._plan.levels[level].matrix
        width, height = self._plan.configuration.slab
        margin = styling.margin
        first, left = corner[0] - margin, corner[1] - margin
        rows: list[Raster | None] = []
        numbers: list[Numbers | None] = []
        for tile_row in range(first, first + height + 2 * margin):
            rows = rows[-2 * margin :] if margin else []
            numbers = numbers[-2 * margin :] if margin else []
            rows.append(self._row(level, tile_row, left, width + 2 * margin))
            numbers.append(self.numbers)
            if len(rows) <= 2 * margin:
                continue
            if (middle := numbers[margin]) is not None:
                start = margin * matrix.tile_width
                self.numbers = middle[:, start : start + width * matrix.tile_width]
            if rows[margin] is None:
                yield None
                continue
            tiles = self._plan.pixel_type.blank(matrix.tile_height, width * matrix.tile_width)
            whole = self._with_margin(rows, matrix, margin)
            centre = whole.valid[margin : margin + matrix.tile_height]
            for column in range(0, width * matrix.tile_width, matrix.tile_width):
                tile = np.s_[:, column : column + matrix.tile_width]
                around = np.s_[:, column : column + matrix.tile_width + 2 * margin]
                if not centre[:, margin:][tile].any():
                    continue
                image, valid = whole.samples[around], whole.valid[around]
                tiles.samples[tile], tiles.valid[tile] = styling.apply(
                    Raster(np.ascontiguousarray(image), np.ascontiguousarray(valid)),
                    self._plan.pixel_type,
                    matrix.cell_size,
                    is_geographic=self._plan.crs.is_geographic,
                )
            yield tiles

    def _with_margin(
        self, rows: Sequence[Raster | None], matrix: TileMatrix, margin: int
    ) -> Raster:
        """Return the middle one of 3 rows of tiles with a margin in pixels from what is around it.

        Args:
            rows: which have one tile more on each side; or one row, without a margin.
        """
        height = matrix.tile_height
        across = self._plan.configuration.slab[0] * matrix.tile_width
        whole = self._type.blank(height + 2 * margin, across + 2 * margin)
        start = matrix.tile_width - margin if margin else 0
        columns = slice(start, start + across + 2 * margin)
        for row, (target, source) in zip(rows, _parts(height, margin), strict=True):
            if row is not None:
                whole.samples[target] = row.samples[source, columns]
                whole.valid[target] = row.valid[source, columns]
        return whole

    def _row(self, level: int, tile_row: int, first: int, width: int) -> Raster | None:
        """Return some tiles of a row from some column on.

        Without alpha, the uppermost group comes first, and what it covers is not drawn again.
        """
        row: Raster | None = None
        numbering = self._numbering
        if numbering is not None:
            numbering.begin()
        coverage = self._coverage(level)
        reach = self._reach(level)
        near = (reach[:, 0] <= tile_row) & (tile_row <= reach[:, 1])
        near &= (reach[:, 2] < first + width) & (first <= reach[:, 3])
        groups = np.flatnonzero(near).tolist()
        for group in groups if self._has_alpha else reversed(groups):
            low, high = reach[group, 2:].tolist()
            columns = list(range(max(first, low), min(first + width - 1, high) + 1))
            if row is not None and not self._has_alpha:
                full = np.all(row.valid.reshape(len(row.valid), width, -1), axis=(0, 2))
                columns = [column for column in columns if not full[column - first]]
            placed = self._placer(level, group).row(tile_row, columns) if columns else None
            if placed is not None:
                row = self._drawn(row, level, group, placed, first, width)
        if coverage is not None:
            self._missing += coverage.missing(tile_row, range(first, first + width), row)
        if numbering is not None:
            numbering.add_polygons(self._plan.levels[level].matrix, tile_row, first)
            self.numbers = numbering.row
        return row

    def _reach(self, level: int) -> npt.NDArray[np.int64]:
        """Return first and last tile row and column of each group, shape (groups, 4)."""
        if level not in self._reaches:
            matrix = self._plan.levels[level].matrix
            nothing = 0, -1, 0, -1
            limits = [matrix.limits_of(self._plan.widened(box, matrix)) for box in self._plan.boxes]
            self._reaches[level] = np.array(
                [
                    (one.min_row, one.max_row, one.min_col, one.max_col) if one else nothing
                    for one in limits
                ]
            )
        return self._reaches[level]

    def _placer(self, level: int, group: int) -> Placer:
        key = level, group
        if key not in self._placers:
            plan = self._plan
            self._placers[key] = Placer(
                plan.groups[group],
                plan.levels[level].matrix,
                plan.crs,
                plan.configuration.interpolation,
                plan.configuration.decimation,
            )
        return self._placers[key]

    def _drawn(
        self, row: Raster | None, level: int, group: int, placed: Row, first: int, width: int
    ) -> Raster | None:
        """Draw one group into a row of tiles, and return it.

        Args:
            row: None for one without data.
            first: column of the first tile, of ``width``.
        """
        matrix = self._plan.levels[level].matrix
        has_alpha = self._has_alpha
        whole, pixels = placed.window, None
        owners: Owners | int | None = None
        if placed.at_once:
            pixels, owners = self._read(group, whole, placed.joined[0].factor)
        drawn: list[_Drawn] = []
        for run, placement in zip(placed.runs, placed.joined, strict=True):
            start = (run.column - first) * matrix.tile_width
            if pixels is not None and (
                len(run.placements) == 1
                or is_full(pixels, (whole[0], whole[2]), placement, has_alpha=has_alpha)
            ):
                found = resampled(pixels, (whole[0], whole[2]), placement, has_alpha=has_alpha)
                if found is not None:
                    part = placement.part
                    drawn.append(_Drawn(start, part, found, run.placements, owners))
                continue
            for one in run.placements:
                origin, cells, own = whole, pixels, owners
                if cells is None:
                    assert one.window is not None
                    origin = one.window
                    cells, own = self._read(group, origin, one.factor)
                found = resampled(cells, (origin[0], origin[2]), one, has_alpha=has_alpha)
                if found is not None:
                    drawn.append(_Drawn(start, one.part, found, [one], own))
                start += matrix.tile_width
        shape = matrix.tile_height, width * matrix.tile_width
        for piece in drawn:
            if self._numbering is not None:
                self._number(self._numbering, group, piece, row, shape)
            if row is None and piece.raster.valid.shape == shape:
                row = piece.raster
                continue
            row = row or self._type.blank(*shape)
            top, left = piece.part[0], piece.start + piece.part[2]
            if has_alpha:
                paste(row, piece.raster, top, left, has_alpha=True)
            else:
                fill(row, piece.raster, top, left)
        return row

    def _read(
        self, group: int, window: Rectangle, factor: int
    ) -> tuple[Raster, Owners | int | None]:
        """Return source cells of a group, and which members they come from, if it is needed."""
        if self._numbering is not None:
            return self._numbering.read(group, window, factor)
        return self._reader.read(self._plan.groups[group], window, factor), None

    @staticmethod
    def _number(
        numbering: Numbering,
        group: int,
        drawn: _Drawn,
        row: Raster | None,
        shape: tuple[int, int],
    ) -> None:
        """Note which sources the parts of a row come from that will be drawn into it."""
        top, left = drawn.part[0], drawn.start + drawn.part[2]
        column = 0
        for one in drawn.placements:
            rows, columns = one.part[1] - one.part[0], one.part[3] - one.part[2]
            part = np.s_[:, column : column + columns]
            raster = Raster(drawn.raster.samples[part], drawn.raster.valid[part])
            place = np.s_[top : top + rows, left + column : left + column + columns]
            numbering.add(group, one, drawn.owners, raster, row, place, shape)
            column += columns


class _Drawn(NamedTuple):
    """What one group gives some tiles side by side.

    Attributes:
        start: column of the first tile in the row, in pixels.
        part: the pixels, counted from the first tile on.
        raster: these pixels.
        placements: of each tile.
        owners: of the source pixels, as `Numbering.read` returns them.
    """

    start: int
    part: Rectangle
    raster: Raster
    placements: Sequence[Placement]
    owners: Owners | int | None


def _parts(size: int, margin: int) -> list[tuple[slice, slice]]:
    """Return where neighbours are in the middle tile with a margin, and in themselves."""
    middle = slice(margin, margin + size), slice(0, size)
    if not margin:
        return [middle]
    before = slice(0, margin), slice(size - margin, size)
    after = slice(margin + size, 2 * margin + size), slice(0, margin)
    return [before, middle, after]
