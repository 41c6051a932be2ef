"""Settings of the demo: the world, its focus, the levels and their tiles."""

from __future__ import annotations

from dataclasses import dataclass

from mastaba_demo.noise import Window
from mastaba_demo.terrain import World
from mastaba_writer.pyramids import LevelPlan

TILE_SIZE = 256
BLOCK = 2  # tiles per side of a block, which is rendered at once and stored as one slab

GENERATOR_VERSION = 4
"""Increment with every change to the generated files, so that older demos are regenerated."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The demo world and how much of it is generated.

    Attributes:
        seed: selects the world.
        turn: rotation of the world to the west, as a fraction of its circumference.
        focus: place around which finer levels are generated, in the unit square.
        levels: levels of the tile matrix set PM.
        last_whole: the finest level that shows the whole world.
        span: tiles per side of the finer levels, even.
        drainage_size: side of the square for which rivers are computed, in pixels of level 8.
    """

    seed: int = 11
    turn: float = 0.4375
    focus: tuple[float, float] = (0.5262, 0.6745)
    levels: tuple[int, ...] = tuple(range(13))
    last_whole: int = 3
    span: int = 8
    drainage_size: int = 1024

    @property
    def world(self) -> World:
        """The world before its rivers are known."""
        return World(self.seed, self.turn)

    def plans(self) -> list[LevelPlan]:
        """Return the levels and their tile limits, aligned to slabs of `BLOCK` x `BLOCK` tiles."""
        return [self._plan(level) for level in self.levels]

    def blocks(self) -> list[tuple[int, Window]]:
        """Return the level and the window of each block, coarse levels first."""
        blocks: list[tuple[int, Window]] = []
        for level, plan in zip(self.levels, self.plans(), strict=True):
            side = TILE_SIZE * min(BLOCK, 2**level)
            blocks += [
                (level, Window(TILE_SIZE * 2**level, column * TILE_SIZE, row * TILE_SIZE, side))
                for row in range(plan.min_row, plan.max_row + 1, BLOCK)
                for column in range(plan.min_col, plan.max_col + 1, BLOCK)
            ]
        return blocks

    def drainage_window(self) -> Window:
        """Return the window of level 8 for which rivers are computed."""
        pixels = TILE_SIZE * 2**8
        left, top = (int(place * pixels) - self.drainage_size // 2 for place in self.focus)
        return Window(pixels, left, top, self.drainage_size)

    def _plan(self, level: int) -> LevelPlan:
        tiles = 2**level
        if level <= self.last_whole or tiles <= self.span:
            return LevelPlan(str(level), 0, tiles - 1, 0, tiles - 1)
        first_col, first_row = (
            min(max(BLOCK * round((place * tiles - self.span / 2) / BLOCK), 0), tiles - self.span)
            for place in self.focus
        )
        last = self.span - 1
        return LevelPlan(str(level), first_row, first_row + last, first_col, first_col + last)
