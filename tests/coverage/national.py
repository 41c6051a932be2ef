"""A layer of heights on a set of tile matrices that are not nested."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mastaba.wsgi import create_application
from mastaba_coverage import Coverage, CoveragePlan, TiffOptions
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import synthetic

Values = npt.NDArray[np.float32]

TILE = 64
CELLS = {"0": 10.0, "1": 5.0, "2": 2.5, "3": 1.0}
CORNER = (600000.0, 6800000.0)
TILES = {"0": 3, "1": 5, "2": 9, "3": 22}
NODATA = -99999.0


def values_of(level: str) -> Values:
    """Return the values of a level; a part of it is nodata."""
    side = TILES[level] * TILE
    found = np.random.default_rng(int(level)).uniform(0, 100, (side, side)).astype(np.float32)
    found[: side // 7, side // 3 : side // 2] = NODATA
    found[3, 5] = np.nan
    return found


class National:
    """A layer on a set that has an origin for each level, half of a cell beside the corner."""

    def __init__(self, directory: Path, **fields: Any) -> None:
        matrices = synthetic(
            "NATIONAL",
            crs="EPSG:2154",
            origin=CORNER,
            cell_sizes=list(CELLS.values()),
            matrix_sizes=[(64, 64)] * len(CELLS),
            tile_size=(TILE, TILE),
        )
        for matrix in matrices["tileMatrices"]:
            half = CELLS[matrix["id"]] / 2
            matrix["pointOfOrigin"] = [CORNER[0] - half, CORNER[1] + half]
        self.values = {level: values_of(level) for level in CELLS}

        def tile(level: str, row: int, col: int) -> Any:
            part = np.s_[row * TILE : (row + 1) * TILE, col * TILE : (col + 1) * TILE]
            found = self.values[level][part]
            return None if (found == NODATA).all() else found[:, :, np.newaxis]

        write_pyramid(
            directory / "pyramids",
            "heights",
            tile_matrix_set=matrices,
            format="TIFF_ZIP_FLOAT32",
            channels=1,
            levels=[LevelPlan(name, 0, n - 1, 0, n - 1) for name, n in reversed(TILES.items())],
            tile=tile,
            tiles_per_width=4,
            tiles_per_height=4,
        )
        layer = layer_document(
            directory / "pyramids/heights.json", tile_matrix_sets={"NATIONAL": matrices}, **fields
        )
        server_json = write_installation(
            directory,
            layers={"heights": layer},
            tile_matrix_sets={"NATIONAL": matrices},
            services=["wmts"],
            public_url="http://maps.example",
        )
        self.application = create_application(str(server_json))
        catalogue = self.application.site.catalogue
        self.coverage = Coverage.of(catalogue.layers["heights"], catalogue.readers["heights"])

    def whole(self, tiff: TiffOptions | None = None) -> CoveragePlan:
        coverage = self.coverage
        return CoveragePlan.cog(coverage, coverage.finest.window, coverage.fields, tiff)

    def mean(self, level: str, step: int, shape: tuple[int, int]) -> Values:
        """Return means of the finest cells, of step times step each, from another level."""
        cell = CELLS[level]
        found = []
        for count, side in zip(shape, self.values[level].shape, strict=True):
            # The corner of the finest level is 0.5 beside that of the set.
            edges = (np.arange(count + 1) * step - 0.5 + cell / 2) / cell
            low, high = np.minimum.outer(edges[1:], np.arange(side) + 1), np.arange(side)
            found.append(np.clip(low - np.maximum.outer(edges[:-1], high), 0, None))
        values = self.values[level].astype(float)
        valid = np.isfinite(values) & (values != NODATA)
        sums = found[0] @ np.where(valid, values, 0) @ found[1].T
        weights = found[0] @ valid @ found[1].T
        whole = (step / cell) ** 2
        good = weights >= whole / 2 - 1e-3
        return np.where(good, sums / np.maximum(weights, 1e-9), NODATA).astype(np.float32)
