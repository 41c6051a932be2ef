"""Maps across CRSs equal those that GDAL warps from the same pixels."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.render.ground import MESH_CENTRE, World, around

from mastaba.model.bbox import BoundingBox
from mastaba_render.encoder import Raster
from mastaba_render.encoding.geotiff import GeotiffEncoder

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("gdalwarp") is None, reason="gdalwarp is not installed"),
]

METHODS = {"nn": "near", "linear": "bilinear", "bicubic": "cubic", "lanczos_3": "lanczos"}


def warped(source: Path, crs: str, bbox: BoundingBox, size: tuple[int, int], method: str):
    """Return what GDAL makes of a file, shape (height, width, bands)."""
    target = source.with_suffix(".raw")
    extent = [bbox.xmin, bbox.ymin, bbox.xmax, bbox.ymax]
    subprocess.run(
        [
            "gdalwarp", "-q", "-overwrite", "-of", "ENVI", "-et", "0", "-ovr", "NONE",
            "-t_srs", crs, "-te", *map(repr, extent), "-ts", *map(str, size), "-r", method,
            str(source), str(target),
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    data = np.fromfile(target, np.float32)
    return data.reshape(size[1], size[0])


@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:2154", "EPSG:32631", "EPSG:3035"])
@pytest.mark.parametrize("kernel", METHODS)
def test_map_is_the_one_of_gdal(mesh: World, tmp_path: Path, kernel: str, crs: str) -> None:
    layer = replace(mesh.layer("wave"), resampling=kernel)
    finest = layer.pyramid.finest
    box = finest.matrix.bbox_of(finest.limits)
    native = finest.matrix
    whole = (12 * native.tile_width, 16 * native.tile_height)
    pixels = mesh.draw(layer, box, "EPSG:3857", whole).pixels
    mosaic = Raster(pixels, box, layer.pyramid.tile_matrix_set.crs, None)
    (tmp_path / "mosaic.tif").write_bytes(GeotiffEncoder().encode(mosaic, {}))
    # Enlarged: where it shrinks, GDAL's kernels are stretched in another way.
    side = (0.15, 0.1) if crs == "EPSG:4326" else (11000.0, 11000.0)
    bbox = around(crs, *side, (MESH_CENTRE[0] + 777.0, MESH_CENTRE[1]))
    size = (120, 100)
    ours = mesh.draw(layer, bbox, crs, size)
    theirs = warped(tmp_path / "mosaic.tif", crs, bbox, size, METHODS[kernel])
    assert ours.valid is None
    difference = np.abs(ours.pixels[:, :, 0] - theirs)
    # The amplitude is 1000, a pixel up to 42 of it; our positions are cut to 1/1024.
    if kernel == "nn":
        assert (difference > 1e-3).mean() < 0.02
    else:
        assert difference.max() < (0.2 if kernel != "lanczos_3" else 0.5)
