"""Overviews of sets whose levels are not nested, and the kernel of the mean."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import rasterio
from rio_cogeo import cog_validate
from tests.coverage.ground import written

from mastaba.api.web import SizedBody
from mastaba.errors import ObjectChangedError
from mastaba.wsgi import create_application
from mastaba_coverage import (
    Coverage,
    CoverageLimits,
    CoveragePlan,
    CoverageRequest,
    Extractor,
    Interval,
    TiffOptions,
    Trim,
    extract,
)
from mastaba_render.sampling import MEAN, radius_of, weights_at
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


@pytest.fixture(scope="module")
def national(tmp_path_factory: pytest.TempPathFactory) -> Iterator[National]:
    made = National(tmp_path_factory.mktemp("national"), resampling="linear")
    yield made
    made.application.site.close_services()


def test_overviews_are_means_of_the_level_that_is_fine_enough(
    national: National, tmp_path: Path
) -> None:
    path = written(extract(national.whole(), CoverageLimits()), tmp_path / "whole.tif")
    assert cog_validate(path, strict=True) == (True, [], [])
    with rasterio.open(path) as source:
        assert source.overviews(1) == [2, 4]
        assert np.array_equal(source.read(1), national.values["3"], equal_nan=True)
    for number, (step, level) in enumerate([(2, "3"), (4, "2")]):
        with rasterio.open(path, overview_level=number) as source:
            found = source.read(1)
        expected = national.mean(level, step, found.shape)
        # Cells at the end of a level may be half data.
        inside = np.s_[: found.shape[0] - 1, : found.shape[1] - 1]
        assert np.allclose(found[inside], expected[inside], rtol=1e-4, atol=1e-3)


def test_any_part_of_computed_overviews_equals_the_whole(national: National) -> None:
    answer = extract(national.whole(), CoverageLimits())
    whole = b"".join(answer.pieces(0, answer.size))
    for start in range(0, answer.size // 3, 300_001):
        assert b"".join(answer.pieces(start, start + 5000)) == whole[start : start + 5000]


def test_overviews_of_classes_are_stored_values(tmp_path: Path) -> None:
    made = National(tmp_path, resampling="nn")
    path = written(extract(made.whole(), CoverageLimits()), tmp_path / "whole.tif")
    for number, level in enumerate(["3", "2"]):
        with rasterio.open(path, overview_level=number) as source:
            assert np.isin(source.read(1), np.append(made.values[level], NODATA)).all()
    made.application.site.close_services()


def test_compressed_cog_has_the_same_overviews(national: National, tmp_path: Path) -> None:
    extractor = Extractor(national.application.site, CoverageLimits())
    coverage = national.coverage
    box = coverage.finest.edges(coverage.finest.window)
    trim = Trim(coverage.crs, Interval(box.xmin, box.xmax), Interval(box.ymin, box.ymax))
    wanted = CoverageRequest(trim, is_cog=True, tiff=TiffOptions("deflate", is_exact=True))
    path = tmp_path / "exact.tif"
    body = extractor.body(extractor.plan(coverage, wanted))
    assert isinstance(body, SizedBody)
    path.write_bytes(b"".join(body))
    body.close()
    assert cog_validate(path, strict=True) == (True, [], [])
    with rasterio.open(path, overview_level=1) as source:
        found = source.read(1)
    plain = written(extract(national.whole(), CoverageLimits()), tmp_path / "plain.tif")
    with rasterio.open(plain, overview_level=1) as source:
        assert np.array_equal(found, source.read(1))


def test_replaced_slab_of_an_overview_ends_the_answer_and_changes_the_version(
    tmp_path: Path,
) -> None:
    made = National(tmp_path, resampling="linear")
    answer = extract(made.whole(), CoverageLimits())
    overview = answer.plan.images[2]
    assert overview.grid.matrix.id == "2"
    slabs = [path for path in tmp_path.rglob("pyramids/**/2/**/*") if path.is_file()]
    assert slabs
    for path in slabs:
        os.utime(path, (1, 1))
    with pytest.raises(ObjectChangedError):
        for _ in answer.pieces(0, answer.size):
            pass
    assert extract(made.whole(), CoverageLimits()).version != answer.version
    made.application.site.close_services()


@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.5, 2.0, 3.7, 700.0])
def test_mean_weights_cells_by_the_area_that_they_share(ratio: float) -> None:
    positions = np.array([40.0, 40.3, 40.5])
    first, weights = weights_at(MEAN, positions, radius_of(MEAN, ratio))
    side = max(ratio, 1.0)
    for position, start, found in zip(positions, first, weights, strict=True):
        places = start + np.arange(len(found))
        low = np.maximum(places - 0.5, position - side / 2)
        high = np.minimum(places + 0.5, position + side / 2)
        expected = np.clip(high - low, 0, None) / side
        assert np.allclose(found, expected, atol=1e-6)
