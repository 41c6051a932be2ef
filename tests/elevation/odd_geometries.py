"""Geometries that cost much or make no sense, and a counter of the work that they cause."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mastaba_elevation.edr import areas
from mastaba_elevation.queries import footprints, ground, lines, overlap, polygons, sampling

Position = list[float]
Ring = list[Position]

BODY = 1024 * 1024
"""Bytes of a request at most."""


class OddGeometries:
    """Polygons and lines around the middle of a layer, as coordinates of GeoJSON.

    Args:
        x, y: degrees.
        reach: size of the layer, degrees.
        count: points of a geometry, about.
    """

    def __init__(self, x: float, y: float, reach: float, count: int, seed: int = 1) -> None:
        self._dice = random.Random(seed)
        self._x, self._y, self._reach, self._count = x, y, reach, count

    def polygons(self) -> dict[str, list[list[Ring]]]:
        """Return MultiPolygons by what is odd about them."""
        n, reach = self._count, self._reach
        world = [[-179.0, -80.0], [179.0, -80.0], [179.0, 80.0], [-179.0, 80.0]]
        across = [[179.0 + k % 2 * 2, -60 + 100 * k / n] for k in range(n)]
        jumps = [[(-1) ** k * 179.0, -60 + 100 * k / n] for k in range(n)]
        return {
            "equal rings": [[_closed(world)]] * (n // 5),
            "one ring too many": [[_closed(world)]] * (n // 5 | 1),
            "rings that are nearly equal": [
                [_closed([[x * (1 - k * 1e-6), y * (1 - k * 2e-6)] for x, y in world])]
                for k in range(n // 10)
            ],
            "large ring": [[_closed(self._circle(n, reach))]],
            "jagged ring": [[_closed(self._circle(n, reach, 0.5))]],
            "jagged ring in a few cells": [[_closed(self._circle(n, reach / 1000, 0.5))]],
            "jagged ring in a cell": [[_closed(self._circle(n, reach / 1e5, 0.5))]],
            "holes": [
                [_closed(self._circle(50, reach))]
                + [_closed(self._circle(4, reach / 500, 0, self._near())) for _ in range(n // 5)]
            ],
            "small rings": [
                [_closed(self._circle(3, reach / 5000, 0, self._near()))] for _ in range(n // 4)
            ],
            "spikes across": [[_closed(self._teeth(n, 1e-4, 1.0))]],
            "spikes along": [[_closed([[y, x] for x, y in self._teeth(n, 1e-4, 1.0, swap=True)])]],
            "edges without length": [[[self._place()] * n + _closed(self._circle(3, reach))]],
            "scribble": [[_closed([self._near() for _ in range(n)])]],
            "short scribble": [[_closed([self._near() for _ in range(100)])]],
            "huge coordinates": [[_closed([self._anywhere(1e10) for _ in range(n)])]],
            "anywhere": [[_closed([self._anywhere(180) for _ in range(n)])]],
            "across the antimeridian": [[_closed(across)]],
            "from edge to edge": [[_closed(jumps)]],
        }

    def lines(self) -> dict[str, Ring]:
        """Return LineStrings by what is odd about them."""
        n = self._count
        return {
            "from pole to pole": [[-170 + 340 * k / n, 80.0 * (-1) ** k] for k in range(n)],
            "zigzag": self._teeth(n, 1e-4, 1.0),
            "one place": [self._place()] * n,
            "tiny steps": [[self._x + k * 1e-9, self._y] for k in range(n)],
            "anywhere": [self._anywhere(89) for _ in range(n)],
            "huge coordinates": [self._anywhere(1e10) for _ in range(n)],
            "from edge to edge": [[(-1) ** k * 179.0, -60 + 100 * k / n] for k in range(n)],
        }

    def _place(self) -> Position:
        return [self._x, self._y]

    def _near(self) -> Position:
        dice, reach = self._dice, self._reach
        x, y = (place + dice.uniform(-reach, reach) for place in (self._x, self._y))
        return [round(x, 6), round(y, 6)]

    def _anywhere(self, most: float) -> Position:
        dice = self._dice
        return [round(dice.uniform(-most, most), 3), round(dice.uniform(-most, most) / 2, 3)]

    def _circle(
        self, count: int, radius: float, jag: float = 0.0, centre: Position | None = None
    ) -> Ring:
        x, y = centre or self._place()
        found = []
        for k in range(count):
            turn, size = 2 * math.pi * k / count, radius * (1 + jag * self._dice.random())
            found.append([round(x + size * math.cos(turn), 9), round(y + size * math.sin(turn), 9)])
        return found

    def _teeth(self, count: int, step: float, height: float, *, swap: bool = False) -> Ring:
        x, y = (self._y, self._x) if swap else (self._x, self._y)
        reach = self._reach * height
        return [[round(x + k * step, 6), round(y + k % 2 * reach, 6)] for k in range(count)]


def _closed(ring: Ring) -> Ring:
    return [*ring, ring[0]]


def wkt(depth: int, coordinates: Any) -> str:
    """Return nested coordinates as well-known text, without the type."""
    if depth == 0:
        return " ".join(map(repr, coordinates))
    return "(" + ",".join(wkt(depth - 1, item) for item in coordinates) + ")"


class Work:
    """What a request has done.

    Attributes:
        places: points that were transformed, sampled, or found on the ellipsoid.
        pieces: parts of edges, and pairs of them.
    """

    def __init__(self) -> None:
        self.places = self.pieces = 0

    @contextmanager
    def counted(self, patch: pytest.MonkeyPatch) -> Iterator[None]:
        """Count what is done inside."""
        self.places = self.pieces = 0
        with patch.context() as inner:
            for module in (footprints, ground, lines, sampling, areas):
                if hasattr(module, "transform_points"):
                    self._count(inner, module, "transform_points", 2)
            for module in (ground, lines):
                self._count(inner, module, "destinations", 0)
                self._count(inner, module, "geodesics", 0)
            for module in (polygons, overlap):
                self._count(inner, module, "expanded", None)
            yield

    def _count(
        self, patch: pytest.MonkeyPatch, module: Any, name: str, argument: int | None
    ) -> None:
        real: Callable[..., Any] = getattr(module, name)

        def counting(*given: Any) -> Any:
            if argument is None:
                # Before the arrays are made.
                self.pieces += int(given[1].sum())
            else:
                self.places += len(given[argument])
            return real(*given)

        patch.setattr(module, name, counting)
