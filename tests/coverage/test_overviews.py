"""Overviews of sets whose levels are not nested, and the kernel of the mean."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import rasterio
from rio_cogeo import cog_validate
from tests.coverage import national as national_layer
from tests.coverage.ground import whole, written
from tests.coverage.national import NODATA, National

from mastaba.errors import ObjectChangedError
from mastaba_coverage import (
    CompressedFile,
    CoverageLimits,
    CoveragePlan,
    CoverageRequest,
    Extractor,
    Interval,
    TiffOptions,
    Trim,
    extract,
    plan,
    sampled,
)
from mastaba_coverage.cells import Cells
from mastaba_render.api.decoding import Pixels
from mastaba_render.sampling import MEAN, radius_of, weights_at


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


def test_overview_of_many_cells_is_computed_in_pieces(
    national: National, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = extract(national.whole(), CoverageLimits())
    whole = b"".join(answer.pieces(0, answer.size))
    largest = 0
    stored = sampled.SampledTiles._stored

    def noted(tiles: sampled.SampledTiles, needed: Cells) -> Pixels:
        nonlocal largest
        largest = max(largest, needed.rows * needed.columns * 4)
        return stored(tiles, needed)

    monkeypatch.setattr(sampled.SampledTiles, "_stored", noted)
    monkeypatch.setattr(sampled, "_MOST", 12_000)
    assert b"".join(answer.pieces(0, answer.size)) == whole
    assert 6000 < largest <= 12_000


def test_a_server_computes_no_overview_of_very_many_stored_tiles(
    national: National, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients read the coarsest overview first: it was once computed from the whole level."""
    monkeypatch.setattr(plan, "_SMALLEST", 4)
    finest = national.coverage.finest
    # No coarser level is stored.
    coverage = replace(national.coverage, grids={finest.matrix.id: finest})
    whole = CoveragePlan.cog(coverage, finest.window, coverage.fields)
    assert [image.matrix.cell_size for image in whole.images[-2:]] == [256, 512]
    extractor = Extractor(national.application.site, CoverageLimits())
    found = extractor.plan(coverage, CoverageRequest(is_cog=True))
    assert isinstance(found, CoveragePlan)
    assert [image.matrix.cell_size for image in found.images] == [1, 2, 4, 8, 16]
    # Other levels are fine enough for all.
    stored = extractor.plan(national.coverage, CoverageRequest(is_cog=True))
    assert len(stored.images) > len(found.images)


def test_a_server_leaves_out_only_overviews_between_distant_levels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coarser ones are computed from the next stored level."""
    monkeypatch.setattr(plan, "_SMALLEST", 4)
    monkeypatch.setattr(national_layer, "CELLS", {"0": 40.0, "1": 1.0})
    monkeypatch.setattr(national_layer, "TILES", {"0": 1, "1": 22})
    made = National(tmp_path, resampling="linear")
    extractor = Extractor(made.application.site, CoverageLimits())
    found = extractor.plan(made.coverage, CoverageRequest(is_cog=True))
    assert isinstance(found, CoveragePlan)
    sizes = [image.matrix.cell_size for image in found.images]
    assert sizes == [1, 2, 4, 8, 16, 64, 128, 256, 512]
    assert [image.grid.matrix.id for image in found.images] == ["1"] * 5 + ["0"] * 4
    path = written(extract(found, CoverageLimits()), tmp_path / "whole.tif")
    assert cog_validate(path, strict=True) == (True, [], [])
    with rasterio.open(path) as source:
        assert source.overviews(1)[:6] == [2, 4, 8, 16, 64, 128]
    with rasterio.open(path, overview_level=4) as source:
        overview = source.read(1)
    expected = made.mean("0", 64, overview.shape)
    # Cells at the end of a level may be half data.
    inside = np.s_[: overview.shape[0] - 1, : overview.shape[1] - 1]
    assert np.allclose(overview[inside], expected[inside], rtol=1e-4, atol=1e-3)
    made.application.site.close_services()


def test_an_estimate_computes_no_overview_of_very_many_stored_tiles(
    national: National, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is made by a server; a worker may compute them."""
    monkeypatch.setattr(plan, "_SMALLEST", 4)
    finest = national.coverage.finest
    coverage = replace(national.coverage, grids={finest.matrix.id: finest})
    tiff = TiffOptions("deflate", is_exact=True)
    file = CompressedFile(
        CoveragePlan.cog(coverage, finest.window, coverage.fields, tiff), CoverageLimits()
    )
    steps: list[float] = []
    tile = sampled.SampledTiles._tile

    def noted(tiles: sampled.SampledTiles, number: int) -> Pixels:
        steps.append(tiles._sampling.step)
        return tile(tiles, number)

    monkeypatch.setattr(sampled.SampledTiles, "_tile", noted)
    estimated, samples = file.estimate(8)
    assert max(steps) == 16
    assert len(samples) == len(file.plan.images)
    size = file.reserved + sum(len(file.part(number).data) for number in range(file.count))
    assert max(steps) == 512
    assert estimated == pytest.approx(size, rel=0.05)


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
    path.write_bytes(whole(extractor, extractor.plan(coverage, wanted)))
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
