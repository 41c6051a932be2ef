"""Which member of a group each source pixel comes from, and each pixel that is made of these."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mastaba_build.pixels.placement import Placement, Rectangle
from mastaba_build.samples import Mask

Numbers = npt.NDArray[np.unsignedinteger[Any]]
Floats = npt.NDArray[np.float64]

_CLOSE = 1e-6
"""Source pixels from the edge of a member within which each pixel is looked up for itself."""
_FEW: Final = 32
"""Rectangles in a window up to which blocks of pixels are compared with them, not each pixel."""


class Owners:
    """Which member of a group the pixels of a window come from.

    Most members have data everywhere, so rectangles tell; only otherwise there is an array.

    Args:
        window: of source pixels; it may begin before the group or end after it.
        dtype: of positions of members.
        paints: whether members that are noted later hide earlier ones; otherwise they are below.
    """

    def __init__(self, window: Rectangle, dtype: npt.DTypeLike, *, paints: bool) -> None:
        self._window = window
        self._dtype = np.dtype(dtype)
        self._paints = paints
        # The uppermost first.
        self._rectangles: list[tuple[int, Rectangle]] = []
        self._areas: npt.NDArray[np.int64] | None = None
        self._members: Numbers | None = None

    def note(self, member: int, area: Rectangle, where: Mask | None) -> None:
        """Note that pixels come from a member.

        Args:
            member: its position, from 1.
            area: of the pixels.
            where: which of them have data of the member; None for all. Those above it hide it.
        """
        if self._members is None and (where is None or bool(where.all())):
            self._areas = None
            self._rectangles.insert(0 if self._paints else len(self._rectangles), (member, area))
            return
        if self._members is None:
            self._members = self._filled(self._window)
        top, _, left, _ = self._window
        part = self._members[area[0] - top : area[1] - top, area[2] - left : area[3] - left]
        shown: Any = True if where is None else where
        if not self._paints:
            shown = shown & (part == 0)
        np.copyto(part, member, where=shown, casting="unsafe")

    def only(self, window: Rectangle) -> int:
        """Return the member from which all pixels of a window come; 0 if there are several."""
        if self._members is not None:
            members = self._part(window)
            first = int(members[0, 0])
            return first if first == members[-1, -1] and (members == first).all() else 0
        top, bottom, left, right = window
        for member, (first, last, begin, end) in self._near(window)[:1]:
            if first <= top and bottom <= last and begin <= left and right <= end:
                return member
        return 0

    def of(self, placement: Placement, window: Rectangle, valid: Mask) -> Numbers:
        """Return the members of the pixels of a part: those of the source pixels at their centres.

        Where the source pixel at the centre has no data, it is the member of the nearest one that
        has, of equally near ones the upper, then the left one; 0 only where none is near.

        Args:
            window: of the placement.
            valid: the pixels with data. The others get any member.
        """
        if placement.fields is None or self._members is not None:
            return self.at(centres(placement), window, valid)
        near = self._near(window)
        if len(near) > _FEW:
            return self.at(centres(placement), window, valid)
        known, down, across = self._of_blocks(placement, near)
        found: Numbers = known.take(down, 0).take(across, 1)
        unknown = known == 0
        if unknown.any():
            # Most seams are nearly straight: few blocks in one direction.
            rows, columns = _around(unknown, 1, down), _around(unknown, 0, across)
            places = centres(placement, rows, columns)
            found[rows, columns] = self.at(places, window, valid[rows, columns])
        return found

    def at(self, places: tuple[Floats, Floats], window: Rectangle, valid: Mask) -> Numbers:
        """Return what `of` does for pixels with centres at some places, as from `centres`."""
        return _at(self._part(window), (window[0], window[2]), places, valid)

    def _near(self, window: Rectangle) -> list[tuple[int, Rectangle]]:
        """Return the rectangles that meet a window, the uppermost first."""
        if self._areas is None:
            self._areas = np.array([area for _, area in self._rectangles], np.int64).reshape(-1, 4)
        top, bottom, left, right = window
        first, last, begin, end = self._areas.T
        meets = (first < bottom) & (last > top) & (begin < right) & (end > left)
        return [self._rectangles[number] for number in np.flatnonzero(meets).tolist()]

    def _of_blocks(
        self, placement: Placement, near: list[tuple[int, Rectangle]]
    ) -> tuple[Numbers, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the members between the points of the grid of a placement; 0 for several.

        Positions between points are between those of the points.

        Args:
            near: from `_near`.

        Returns:
            the members, and the block of each row and of each column of pixels.
        """
        assert placement.fields is not None
        ends = [_ends((one + 0.5) * placement.factor) for one in placement.fields]
        low, high = zip(*ends, strict=True)
        known = np.zeros(low[0].shape, self._dtype)
        is_open = np.ones(known.shape, bool)
        for member, (top, bottom, left, right) in near:
            inside, outside = is_open, np.zeros(known.shape, bool)
            for axis, (begin, end) in enumerate(((left, right), (top, bottom))):
                inside = inside & (low[axis] >= begin + _CLOSE) & (high[axis] <= end - _CLOSE)
                outside |= (high[axis] < begin - _CLOSE) | (low[axis] > end + _CLOSE)
            known[inside] = member
            is_open &= outside
            if not is_open.any():
                break
        first_row, last_row, first, last = placement.part
        down, _ = between(placement.down, np.arange(first_row, last_row, dtype=float))
        across, _ = between(placement.across, np.arange(first, last, dtype=float))
        return known, down, across

    def _part(self, window: Rectangle) -> Numbers:
        if self._members is None:
            return self._filled(window)
        top, bottom, left, right = window
        row, column = top - self._window[0], left - self._window[2]
        return self._members[row : row + bottom - top, column : column + right - left]

    def _filled(self, window: Rectangle) -> Numbers:
        """Return the members of a window from the rectangles."""
        top, bottom, left, right = window
        members = np.zeros((bottom - top, right - left), self._dtype)
        for member, (first, last, begin, end) in reversed(self._near(window)):
            rows = slice(max(first - top, 0), max(last - top, 0))
            members[rows, max(begin - left, 0) : max(end - left, 0)] = member
        return members


def _ends(field: Floats) -> tuple[Floats, Floats]:
    """Return the least and the greatest value of a field in each block of its grid."""
    low, high = np.minimum(field[:-1], field[1:]), np.maximum(field[:-1], field[1:])
    return np.minimum(low[:, :-1], low[:, 1:]), np.maximum(high[:, :-1], high[:, 1:])


def _around(unknown: Mask, axis: int, blocks: npt.NDArray[np.int64]) -> slice:
    """Return the rows or columns of pixels around unknown blocks.

    Args:
        axis: the other one.
        blocks: the block of each row or column.
    """
    some = np.flatnonzero(unknown.any(axis=axis))
    first, last = np.searchsorted(blocks, (some[0], some[-1] + 1)).tolist()
    return slice(first, last)


def centres(
    placement: Placement, rows: slice = slice(None), columns: slice = slice(None)
) -> tuple[Floats, Floats]:
    """Return rows and columns of the centres of pixels of a part, in full source pixels.

    Args:
        rows, columns: of the part.

    Returns:
        arrays that broadcast to the shape of the part; the first source pixel is from 0 to 1.
    """
    low, high, first, last = placement.part
    if placement.fields is None:
        down, along = placement.down[rows, np.newaxis], placement.across[np.newaxis, columns]
        return (down + 0.5) * placement.factor, (along + 0.5) * placement.factor
    before, share = between(placement.across, np.arange(first, last, dtype=float)[columns])
    above, weight = between(placement.down, np.arange(low, high, dtype=float)[rows])
    weight = weight[:, np.newaxis]
    found = []
    for field in placement.fields[::-1]:
        lines = field[above] * (1 - weight) + field[above + 1] * weight
        places, other = lines.take(before, 1), lines.take(before + 1, 1)
        # In place: a build spends much of its time with these arrays.
        places *= 1 - share
        other *= share
        places += other
        places += 0.5
        places *= placement.factor
        found.append(places)
    return found[0], found[1]


def between(points: Floats, places: Floats) -> tuple[npt.NDArray[np.int64], Floats]:
    """Return the last grid point before each place, and the part of the way to the next one."""
    before = np.clip(np.searchsorted(points, places, "right") - 1, 0, len(points) - 2)
    return before, (places - points[before]) / (points[before + 1] - points[before])


def _at(
    members: Numbers, corner: tuple[int, int], places: tuple[Floats, Floats], valid: Mask
) -> Numbers:
    """Return the members at some places, as `Owners.of`.

    Args:
        members: of source pixels; 0 for those without data.
        corner: row and column of the first one.
        places: from `centres`.
        valid: the places that are looked up again.
    """
    height, width = members.shape
    rows, columns = places[0] - corner[0], places[1] - corner[1]
    # Positions beyond the border are those of the nearest source pixel; unknown ones are not valid.
    row = _within(rows, height - 1) * width
    found: Numbers = np.ravel(members).take(row + _within(columns, width - 1))
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
