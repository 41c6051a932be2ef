"""Random overlapping sources, and an oracle that knows which one gives a pixel.

The oracle walks the sources from the top, maps the centre of the pixel into each of them by PROJ,
and looks at one of its pixels. It shares no code with the builder.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyproj
import rasterio
from rasterio.transform import Affine

LEVEL = 12
CELL = 156543.03392804097 / 2**LEVEL
ORIGIN = 20037508.342789244
FIRST = 2060, 1440
"""Column and row of the first tile of the area, in the north of France."""
_CLOSE = 1 / 16
"""Largest error of a position in the builder, in source pixels."""


@dataclass(eq=False)
class Sheet:
    """A source of one value.

    Attributes:
        alpha: shape (rows, columns), 0 where it has no data.
        grid: equal for sheets that follow each other in one pixel grid.
        footprints: file of polygons, and its rings in CRS84 by their name.
    """

    path: Path
    crs: str
    transform: Affine
    alpha: np.ndarray
    value: int
    grid: int
    how: str
    footprints: Path | None = None
    rings: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def write(self, *, has_alpha: bool) -> None:
        """Write the file."""
        rows, columns = self.alpha.shape
        dtype = "uint8" if has_alpha else "float32"
        valid = self.alpha > 0
        pixels = np.full((1, rows, columns), self.value % 256 if has_alpha else self.value, dtype)
        options: dict[str, Any] = {}
        if has_alpha:
            pixels = np.concatenate([pixels, self.alpha[np.newaxis]])
            options["alpha"] = "YES"
        elif self.how == "nodata":
            pixels[0][~valid] = -1
            options["nodata"] = -1
        with (
            rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True),
            rasterio.open(
                self.path,
                "w",
                driver="GTiff",
                width=columns,
                height=rows,
                count=len(pixels),
                dtype=dtype,
                crs=self.crs,
                transform=self.transform,
                compress="deflate",
                **options,
            ) as dataset,
        ):
            dataset.write(pixels)
            if not has_alpha and self.how == "mask":
                dataset.write_mask(valid)

    def entry(self) -> dict[str, Any]:
        """Return the entry of a configuration."""
        if self.footprints is None:
            return {"path": str(self.path)}
        return {"path": str(self.path), "footprints": {"path": str(self.footprints), "date": "d"}}


def make_sheets(folder: Path, count: int, tiles: int, seed: int) -> list[Sheet]:
    """Return random sheets over an area of some tiles on a side, the lowest first."""
    generator = np.random.default_rng(seed)
    sheets: list[Sheet] = []
    grids = itertools.count()
    while len(sheets) < count:
        kind = ("plain", "rotated", "utm", "degrees", "block")[int(generator.integers(5))]
        if kind == "block" and len(sheets) + 4 <= count:
            sheets += _block(folder, len(sheets) + 1, tiles, next(grids), generator)
        elif kind != "block":
            sheets.append(_sheet(folder, len(sheets) + 1, kind, tiles, next(grids), generator))
    return sheets


def _corner(tiles: int, generator: np.random.Generator) -> tuple[float, float]:
    left, top = generator.uniform(0, tiles * 256 - 150, 2)
    return -ORIGIN + (FIRST[0] * 256 + left) * CELL, ORIGIN - (FIRST[1] * 256 + top) * CELL


def _alpha(shape: tuple[int, int], generator: np.random.Generator) -> np.ndarray:
    """Return alpha with holes and translucent parts."""
    alpha = np.full(shape, 255, np.uint8)
    for value in (0, 0, 60, 100, 127, 128, 200):
        if generator.random() < 0.6:
            row, column = (int(generator.integers(0, size - 12)) for size in shape)
            high, wide = generator.integers(3, 70, 2)
            alpha[row : row + high, column : column + wide] = value
    return alpha


def _sheet(
    folder: Path, value: int, kind: str, tiles: int, grid: int, generator: np.random.Generator
) -> Sheet:
    x, y = _corner(tiles, generator)
    shape = int(generator.integers(80, 260)), int(generator.integers(80, 260))
    size = CELL * generator.uniform(0.85, 1.6)
    crs = "EPSG:3857"
    if kind == "utm":
        crs, size = "EPSG:32631", size * 0.65
    elif kind == "degrees":
        crs, size = "EPSG:4326", size / 111_000 * 0.8
    x, y = pyproj.Transformer.from_crs("EPSG:3857", crs, always_xy=True).transform(x, y)
    angle = np.radians(generator.uniform(-40, 40)) if kind == "rotated" else 0.0
    across, down = size * np.cos(angle), size * np.sin(angle)
    transform = Affine(across, -down, x, -down, -across, y)
    how = ("nodata", "mask")[int(generator.integers(2))]
    path = folder / f"{value:04}.tif"
    sheet = Sheet(path, crs, transform, _alpha(shape, generator), value, grid, how)
    if generator.random() < 0.4:
        _seams(sheet, generator)
    return sheet


def _block(
    folder: Path, value: int, tiles: int, grid: int, generator: np.random.Generator
) -> list[Sheet]:
    """Return four sheets of one grid, which overlap a little."""
    x, y = _corner(tiles, generator)
    size = CELL * generator.uniform(0.85, 1.3)
    sheets = []
    for number, (row, column) in enumerate(itertools.product((0, 85), (0, 91))):
        transform = Affine(size, 0, x + column * size, 0, -size, y - row * size)
        path = folder / f"{value + number:04}.tif"
        alpha = _alpha((100, 100), generator)
        sheets.append(Sheet(path, "EPSG:3857", transform, alpha, value + number, grid, "nodata"))
    return sheets


def _seams(sheet: Sheet, generator: np.random.Generator) -> None:
    """Divide a sheet into polygons in CRS84, of which later ones lie on top."""
    rows, columns = sheet.alpha.shape
    change = pyproj.Transformer.from_crs(sheet.crs, "OGC:CRS84", always_xy=True)
    features = []
    for name in "abc":
        centre = generator.uniform((0.1, 0.1), (0.9, 0.9)) * (columns, rows)
        angles = np.sort(generator.uniform(0, 2 * np.pi, 7))
        radii = generator.uniform(0.15, 0.5, 7) * max(rows, columns)
        ring = []
        for angle, radius in zip(angles, radii, strict=True):
            column, row = centre + radius * np.array([np.cos(angle), np.sin(angle)])
            ring.append(change.transform(*_applied(sheet.transform, column, row)))
        ring.append(ring[0])
        sheet.rings[name] = ring
        features.append(
            {
                "type": "Feature",
                "id": name,
                "properties": {"d": f"20{10 + ord(name) % 10}"},
                "geometry": {"type": "Polygon", "coordinates": [ring]},
            }
        )
    sheet.footprints = sheet.path.with_suffix(".geojson")
    text = json.dumps({"type": "FeatureCollection", "features": features})
    sheet.footprints.write_text(text)


class Oracle:
    """Says which sources may give a pixel: the right one, and its neighbours within the error.

    Args:
        sheets: the lowest first.
    """

    def __init__(self, sheets: Sequence[Sheet], *, has_alpha: bool) -> None:
        self._sheets = sheets
        self._has_alpha = has_alpha
        self._changes = {
            crs: pyproj.Transformer.from_crs("EPSG:3857", crs, always_xy=True)
            for crs in {sheet.crs for sheet in sheets}
        }
        self._degrees = pyproj.Transformer.from_crs("EPSG:3857", "OGC:CRS84", always_xy=True)
        corners = []
        for sheet in sheets:
            rows, columns = sheet.alpha.shape
            side = np.linspace(0, 1, 9)
            across, down = (one.ravel() for one in np.meshgrid(side * columns, side * rows))
            x, y = _applied(sheet.transform, across, down)
            x, y = self._changes[sheet.crs].transform(x, y, direction="INVERSE")
            corners.append((x.min(), x.max(), y.min(), y.max()))
        self._boxes = np.array(corners)

    def answers(self, x: float, y: float) -> set[str]:
        """Return the names of the sources at a position in EPSG:3857; "" for none."""
        reach = 3 * CELL
        near = (self._boxes[:, 0] - reach < x) & (x < self._boxes[:, 1] + reach)
        near &= (self._boxes[:, 2] - reach < y) & (y < self._boxes[:, 3] + reach)
        sheets = [self._sheets[number] for number in np.flatnonzero(near)]
        places = {sheet: self._place(sheet, x, y) for sheet in sheets}
        shifts = [(0.0, 0.0), *itertools.product((-_CLOSE, _CLOSE), repeat=2)]
        return {
            # Sides of polygons are known better.
            self._answer(sheets, places, shift, (x + shift[0] * CELL / 8, y + shift[1] * CELL / 8))
            for shift in shifts
        }

    def _place(self, sheet: Sheet, x: float, y: float) -> tuple[float, float]:
        place = self._changes[sheet.crs].transform(x, y)
        column, row = _applied(~sheet.transform, *place)
        return row, column

    def _answer(
        self,
        sheets: Sequence[Sheet],
        places: dict[Sheet, tuple[float, float]],
        shift: tuple[float, float],
        point: tuple[float, float],
    ) -> str:
        visible: Sheet | None = None
        for group in _groups(sheets):
            # All sheets of a grid are one image: the uppermost valid one gives the number, and
            # those below show through it.
            shown: Sheet | None = None
            clear = 1.0
            for sheet in group:
                row, column = places[sheet]
                if sheet.crs != "EPSG:3857" or sheet.transform[1]:
                    row, column = row + shift[0], column + shift[1]
                alpha = _pixel(sheet.alpha, row, column)
                if alpha:
                    shown = shown or sheet
                    clear *= 1 - alpha / 255
            if shown is None:
                continue
            if not self._has_alpha or (1 - clear) * 255 >= 127.5:
                return self._named(shown, point)
            visible = visible or shown
        return "" if visible is None else self._named(visible, point)

    def _named(self, sheet: Sheet, point: tuple[float, float]) -> str:
        degrees = self._degrees.transform(*point)
        name = name_around(sheet.rings, degrees)
        return f"{sheet.path.name}#{name}" if name else sheet.path.name


def _applied(transform: Affine, column: Any, row: Any) -> tuple[Any, Any]:
    a, b, c, d, e, f = transform[:6]
    return a * column + b * row + c, d * column + e * row + f


def _groups(sheets: Sequence[Sheet]) -> Iterator[list[Sheet]]:
    """Yield the sheets of each grid, from the uppermost."""
    for _, group in itertools.groupby(reversed(sheets), key=lambda sheet: sheet.grid):
        yield list(group)


def _pixel(alpha: np.ndarray, row: float, column: float) -> int:
    i, j = int(np.floor(row)), int(np.floor(column))
    inside = 0 <= i < alpha.shape[0] and 0 <= j < alpha.shape[1]
    return int(alpha[i, j]) if inside else 0


def name_around(rings: dict[str, list[tuple[float, float]]], point: tuple[float, float]) -> str:
    """Return the name of the uppermost ring around a point; "" for none."""
    for name, ring in reversed(rings.items()):
        if _contains(ring, point):
            return name
    return ""


def _contains(ring: Sequence[tuple[float, float]], point: tuple[float, float]) -> bool:
    """Return whether a ring contains a point, by the sides that a ray to the right crosses."""
    x, y = point
    inside = False
    for (x1, y1), (x2, y2) in itertools.pairwise(ring):
        if (y1 > y) != (y2 > y) and x < x1 + (y - y1) / (y2 - y1) * (x2 - x1):
            inside = not inside
    return inside


def centre(row: int, column: int) -> tuple[float, float]:
    """Return the centre of a pixel of the level."""
    return -ORIGIN + (column + 0.5) * CELL, ORIGIN - (row + 0.5) * CELL


def touch(path: Path, time: int) -> None:
    """Set the time of a file."""
    os.utime(path, (time, time))
