"""The tiles of slabs from the pictures of a service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import numpy as np
import numpy.typing as npt

from mastaba_build.errors import ServiceError, StoppedError
from mastaba_build.harvest.client import Client
from mastaba_build.harvest.grids import Grid, Span, TileGrid
from mastaba_build.harvest.pictures import Picture
from mastaba_build.harvest.plan import HarvestPlan
from mastaba_build.harvest.wms import MapService
from mastaba_build.pixels.owners import Numbers
from mastaba_build.plan.plan import SlabKey
from mastaba_build.samples import Raster

_ABSENT = frozenset({204, 404})
"""Statuses of a tile that does not exist."""
_MOST_FAILURES = 3
"""Slabs that may fail one after the other before the build stops."""


class HarvestDrawer:
    """Draws slabs of one plan from a service; has the methods of `Drawer`.

    Attributes:
        losses: empty.
        payloads: as in `SlabDrawer`.
        numbers, table: None.
    """

    losses = ""
    numbers: Numbers | None = None
    table: npt.NDArray[np.uint32] | None = None

    def __init__(self, plan: HarvestPlan) -> None:
        self._plan = plan
        self._client = Client(plan.service.address, plan.configuration.pause)
        self._threads = ThreadPoolExecutor(plan.configuration.concurrency, "harvest")
        self._failures = 0
        self.payloads: Mapping[int, bytes] = {}

    def rows(self, slab: SlabKey) -> Iterator[Raster | None]:
        """Yield the rows of tiles of a slab, each as one image; None for those without data.

        Raises:
            ServiceError: a picture cannot be had.
            StoppedError: neither can others; or the service denies access.
        """
        try:
            yield from self._rows(slab)
        except ServiceError as error:
            self._failures += 1
            if self._failures < _MOST_FAILURES:
                raise
            self._client.stop()
            raise StoppedError(
                f"{error}; {self._failures} slabs have failed one after the other. The same "
                "command resumes the build"
            ) from None
        except (KeyboardInterrupt, StoppedError):
            self._client.stop()  # the threads would go on until the end of the process
            raise
        self._failures = 0

    def _rows(self, slab: SlabKey) -> Iterator[Raster | None]:
        plan = self._plan
        grid = plan.grids[slab.level]
        assert grid is not None
        columns, rows = grid.columns(slab.column), grid.rows(slab.row)
        tile = plan.levels[slab.level].matrix.tile_height
        running: dict[Span, list[Future[Picture | None]]] = {}
        try:
            for number in range(plan.configuration.slab[1]):
                top = number * tile
                near = [one for one in rows if one.start < top + tile and one.stop > top]
                # One row of pictures ahead: it is on its way while the tiles of this one are made.
                ahead = rows[: rows.index(near[-1]) + 2] if near else []
                for row in ahead:
                    if row not in running and row.stop > top:
                        running[row] = self._start(slab.level, grid, columns, row)
                for row in list(running):
                    if row.stop <= top:
                        del running[row]
                found = {row: [one.result() for one in running[row]] for row in near}
                yield self._row(slab.level, grid, columns, found, top)
        finally:
            self.payloads = {}
            for futures in running.values():
                for future in futures:
                    future.cancel()

    def _start(
        self, level: int, grid: Grid, columns: Sequence[Span], row: Span
    ) -> list[Future[Picture | None]]:
        """Request a row of pictures."""
        return [self._threads.submit(self._picture, level, grid, one, row) for one in columns]

    def _picture(self, level: int, grid: Grid, column: Span, row: Span) -> Picture | None:
        plan = self._plan
        service, reader = plan.service, plan.reader
        absent: frozenset[int] = frozenset()
        if isinstance(service, MapService):
            url = service.url_of(plan.levels[level].matrix, column, row)
        else:
            assert isinstance(grid, TileGrid)
            url, absent = service.url_of(grid.matrix, column.number, row.number), _ABSENT
        return self._client.get(
            url,
            reader.largest(column.size, row.size),
            partial(reader.read, width=column.size, height=row.size),
            absent=absent,
        )

    def _row(
        self,
        level: int,
        grid: Grid,
        columns: Sequence[Span],
        found: Mapping[Span, Sequence[Picture | None]],
        top: int,
    ) -> Raster | None:
        """Return a row of tiles from the pictures that it needs.

        Args:
            top: its first row of pixels in the slab.
        """
        self.payloads = {}
        if not any(one for pictures in found.values() for one in pictures):
            return None
        plan = self._plan
        matrix, count = plan.levels[level].matrix, plan.configuration.slab[0]
        whole = plan.pixel_type.blank(matrix.tile_height, count * matrix.tile_width)
        known = np.zeros(count, bool)
        payloads = {}
        is_equal = isinstance(grid, TileGrid) and grid.is_equal
        for row, pictures in found.items():
            for column, picture in zip(columns, pictures, strict=True):
                if picture is None:
                    continue
                first, last = _place(whole, picture.raster, column.start, row.start - top)
                known[first // matrix.tile_width : -(-last // matrix.tile_width)] = True
                if is_equal and picture.payload is not None:
                    payloads[column.start // matrix.tile_width] = picture.payload
        for tile in np.flatnonzero(known).tolist():
            part = np.s_[:, tile * matrix.tile_width : (tile + 1) * matrix.tile_width]
            valid = whole.valid[part]
            if plan.keeps_blank:
                if not valid.any():
                    whole.samples[part] = plan.pixel_type.nodata
                    valid[...] = True
            elif valid.all() and plan.reader.is_blank(whole.samples[part]):
                whole.samples[part] = 0
                valid[...] = False
        self.payloads = payloads
        return whole


def _place(whole: Raster, part: Raster, left: int, top: int) -> tuple[int, int]:
    """Put a picture into a row of tiles, which it may exceed; return its columns in it.

    Args:
        left, top: position of the picture in the row of tiles.
    """
    height, width = whole.valid.shape
    rows, columns = part.valid.shape
    first, last = max(0, left), min(width, left + columns)
    upper, lower = max(0, top), min(height, top + rows)
    into = np.s_[upper:lower, first:last]
    source = np.s_[upper - top : lower - top, first - left : last - left]
    whole.samples[into] = part.samples[source]
    whole.valid[into] = part.valid[source]
    return first, last
