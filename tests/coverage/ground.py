"""A layer of which every stored value is known, and its coverage."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mastaba.api.web import Request
from mastaba.wsgi import create_application
from mastaba_coverage import Answer, Coverage, CoverageLimits, CoveragePlan, Extractor, extract
from mastaba_render.api.decoding import TileDecoder
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_encoder import encode_tile
from mastaba_writer.tile_matrix_sets import synthetic

Pixels = npt.NDArray[Any]

TILE = 64
SLAB = 4
ORIGIN = (600000.0, 6800000.0)
SET = synthetic(
    "LAMB",
    crs="EPSG:2154",
    origin=ORIGIN,
    cell_sizes=[8.0, 4.0, 2.0, 1.0],
    matrix_sizes=[(8, 8), (16, 16), (32, 32), (64, 64)],
    tile_size=(TILE, TILE),
)
# The finest level has 21 x 17 tiles. Its first one is no corner of a tile of the coarser levels.
LEVELS = [
    LevelPlan("3", 5, 25, 3, 19),
    LevelPlan("2", 2, 12, 1, 9),
    LevelPlan("1", 1, 6, 0, 4),
    LevelPlan("0", 0, 3, 0, 2),
]
FORMATS = [
    *[f"TIFF_{name}_FLOAT32" for name in ("RAW", "LZW", "ZIP", "PKB")],
    *[f"TIFF_{name}_UINT8" for name in ("RAW", "JPG", "JPG90", "PNG", "LZW", "ZIP", "PKB")],
]


def is_stored(row: int, col: int) -> bool:
    """Return whether a tile is stored: one slab of the finest level is absent."""
    return (row // SLAB, col // SLAB) != (3, 2)


def made(name: str, channels: int, level: str, row: int, col: int) -> Pixels | None:
    """Return the values of a tile."""
    if level == "3" and not is_stored(row, col):
        return None
    random = np.random.default_rng([int(level), row, col])
    if "FLOAT" not in name:
        smooth = np.linspace(0, 200, TILE * TILE).reshape(TILE, TILE, 1)
        noise = random.integers(0, 50, (TILE, TILE, channels))
        return (smooth + noise).astype(np.uint8)
    values = random.uniform(-500, 4000, (TILE, TILE, 1)).astype(np.float32)
    values[3, :6, 0] = [np.nan, np.inf, -np.inf, -0.0, 1e-42, -99999]
    values.view(np.uint32)[4, 0, 0] = 0x7FC01234
    return values


class Ground:
    """An installation with one layer, ``ground``."""

    def __init__(
        self,
        directory: Path,
        name: str = "TIFF_ZIP_FLOAT32",
        channels: int = 1,
        *,
        services: Mapping[str, Any] | None = None,
        public_url: str = "http://maps.example",
        **fields: Any,
    ) -> None:
        self.directory = directory
        self.name, self.channels = name, channels
        self.write()
        layer = layer_document(
            directory / "pyramids/ground.json",
            tile_matrix_sets={"LAMB": SET},
            **{"title": "Ground & <water>", **fields},
        )
        self.server_json = write_installation(
            directory,
            layers={"ground": layer},
            tile_matrix_sets={"LAMB": SET},
            services=list(services or {"wmts": {}}),
            public_url=public_url,
            services_overrides=services or {},
        )
        self.application = create_application(str(self.server_json))
        catalogue = self.application.site.catalogue
        self.layer = catalogue.layers["ground"]
        self.coverage = Coverage.of(self.layer, catalogue.readers["ground"])

    def write(self, **changes: Any) -> None:
        """Write the pyramid, perhaps with other values."""
        options: dict[str, Any] = {
            "tile_matrix_set": SET,
            "format": self.name,
            "channels": self.channels,
            "levels": LEVELS,
            "tile": partial(made, self.name, self.channels),
            "tiles_per_width": SLAB,
            "tiles_per_height": SLAB,
        } | changes
        write_pyramid(self.directory / "pyramids", "ground", **options)

    def made(self, level: str, row: int, col: int) -> Pixels | None:
        """Return the values of a tile before they are stored."""
        return made(self.name, self.channels, level, row, col)

    def values(
        self,
        level: str,
        top: int,
        bottom: int,
        left: int,
        right: int,
        blank: int | None = None,
        tile: Any = None,
    ) -> Pixels:
        """Return stored values; shape (rows, columns, channels).

        Args:
            blank: value where nothing is stored; None for nodata.
            tile: returns the values of a tile instead of `tile`.
        """
        is_float = "FLOAT" in self.name
        dtype, nodata = (np.float32, -99999) if is_float else (np.uint8, 255)
        shape = (bottom - top, right - left, self.channels)
        found = np.full(shape, nodata if blank is None else blank, dtype)
        plan = next(one for one in LEVELS if one.id == level)
        for row in range(top // TILE, (bottom - 1) // TILE + 1):
            for col in range(left // TILE, (right - 1) // TILE + 1):
                inside = plan.min_row <= row <= plan.max_row and plan.min_col <= col <= plan.max_col
                stored = (tile or self.tile)(level, row, col) if inside else None
                if stored is None:
                    continue
                first, last = max(top, row * TILE), min(bottom, (row + 1) * TILE)
                west, east = max(left, col * TILE), min(right, (col + 1) * TILE)
                found[first - top : last - top, west - left : east - left] = stored[
                    first - row * TILE : last - row * TILE, west - col * TILE : east - col * TILE
                ]
        return found

    def tile(self, level: str, row: int, col: int) -> Pixels | None:
        """Return the values of a tile as they are stored."""
        pixels = made(self.name, self.channels, level, row, col)
        if pixels is None or "JPG" not in self.name:
            return pixels
        stored = encode_tile(self.name, pixels)
        tile_format = self.layer.pyramid.format
        return TileDecoder(tile_format, self.channels, TILE, TILE).decode(stored)

    def extract(self, plan: CoveragePlan, **limits: int) -> Answer:
        return extract(plan, CoverageLimits(**limits))

    def whole(self) -> CoveragePlan:
        """Return the plan of the whole layer as a COG."""
        return CoveragePlan.cog(self.coverage, self.coverage.finest.window, self.coverage.fields)

    def close(self) -> None:
        self.application.site.close_services()


def written(answer: Answer, path: Path) -> Path:
    """Write the whole file of an answer."""
    with path.open("wb") as file:
        for piece in answer.pieces(0, answer.size):
            file.write(piece)
    assert path.stat().st_size == answer.size
    return path


def whole(extractor: Extractor, plan: Any) -> bytes:
    """Return the whole file of a plan."""
    request = Request("GET", "", "", {"REQUEST_METHOD": "GET"})
    body = extractor.body(request, plan)
    if isinstance(body, bytes):
        return body
    with closing(body):
        data = b"".join(body)
        assert len(data) == len(body)
    return data
