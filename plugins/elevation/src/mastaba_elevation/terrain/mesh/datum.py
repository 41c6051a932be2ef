"""Heights above the ellipsoid from heights above the sea (elevation.md 5.6)."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyproj
from pyproj.exceptions import ProjError

from mastaba_elevation.queries.ground import Floats

if TYPE_CHECKING:
    from mastaba_elevation.queries.vertical import Vertical

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
_PIPELINE: Final = (
    "+proj=pipeline +step +proj=unitconvert +xy_in=deg +xy_out=rad "
    "+step +proj=vgridshift +grids={} +multiplier=1 "
    "+step +proj=unitconvert +xy_in=rad +xy_out=deg"
)
NODES: Final = 9
"""Places on each side of a tile where a grid is looked up. It is interpolated between them."""


class Shift(ABC):
    """What is added to heights."""

    @abstractmethod
    def over(self, longitude: Floats, latitude: Floats, size: int) -> Floats | float:
        """Return the height of the zero surface above the ellipsoid, metres.

        Args:
            longitude, latitude: of `NODES` places on the sides of a tile and of the next one on
                each side, degrees, shape (NODES + 2,).
            size: samples on each side of the tile, a multiple of 8 and one more.

        Returns:
            at the samples of the tile and one more on each side, shape (size + 2, size + 2); or a
            number.
        """


class Constant(Shift):
    """The same everywhere."""

    def __init__(self, metres: float) -> None:
        self._metres = metres

    def over(self, longitude: Floats, latitude: Floats, size: int) -> float:
        return self._metres


class Grid(Shift):
    """A grid file of PROJ; 0 where it has no value.

    Args:
        name: of the file.
        directory: where it is, or None to let PROJ find it.

    Raises:
        ValueError: there is no such grid.
    """

    def __init__(self, name: str, directory: Path | None = None) -> None:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a grid file of PROJ")
        own = None if directory is None else directory / name
        place = f'"{own}"' if own is not None and own.is_file() else name
        try:
            self._transformer = pyproj.Transformer.from_pipeline(_PIPELINE.format(place))
        except ProjError:
            raise ValueError(
                f"PROJ does not find the grid {name!r}; download it from https://cdn.proj.org"
            ) from None

    def over(self, longitude: Floats, latitude: Floats, size: int) -> Floats:
        x, y = np.meshgrid(longitude, latitude)
        shift = self._transformer.transform(x.ravel(), y.ravel(), np.zeros(x.size))[2]
        nodes = np.where(np.isfinite(shift), shift, 0.0).reshape(x.shape)
        samples = np.arange(-1, size + 1)
        cell = (size - 1) // (NODES - 1)
        # The nodes begin with the one before the tile.
        before, part = samples // cell + 1, samples % cell / cell
        rows = nodes[before] * (1.0 - part)[:, np.newaxis]
        rows += nodes[before + 1] * part[:, np.newaxis]
        return np.asarray(rows[:, before] * (1.0 - part) + rows[:, before + 1] * part)


def shift_of(vertical: Vertical, directory: Path | None = None) -> Shift:
    """Return what makes the heights of a layer ellipsoidal; 0 if nothing is known.

    Args:
        directory: where grid files are looked for before PROJ does.

    Raises:
        ValueError: the grid of PROJ is missing.
    """
    given = vertical.to_ellipsoid
    if isinstance(given, str):
        return Grid(given, directory)
    return Constant(given or 0.0)
