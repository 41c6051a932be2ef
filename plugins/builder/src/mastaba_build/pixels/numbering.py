"""Which source each pixel comes from (time.md section 5.2).

While tiles are drawn, the numbers of a row of tiles are positions in a table: 0 for none, then the
sources of the plan, then the polygons in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import ceil
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from rasterio.features import rasterize
from rasterio.transform import Affine

from mastaba.api.catalogue import BoundingBox, TileMatrix
from mastaba_build.pixels.placement import Placement, Rectangle
from mastaba_build.pixels.reading import Reader
from mastaba_build.plan.plan import Plan
from mastaba_build.plan.provenance import Provenance
from mastaba_build.samples import Mask, Raster
from mastaba_build.sources.groups import Group
from mastaba_render.api.resampling import radius_of

Numbers = npt.NDArray[np.unsignedinteger[Any]]
Floats = npt.NDArray[np.float64]

_LARGEST_WINDOW = 1 << 22
"""Source pixels whose owners are found at a time, for one output pixel at least."""
OPAQUE = 128
"""Alpha from which on a pixel hides the sources below it."""


class Owners(NamedTuple):
    """Which member of a group each source pixel comes from.

    Attributes:
        members: shape (rows, columns), positions of members from 1; 0 for pixels without data.
        row, column: of the first pixel.
    """

    members: Numbers
    row: int
    column: int


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
        members = np.zeros((bottom - top, right - left), self._dtype)
        raster = self._reader.read(source, window, factor, members)
        return raster, Owners(members, top, left)

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
        members = None
        if owners is not None:
            top, left = window[0] - owners.row, window[2] - owners.column
            members = owners.members[
                top : top + window[1] - window[0], left : left + window[3] - window[2]
            ]
            first = int(members[0, 0])
            if first and first == members[-1, -1] and (members == first).all():
                return start + first - 1
        if members is None:
            found = self._from_files(group, placement, valid)
        else:
            found = _at(Owners(members, window[0], window[2]), _centres(placement), valid)
        # The last resort: a valid pixel without a valid source pixel around it.
        found[(found == 0) & valid] = int(near[-1]) + 1 if len(near) else 1
        return found + found.dtype.type(start - 1)

    def _near(self, group: Group, placement: Placement, cells: Rectangle) -> Sequence[int]:
        """Return the members of a group that meet cells of a placement."""
        top, bottom, left, right = (placement.factor * one for one in cells)
        return self._reader.near(group, (top, bottom, left, right))

    def _from_files(self, group: int, placement: Placement, valid: Mask) -> Numbers:
        """Return the members of the pixels of a part from full source pixels, read for this."""
        centres = np.stack(np.broadcast_arrays(*_centres(placement)))
        ratio = max(placement.ratios)
        reach = placement.factor * (ceil(radius_of(placement.kernel, ratio)) + 1)
        result = np.zeros(valid.shape, self._dtype)
        blocks: list[Rectangle] = [(0, valid.shape[0], 0, valid.shape[1])]
        while blocks:
            top, bottom, left, right = blocks.pop()
            part = np.s_[top:bottom, left:right]
            if not valid[part].any():
                continue
            inside = centres[:, top:bottom, left:right]
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
            members = np.zeros((window[1] - window[0], window[3] - window[2]), self._dtype)
            self._reader.own(self._plan.groups[group], window, members)
            owners = Owners(members, window[0], window[2])
            result[part] = _at(owners, (inside[0], inside[1]), valid[part])
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


def _centres(placement: Placement) -> tuple[Floats, Floats]:
    """Return rows and columns of the centres of the pixels of a part, in full source pixels.

    Returns:
        arrays that broadcast to the shape of the part; the first source pixel is from 0 to 1.
    """
    low, high, first, last = placement.part
    if placement.fields is None:
        found = placement.down[:, np.newaxis], placement.across[np.newaxis]
        return (found[0] + 0.5) * placement.factor, (found[1] + 0.5) * placement.factor
    before, share = _between(placement.across, np.arange(first, last, dtype=float))
    above, weight = _between(placement.down, np.arange(low, high, dtype=float))
    weight = weight[:, np.newaxis]
    centres = []
    for field in placement.fields[::-1]:
        lines = field[above] * (1 - weight) + field[above + 1] * weight
        found, other = lines.take(before, 1), lines.take(before + 1, 1)
        # In place: a build spends much of its time with these arrays.
        found *= 1 - share
        other *= share
        found += other
        found += 0.5
        found *= placement.factor
        centres.append(found)
    return centres[0], centres[1]


def _between(points: Floats, places: Floats) -> tuple[npt.NDArray[np.int64], Floats]:
    """Return the last grid point before each place, and the part of the way to the next one."""
    before = np.clip(np.searchsorted(points, places, "right") - 1, 0, len(points) - 2)
    return before, (places - points[before]) / (points[before + 1] - points[before])


def _at(owners: Owners, centres: tuple[Floats, Floats], valid: Mask) -> Numbers:
    """Return the members at some places; 0 only where none is near.

    Where the source pixel at the centre has no data, it is the member of the nearest one that has,
    of equally near ones the upper, then the left one.

    Args:
        centres: from `_centres`.
        valid: the places that are looked up again.
    """
    members = owners.members
    height, width = members.shape
    rows, columns = centres[0] - owners.row, centres[1] - owners.column
    # Positions beyond the border are those of the nearest source pixel; unknown ones are not valid.
    row = _within(rows, height - 1) * width
    found: Numbers = members.ravel().take(row + _within(columns, width - 1))
    rows, columns = np.broadcast_to(rows, valid.shape), np.broadcast_to(columns, valid.shape)
    for i, j in np.argwhere((found == 0) & valid):
        if np.isfinite(rows[i, j]) and np.isfinite(columns[i, j]):
            found[i, j] = _nearest(members, rows[i, j], columns[i, j])
    return found


def _within(places: Floats, last: int) -> npt.NDArray[np.int32]:
    """Return the pixels around places, 0 for unknown ones."""
    found = np.fmax(places, 0)
    return np.fmin(found, last, out=found).astype(np.int32)


def _nearest(members: Numbers, row: float, column: float) -> int:
    """Return the member of the source pixel with data whose centre is nearest; 0 without any."""
    reach = 4
    while True:
        top, left = max(0, int(row) - reach), max(0, int(column) - reach)
        part = members[top : int(row) + reach + 1, left : int(column) + reach + 1]
        rows, columns = np.nonzero(part)
        if len(rows):
            distances = (rows + top + 0.5 - row) ** 2 + (columns + left + 0.5 - column) ** 2
            # In the order of rows, so the first one of equal ones is the upper, then the left one.
            best = int(np.argmin(np.round(distances, 9)))
            if distances[best] <= (reach - 1) ** 2 or part.shape == members.shape:
                return int(part[rows[best], columns[best]])
        if part.shape == members.shape:
            return 0
        reach *= 4
