"""Peaks and towns of a region, with invented names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mastaba_demo.hydrology import Drainage
from mastaba_demo.noise import Field

_ONSETS = [*"bcdfghklmnprstvw", "br", "dr", "gr", "st", "th", "tr", ""]
_VOWELS = [*"aaeeioou", "ae", "ei", "ia", "ou"]
_CODAS = ["", "", "l", "n", "r", "s", "nd", "rn", "lm", "th"]
_TOWN_ENDINGS = ("a", "en", "mouth", "ford", "holm", "stead", "wick", "haven", "bridge")
_PEAK_FORMS = ("{} Peak", "Mount {}", "{} Horn", "{} Fell", "Pic {}", "{} Tor")
_MOST = 90
_FINEST_FROM = 10  # this level and finer ones show all places


@dataclass(frozen=True, slots=True)
class Place:
    """A peak or a town.

    Attributes:
        x: position eastward in the unit square.
        y: position southward.
        name: an invented name.
        size: elevation of a peak in metres, or population of a town.
        level: the first level that shows it.
    """

    x: float
    y: float
    name: str
    size: int
    level: int


def peaks(drainage: Drainage, seed: int) -> tuple[Place, ...]:
    """Return the most prominent peaks, the highest first."""
    height = drainage.elevation
    summit = _is_maximum(height, 5)
    summit &= height > 300
    # Within a massif only the highest peak is named; elsewhere low hills may have names too.
    rows, columns = _spread(summit, height, spacing=12)
    generator = np.random.default_rng(seed + 1)
    names = _names(generator, len(rows))
    return tuple(
        Place(
            *_position(drainage, row, column),
            name=str(generator.choice(_PEAK_FORMS)).format(name),
            size=round(float(height[row, column])),
            level=_first_level(rank),
        )
        for rank, (row, column, name) in enumerate(zip(rows, columns, names, strict=True))
    )


def towns(drainage: Drainage, seed: int) -> tuple[Place, ...]:
    """Return towns on rivers and coasts, the largest first."""
    height, area = drainage.elevation, drainage.area
    generator = np.random.default_rng(seed + 2)
    slope = np.hypot(*np.gradient(height))
    sea = height <= 0
    beside_sea = np.zeros_like(sea)
    for step in (-2, 2):
        for axis in (0, 1):
            beside_sea |= np.roll(sea, step, axis)
    score = (
        np.log10(np.maximum(area, 1))
        + 0.9 * beside_sea
        - slope / 60
        - height / 600
        + generator.uniform(0, 1.1, height.shape)
    ).astype(np.float32)
    suited = (height > 2) & (slope < 60) & ((area > 60) | beside_sea)
    border = 30
    suited[:border] = suited[-border:] = suited[:, :border] = suited[:, -border:] = False
    rows, columns = _spread(suited, score, spacing=20)
    return tuple(
        Place(
            *_position(drainage, row, column),
            name=name + str(generator.choice(_TOWN_ENDINGS)),
            size=round(420_000 / (rank + 1) ** 1.05, -2 if rank < 60 else -1),
            level=_first_level(rank),
        )
        for rank, (row, column, name) in enumerate(
            zip(rows, columns, _names(generator, len(rows)), strict=True)
        )
    )


def _is_maximum(field: Field, reach: int) -> NDArray[np.bool_]:
    highest = field.copy()
    for axis in (0, 1):
        widest = highest
        for step in range(1, reach + 1):
            widest = np.maximum(widest, np.roll(highest, step, axis))
            widest = np.maximum(widest, np.roll(highest, -step, axis))
        highest = widest
    maximum: NDArray[np.bool_] = field == highest
    maximum[:reach] = maximum[-reach:] = maximum[:, :reach] = maximum[:, -reach:] = False
    return maximum


def _spread(suited: NDArray[np.bool_], score: Field, spacing: int) -> tuple[list[int], list[int]]:
    """Choose the nodes with the best scores, at least `spacing` nodes apart."""
    candidates = np.flatnonzero(suited)
    candidates = candidates[np.argsort(-score.ravel()[candidates], kind="stable")][:20_000]
    chosen: list[tuple[int, int]] = []
    taken = np.zeros_like(suited)
    for row, column in zip(*np.divmod(candidates, score.shape[1]), strict=True):
        if not taken[row, column]:
            chosen.append((int(row), int(column)))
            low_row, low_column = max(row - spacing, 0), max(column - spacing, 0)
            taken[low_row : row + spacing, low_column : column + spacing] = True
            if len(chosen) == _MOST:
                break
    return [row for row, _ in chosen], [column for _, column in chosen]


def _position(drainage: Drainage, row: int, column: int) -> tuple[float, float]:
    valleys = drainage.valleys
    return valleys.left + column * valleys.spacing, valleys.top + row * valleys.spacing


def _first_level(rank: int) -> int:
    return 7 if rank < 6 else 8 if rank < 14 else 9 if rank < 35 else _FINEST_FROM


def _names(generator: np.random.Generator, count: int) -> list[str]:
    names: dict[str, None] = {}
    while len(names) < count:
        syllables = (
            str(generator.choice(_ONSETS)) + str(generator.choice(_VOWELS)) for _ in range(2)
        )
        names["".join(syllables).capitalize() + str(generator.choice(_CODAS))] = None
    return list(names)
