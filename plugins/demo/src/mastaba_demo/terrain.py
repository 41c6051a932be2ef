"""The terrain of the world: elevation and climate as functions of position.

Octaves are added from the widest to the narrowest. Each octave is evaluated on a grid of eight
nodes per wavelength and interpolated to finer grids. This is cheap and gives all levels the same
land. A level stops at the octave whose wavelength is four of its pixels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mastaba_demo.noise import (
    Field,
    Grid,
    Window,
    gradient_noise,
    lattice_phases,
    lattice_values,
    smoothstep,
)

WORLD_METRES = 40075016.68  # side of the Web Mercator square

_WARP_LAST = 4  # exponents of two of the frequencies, here and below
_BASE_LAST = 9  # the last octave of mountain ranges; their slopes direct the gullies
_VALLEY_OCTAVE = 12  # valleys are carved after it, so finer gullies run down their sides
_FINEST = 18
_PARCEL_OCTAVE = 17
_MOISTURE_LAST = 16
_COAST_GAIN = 0.63  # from octave to octave; a higher gain makes coasts more ragged
_GULLY_HEIGHTS = (900, 1300, 1100, 800, 480, 260, 135, 68, 32, 14)  # metres, from octave 9


@dataclass(frozen=True, slots=True)
class Terrain:
    """Elevation and climate of a window, with a margin of pixels around it.

    Attributes:
        elevation: metres above sea level, float32.
        moisture: about -1 (desert) to 1 (rain forest).
        temperature: degrees Celsius at sea level.
        grain: fine noise from -1 to 1, for textures.
        parcel: random number from 0 to 1, constant over each small parcel of farmland.
        margin: pixels around the window that all arrays include.
        cell_size: size of a pixel in metres of the map projection.
    """

    elevation: Field
    moisture: Field
    temperature: Field
    grain: Field
    parcel: Field
    margin: int
    cell_size: float

    def part(self, left: int, top: int, size: int) -> Terrain:
        """Return the terrain of a square inside the window, with the same margin."""
        rows = slice(top, top + size + 2 * self.margin)
        columns = slice(left, left + size + 2 * self.margin)

        def cut(field: Field) -> Field:
            return np.ascontiguousarray(field[rows, columns])

        return replace(
            self,
            elevation=cut(self.elevation),
            moisture=cut(self.moisture),
            temperature=cut(self.temperature),
            grain=cut(self.grain),
            parcel=cut(self.parcel),
        )


@dataclass(frozen=True, slots=True)
class Valleys:
    """River valleys of one region, on a square grid of nodes.

    Attributes:
        left: position of the first column of nodes, in the unit square.
        top: position of the first row of nodes.
        spacing: distance between nodes.
        change: metres to add to the elevation.
        floor: 1 on valley floors, 0 away from them.
    """

    left: float
    top: float
    spacing: float
    change: Field
    floor: Field


@dataclass(frozen=True, slots=True)
class World:
    """Everything except position that determines the terrain.

    Attributes:
        seed: selects the world.
        turn: rotation of the world to the west, as a fraction of its circumference.
        valleys: the valleys of a region, or None.
    """

    seed: int
    turn: float = 0.0
    valleys: Valleys | None = None


def evaluate(window: Window, world: World, margin: int = 5) -> Terrain:
    """Return the terrain of a window with a margin of up to eight pixels."""
    return _Evaluation(window, world).run(margin)


class _Evaluation:
    def __init__(self, window: Window, world: World) -> None:
        self.seed = world.seed
        self.turn = world.turn
        self.valleys = world.valleys
        # A world of 2 ** n pixels shows octaves up to 2 ** (n - 2).
        self.last = min(window.world.bit_length() - 3, _FINEST)
        self.grid = Grid(window, max(1, window.world // 16))
        self.fields: dict[str, Field] = {}

    def run(self, margin: int) -> Terrain:
        self._warp()
        for octave in range(1, self.last + 1):
            self._refine_to(octave)
            if octave <= _BASE_LAST:
                self._continents(octave)
                self._climate(octave)
                self._belts(octave)
                self._ranges(octave)
                if octave == min(_BASE_LAST, self.last):
                    self._compose()
            if octave >= _BASE_LAST:
                if octave <= _MOISTURE_LAST:
                    self._add("moisture", np.float32(0.1) * self._noise(octave, 11))
                self._coasts(octave)
                self._gullies(octave)
            if octave == _VALLEY_OCTAVE and self.valleys is not None:
                self._carve(self.valleys)
        while self.grid.step > 1:
            self._refine()
        crop = {name: self.grid.crop(field, margin) for name, field in self.fields.items()}
        window = self.grid.window
        return Terrain(
            elevation=crop["elevation"],
            moisture=crop["moisture"],
            temperature=crop["temperature"],
            grain=self._grain(margin),
            parcel=self._parcels(margin),
            margin=margin,
            cell_size=WORLD_METRES / window.world,
        )

    def _refine_to(self, octave: int) -> None:
        while self.grid.step > 1 and self.grid.step * 2 ** (octave + 3) > self.grid.window.world:
            self._refine()

    def _refine(self) -> None:
        self.fields = {name: self.grid.refine(field) for name, field in self.fields.items()}
        self.grid = self.grid.finer()

    def _noise(self, octave: int, salt: int, warp: float = 0.0) -> Field:
        x, y = self.grid.x()[np.newaxis, :] + self.turn, self.grid.y()[:, np.newaxis]
        if warp:
            # Warped octaves are wide enough for single precision.
            x = x.astype(np.float32) + np.float32(warp) * self.fields["warp_x"]
            y = y.astype(np.float32) + np.float32(warp) * self.fields["warp_y"]
        return gradient_noise(x, y, 2**octave, self.seed, salt)

    def _add(self, name: str, amount: Field) -> None:
        known = self.fields.get(name)
        self.fields[name] = amount if known is None else known + amount

    def _warp(self) -> None:
        for octave in range(1, _WARP_LAST + 1):
            self._refine_to(octave)
            for salt, name in ((1, "warp_x"), (2, "warp_y")):
                self._add(name, np.float32(0.14 * 0.52**octave) * self._noise(octave, salt))

    def _continents(self, octave: int) -> None:
        gain = np.float32(0.95 * _COAST_GAIN ** (octave - 1))
        self._add("continent", gain * self._noise(octave, 3, warp=1))

    def _climate(self, octave: int) -> None:
        if octave == 1:
            latitude = np.abs(1 - 2 * self.grid.y())[:, np.newaxis]
            degrees = np.degrees(np.arctan(np.sinh(np.pi * latitude)))
            shape = (self.grid.rows, self.grid.columns)
            warm = 28 - 46 * np.square(degrees / 90)
            bands = 0.13 + 0.34 * np.cos(np.radians(degrees * 6)) * np.exp(-degrees / 70)
            self._add("temperature", np.broadcast_to(warm, shape).astype(np.float32))
            self._add("moisture", np.broadcast_to(bands, shape).astype(np.float32))
        elif octave <= 7:
            gain = np.float32(0.62 ** (octave - 2))
            self._add("moisture", 0.85 * gain * self._noise(octave, 4, warp=1))
            if octave <= 5:
                self._add("temperature", 4 * gain * self._noise(octave, 5, warp=1))

    def _belts(self, octave: int) -> None:
        if 2 <= octave <= 6:
            gain = np.float32(0.5 ** (octave - 2))
            self._add("belt", gain * self._noise(octave, 6, warp=1))
            self._add("uplift", gain * self._noise(octave, 7, warp=1))

    def _ranges(self, octave: int) -> None:
        if octave < 6:
            return
        ridge = 1 - np.abs(self._noise(octave, 8, warp=0.8))
        signal = ridge * ridge
        weight = self.fields.get("ridge_weight", np.float32(1))
        gain = np.float32(0.58 ** (octave - 6))
        self._add("ridges", gain * weight * (signal - np.float32(0.4)))
        self.fields["ridge_weight"] = np.clip(weight * signal * np.float32(2.2), 0, 1)

    def _compose(self) -> None:
        fields = self.fields
        continent = fields["continent"] - np.float32(0.10)
        land = np.maximum(continent, 0)
        sea = np.maximum(-continent, 0)
        elevation = 260 * (1 - np.exp(-10 * land)) + 500 * land
        elevation -= 130 * (1 - np.exp(-20 * sea)) + 4300 * smoothstep(0.04, 0.42, sea)
        inland = smoothstep(-0.008, 0.045, continent)
        belt = np.exp(-np.square(fields["belt"] * np.float32(5)))
        belt *= smoothstep(-0.9, 0.5, fields["uplift"])
        ridges = fields.get("ridges", np.float32(0))
        mountains = belt * inland * np.maximum(0.35 + 0.9 * ridges, 0)
        hills = (1 - belt) * inland * np.maximum(0.25 + ridges, 0) * 260
        plateau = smoothstep(0.1, 0.7, fields["uplift"]) * smoothstep(0.0, 0.25, continent) * 900
        seafloor = smoothstep(0.05, 0.3, sea) * ridges * 700
        elevation = elevation + 3900 * mountains + hills + plateau + seafloor
        self.fields = {
            "elevation": elevation.astype(np.float32),
            "rugged": (0.15 + 0.85 * smoothstep(0.0, 0.4, belt * inland)).astype(np.float32),
            "moisture": fields["moisture"],
            "temperature": fields["temperature"],
        }

    def _coasts(self, octave: int) -> None:
        """Add further octaves of the continents, which shape coasts and plains."""
        bends = np.clip(6 * self.fields["rugged"], 0, 1)  # near 0 in valleys
        bends *= np.float32(2600 * _COAST_GAIN ** (octave - 1))
        hills = np.float32(45 * 0.6 ** (octave - 10)) * smoothstep(0, 160, self.fields["elevation"])
        self._add("elevation", (bends + hills) * self._noise(octave, 3))

    def _gullies(self, octave: int) -> None:
        """Carve stripes that run down the current slope and branch from octave to octave."""
        elevation = self.fields["elevation"]
        metres = WORLD_METRES / self.grid.window.world * self.grid.step
        down_y, down_x = np.gradient(elevation, np.float32(metres))
        slope = np.hypot(down_x, down_y) + np.float32(1e-6)
        along_x, along_y = -down_y / slope, down_x / slope
        u, v, phases = lattice_phases(
            self.grid.x() + self.turn, self.grid.y(), 2**octave, self.seed, 20 + octave
        )
        fade_u, fade_v = u * u * (3 - 2 * u), v * v * (3 - 2 * v)
        turn = np.float32(2 * np.pi)
        real, imaginary = np.float32(0), np.float32(0)
        for down in (0, 1):
            for right in (0, 1):
                weight = (fade_u if right else 1 - fade_u) * (fade_v if down else 1 - fade_v)
                phase = turn * ((u - right) * along_x + (v - down) * along_y)
                phase += phases[down][right]
                real = real + weight * np.cos(phase)
                imaginary = imaginary + weight * np.sin(phase)
        wave = real / (np.hypot(real, imaginary) + np.float32(0.1))
        # A cusp at the top gives sharp crests and rounded valleys; the mean stays 0.
        wave = np.float32(1.27) - 2 * np.sqrt(np.maximum(1 - wave, 0) * np.float32(0.5))
        steep = slope / (slope + np.float32(0.05 + 0.015 * min(octave - _BASE_LAST, 5)))
        strength = steep * self.fields["rugged"] * smoothstep(-300, 80, elevation)
        height = np.float32(_GULLY_HEIGHTS[octave - _BASE_LAST]) * strength
        # Gullies must not cut below sea level.
        height = np.minimum(height, 0.6 * np.maximum(elevation, 0))
        self._add("elevation", height * wave)
        if octave < _BASE_LAST + 5:
            # Valley floors stay smooth: finer gullies only cut the sides.
            self.fields["rugged"] *= 1 - np.float32(0.65) * steep * smoothstep(0.1, -0.7, wave)

    def _carve(self, valleys: Valleys) -> None:
        sample = _Sampler(self.grid.x(), self.grid.y(), valleys)
        self._add("elevation", sample(valleys.change))
        self.fields["rugged"] *= 1 - np.float32(0.9) * sample(valleys.floor)

    def _grain(self, margin: int) -> Field:
        grain = self._noise(self.last, 9) + np.float32(0.6) * self._noise(self.last - 1, 10)
        return self.grid.crop(grain, margin) * np.float32(0.7)

    def _parcels(self, margin: int) -> Field:
        """Divide the land into irregular parcels of about 300 metres, like farmland."""
        x = self.grid.x()[np.newaxis, :] + self.turn
        y = self.grid.y()[:, np.newaxis]
        if self.last < _PARCEL_OCTAVE:
            return self.grid.crop(np.zeros((self.grid.rows, self.grid.columns), np.float32), margin)
        bend, swing = (3.5 * self._noise(_PARCEL_OCTAVE - 5, salt) for salt in (12, 13))
        scale = 2.0**_PARCEL_OCTAVE
        column = np.floor((0.86 * x + 0.51 * y) * scale + bend)
        row = np.floor((0.86 * y - 0.51 * x) * scale * 1.6 + swing)
        return self.grid.crop(lattice_values(column, row, self.seed), margin)


class _Sampler:
    """Interpolates fields of a valley grid at the nodes of another grid, with 0 outside."""

    def __init__(self, x: NDArray[np.float64], y: NDArray[np.float64], valleys: Valleys) -> None:
        last = len(valleys.change) - 1
        self._columns, self._right = self._place((x - valleys.left) / valleys.spacing, last)
        self._rows, self._down = self._place((y - valleys.top) / valleys.spacing, last)
        self._down = self._down[:, np.newaxis]

    @staticmethod
    def _place(position: NDArray[np.float64], last: int) -> tuple[NDArray[np.int64], Field]:
        # The border values are 0, so clamping gives 0 outside.
        position = np.clip(position, 0, last - 1e-6)
        index = np.floor(position).astype(np.int64)
        return index, (position - index).astype(np.float32)

    def __call__(self, field: Field) -> Field:
        upper, lower = field[self._rows], field[self._rows + 1]
        rows = upper + (lower - upper) * self._down
        left, right = rows[:, self._columns], rows[:, self._columns + 1]
        result: Field = left + (right - left) * self._right
        return result
