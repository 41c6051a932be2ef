"""What a query found, before it is written in a format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
        domain: ``Point``, ``MultiPoint`` or ``Trajectory``.
        x, y, heights: shape (n,); NaN without a height.
        columns: further values by parameter: numbers, or texts and None.
        times: Unix seconds of a trajectory.
    """

    domain: str
    x: Floats
    y: Floats
    heights: Floats
    columns: dict[str, list[float | None] | list[str | None]]
    times: Floats | None = None

    @property
    def is_empty(self) -> bool:
        return bool(np.isnan(self.heights).all())


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
