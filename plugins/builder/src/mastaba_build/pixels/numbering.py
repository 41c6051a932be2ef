"""Which source each pixel comes from (time.md section 5.2).

While tiles are drawn, the numbers of a row of tiles are positions in a table: 0 for none, then the
sources of the plan, then the polygons in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import ceil

import numpy as np
import numpy.typing as npt
from rasterio.features import rasterize
from rasterio.transform import Affine

from mastaba.api.catalogue import BoundingBox, TileMatrix
from mastaba_build.pixels.owners import Numbers, Owners, centres
from mastaba_build.pixels.placement import Placement, Rectangle
from mastaba_build.pixels.reading import Reader
from mastaba_build.plan.plan import Plan
from mastaba_build.plan.provenance import Provenance
from mastaba_build.samples import Mask, Raster
from mastaba_build.sources.groups import Group
from mastaba_render.api.resampling import radius_of

_LARGEST_WINDOW = 1 << 22
"""Source pixels whose owners are found at a time, for one output pixel at least."""
OPAQUE = 128
"""Alpha from which on a pixel hides the sources below it."""


class Numbering:
    """Finds the numbers of the pixels of one plan.

    Attributes:
        table: number of the source at each position, shape (positions,); 0 at the first one.
        row: positions of the row of tiles drawn last, shape (rows, columns). They have no meaning
            where that row has no data.
    """

    def __init__(self, plan: Plan, provenance: Provenance, reader: Reader) -> None:
        self._plan = plan
        self._provenance = provenance
        self._reader = reader
        counts = (len(group.members) for group in plan.groups)
        self._starts = [1, *accumulate(counts, initial=1)][1:]
        self.table = np.array([0, *provenance.numbers], np.uint32)
        self._dtype = np.uint16 if len(self.table) <= 1 << 16 else np.uint32
        self._has_alpha = plan.source_type.has_alpha
        self._memory = np.zeros((0, 0), self._dtype)
        self.row: Numbers | None = None
        self._is_hidden: Mask | None = None

    def begin(self) -> None:
        """Begin a row of tiles."""
        self.row = self._is_hidden = None

    def read(
        self, group: int, window: Rectangle, factor: int
    ) -> tuple[Raster, Owners | int | None]:
        """Return what `Reader.read` does, and the owners of the pixels.

        They are one member, counted from 1, if it alone meets the window; None if cells are not
        pixels.
        """
        source = self._plan.groups[group]
        top, bottom, left, right = (factor * one for one in window)
        near = self._reader.near(source, (top, bottom, left, right))
        if len(near) == 1:
            return self._reader.read(source, window, factor), int(near[0]) + 1
        if not self._reader.is_direct(source, factor):
            return self._reader.read(source, window, factor), None
        owners = Owners(window, self._dtype, paints=self._has_alpha)
        return self._reader.read(source, window, factor, owners), owners

    def add(
        self,
        group: int,
        placement: Placement,
        owners: Owners | int | None,
        drawn: Raster,
        row: Raster | None,
        place: tuple[slice, slice],
        shape: tuple[int, int],
    ) -> None:
        """Note which source a part of a row comes from; before it is drawn into the row.

        Args:
            placement: of the part, which is one tile or less.
            owners: from `read`.
            drawn: the part.
            row: what has been drawn before; None for nothing.
            place: of the part in the row, whose shape is ``shape``.
        """
        if self.row is None:
            if self._plan.styling is not None or self._memory.shape != shape:
                # Styles need several rows at a time.
                self._memory = np.zeros(shape, self._dtype)
            self.row = self._memory
            self._is_hidden = np.zeros(shape, bool) if self._has_alpha else None
        found = self._of_part(group, placement, owners, drawn.valid)
        target = self.row[place]
        if self._is_hidden is not None:
            hidden, alpha = self._is_hidden[place], drawn.samples[:, :, -1]
            is_opaque = drawn.valid & (alpha >= OPAQUE)
            shown = is_opaque | (drawn.valid & (alpha > 0) & ~hidden)
            np.copyto(target, found, where=shown, casting="unsafe")
            hidden |= is_opaque
        elif row is None or not (valid := row.valid[place]).any():
            target[...] = found
        else:
            np.copyto(target, found, where=~valid, casting="unsafe")

    def _of_part(
        self, group: int, placement: Placement, owners: Owners | int | None, valid: Mask
    ) -> int | Numbers:
        """Return the position of the source of all pixels of a part, or of each."""
        source, start = self._plan.groups[group], self._starts[group]
        if isinstance(owners, int):
            return start + owners - 1
        near = self._near(source, placement, placement.bounds)
        if len(near) == 1:
            return start + int(near[0])
        window = placement.window
        assert window is not None
        near = self._near(source, placement, window)
        if len(near) == 1:
            return start + int(near[0])
        if owners is None:
            found = self._from_files(group, placement, valid)
        elif member := owners.only(window):
            return start + member - 1
        else:
            found = owners.of(placement, window, valid)
        # The last resort: a valid pixel without a valid source pixel around it.
        found[(found == 0) & valid] = int(near[-1]) + 1 if len(near) else 1
        return found + found.dtype.type(start - 1)

    def _near(self, group: Group, placement: Placement, cells: Rectangle) -> Sequence[int]:
        """Return the members of a group that meet cells of a placement."""
        top, bottom, left, right = (placement.factor * one for one in cells)
        return self._reader.near(group, (top, bottom, left, right))

    def _from_files(self, group: int, placement: Placement, valid: Mask) -> Numbers:
        """Return the members of the pixels of a part from full source pixels, read for this."""
        places = np.stack(np.broadcast_arrays(*centres(placement)))
        ratio = max(placement.ratios)
        reach = placement.factor * (ceil(radius_of(placement.kernel, ratio)) + 1)
        result = np.zeros(valid.shape, self._dtype)
        blocks: list[Rectangle] = [(0, valid.shape[0], 0, valid.shape[1])]
        while blocks:
            top, bottom, left, right = blocks.pop()
            part = np.s_[top:bottom, left:right]
            if not valid[part].any():
                continue
            inside = places[:, top:bottom, left:right]
            some = inside[:, valid[part]]
            low = np.floor(some.min(axis=1)).astype(int) - reach
            high = np.floor(some.max(axis=1)).astype(int) + reach + 1
            rows, columns = bottom - top, right - left
            if (high - low).prod() > _LARGEST_WINDOW and max(rows, columns) > 1:
                if rows >= columns:
                    middle = top + rows // 2
                    blocks += [(top, middle, left, right), (middle, bottom, left, right)]
                else:
                    middle = left + columns // 2
                    blocks += [(top, bottom, left, middle), (top, bottom, middle, right)]
                continue
            window = int(low[0]), int(high[0]), int(low[1]), int(high[1])
            owners = Owners(window, self._dtype, paints=self._has_alpha)
            self._reader.own(self._plan.groups[group], window, owners)
            result[part] = owners.at((inside[0], inside[1]), window, valid[part])
        return result

    def add_polygons(self, matrix: TileMatrix, tile_row: int, first: int) -> None:
        """Replace files by the polygons in them in the row that was drawn.

        Args:
            first: column of its first tile.
        """
        row = self.row
        if row is None or not self._provenance.polygons:
            return
        cell, height, width = matrix.cell_size, *row.shape
        left = matrix.origin_x + first * matrix.tile_width * cell
        top = matrix.origin_y - tile_row * matrix.tile_height * cell
        box = BoundingBox(left, top - height * cell, left + width * cell, top)
        near = np.array(list(self._provenance.near(box)), int)
        if not near.size:
            return
        files = np.flatnonzero(np.bincount(row.ravel())).tolist()
        transform = Affine(cell, 0, left, 0, -cell, top)
        before = row.copy()
        for part in dict.fromkeys(self._provenance.parts.values()):
            shown = [int(one) for one in near if one in part]
            owned = [one for one in files if self._provenance.parts.get(one - 1) == part]
            if not shown or not owned:
                continue
            drawn = _burnt(self._provenance, shown, transform, (height, width))
            # Rows: the files here, the first one for all others. Columns: the polygons here.
            pairs = np.zeros((len(owned) + 1, len(shown) + 1), row.dtype)
            lines = np.zeros(files[-1] + 1, np.int64)
            for line, file in enumerate(owned, 1):
                lines[file] = line
                pairs[line] = file
                for column, polygon in enumerate(shown, 1):
                    position = self._provenance.pairs.get((file - 1, polygon))
                    if position is not None:
                        pairs[line, column] = position + 1
            placed = lines[before]
            np.copyto(row, pairs[placed, drawn], where=placed > 0)


def burnt(
    provenance: Provenance, transform: Affine, shape: tuple[int, int]
) -> npt.NDArray[np.uint32] | None:
    """Return the positions of the polygons, from 1, around the centres of pixels.

    Args:
        transform: of the first pixel in the CRS of the set.
        shape: rows and columns.

    Returns:
        None if no polygon is near.
    """
    right, bottom = transform.c + shape[1] * transform.a, transform.f + shape[0] * transform.e
    shown = list(provenance.near(BoundingBox(transform.c, bottom, right, transform.f)))
    if not shown:
        return None
    positions = np.array([0, *(one + 1 for one in shown)], np.uint32)
    return positions[_burnt(provenance, shown, transform, shape)]


def _burnt(
    provenance: Provenance, shown: Sequence[int], transform: Affine, shape: tuple[int, int]
) -> npt.NDArray[np.int32]:
    """Return which of some polygons, counted from 1, contains the centre of each pixel."""
    shapes = [(provenance.polygons[one].geometry, number) for number, one in enumerate(shown, 1)]
    found: npt.NDArray[np.int32] = rasterize(shapes, shape, transform=transform, dtype="int32")
    return found
