"""Compressed rasters of a set that is not nested: their overviews are computed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.features import geometry_mask
from rio_cogeo import cog_validate
from tests.coverage.national import CORNER, National
from tests.export.ground import planned

from mastaba.api.services import Site
from mastaba_coverage import compressed
from mastaba_export.errors import DamagedArchiveError
from mastaba_export.run import run
from mastaba_export.verify import verify

LEFT, TOP = CORNER[0] - 0.5, CORNER[1] + 0.5
"""Corner of the finest level, whose cells have 1 m."""
PART: dict[str, Any] = {
    "bbox": [LEFT + 37, TOP - 1390, LEFT + 1238, TOP - 101],
    "crs": "EPSG:2154",
    "fit": "exact",
}


@pytest.fixture(scope="module")
def national(tmp_path_factory: pytest.TempPathFactory) -> Iterator[National]:
    made = National(tmp_path_factory.mktemp("national"), resampling="linear")
    yield made
    made.application.site.close_services()


@pytest.fixture
def heights(national: National) -> Site:
    return national.application.site


def images_of(path: Path) -> list[tuple[Any, Any]]:
    """Return values and transform of each image."""
    with rasterio.open(path) as source:
        found = [(source.read(1), source.transform)]
        count = len(source.overviews(1))
    for number in range(count):
        with rasterio.open(path, overview_level=number) as source:
            found.append((source.read(1), source.transform))
    return found


@pytest.mark.parametrize("inputs", [{}, PART], ids=["whole", "part"])
def test_compressed_cog_has_the_values_of_a_plain_one(
    heights: Site, tmp_path: Path, inputs: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compressed, "_PART", 500_000)
    plain = planned(heights, "heights", "cog", compression="none", **inputs)
    made = planned(heights, "heights", "cog", compression="deflate", **inputs)
    run(plain, tmp_path / "plain.tif")
    path = tmp_path / "a.tif"
    # Stopped in each image, and resumed.
    stops = iter([False] * 2 + [True])
    assert not run(made, path, should_stop=lambda: next(stops)).is_complete
    result = run(made, path, resume=True)
    assert result.is_complete
    assert cog_validate(path, strict=True) == (True, [], [])
    with rasterio.open(path) as source:
        assert source.profile["compress"] == "deflate"
        assert source.overviews(1) == [2, 4]
    for found, expected in zip(images_of(path), images_of(tmp_path / "plain.tif"), strict=True):
        assert found[0].tobytes() == expected[0].tobytes()
        assert found[1] == expected[1]
    estimate = made.estimate()
    assert abs(estimate["bytes"] / result.bytes - 1) < 0.1
    assert estimate["tiles"] == made.tiles
    assert verify(made, path, deep=True).compared == result.tiles
    # A byte of the coarsest overview.
    whole = bytearray(path.read_bytes())
    whole[made.file().reserved + 99] ^= 1
    path.write_bytes(whole)
    with pytest.raises(DamagedArchiveError):
        verify(made, path, deep=True)


def test_overviews_have_no_data_outside_of_polygons(heights: Site, tmp_path: Path) -> None:
    ring = [[LEFT + 50.3, TOP - 60.2], [LEFT + 1299.8, TOP - 130.7], [LEFT + 700.1, TOP - 1279.6]]
    area = {"type": "Polygon", "coordinates": [[*ring, ring[0]]]}
    box = [LEFT + 50.3, TOP - 1279.6, LEFT + 1299.8, TOP - 60.2]
    given = {"crs": "EPSG:2154", "fit": "exact"}
    run(planned(heights, "heights", "cog", bbox=box, **given), tmp_path / "plain.tif")
    made = planned(heights, "heights", "cog", area=area, **given)
    run(made, tmp_path / "a.tif")
    pairs = zip(images_of(tmp_path / "a.tif"), images_of(tmp_path / "plain.tif"), strict=True)
    for level, ((found, transform), (expected, _)) in enumerate(pairs):
        if level == 0:
            edges = transform
        # GDAL makes the cells of overviews smaller if their number has been rounded.
        outside = geometry_mask([area], found.shape, edges @ edges.scale(2**level))
        assert 0.3 < outside.mean() < 0.7
        expected[outside] = -99999.0
        assert np.array_equal(found, expected, equal_nan=True)
    verify(made, tmp_path / "a.tif", deep=True)


def test_digest_changes_with_the_kernel_of_overviews(heights: Site, tmp_path: Path) -> None:
    others = National(tmp_path, resampling="nn")
    found = [planned(site, "heights", "cog").digest for site in (heights, others.application.site)]
    assert found[0] != found[1]
    others.application.site.close_services()
