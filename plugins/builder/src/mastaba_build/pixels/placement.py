"""Where the pixels of tiles are in a source, and which source pixels they need."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, floor
from typing import NamedTuple, TypeAlias

import numpy as np

from mastaba_build.pixels.grids import Floats
from mastaba_render.api.resampling import (
    BASE_RADIUS,
    Axis,
    GridPositions,
    Positions,
    StraightPositions,
    Window,
    radius_of,
)

Rectangle: TypeAlias = tuple[int, int, int, int]
"""First row, row after the last, first column, column after the last."""

_LARGEST_WINDOW = 1 << 24
"""Source pixels, after averaging, that one block may need."""


@dataclass(frozen=True, eq=False)
class Placement:
    """The part of some tiles side by side that a group covers, and the source pixels it needs.

    Attributes:
        part: pixels, counted from the first tile on.
        across, down: without ``fields``, the source columns and rows of the pixels, in cells;
            otherwise the columns and rows of the points of a grid.
        ratios: size of a pixel in source columns and rows.
        kernel: name of the kernel.
        factor: source pixels, on a side, that are averaged to a cell first.
        fields: shape (2, grid rows, grid columns), source columns and rows at these points.
        aligned: whether the pixels are source pixels.
    """

    part: Rectangle
    across: Floats
    down: Floats
    ratios: tuple[float, float]
    kernel: str
    factor: int
    fields: Floats | None = None
    aligned: bool = False

    @cached_property
    def positions(self) -> Positions:
        """Where the pixels are, in source cells of ``factor`` x ``factor`` pixels."""
        if self.fields is None:
            x, y = self.ratios
            return StraightPositions(Axis(self.across, x), Axis(self.down, y), self.aligned)
        part, is_complete = Window(*self.part), self.is_complete
        return GridPositions(self.across, self.down, self.fields, part, self.ratios, is_complete)

    @cached_property
    def window(self) -> Rectangle | None:
        """Source cells that the kernel reaches, also beyond the group; None if it is elsewhere."""
        needs = self.positions.needs(self.kernel, slice(0, self.part[1] - self.part[0]))
        return None if needs is None else needs.window

    @property
    def bounds(self) -> Rectangle:
        """Source cells around the window, or the window itself. They take less time to find."""
        if not self.is_complete:
            assert self.window is not None
            return self.window
        # Positions between grid points are between those of the points.
        columns, rows = (self.across, self.down) if self.fields is None else self.fields
        x, y = (ceil(radius_of(self.kernel, max(1.0, one))) + 2 for one in self.ratios)
        top, bottom = floor(rows.min()) - y, ceil(rows.max()) + y + 1
        return top, bottom, floor(columns.min()) - x, ceil(columns.max()) + x + 1

    @cached_property
    def is_complete(self) -> bool:
        """Whether all pixels have a position."""
        return self.fields is None or bool(np.isfinite(self.fields).all())

    @property
    def is_small(self) -> bool:
        """Whether the window has no more cells than may be read."""
        if self.is_complete:
            # Positions between grid points are between those of the points.
            ends = (self.across, self.down) if self.fields is None else self.fields
            reach = [2 * BASE_RADIUS[self.kernel] * max(1.0, one) + 8 for one in self.ratios]
            spans = [np.ptp(one) + more for one, more in zip(ends, reach, strict=True)]
            if spans[0] * spans[1] <= _LARGEST_WINDOW:
                return True
        return self.window is None or _area_of(self.window) <= _LARGEST_WINDOW

    def continues(self, other: Placement, shape: tuple[int, int]) -> bool:
        """Return whether this tile and the one on its left can be drawn at once.

        Each pixel is then the same as if they were not.

        Args:
            shape: height and width of a tile.
        """
        if (
            not self.part == other.part == (0, shape[0], 0, shape[1])
            or (self.kernel, self.factor, self.ratios) != (other.kernel, other.factor, other.ratios)
            or (self.fields is None) != (other.fields is None)
            or not np.array_equal(self.down, other.down)
        ):
            return False
        if self.fields is None or other.fields is None:
            # Not in another turn around the earth.
            return bool(abs(self.across[0] - other.across[-1]) < 2 * self.ratios[0])
        return (
            np.array_equal(self.fields[:, :, 0], other.fields[:, :, -1])
            and self.is_complete
            and other.is_complete
        )


class Run(NamedTuple):
    """Tiles side by side that may be drawn at once.

    Attributes:
        column: of the first tile.
        placements: of each tile; with one, it may cover part of the tile only.
    """

    column: int
    placements: list[Placement]

    def joined(self) -> Placement:
        """Return the placement of all these tiles."""
        first = self.placements[0]
        if len(self.placements) == 1:
            return first
        _, height, _, width = first.part
        part = 0, height, 0, width * len(self.placements)
        across = [one.across for one in self.placements]
        if first.fields is None:
            return replace(first, part=part, across=np.concatenate(across))
        # Two tiles share the points between them.
        points = [one[1:] + number * width for number, one in enumerate(across)]
        fields = [one.fields[:, :, 1:] for one in self.placements if one.fields is not None]
        return replace(
            first,
            part=part,
            across=np.concatenate([across[0][:1], *points]),
            fields=np.concatenate([first.fields[:, :, :1], *fields], axis=2),
        )


class Row(NamedTuple):
    """What a group covers in a row of tiles.

    Attributes:
        runs: from left to right.
        joined: the placement of each run.
        window: source cells that all of them need.
        at_once: whether they have one factor, and the window is small enough to be read at once.
    """

    runs: list[Run]
    joined: list[Placement]
    window: Rectangle
    at_once: bool


def _area_of(window: Rectangle) -> int:
    """Return the cells of a rectangle."""
    return (window[1] - window[0]) * (window[3] - window[2])
