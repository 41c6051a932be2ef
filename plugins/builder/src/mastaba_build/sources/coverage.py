"""No build loses source pixels unnoticed: samples of the sources against the tiles drawn from them.

A sample is a source pixel and its place in the set, computed by itself: not with the grids and the
windows that draw tiles. If a sample has data, and so have all pixels around it that a pixel of the
level is made of, that pixel or one beside it must have data too (docs/from-geotiff.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, isqrt
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyproj
from pyproj.enums import TransformDirection

from mastaba.api.catalogue import CRS, BoundingBox, TileMatrix
from mastaba_build.samples import Raster
from mastaba_build.sources.groups import Group, limb_of, to_group
from mastaba_build.sources.sets import SetExtent
from mastaba_build.sources.source import Source
from mastaba_build.sources.turns import in_nearest_turn, period_of

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

_MOST = 1 << 18
"""Samples of all sources together, unless there are too many sources."""
_FEWEST, _LARGEST = 3, 33
"""Samples on a side of a source."""
_RETURN = 0.25
"""Source pixels by which a sample may miss its place on the way there and back."""
_READ = 1 << 21
"""Source pixels that are read to examine the samples that a slab lacks."""
_MOST_EXAMINED = 64

IsValid = Callable[[Source, int, int, int, int], bool]
"""Whether all pixels of a window of a source have data: first row, row after the last, columns."""


class Sample(NamedTuple):
    """A pixel of a source, and its place in the CRS of the set."""

    source: int
    column: int
    row: int
    x: float
    y: float


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Samples of the sources of a plan that are inside the set; all arrays have one shape.

    Attributes:
        sources: number of the source in the plan.
        columns, rows: pixel of the source.
        x, y: centre of that pixel in the CRS of the set.
        outside: share of each source outside the set, by number; only those above 0.
        nowhere: share of each source without a position in the CRS of the set, in the same way.
    """

    sources: Integers
    columns: Integers
    rows: Integers
    x: Floats
    y: Floats
    outside: dict[int, float]
    nowhere: dict[int, float]

    def __getitem__(self, index: int) -> Sample:
        return Sample(
            int(self.sources[index]),
            int(self.columns[index]),
            int(self.rows[index]),
            float(self.x[index]),
            float(self.y[index]),
        )

    def notes(self, sources: Sequence[Source], set_name: str) -> Iterator[str]:
        """Yield a sentence if sources reach beyond the set, and one if beyond the earth."""
        for shares, where in (
            (self.outside, f"outside the set {set_name}"),
            (self.nowhere, f"off the earth, or without a position in the CRS of {set_name}"),
        ):
            if shares:
                worst = max(shares, key=lambda number: shares[number])
                others = f" and of {len(shares) - 1} others" if len(shares) > 1 else ""
                share = max(1, round(100 * shares[worst]))
                yield f"{share} % of {sources[worst].path}{others} are {where}"

    def beyond(self, boxes: Sequence[Sequence[BoundingBox]]) -> int | None:
        """Return the first sample that is in none of the boxes of its source, or None.

        Args:
            boxes: of each source.
        """
        starts = np.searchsorted(self.sources, np.arange(len(boxes) + 1))
        for number, some in enumerate(boxes):
            part = slice(starts[number], starts[number + 1])
            x, y = self.x[part], self.y[part]
            inside = np.zeros(len(x), bool)
            for box in some:
                inside |= (x >= box.xmin) & (x <= box.xmax) & (y >= box.ymin) & (y <= box.ymax)
            if not inside.all():
                return int(starts[number] + np.argmin(inside))
        return None


def samples_of_groups(groups: Sequence[Group], extent: SetExtent) -> Samples:
    """Return samples spread over each source, with its first and last rows and columns.

    Where the positions of a source end, as at the limb of the earth, the last pixels are samples.
    """
    count = sum(len(group.members) for group in groups)
    side = max(_FEWEST, min(_LARGEST, isqrt(_MOST // max(count, 1))))
    box, period = extent.box, extent.period
    parts: list[tuple[Integers, Integers, Integers, Floats, Floats]] = []
    outside: dict[int, float] = {}
    nowhere: dict[int, float] = {}
    first = 0
    for group in groups:
        pixels = _pixels(group, side)
        back = to_group(group, extent.crs)
        x, y, is_known = _placed(group, back, pixels)
        numbers, columns, rows = pixels
        _add_shares(nowhere, numbers + first, ~is_known)
        if not is_known.all():
            limb = _limb(group, back, pixels, is_known)
            limb_x, limb_y, is_real = _placed(group, back, limb)
            numbers, columns, rows = np.concatenate([pixels, limb], axis=1)
            x, y = np.concatenate([x, limb_x]), np.concatenate([y, limb_y])
            is_known = np.concatenate([is_known, is_real])
        if period:
            x = x - period * np.floor((x - box.xmin) / period)
        inside = (x > box.xmin) & (x < box.xmax) & (y > box.ymin) & (y < box.ymax)
        spread = slice(0, pixels.shape[1])
        _add_shares(outside, numbers[spread] + first, (is_known & ~inside)[spread])
        chosen = np.flatnonzero(is_known & inside)
        chosen = chosen[np.argsort(numbers[chosen], kind="stable")]
        parts.append((numbers[chosen] + first, columns[chosen], rows[chosen], x[chosen], y[chosen]))
        first += len(group.members)
    sources, columns, rows, x, y = (np.concatenate(one) for one in zip(*parts, strict=True))
    return Samples(sources, columns, rows, x, y, outside, nowhere)


def _add_shares(shares: dict[int, float], numbers: Integers, chosen: Mask) -> None:
    """Add the share of the samples of each source that are chosen, if there are any."""
    for number in np.unique(numbers[chosen]).tolist():
        shares[number] = float(chosen[numbers == number].mean())


def _pixels(group: Group, side: int) -> Integers:
    """Return member, column and row of sampled pixels, shape (3, number), ordered by member.

    Args:
        side: samples on a side of a member, fewer for a small one.
    """
    found = []
    for number, member in enumerate(group.members):
        across, down = (
            np.unique(np.linspace(0, size - 1, side).round().astype(np.int32))
            for size in (member.source.width, member.source.height)
        )
        columns, rows = np.meshgrid(across, down)
        found.append(np.stack([np.full_like(columns, number), columns, rows]).reshape(3, -1))
    return np.concatenate(found, axis=1)


def _limb(
    group: Group, back: pyproj.Transformer | None, pixels: Integers, is_known: Mask
) -> Integers:
    """Return pixels at the end of the positions of members, as in `_pixels`.

    Args:
        pixels: of which some have a position, by ``is_known``.
    """
    found = []
    for number in np.unique(pixels[0][~is_known]).tolist():
        own = pixels[0] == number
        if not is_known[own].any():
            continue
        shape = -1, len(np.unique(pixels[1][own]))

        def placed(places: Floats, number: int = number) -> Floats:
            members = np.full(places.shape[1], number)
            x, y, has_position = _placed(group, back, np.stack([members, *places]))
            return np.where(has_position, np.stack([x, y]), np.nan)

        places = pixels[1:, own].reshape(2, *shape).astype(np.float64)
        limb = limb_of(places, is_known[own].reshape(shape), placed).round().astype(np.int32)
        found.append(np.concatenate([np.full_like(limb[:1], number), limb]))
    return np.concatenate(found, axis=1) if found else pixels[:, :0]


def _placed(
    group: Group,
    back: pyproj.Transformer | None,
    pixels: npt.NDArray[np.integer[Any] | np.floating[Any]],
) -> tuple[Floats, Floats, Mask]:
    """Return pixels of a group in the CRS of the set, and which of them come back from there.

    Args:
        back: from the set to the group; None if they have one CRS.
        pixels: member, column and row of each, shape (3, number).
    """
    a, b, c, d, e, f = group.transform
    corners = np.array([(one.column, one.row) for one in group.members])[pixels[0].astype(int)]
    column, row = pixels[1] + corners[:, 0] + 0.5, pixels[2] + corners[:, 1] + 0.5
    x, y = a * column + b * row + c, d * column + e * row + f
    if back is None:
        return x, y, np.ones(len(x), bool)
    try:
        east, north = map(np.asarray, back.transform(x, y, direction=TransformDirection.INVERSE))
        again = list(map(np.asarray, back.transform(east, north)))
    except pyproj.exceptions.ProjError:
        return x, y, np.zeros(len(x), bool)
    with np.errstate(invalid="ignore"):
        right, up = in_nearest_turn(again[0] - x, period_of(group.crs)), again[1] - y
        area = a * e - b * d
        column, row = (e * right - b * up) / area, (a * up - d * right) / area
        is_known = np.isfinite(east + north) & (np.abs(column) < _RETURN) & (np.abs(row) < _RETURN)
    return np.where(is_known, east, 0.0), np.where(is_known, north, 0.0), is_known


class Coverage:
    """Looks for samples in the tiles of one level, slab by slab.

    Args:
        groups: of the plan.
        crs: of the set.
    """

    def __init__(
        self, samples: Samples, groups: Sequence[Group], crs: CRS, matrix: TileMatrix
    ) -> None:
        self._samples = samples
        self._group_of = [group for group in groups for _ in group.members]
        self._crs = crs
        self._matrix = matrix
        self._columns = (samples.x - matrix.origin_x) / matrix.cell_size
        self._rows = (matrix.origin_y - samples.y) / matrix.cell_size
        tiles: dict[tuple[int, int], list[int]] = {}
        places = zip(
            (self._rows // matrix.tile_height).astype(int).tolist(),
            (self._columns // matrix.tile_width).astype(int).tolist(),
            strict=True,
        )
        for number, place in enumerate(places):
            tiles.setdefault(place, []).append(number)
        self._tiles = {place: np.array(numbers) for place, numbers in tiles.items()}

    def sample(self, number: int) -> Sample:
        """Return a sample by its number."""
        return self._samples[number]

    def missing(self, tile_row: int, columns: range, row: Raster | None) -> list[int]:
        """Return the samples in tiles without data in their pixel and the pixels beside it.

        Args:
            columns: of the tiles.
            row: their pixels; None for no data.
        """
        width = self._matrix.tile_width
        missing: list[int] = []
        for number, column in enumerate(columns):
            part = np.s_[:, number * width : (number + 1) * width]
            tile = None if row is None else row.valid[part]
            missing += self._missing(tile_row, column, tile)
        return missing

    def _missing(self, tile_row: int, tile_column: int, valid: Mask | None) -> list[int]:
        numbers = self._tiles.get((tile_row, tile_column))
        if numbers is None:
            return []
        if valid is None:
            return list(map(int, numbers))
        height, width = valid.shape
        rows = (self._rows[numbers] - tile_row * height).astype(int)
        columns = (self._columns[numbers] - tile_column * width).astype(int)
        found = valid[rows, columns]
        for index in np.flatnonzero(~found).tolist():
            row, column = rows[index], columns[index]
            around = valid[max(0, row - 1) : row + 2, max(0, column - 1) : column + 2]
            found[index] = around.any()
        return list(map(int, numbers[~found]))

    def lost(self, missing: Sequence[int], sources: Sequence[Source], valid: IsValid) -> list[int]:
        """Return the samples among missing ones that have data in their sources.

        So many are examined that it takes little time, spread over all of them.

        Raises:
            SourceError: a source cannot be read.
        """
        lost: list[int] = []
        budget, step = _READ, max(1, len(missing) // _MOST_EXAMINED)
        for number in missing[::step]:
            sample = self._samples[number]
            source = sources[sample.source]
            is_inner, reach = self._is_inner(sample, source)
            if not is_inner:
                continue
            rows = max(0, sample.row - reach), min(source.height, sample.row + reach + 1)
            columns = max(0, sample.column - reach), min(source.width, sample.column + reach + 1)
            budget -= (rows[1] - rows[0]) * (columns[1] - columns[0])
            if valid(source, *rows, *columns):
                lost.append(number)
            if budget < 0:
                break
        return lost

    def _is_inner(self, sample: Sample, source: Source) -> tuple[bool, int]:
        """Return whether the pixel of the level around a sample is well inside its source.

        At the border of a source, less than half of the weights of a pixel may be in it.

        Returns:
            Also, how many source pixels on each side of the sample that pixel is made of.
        """
        group, cell = self._group_of[sample.source], self._matrix.cell_size
        origin = self._matrix.origin_x, self._matrix.origin_y
        # The sample, the centre of its pixel, and the middles of two sides of that.
        middle_x = origin[0] + ((sample.x - origin[0]) // cell + 0.5) * cell
        middle_y = origin[1] - ((origin[1] - sample.y) // cell + 0.5) * cell
        x = np.array([sample.x, middle_x, middle_x + cell / 2, middle_x])
        y = np.array([sample.y, middle_y, middle_y, middle_y + cell / 2])
        back = to_group(group, self._crs)
        if back is not None:
            x, y = map(np.asarray, back.transform(x, y))
        right, up = in_nearest_turn(x[1:] - x[0], period_of(group.crs)), y[1:] - y[0]
        a, b, _, d, e, _ = group.transform
        columns = (e * right - b * up) / (a * e - b * d)
        rows = (a * up - d * right) / (a * e - b * d)
        if not np.isfinite(columns + rows).all():
            return False, 0
        size = 2 * float(
            max(np.hypot(*(columns[1:] - columns[0])), np.hypot(*(rows[1:] - rows[0])))
        )
        margin = (max(1.0, size) + 1) / 2
        column, row = sample.column + 0.5 + columns[0], sample.row + 0.5 + rows[0]
        is_inner = margin <= column <= source.width - margin
        return is_inner and margin <= row <= source.height - margin, ceil(size) + 1
