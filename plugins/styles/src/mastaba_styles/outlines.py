"""Distance fields from the outlines of font files. Needs the libraries of the extra ``fonts``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from fontTools.pens.basePen import BasePen
from fontTools.ttLib import TTFont
from numpy.typing import NDArray

from mastaba_styles.glyphs import BUFFER, LAST_CODE, RANGE, SIZE, Glyph

_ASCENDER: Final = 26
"""Clients draw the base line at a fixed distance below the top, whatever the font is."""
_RADIUS: Final = 8
"""Pixels of distance in the whole scale of 256 values."""
_CUTOFF: Final = 0.25
"""Part of the scale that is outside."""
_PARTS: Final = 5
"""Straight parts of a curve: within 0.05 pixels at this size."""
_MOST_LINES: Final = 4000
_MOST_PIXELS: Final = 200
"""Of the width or height of a glyph."""
_STYLES: Final = ("Regular", "Bold", "Italic", "Bold Italic")
"""Instances of variable fonts that are offered."""

Lines = NDArray[np.float64]
"""Both ends of straight lines, shape (n, 4): x0, y0, x1, y1; pixels, y upwards."""


@dataclass(frozen=True, slots=True)
class Face:
    """One font of a file.

    Attributes:
        name: family and style, as in styles of maps: ``Noto Sans Bold``.
        path: of the file.
        number: of the font in a collection; -1 for a file with one font.
        location: of an instance of a variable font, by axis.
    """

    name: str
    path: Path
    number: int = -1
    location: tuple[tuple[str, float], ...] = ()


def faces_of(path: Path) -> list[Face]:
    """Return the fonts of a file: TrueType or OpenType, static or variable.

    Raises:
        ValueError: it is not a font file.
    """
    try:
        with TTFont(path, lazy=True, fontNumber=0) as font:
            return list(_faces(path, font))
    except Exception as error:  # the library raises many kinds of errors
        raise ValueError(f"{path} is not a font file: {error}") from error


def glyphs_of(face: Face, first: int) -> list[Glyph]:
    """Return the glyphs of the code points from ``first`` to ``first + 255``.

    Raises:
        ValueError: the file cannot be read as a font.
    """
    try:
        with TTFont(face.path, lazy=True, fontNumber=face.number) as font:
            names = font.getBestCmap() or {}
            wanted = range(first, min(first + RANGE, LAST_CODE + 1))
            codes = [code for code in wanted if code in names]
            if not codes:
                return []
            glyph_set = font.getGlyphSet(location=dict(face.location) or None)
            scale = SIZE / font["head"].unitsPerEm
            found = (_glyph(code, glyph_set[names[code]], glyph_set, scale) for code in codes)
            return [glyph for glyph in found if glyph is not None]
    except Exception as error:
        raise ValueError(f"cannot read glyphs of {face.path}: {error}") from error


def _faces(path: Path, font: Any) -> Iterator[Face]:
    names = font["name"]
    family = names.getDebugName(16) or names.getDebugName(1) or path.stem
    if "fvar" not in font:
        style = names.getDebugName(17) or names.getDebugName(2) or "Regular"
        yield Face(f"{family} {style}", path)
        return
    defaults = {axis.axisTag: axis.defaultValue for axis in font["fvar"].axes}
    for instance in font["fvar"].instances:
        style = names.getDebugName(instance.subfamilyNameID) or ""
        moved = {tag for tag, value in instance.coordinates.items() if value != defaults.get(tag)}
        if style in _STYLES and moved <= {"wght"}:
            yield Face(f"{family} {style}", path, location=tuple(instance.coordinates.items()))


def _glyph(code: int, drawn: Any, glyph_set: Any, scale: float) -> Glyph | None:
    pen = _LinePen(glyph_set, scale)
    drawn.draw(pen)
    advance = max(0, round(drawn.width * scale))
    if not pen.lines:
        return Glyph(code, b"", 0, 0, 0, 0, advance)
    lines = np.array(pen.lines)
    left, bottom = (math.floor(low) for low in lines.reshape(-1, 2).min(axis=0))
    right, top = (math.ceil(high) for high in lines.reshape(-1, 2).max(axis=0))
    width, height = right - left, top - bottom
    if max(width, height) > _MOST_PIXELS or len(lines) > _MOST_LINES:
        return None
    distance = _distances(lines, left - BUFFER, top + BUFFER, width, height)
    scaled = 255 * (1 - (distance / _RADIUS + _CUTOFF))
    bitmap = np.clip(np.round(scaled), 0, 255).astype(np.uint8).tobytes()
    return Glyph(code, bitmap, width, height, left, top - _ASCENDER, advance)


def _distances(lines: Lines, left: float, top: float, width: int, height: int) -> Lines:
    """Return the distance of each pixel to the outline, negative inside: shape (rows, columns)."""
    columns = left + 0.5 + np.arange(width + 2 * BUFFER)
    x0, y0, x1, y1 = lines.T
    run, rise = x1 - x0, y1 - y0
    squares = np.maximum(run * run + rise * rise, 1e-12)
    rows = []
    for row in range(height + 2 * BUFFER):
        y = top - 0.5 - row
        px, py = columns[:, None] - x0, y - y0
        # The nearest point of each line, and how often the outline winds around the pixel.
        along = np.clip((px * run + py * rise) / squares, 0, 1)
        nearest = np.sqrt(((px - along * run) ** 2 + (py - along * rise) ** 2).min(axis=1))
        side = run * py - rise * px
        up, down = (y0 <= y) & (y1 > y) & (side > 0), (y0 > y) & (y1 <= y) & (side < 0)
        winding = up.sum(axis=1) - down.sum(axis=1)
        rows.append(np.where(winding != 0, -nearest, nearest))
    return np.array(rows)


class _LinePen(BasePen):  # type: ignore[misc]
    """Collects an outline as straight lines, in pixels."""

    def __init__(self, glyph_set: Any, scale: float) -> None:
        super().__init__(glyph_set)
        self.lines: list[tuple[float, float, float, float]] = []
        self._scale = scale
        self._start = self._at = (0.0, 0.0)

    def _moveTo(self, point: tuple[float, float]) -> None:  # noqa: N802 - of the library
        self._start = self._at = point

    def _lineTo(self, point: tuple[float, float]) -> None:  # noqa: N802
        if point != self._at and len(self.lines) <= _MOST_LINES:
            ends = (*self._at, *point)
            x0, y0, x1, y1 = (value * self._scale for value in ends)
            self.lines.append((x0, y0, x1, y1))
        self._at = point

    def _curveToOne(  # noqa: N802
        self, first: tuple[float, float], second: tuple[float, float], end: tuple[float, float]
    ) -> None:
        start = self._at
        for part in range(1, _PARTS + 1):
            t = part / _PARTS
            u = 1 - t
            weights = (u * u * u, 3 * u * u * t, 3 * u * t * t, t * t * t)
            points = (start, first, second, end)
            x, y = (
                sum(w * point[axis] for w, point in zip(weights, points, strict=True))
                for axis in (0, 1)
            )
            self._lineTo((x, y) if part < _PARTS else end)

    def _closePath(self) -> None:  # noqa: N802
        self._lineTo(self._start)

    def _endPath(self) -> None:  # noqa: N802
        self._lineTo(self._start)
