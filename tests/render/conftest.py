"""Installations that the engine draws maps of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.render.ground import World, colours, ramp, wave


@pytest.fixture(scope="session")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Return layers over the set MESH.

    ``ramp``, ``wave`` and ``noise`` are floats, ``colours`` and ``speckle`` RGB; the noisy ones
    are no functions of position.
    """
    world = World(tmp_path_factory.mktemp("mesh"))
    world.add("ramp", ramp)
    world.add("wave", wave)
    world.add("colours", colours, format="TIFF_RAW_UINT8", channels=3)

    def noise(level: str, row: int, col: int) -> np.ndarray:
        random = np.random.default_rng([int(level), row, col])
        return random.uniform(-500, 500, (48, 64, 1)).astype(np.float32)

    def speckle(level: str, row: int, col: int) -> np.ndarray:
        random = np.random.default_rng([int(level), row, col])
        return random.integers(0, 256, (48, 64, 3), np.uint8)

    world.add("noise", noise, of_position=False)
    world.add("speckle", speckle, format="TIFF_RAW_UINT8", channels=3, of_position=False)
    yield world
    world.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Return an installation without any layer yet."""
    world = World(tmp_path)
    yield world
    world.close()
