"""Queries on datasets, within the limits of the service. All protocols use them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mastaba.api.catalogue import CRS, WGS84, BoundingBox
from mastaba.errors import InvalidParameterError
from mastaba_elevation.errors import TooMuchError
from mastaba_elevation.queries.footprints import Footprint, affordable, covering, footprints
from mastaba_elevation.queries.grids import CHUNK, Grid, grid_between, grid_over, part_with_data
from mastaba_elevation.queries.ground import Floats
from mastaba_elevation.queries.levels import GROUP, Budget
from mastaba_elevation.queries.lines import FILL, Line
from mastaba_elevation.queries.polygons import Outline, Ring, edges_of, met
from mastaba_elevation.queries.profile import (
    MINMAX,
    Profile,
    finest_step,
    peaks,
    profile,
    simplified,
)
from mastaba_elevation.queries.sampling import (
    Samples,
    SamplingOptions,
    levels_for,
    sample,
)
from mastaba_elevation.queries.statistics import StatisticsOptions, cells_of, statistics

if TYPE_CHECKING:
    from mastaba.api.services import Site
    from mastaba_elevation.queries.datasets import Dataset

_LIGHT: Final = 4 * 1024**2
"""Bytes; a query that needs no more does not wait for others."""
_PER_POINT: Final = 600
"""Bytes of positions, taps and values."""
_PER_HEIGHT: Final = 24
"""Bytes of a height of a grid, and of whether it is inside the area."""
_PER_PIXEL: Final = 80
"""Bytes of membership, values and weights of a pixel of an area."""
_PER_SAMPLE: Final = 16
"""Pixels that are read in the time in which one is sampled in other layers."""
_TAPS_PER_TILE: Final = 4
_AT_A_TIME: Final = 1 << 14
"""Holes of an area that are sampled at a time."""
_FINER: Final = 4
"""Factor by which a profile that keeps peaks may have more points than an answer."""
_PER_CHUNK: Final = 4
"""Factor by which the parts of a grid may count the same tiles again."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one query.

    Attributes:
        size: bytes of decoded tiles.
    """

    points: int = 5000
    tiles: int = 1024
    size: int = 256 * 1024**2
    pixels: int = 4_000_000


@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """How a profile is made.

    Attributes:
        mode: one of `lines.MODES`.
        count: number of points.
        simplify: ``minmax``, or metres; None for neither.
        method: of interpolation.
    """

    mode: str = FILL
    count: int = 200
    simplify: str | float | None = None
    method: str = "bilinear"


class Queries:
    """Heights of points, profiles, grids and statistics.

    Attributes:
        limits: of one query.
    """

    def __init__(self, site: Site, limits: Limits) -> None:
        self.limits = limits
        self._site = site
        self._equivalences = site.catalogue.settings.equivalences

    def points(
        self, dataset: Dataset, x: Floats, y: Floats, crs: CRS, options: SamplingOptions
    ) -> Samples:
        """Return the heights of points, x before y.

        Raises:
            TooMuchError: there are too many points, or they need too many tiles.
            SlabFormatError, StorageError: the data cannot be read.
        """
        self.check_count(len(x))
        with self._admitted(dataset, len(x)):
            return self._sample(dataset, x, y, crs, options)

    def at_resolutions(
        self,
        dataset: Dataset,
        longitudes: Floats,
        latitudes: Floats,
        resolutions: Floats,
    ) -> Floats:
        """Return the heights of points, each from the levels for a resolution of its own.

        They do not depend on each other, and share one budget.

        Args:
            longitudes, latitudes, resolutions: degrees and metres, shape (n,).

        Raises:
            TooMuchError, SlabFormatError, StorageError: as for `points`.
        """
        self.check_count(len(longitudes))
        heights = np.full(len(longitudes), np.nan)
        with self._admitted(dataset, len(longitudes)):
            budget = self._budget()
            wanted = [levels_for(layer, latitudes, resolutions) for layer in dataset.layers]
            groups, group = np.unique(np.stack(wanted, axis=1), axis=0, return_inverse=True)
            for number, levels in enumerate(groups.tolist()):
                here = np.flatnonzero(group.reshape(-1) == number)
                options = SamplingOptions(dataset.interpolation, levels=tuple(levels))
                x, y = longitudes[here], latitudes[here]
                heights[here] = self._sample(dataset, x, y, WGS84, options, budget).heights
        return heights

    def check_count(self, count: int) -> None:
        """Refuse too many points.

        Raises:
            TooMuchError: there are more than the limit.
        """
        if count > self.limits.points:
            raise TooMuchError(f"there are more than {self.limits.points} points")

    def profile(self, dataset: Dataset, line: Line, options: ProfileOptions) -> Profile:
        """Return the heights along a line, from the finest level that is affordable.

        Raises:
            TooMuchError: the line has too many vertices, or needs too many tiles.
            SlabFormatError, StorageError: the data cannot be read.
        """
        self.check_count(max(len(line.x), options.count))
        sampled = partial(self._sample_line, dataset, line.crs, options.method)
        step = finest_step(dataset, line)
        if options.simplify == MINMAX:
            most = self.limits.points * _FINER
            with self._admitted(dataset, most):
                return peaks(line, sampled, options.count, step, most)
        with self._admitted(dataset, max(len(line.x), options.count)):
            found = profile(line, sampled, options.mode, options.count, step)
        return found if not options.simplify else simplified(found, float(options.simplify))

    def needs_peaks(self, dataset: Dataset, line: Line, count: int) -> bool:
        """Return whether a profile of some points would miss cells of the finest level."""
        return line.length > finest_step(dataset, line) * count

    def statistics(
        self,
        dataset: Dataset,
        rings: Sequence[Ring],
        crs: CRS,
        wanted: StatisticsOptions,
        resolution: float | None = None,
    ) -> dict[str, Any] | None:
        """Return the statistics of an area; None where no layer has anything.

        Raises:
            TooMuchError: the area is too large or too complicated.
            SlabFormatError, StorageError: the data cannot be read.
        """
        pixels, budget = self.limits.pixels, self._budget()
        for found in affordable(
            dataset, rings, crs, self._equivalences, budget, pixels, resolution
        ):
            others = None
            if found.number + 1 < len(dataset.layers):
                others = partial(self._others, dataset, found)
            cost = found.pixels * _PER_PIXEL + found.tiles * found.level.tile_size
            with self._site.renderer.admission.map(cost):
                cells = cells_of(found, dataset.valid_range, others, pixels // _PER_SAMPLE)
                if cells is not None:
                    return statistics(found, cells, crs, wanted)
        return None

    def grid(
        self, dataset: Dataset, box: BoundingBox, crs: CRS, most: int, *, whole: bool = False
    ) -> Grid | None:
        """Return the axes of a grid over a box with the cells of an affordable level.

        In the CRS of the layer, the level is one of those that have all that the layer has in the
        box, if any has. A large box takes a coarser one of them, and then larger cells. In another
        CRS, heights come from the finest level at each cell, so the level only gives the size.

        Args:
            whole: whether the grid covers the box also where no layer may have heights.

        Returns:
            None where no layer has anything.

        Raises:
            TooMuchError: even the coarsest of these levels needs too many tiles.
        """
        part = part_with_data(box, crs, dataset.layers, self._equivalences)
        if part is None:
            return None
        if not whole:
            box = part
        rings, budget = [ring_of(box)], self._budget()
        found: Footprint | None = None
        levels = footprints(dataset, rings, crs, self._equivalences)
        groups = groupby(levels, lambda one: one.unwrap)
        for found in chain.from_iterable(
            of_layers if is_moved else covering(of_layers) for is_moved, of_layers in groups
        ):
            if found.pixels <= most and budget.fits(found.tiles, found.level.tile_size):
                break
        if found is None:
            return None
        if not budget.fits(found.tiles, found.level.tile_size):
            raise TooMuchError("the area is too large; request a smaller one")
        same = self._equivalences.equal(crs.code, found.layer.crs.code)
        return grid_over(box, crs, found, most, same=same)

    def grid_of_positions(
        self, box: BoundingBox, crs: CRS, across: int, down: int, most: int
    ) -> Grid:
        """Return the axes of a grid of a number of positions, both ends included.

        Raises:
            InvalidParameterError: there are too many.
        """
        if across * down > most:
            message = f"resolution-x times resolution-y may be from 1 to {most}"
            raise InvalidParameterError(message, "resolution-x")
        return grid_between(box, crs, across, down)

    def heights(
        self,
        dataset: Dataset,
        grid: Grid,
        method: str,
        rings: Sequence[Ring] | None = None,
        *,
        union: bool = False,
    ) -> Floats:
        """Return the heights of a grid, shape (rows, columns); NaN without one.

        Args:
            rings: area outside which nothing is returned, CRS units of the grid.
            union: as in `polygons.inside`.

        Call it inside `admitted_grid`.

        Raises:
            TooMuchError: too many tiles are needed.
            SlabFormatError, StorageError: the data cannot be read.
        """
        budget = self._budget(_PER_CHUNK)
        options = SamplingOptions(method, grid.resolution)
        members = None
        if rings is not None:
            origin = np.array([grid.x.start - grid.x.step / 2, grid.y.start - grid.y.step / 2])
            cells = [(ring - origin) / (grid.x.step, grid.y.step) for ring in rings]
            edges = Outline.of(cells).edges if union else edges_of(cells)
            members = met(edges, 0, grid.y.count, 0, grid.x.count, union=union)
        return grid.sampled(
            lambda x, y: self._sample(dataset, x, y, grid.crs, options, budget).heights, members
        )

    def admitted_grid(self, dataset: Dataset, grid: Grid) -> AbstractContextManager[None]:
        """Return a context in which a grid is read and written.

        Heavy ones wait for each other, so the memory of all of them is limited.
        """
        count = grid.x.count * grid.y.count
        more = count * _PER_HEIGHT
        return self._admitted(dataset, count, min(count, CHUNK), more)

    def _budget(self, factor: int = 1) -> Budget:
        return Budget(self.limits.tiles * factor, self.limits.size * factor)

    def _sample(
        self,
        dataset: Dataset,
        x: Floats,
        y: Floats,
        crs: CRS,
        options: SamplingOptions,
        budget: Budget | None = None,
    ) -> Samples:
        return sample(dataset, x, y, crs, options, budget or self._budget(), self._equivalences)

    def _sample_line(
        self, dataset: Dataset, crs: CRS, method: str, x: Floats, y: Floats
    ) -> Samples:
        options = SamplingOptions(method, affordable=True)
        return self._sample(dataset, x, y, crs, options)

    def _others(self, dataset: Dataset, found: Footprint, x: Floats, y: Floats, crs: CRS) -> Floats:
        """Return the heights of the layers after that of a footprint."""
        start = found.number + 1
        rest = replace(dataset, layers=dataset.layers[start:], verticals=dataset.verticals[start:])
        options = SamplingOptions(dataset.interpolation, found.cell, affordable=True)
        heights = np.empty(len(x))
        for start in range(0, len(x), _AT_A_TIME):
            part = slice(start, start + _AT_A_TIME)
            heights[part] = self._sample(rest, x[part], y[part], crs, options).heights
        return heights

    def _admitted(
        self, dataset: Dataset, count: int, at_a_time: int | None = None, more: int = 0
    ) -> AbstractContextManager[None]:
        """Return a context in which points are read; heavy queries wait for each other.

        Args:
            count: points.
            at_a_time: points that are sampled at a time; None for all.
            more: further bytes.
        """
        tile = dataset.layers[0].levels[0].tile_size
        read = min(self.limits.tiles, count * _TAPS_PER_TILE) * tile
        cost = min(read, self.limits.size) + min(GROUP * tile, read)
        cost += (at_a_time or count) * _PER_POINT + more
        if cost <= _LIGHT:
            return nullcontext()
        return self._site.renderer.admission.map(cost)


def ring_of(box: BoundingBox) -> Ring:
    """Return a box as a ring."""
    return np.array(
        [
            (box.xmin, box.ymin),
            (box.xmax, box.ymin),
            (box.xmax, box.ymax),
            (box.xmin, box.ymax),
            (box.xmin, box.ymin),
        ]
    )
