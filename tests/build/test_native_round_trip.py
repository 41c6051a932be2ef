"""A source goes through a build with a set of its own grid, and comes back as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from tests.build.conftest import Build
from tests.build.test_native_set import GRIDS, SIZE, raster

from mastaba.plugins.manager import Plugins
from mastaba_export.opening import opened_descriptor
from mastaba_export.plan import plan
from mastaba_export.request import ExportRequest
from mastaba_export.run import run


@pytest.mark.parametrize("grid", GRIDS, ids=[one[0] for one in GRIDS])
@pytest.mark.parametrize("format", ["tif", "cog"])
def test_export_of_the_box_of_a_source_is_the_source(
    tmp_path: Path, build_of: Build, grid: Any, format: str
) -> None:
    _, x, y, cell, crs, is_point = grid
    raster(tmp_path / "a.tif", x, y, cell, crs, is_point)
    descriptor = build_of(tmp_path / "a.tif", tile_matrix_set="native", server=str(tmp_path / "s"))
    inputs = {
        "format": format,
        "bbox": [x, y - SIZE * cell, x + SIZE * cell, y],
        "crs": "CRS:84" if crs == "EPSG:4326" else crs,
        **({"fit": "exact"} if format == "cog" else {}),
    }
    out = tmp_path / "out.tif"
    with opened_descriptor(str(descriptor), Plugins()) as (site, layer):
        run(plan(ExportRequest.from_inputs({"layer": layer, **inputs}), site), out)
    with rasterio.open(tmp_path / "a.tif") as source, rasterio.open(out) as found:
        assert found.shape == source.shape
        assert found.read().tobytes() == source.read().tobytes()
        assert found.crs == source.crs
        assert found.nodata == source.nodata
        assert found.tags()["AREA_OR_POINT"] == source.tags()["AREA_OR_POINT"]
        # The cell of the set is a decimal number; that of one second is not.
        assert found.transform.almost_equals(source.transform, precision=1e-9)


def test_cells_beyond_the_antimeridian_are_exported_once(tmp_path: Path, build_of: Build) -> None:
    """The last tiles of the set reach beyond it, because no whole number of tiles goes around."""
    cell = 0.01
    values = raster(tmp_path / "a.tif", 178.5, 10, cell, "EPSG:4326")
    descriptor = build_of(tmp_path / "a.tif", tile_matrix_set="native", server=str(tmp_path / "s"))
    out = tmp_path / "out.tif"
    with opened_descriptor(str(descriptor), Plugins()) as (site, layer):
        run(plan(ExportRequest.from_inputs({"layer": layer, "format": "tif"}), site), out)
    with rasterio.open(out) as found:
        assert found.width == 36_000
        stored = found.read(1)
    assert (stored != -99999).sum() == (values != -99999).sum()
    stored = stored[(stored != -99999).any(axis=1)]
    assert np.array_equal(stored[:, -150:], values[:, :150])
    assert np.array_equal(stored[:, :150], values[:, 150:])
