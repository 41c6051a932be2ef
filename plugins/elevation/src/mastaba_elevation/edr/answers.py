"""What a query found, before it is written in a format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from mastaba_elevation.queries.ground import Floats

if TYPE_CHECKING:
    from mastaba.api.catalogue import CRS
    from mastaba_elevation.queries.datasets import Dataset
    from mastaba_elevation.queries.grids import Grid


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Heights of points or of a grid.

    Attributes:
        names: requested parameters.
        uri: address of the query.
        decimals: of heights.
    """

    dataset: Dataset
    crs: CRS
    names: tuple[str, ...]
    uri: str
    decimals: int


@dataclass(frozen=True, slots=True, eq=False)
class Points(Found):
    """Heights of points; x before y.

    Attributes:
        domain: ``Point``, ``MultiPoint``, ``PointSeries`` or ``Trajectory``.
        x, y, heights: shape (n,); NaN without a height.
        columns: further values by parameter: numbers, texts, or sources; None without one.
        times: Unix seconds of a trajectory or series.
    """

    domain: str
    x: Floats
    y: Floats
    heights: Floats
    columns: dict[str, list[Any]]
    times: Floats | None = None

    @property
    def instants(self) -> list[str]:
        """The times in RFC 3339; empty without times."""
        times = () if self.times is None else self.times.tolist()
        found = (datetime.fromtimestamp(time, UTC).isoformat() for time in times)
        return [text.replace("+00:00", "Z") for text in found]

    @property
    def is_empty(self) -> bool:
        return bool(np.isnan(self.heights).all())


def series(points: Sequence[Points], times: Sequence[float | None]) -> Points:
    """Return one position at several times, the earliest first.

    Args:
        points: the position at each time, the latest first.
        times: Unix seconds.
    """
    whole = list(reversed(points))
    columns: dict[str, Any] = {
        name: [one.columns[name][0] for one in whole] for name in whole[0].columns
    }
    return replace(
        whole[0],
        domain="PointSeries",
        x=np.concatenate([one.x for one in whole]),
        y=np.concatenate([one.y for one in whole]),
        heights=np.concatenate([one.heights for one in whole]),
        columns=columns,
        times=np.array(times[::-1], float),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Cells(Found):
    """Heights of a grid.

    Attributes:
        heights: shape (rows, columns); NaN without a height.
    """

    grid: Grid
    heights: Floats

    @property
    def is_empty(self) -> bool:
        return bool(np.isnan(self.heights).all())
