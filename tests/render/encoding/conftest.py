"""Rasters to encode, and readers of the results that are not our own."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS
from mastaba_render.encoder import Raster

MakeRaster = Callable[..., Raster]
OpenImage = Callable[[bytes], NDArray[Any]]


@pytest.fixture
def make_raster() -> MakeRaster:
    """Return a function that makes a raster of smooth areas, flat areas and noise."""

    def make(
        rows: int,
        columns: int,
        channels: int = 1,
        dtype: str = "uint8",
        *,
        crs: str = "EPSG:3857",
        bbox: BoundingBox | None = None,
        nodata: tuple[float, ...] | None = None,
    ) -> Raster:
        generator = np.random.default_rng(rows * 1000 + columns * 10 + channels)
        y, x = np.mgrid[0:rows, 0:columns]
        bands = [100 + 90 * np.sin(x / (9 + band)) * np.cos(y / 13) for band in range(channels)]
        values = np.stack(bands, axis=-1)
        values[rows // 2 :] = np.round(values[rows // 2 :] / 40) * 40
        noisy = values[: rows // 4 + 1]
        noisy += generator.uniform(0, 50, noisy.shape)
        pixels = np.clip(values, 0, 255).astype(np.uint8) if dtype == "uint8" else values
        return Raster(
            pixels.astype(dtype),
            bbox or BoundingBox(0.0, 0.0, float(columns), float(rows)),
            CRS.from_code(crs),
            nodata,
        )

    return make


@pytest.fixture
def open_image() -> OpenImage:
    """Return a function that reads a picture with Pillow; shape (rows, columns, channels)."""

    def read(data: bytes) -> NDArray[Any]:
        with Image.open(io.BytesIO(data)) as image:
            image.load()
            pixels = np.asarray(image)
        return pixels if pixels.ndim == 3 else pixels[:, :, np.newaxis]

    return read


@pytest.fixture
def gdal_read(tmp_path: Path) -> Callable[[bytes, str], tuple[dict[str, Any], NDArray[Any]]]:
    """Return a function that reads a file with GDAL.

    It takes the content and the extension, and returns what gdalinfo says (its complaints are
    under ``complaints``) and the pixels, shape (rows, columns, channels).
    """
    if not (shutil.which("gdalinfo") and shutil.which("gdal_translate")):
        pytest.skip("the GDAL tools are not installed")

    def read(data: bytes, extension: str) -> tuple[dict[str, Any], NDArray[Any]]:
        path, raw = tmp_path / f"in.{extension}", tmp_path / "out.bip"
        path.write_bytes(data)
        described = subprocess.run(
            ["gdalinfo", "-json", path], capture_output=True, text=True, check=True
        )
        info = json.loads(described.stdout) | {"complaints": described.stderr}
        subprocess.run(
            ["gdal_translate", "-q", "-of", "ENVI", "-co", "INTERLEAVE=BIP", path, raw], check=True
        )
        columns, rows = info["size"]
        dtype = {"Byte": np.uint8, "Float32": np.float32, "Int32": np.int32}[
            info["bands"][0]["type"]
        ]
        return info, np.fromfile(raw, dtype).reshape(rows, columns, -1)

    return read
