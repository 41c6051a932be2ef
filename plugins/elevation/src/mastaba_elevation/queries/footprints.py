"""Polygons on the pixels of a level, and the choice of a level for an area (elevation.md 1.6)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Final

import numpy as np

from mastaba.api.catalogue import transform_points
from mastaba_elevation.errors import TooMuchError
from mastaba_elevation.queries.ground import metres_per_unit, to_degrees
from mastaba_elevation.queries.levels import Budget, HeightLayer, HeightLevel
from mastaba_elevation.queries.polygons import (
    MOST_PIECES,
    Edges,
    Outline,
    Ring,
    meets,
    pieces_of,
    simplest,
)

if TYPE_CHECKING:
    from mastaba.api.catalogue import CRS, Equivalences
    from mastaba_elevation.queries.datasets import Dataset

_LONGEST: Final = 16.0
"""Pixels of the finest level between two transformed points of an edge."""
_EDGE_POINTS: Final = 8192
"""Points that are added to an outline at most; longer edges are approximated."""
_FAR: Final = 1e9
"""Pixels. A polygon that reaches further is not on the ground."""
_SLACK: Final = 0.5
"""Pixels beyond a level that are rounded coordinates, so long as they are few of the polygon."""
_SMALL: Final = 0.01
"""Part of the shorter side of a polygon that is few."""
_ROUNDING: Final = 1e-6
"""Pixels beyond a level that are rounding errors, however small the polygon is."""


@dataclass(eq=False)
class Footprint:
    """A polygon on a level.

    Attributes:
        number: of the layer in the dataset.
        layer: the layer.
        level: one of its levels.
        outline: in CRS units of the layer.
        unwrap: whether a jump to the other side of the world is a step across the antimeridian:
            the polygon comes from another CRS.
        box: left, top, right and bottom of the outline in pixels, not cut.
        tiles: number of tiles inside the limits that its window touches.
        window: top, bottom, left and right in pixels; inside the limits if the layer is alone,
            but for what is between two copies of them in a set around the Earth.
        is_alone: whether the dataset has no other layer.
    """

    number: int
    layer: HeightLayer
    level: HeightLevel
    outline: Outline
    unwrap: bool
    box: tuple[float, float, float, float]
    tiles: int
    window: tuple[int, int, int, int]
    is_alone: bool

    @property
    def pixels(self) -> int:
        top, bottom, left, right = self.window
        return (bottom - top) * (right - left)

    @property
    def has_posts(self) -> bool:
        """Whether the pixels of the level are posts."""
        return self.layer.is_of_posts and self.level is self.layer.levels[0]

    @cached_property
    def edges(self) -> Edges:
        """The edges that count in the even-odd rule, in pixels from the origin of the matrix."""
        return simplest(_on_level(self.outline, self.level, unwrap=self.unwrap).edges)

    @cached_property
    def is_whole(self) -> bool:
        """Whether the limits of the level contain all that the layer has in the polygon.

        Half a pixel may be beyond, or a hundredth of the shorter side if that is less.
        """
        left, top, right, bottom = self.box
        slack = max(min(_SLACK, _SMALL * min(right - left, bottom - top)), _ROUNDING)
        parts = self.level.beyond(self.layer.box, self.box, slack)
        return not any(meets(self.edges, *part) for part in parts)

    @property
    def cell(self) -> float:
        """Size of a pixel on the ground at the middle of the window, metres."""
        return self.level.cell * self.unit

    @property
    def unit(self) -> float:
        """Length of a unit of the CRS of the layer at the middle of the window, metres."""
        top, bottom, left, right = self.window
        x, y = self.level.places(np.array([(left + right) / 2]), np.array([(top + bottom) / 2]))
        _, latitude = to_degrees(self.layer.crs, x, y)
        where = float(latitude[0]) if math.isfinite(latitude[0]) else 0.0
        return float(metres_per_unit(self.layer.crs, where))


def footprints(
    dataset: Dataset, rings: Sequence[Ring], crs: CRS, equivalences: Equivalences
) -> Iterator[Footprint]:
    """Yield the footprints of a polygon, layer by layer, from the finest level to the coarsest.

    They are those with a part inside the limits.

    Args:
        rings: in CRS units, closed. A ring across the antimeridian goes on beyond ±180.
    """
    whole = Outline.of(rings)
    for number, layer in enumerate(dataset.layers):
        same = equivalences.equal(crs.code, layer.crs.code)
        outline = whole if same else _in_layer(whole, crs, layer)
        if outline is None:
            continue
        for level in layer.levels:
            pixels = _on_level(outline, level, unwrap=not same)
            points = pixels.points
            low, high = points.min(axis=0), points.max(axis=0)
            if max(np.abs(low).max(), np.abs(high).max()) > _FAR:
                break
            left, top = np.floor(low).astype(int).tolist()
            right, bottom = np.ceil(high).astype(int).tolist()
            box = (top, max(bottom, top + 1), left, max(right, left + 1))
            tiles, window = level.window(*box)
            # Coarser levels may cover more.
            if not tiles:
                continue
            # Another layer may have heights outside the limits of this one.
            is_alone = len(dataset.layers) == 1
            part = window if is_alone else box
            around = (float(low[0]), float(low[1]), float(high[0]), float(high[1]))
            yield Footprint(number, layer, level, outline, not same, around, tiles, part, is_alone)


def covering(
    found: Iterable[Footprint], is_affordable: Callable[[Footprint], bool] | None = None
) -> Iterator[Footprint]:
    """Yield, of each layer, the footprints whose levels have all that it has in the polygon.

    If a layer has none, all of its footprints.

    Args:
        found: from `footprints`.
        is_affordable: whether to yield a footprint; it is asked first. None for all.
    """
    for _, of_layer in groupby(found, lambda one: one.number):
        parts, refused, has_whole = [], [], False
        for one in of_layer:
            if is_affordable is not None and not is_affordable(one):
                refused.append(one)
            elif one.is_whole:
                has_whole = True
                yield one
            else:
                parts.append(one)
        if parts and not has_whole and not any(one.is_whole for one in refused):
            yield from parts


def affordable(
    dataset: Dataset,
    rings: Sequence[Ring],
    crs: CRS,
    equivalences: Equivalences,
    budget: Budget,
    pixels: int,
    resolution: float | None = None,
) -> Iterator[Footprint]:
    """Yield the footprints within the limits, the finest first; none where no layer has anything.

    Args:
        budget: tiles; nothing is taken from it.
        pixels: of the window at most.
        resolution: wanted size of a cell, metres; only the level for it is considered.

    Raises:
        TooMuchError: there is a part inside the limits, but the caller took no footprint.
    """

    def is_small(one: Footprint) -> bool:
        return one.pixels <= pixels and budget.fits(one.tiles, one.level.tile_size)

    def is_affordable(one: Footprint) -> bool:
        top, bottom, _, _ = one.window
        return is_small(one) and pieces_of(one.edges, top, bottom) <= MOST_PIECES

    found = list(footprints(dataset, rings, crs, equivalences))
    if resolution is None:
        yield from covering(found, is_affordable)
    elif any(is_small(one) for one in found):
        yield from filter(is_affordable, _wanted(list(covering(found)), resolution)[:1])
    if found:
        raise TooMuchError("the area is too large; request a coarser resolution or a smaller area")


def _wanted(found: list[Footprint], resolution: float) -> list[Footprint]:
    """Return the footprints whose level is fine enough for a resolution, coarsest first.

    If all are coarser, all of them.
    """
    fitting = [item for item in found if item.level.is_fine_enough(resolution / item.unit)]
    # Of one layer, the first that has any.
    return [item for item in reversed(fitting) if item.number == fitting[0].number] or found


def _in_layer(outline: Outline, crs: CRS, layer: HeightLayer) -> Outline | None:
    """Return an outline in the CRS of a layer; None if it is nowhere there."""
    x, y = outline.points.T
    _, latitude = to_degrees(crs, x, y)
    known = latitude[np.isfinite(latitude)]
    where = min(float(np.abs(known).max()) if len(known) else 0.0, 85.0)
    unit = max(float(metres_per_unit(crs, where)), 1e-9)
    metres = float(layer.levels[0].cell * metres_per_unit(layer.crs, where))
    dense = outline.densified(max(_LONGEST * metres / unit, 1e-9), _EDGE_POINTS)
    return dense.moved(*transform_points(crs, layer.crs, *dense.points.T))


def _on_level(outline: Outline, level: HeightLevel, *, unwrap: bool) -> Outline:
    """Return an outline in pixels."""
    if unwrap and level.turn:
        outline = outline.unwrapped(level.turn * level.cell)
    x, y = level.line(*outline.points.T)
    return Outline(np.column_stack([x, y]), outline.starts)
