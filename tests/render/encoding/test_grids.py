"""BIL and ASCII grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import WGS84
from mastaba_render.encoder import Raster
from mastaba_render.encoding.asc import AscEncoder
from mastaba_render.encoding.bil import BilEncoder

MakeRaster = Callable[..., Raster]
GdalRead = Callable[[bytes, str], tuple[dict[str, Any], NDArray[Any]]]

SIZES = [(1, 1), (1, 7), (333, 2), (2, 333), (64, 65)]
UINT8, FLOAT32 = np.dtype(np.uint8), np.dtype(np.float32)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("rows", "columns"), SIZES)
def test_bil_is_floats_line_by_line(
    make_raster: MakeRaster, rows: int, columns: int, channels: int, dtype: str
) -> None:
    raster = make_raster(rows, columns, channels, dtype)
    read = np.frombuffer(BilEncoder().encode(raster, {}), "<f4").reshape(rows, channels, columns)
    for channel in range(channels):
        assert np.array_equal(read[:, channel], raster.pixels[:, :, channel].astype(np.float32))


def split(data: bytes) -> tuple[dict[str, str], list[list[str]]]:
    lines = data.decode("ascii").splitlines()
    header = dict(line.split(" ") for line in lines if line[0].isalpha())
    return header, [line.split(" ") for line in lines if not line[0].isalpha()]


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize(("rows", "columns"), SIZES)
def test_ascii_grid_reads_back_to_the_same_samples(
    make_raster: MakeRaster, rows: int, columns: int, dtype: str
) -> None:
    raster = make_raster(rows, columns, 1, dtype)
    header, texts = split(AscEncoder().encode(raster, {}))
    assert (header["ncols"], header["nrows"]) == (str(columns), str(rows))
    assert np.array_equal(np.array(texts, np.float32).astype(dtype), raster.pixels[:, :, 0])


def test_ascii_grid_has_the_shortest_decimals() -> None:
    values = np.array([[1.0, 0.1, -99999.0, 1594.9984], [20.0, 1.5, 0.0, 1e-7]], np.float32)
    raster = Raster(values[:, :, np.newaxis], BoundingBox(-0.5, 1, 3.5, 3), WGS84, (-99999.0,))
    assert AscEncoder().encode(raster, {}) == (
        b"ncols 4\nnrows 2\nxllcorner -0.5\nyllcorner 1\ncellsize 1\nNODATA_value -99999\n"
        b"1 0.1 -99999 1594.9984\n20 1.5 0 1e-7\n"
    )


def test_ascii_grid_writes_nodata_as_it_writes_the_samples() -> None:
    pixels = np.full((1, 1, 1), -99999.99, np.float32)
    raster = Raster(pixels, BoundingBox(0, 0, 1, 1), WGS84, (-99999.99,))
    header, texts = split(AscEncoder().encode(raster, {}))
    assert texts == [[header["NODATA_value"]]]


def test_ascii_grid_with_oblong_pixels_has_dx_and_dy(make_raster: MakeRaster) -> None:
    raster = make_raster(4, 5, bbox=BoundingBox(0, 0, 10, 4))
    header, _ = split(AscEncoder().encode(raster, {}))
    assert "cellsize" not in header
    assert (header["dx"], header["dy"]) == ("2", "1")


def test_ascii_grid_forgives_rounding_of_the_pixel_size(make_raster: MakeRaster) -> None:
    raster = make_raster(3, 3, bbox=BoundingBox(0.1, 0.1, 0.4, 0.4000000000001))
    assert b"cellsize 0.1" in AscEncoder().encode(raster, {})


def test_grids_accept_bytes_and_floats() -> None:
    bil, asc = BilEncoder(), AscEncoder()
    for dtype in (UINT8, FLOAT32):
        assert [n for n in range(1, 5) if bil.accepts(dtype, n)] == [1, 2, 3, 4]
        assert [n for n in range(1, 5) if asc.accepts(dtype, n)] == [1, 2, 3, 4]
    assert not bil.accepts(np.dtype(np.float64), 1)
    assert not asc.accepts(np.dtype(np.uint16), 1)


def test_ascii_grid_contains_the_luminance_of_colours_or_the_first_channel() -> None:
    box, crs = BoundingBox(0, 0, 1, 1), WGS84

    def last_lines(values: list[float], dtype: type, nodata: tuple[float, ...]) -> list[str]:
        text = (
            AscEncoder().encode(Raster(np.array([[values]], dtype), box, crs, nodata), {}).decode()
        )
        return text.splitlines()[-2:]

    colours = [200, 100, 50]
    assert last_lines(colours, np.uint8, (255, 255, 255)) == ["NODATA_value 255", "118"]
    assert last_lines([*colours, 7], np.uint8, (0, 0, 0, 0)) == ["NODATA_value 0", "118"]
    assert last_lines([9, 7], np.uint8, (1, 0)) == ["NODATA_value 1", "9"]
    assert last_lines([1.5, 2.5, 3.5], np.float32, (-9.0,) * 3) == ["NODATA_value -9", "1.5"]


@pytest.mark.live
@pytest.mark.parametrize(("dtype", "height"), [("float32", 10.0), ("uint8", 10.0), ("uint8", 3.0)])
def test_gdal_reads_an_ascii_grid(
    make_raster: MakeRaster, gdal_read: GdalRead, dtype: str, height: float
) -> None:
    raster = make_raster(20, 30, 1, dtype, bbox=BoundingBox(100, 50, 115, 50 + height))
    info, pixels = gdal_read(AscEncoder().encode(raster, {}), "asc")
    assert info["geoTransform"] == pytest.approx([100, 0.5, 0, 50 + height, 0, -height / 20])
    assert np.array_equal(pixels.astype(dtype), raster.pixels)
