"""The tiles of a slab from the sources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mastaba_build.errors import SourceError
from mastaba_build.output.storage import Place
from mastaba_build.pixels.placement import Placement, Placer, Rectangle
from mastaba_build.pixels.reading import Reader
from mastaba_build.pixels.resampling import resampled
from mastaba_build.plan.plan import Plan, SlabKey
from mastaba_build.plan.styling import Styling
from mastaba_build.samples import Raster, fill, paste
from mastaba_build.sources.coverage import Coverage

_STRIP = 1 << 22
"""Source cells that are read at once for a row of tiles."""


class _Job(NamedTuple):
    """A tile of the slab row, and a part of it that a group covers."""

    tile: int
    placement: Placement


class Drawer:
    """Draws tiles of one plan from its sources; datasets stay open.

    Args:
        work: work directory; None if there is none.

    Attributes:
        losses: which source pixels the tiles drawn last lack; empty for none.
    """

    def __init__(self, plan: Plan, work: Place | None = None) -> None:
        self._plan = plan
        self._type = plan.source_type
        configuration = plan.configuration
        self._reader = Reader(
            plan.source_type, configuration.decimation, configuration.access, work
        )
        self._placers: dict[tuple[int, int], Placer] = {}
        self._reaches: dict[int, npt.NDArray[np.int64]] = {}
        self._coverages: dict[int, Coverage] = {}
        self._missing: list[int] = []
        self.losses = ""

    def prepare(self, number: int) -> None:
        """Find out once, for all workers, what the pixels of a source depend on.

        Args:
            number: of the source in the plan.

        Raises:
            SourceError: the source cannot be read or has changed.
            OutputError: the result cannot be stored.
        """
        self._reader.find_outside(self._plan.sources[number])

    def tiles(self, slab: SlabKey) -> Iterator[Raster | None]:
        """Yield the tiles of a slab in row-major order; None for those without data.

        Raises:
            SourceError: a source cannot be read, or has changed.
        """
        width, height = self._plan.configuration.slab
        first, left = slab.row * height, slab.column * width
        self._reader.start()
        self._missing.clear()
        if self._plan.styling is None:
            for tile_row in range(first, first + height):
                yield from self._row(slab.level, tile_row, left, width)
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
        self, level: int, styling: Styling, start: tuple[int, int]
    ) -> Iterator[Raster | None]:
        """Yield the tiles of a slab in a style, from those around them."""
        matrix = self._plan.levels[level].matrix
        width, height = self._plan.configuration.slab
        margin = styling.margin
        first, left = start[0] - margin, start[1] - margin
        rows: list[list[Raster | None]] = []
        for tile_row in range(first, first + height + 2 * margin):
            rows = [*rows[-2 * margin :], []] if margin else [[]]
            rows[-1] = self._row(level, tile_row, left, width + 2 * margin)
            if len(rows) <= 2 * margin:
                continue
            for column in range(width):
                around = [row[column : column + 1 + 2 * margin] for row in rows]
                if around[margin][margin] is None:
                    yield None
                    continue
                yield styling.apply(
                    self._joined(around, margin, (matrix.tile_height, matrix.tile_width)),
                    self._plan.pixel_type,
                    matrix.cell_size,
                    is_geographic=self._plan.crs.is_geographic,
                )

    def _joined(
        self, tiles: list[list[Raster | None]], margin: int, shape: tuple[int, int]
    ) -> Raster:
        """Return the middle one of 3 x 3 tiles with a margin from its neighbours."""
        height, width = shape
        whole = self._type.blank(height + 2 * margin, width + 2 * margin)
        down = _parts(height, margin)
        across = _parts(width, margin)
        for row, (target_rows, source_rows) in zip(tiles, down, strict=True):
            for tile, (target_columns, source_columns) in zip(row, across, strict=True):
                if tile is not None:
                    whole.samples[target_rows, target_columns] = tile.samples[
                        source_rows, source_columns
                    ]
                    whole.valid[target_rows, target_columns] = tile.valid[
                        source_rows, source_columns
                    ]
        return whole

    def _row(self, level: int, tile_row: int, first: int, width: int) -> list[Raster | None]:
        """Return tiles of a row from some column on.

        Without alpha, the uppermost group comes first, and what it covers is not drawn again.
        """
        matrix = self._plan.levels[level].matrix
        tiles: list[Raster | None] = [None] * width
        reach = self._reach(level)
        near = (reach[:, 0] <= tile_row) & (tile_row <= reach[:, 1])
        near &= (reach[:, 2] < first + width) & (first <= reach[:, 3])
        groups = np.flatnonzero(near).tolist()
        for group in groups if self._type.has_alpha else reversed(groups):
            low, high = reach[group, 2:].tolist()
            columns = range(max(first, low), min(first + width - 1, high) + 1)
            wanted = [column for column in columns if not self._is_full(tiles[column - first])]
            if wanted:
                jobs = [
                    _Job(column - first, placement)
                    for column, placement in self._placer(level, group).place(tile_row, wanted)
                ]
                if jobs:
                    self._draw(tiles, group, jobs, (matrix.tile_height, matrix.tile_width))
        coverage = self._coverage(level)
        if coverage is not None:
            for number, tile in enumerate(tiles):
                self._missing += coverage.missing(tile_row, first + number, tile)
        return tiles

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

    def _is_full(self, tile: Raster | None) -> bool:
        return tile is not None and not self._type.has_alpha and bool(tile.valid.all())

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

    def _draw(
        self, tiles: list[Raster | None], group: int, jobs: list[_Job], shape: tuple[int, int]
    ) -> None:
        """Draw one group into a row of tiles; its window is read at once if it is small."""
        whole = _union([job.placement.window for job in jobs])
        factors = {job.placement.factor for job in jobs}
        at_once = len(factors) == 1 and (whole[1] - whole[0]) * (whole[3] - whole[2]) <= _STRIP
        source = self._plan.groups[group]
        pixels = self._reader.read(source, whole, factors.pop()) if at_once else None
        for tile, placement in jobs:
            if pixels is None:
                origin = placement.window
                cells = self._reader.read(source, origin, placement.factor)
            else:
                origin, cells = whole, pixels
            drawn = resampled(
                cells, (origin[0], origin[2]), placement, has_alpha=self._type.has_alpha
            )
            if drawn is not None:
                tiles[tile] = self._placed(tiles[tile], drawn, placement.part, shape)

    def _placed(
        self, tile: Raster | None, drawn: Raster, part: Rectangle, shape: tuple[int, int]
    ) -> Raster:
        """Return a tile with what was drawn in a part of it."""
        if tile is None:
            if part == (0, shape[0], 0, shape[1]):
                return drawn
            tile = self._type.blank(*shape)
        if self._type.has_alpha:
            paste(tile, drawn, part[0], part[2], has_alpha=True)
        else:
            fill(tile, drawn, part[0], part[2])
        return tile


def _parts(size: int, margin: int) -> list[tuple[slice, slice]]:
    """Return where neighbours are in the middle tile with a margin, and in themselves."""
    middle = slice(margin, margin + size), slice(0, size)
    if not margin:
        return [middle]
    before = slice(0, margin), slice(size - margin, size)
    after = slice(margin + size, 2 * margin + size), slice(0, margin)
    return [before, middle, after]


def _union(windows: list[Rectangle]) -> Rectangle:
    return (
        min(window[0] for window in windows),
        max(window[1] for window in windows),
        min(window[2] for window in windows),
        max(window[3] for window in windows),
    )
