"""Layers of which every stored payload is known."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from mastaba.api.services import Site
from mastaba.wsgi import create_application
from mastaba_export.plan import ExportPlan, plan
from mastaba_export.request import ExportRequest
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_encoder import encode_tile
from mastaba_writer.tile_matrix_sets import synthetic, web_mercator

BLANK = b"\x89PNG blank tile of the sea"

WITHOUT_DATA = encode_tile("TIFF_PNG_UINT8", np.full((256, 256, 3), 255, np.uint8))
"""As pyramids contain it, also outside of the limits of a level."""

LEVELS = [
    LevelPlan("8", 70, 129, 100, 167),
    LevelPlan("7", 35, 64, 50, 83),
    LevelPlan("6", 17, 32, 25, 41),
    LevelPlan("5", 8, 16, 12, 20),
]
"""Level 8 has 60 x 68 tiles; slabs are not filled at their borders."""

NATIONAL = synthetic(
    "GRID",
    crs="EPSG:2154",
    origin=(600000.0, 6800000.0),
    cell_sizes=[8.0, 4.0, 2.0],
    matrix_sizes=[(8, 8), (16, 16), (32, 32)],
    tile_size=(64, 64),
)
NATIONAL_LEVELS = [
    LevelPlan("2", 5, 21, 3, 19),
    LevelPlan("1", 2, 10, 1, 9),
    LevelPlan("0", 1, 5, 0, 4),
]
SLAB = 16


def payload(level: str, row: int, column: int, size: int = 3000) -> bytes | None:
    """Return a stored payload: noise, the blank tile, one without data, or none."""
    number = (row * 31 + column * 17) % 11
    if level == "8" and (row // SLAB, column // SLAB) == (5, 8):
        return None
    if number == 0:
        return WITHOUT_DATA
    if number < 3 or (level == "8" and row >= 120):
        return BLANK
    chance = random.Random(f"{level}/{row}/{column}")
    return b"\x89PNG" + chance.randbytes(chance.randrange(20, size))


@cache
def heights(level: str, row: int, column: int) -> np.ndarray[Any, np.dtype[np.float32]] | None:
    """Return stored values with NaN, -0 and subnormals; one slab is absent."""
    if (row // SLAB, column // SLAB) == (1, 1):
        return None
    chance = np.random.default_rng([int(level), row, column])
    values = chance.normal(500.0, 100.0, (64, 64)).astype(np.float32)
    values[3, 5], values[7, 9], values[11, 13] = np.nan, -0.0, 1e-42
    return values


def stored(levels: list[LevelPlan] = LEVELS) -> Iterator[tuple[str, int, int, bytes]]:
    """Yield all stored payloads of the layer of images."""
    for plan_ in levels:
        for row in range(plan_.min_row, plan_.max_row + 1):
            for column in range(plan_.min_col, plan_.max_col + 1):
                found = payload(plan_.id, row, column)
                if found is not None:
                    yield plan_.id, row, column, found


def write_world(directory: Path, slab: int = SLAB, size: int = 3000) -> Path:
    """Write an installation with a layer of images, and one of heights on a national grid."""
    images = write_pyramid(
        directory / "pyramids",
        "IMAGES",
        tile_matrix_set=web_mercator(),
        format="TIFF_PNG_UINT8",
        levels=LEVELS,
        tile=lambda level, row, column: payload(level, row, column, size),
        tiles_per_width=slab,
        tiles_per_height=slab,
    )
    floats = write_pyramid(
        directory / "pyramids",
        "HEIGHTS",
        tile_matrix_set=NATIONAL,
        format="TIFF_ZIP_FLOAT32",
        levels=NATIONAL_LEVELS,
        tile=heights,
        channels=1,
        tiles_per_width=SLAB,
        tiles_per_height=SLAB,
    )
    return write_installation(
        directory,
        layers={
            "IMAGES": images,
            "HEIGHTS": layer_document(floats, tile_matrix_sets={"GRID": NATIONAL}),
        },
        tile_matrix_sets={"GRID": NATIONAL},
        services=["wmts"],
    )


def opened(server: Path) -> Site:
    return create_application(str(server)).site


def planned(site: Site, layer: str, format: str, **inputs: Any) -> ExportPlan:
    given: Mapping[str, Any] = {"layer": layer, "format": format, **inputs}
    return plan(ExportRequest.from_inputs(given), site)
