"""TIFF and GeoTIFF."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, TiffImagePlugin

from mastaba.errors import InvalidParameterError
from mastaba.model.bbox import BoundingBox
from mastaba_render.encoder import Raster
from mastaba_render.encoding.geotiff import GeotiffEncoder
from mastaba_render.encoding.tiff import TiffEncoder

MakeRaster = Callable[..., Raster]
OpenImage = Callable[[bytes], NDArray[Any]]
GdalRead = Callable[[bytes, str], tuple[dict[str, Any], NDArray[Any]]]

SIZES = [(1, 1), (1, 7), (333, 2), (2, 333), (64, 65), (300, 1000)]
COMPRESSIONS = ["raw", "lzw", "deflate", "packbits"]
KINDS = [("uint8", 1), ("uint8", 2), ("uint8", 3), ("uint8", 4), ("float32", 1)]


def tags(data: bytes) -> dict[int, Any]:
    with Image.open(io.BytesIO(data)) as image:
        assert isinstance(image, TiffImagePlugin.TiffImageFile)
        return dict(image.tag_v2)


@pytest.mark.sampled
@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize(("dtype", "channels"), KINDS)
@pytest.mark.parametrize(("rows", "columns"), SIZES)
def test_tiff_keeps_every_sample(
    make_raster: MakeRaster,
    open_image: OpenImage,
    rows: int,
    columns: int,
    dtype: str,
    channels: int,
    compression: str,
) -> None:
    raster = make_raster(rows, columns, channels, dtype)
    data = TiffEncoder().encode(raster, {"compression": compression})
    read = open_image(data)
    assert read.dtype == raster.pixels.dtype
    assert np.array_equal(read, raster.pixels)


def test_compression_is_raw_by_default(make_raster: MakeRaster) -> None:
    raster = make_raster(20, 30, 3)
    plain = TiffEncoder().encode(raster, {})
    assert plain == TiffEncoder().encode(raster, {"compression": "RAW"})
    assert tags(plain)[259] == 1
    assert raster.pixels.tobytes() in plain


@pytest.mark.parametrize(
    ("compression", "number"), [("lzw", 5), ("deflate", 8), ("packbits", 32773)]
)
def test_compression_is_the_requested_one(
    make_raster: MakeRaster, compression: str, number: int
) -> None:
    raster = make_raster(200, 200, 1)
    data = TiffEncoder().encode(raster, {"compression": compression})
    assert tags(data)[259] == number
    assert len(data) < raster.pixels.size


@pytest.mark.parametrize("encoder", [TiffEncoder(), GeotiffEncoder()])
@pytest.mark.parametrize("compression", ["", "jpeg", "none", "x" * 100_000])
def test_unknown_compression_is_refused(
    make_raster: MakeRaster, encoder: TiffEncoder, compression: str
) -> None:
    with pytest.raises(InvalidParameterError) as caught:
        encoder.encode(make_raster(2, 2), {"compression": compression})
    assert caught.value.parameter == "FORMAT_OPTIONS"


def test_large_rasters_have_strips_of_moderate_size(make_raster: MakeRaster) -> None:
    found = tags(TiffEncoder().encode(make_raster(300, 1000, 3), {"compression": "deflate"}))
    assert found[278] == 21
    assert len(found[273]) == len(found[279]) == 15


@pytest.mark.parametrize(
    ("channels", "photometric", "extra"), [(1, 1, None), (2, 1, (2,)), (3, 2, None), (4, 2, (2,))]
)
def test_channels_are_described(
    make_raster: MakeRaster, channels: int, photometric: int, extra: tuple[int, ...] | None
) -> None:
    found = tags(TiffEncoder().encode(make_raster(3, 3, channels), {}))
    assert found[262] == photometric
    assert found[277] == channels
    assert found[258] == (8,) * channels
    assert found.get(338) == extra


def test_geotiff_keys_of_a_projected_crs(make_raster: MakeRaster) -> None:
    raster = make_raster(
        10, 20, crs="EPSG:2154", bbox=BoundingBox(700000, 6600000, 700040, 6600030), nodata=(-99.5,)
    )
    found = tags(GeotiffEncoder().encode(raster, {}))
    assert found[33550] == (2.0, 3.0, 0.0)
    assert found[33922] == (0.0, 0.0, 0.0, 700000.0, 6600030.0, 0.0)
    assert found[34735] == (1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, 2154)
    assert found[42113] == "-99.5"


@pytest.mark.parametrize(
    ("code", "model", "key", "number"),
    [
        ("EPSG:4326", 2, 2048, 4326),
        ("CRS:84", 2, 2048, 4326),
        ("EPSG:3857", 1, 3072, 3857),
        ("IGNF:LAMB93", 1, 3072, 2154),
        ("IGNF:ETRS89LAEA", 1, 3072, 32767),
        ("IGNF:WGS84G", 2, 2048, 32767),
    ],
)
def test_geotiff_names_the_crs(
    make_raster: MakeRaster, code: str, model: int, key: int, number: int
) -> None:
    found = tags(GeotiffEncoder().encode(make_raster(2, 2, crs=code), {}))
    directory = found[34735]
    keys = {directory[i]: directory[i + 1 : i + 4] for i in range(4, len(directory), 4)}
    assert directory[3] == len(keys)
    assert keys[1024] == (0, 1, model)
    assert keys[key] == (0, 1, number)
    if number == 32767:
        assert keys[1026] == keys[key + 1] == (34737, len(code) + 1, 0)
        assert found[34737] == f"{code}|"
    else:
        assert 34737 not in found


@pytest.mark.parametrize(
    ("nodata", "text"),
    [(0.0, "0"), (-99999.0, "-99999"), (1e10, "10000000000"), (1e-7, "0.0000001"), (255, "255")],
)
def test_nodata_is_a_plain_decimal(make_raster: MakeRaster, nodata: float, text: str) -> None:
    raster = make_raster(2, 2, dtype="float32", nodata=(nodata,))
    assert tags(GeotiffEncoder().encode(raster, {}))[42113] == text


def test_plain_tiff_has_no_place(make_raster: MakeRaster) -> None:
    found = tags(TiffEncoder().encode(make_raster(2, 2, nodata=(0.0,)), {}))
    assert not found.keys() & {33550, 33922, 34735, 42113}


def test_tiff_accepts_bytes_to_four_channels_and_floats() -> None:
    encoder = TiffEncoder()
    assert [n for n in range(1, 6) if encoder.accepts(np.dtype(np.uint8), n)] == [1, 2, 3, 4]
    assert encoder.accepts(np.dtype(np.float32), 1)
    assert encoder.accepts(np.dtype(np.float32), 3)
    assert not encoder.accepts(np.dtype(np.float64), 1)


@pytest.mark.live
@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize(("dtype", "channels"), [*KINDS, ("float32", 3)])
def test_gdal_reads_place_crs_nodata_and_samples(
    make_raster: MakeRaster, gdal_read: GdalRead, dtype: str, channels: int, compression: str
) -> None:
    raster = make_raster(
        123,
        457,
        channels,
        dtype,
        crs="EPSG:2154",
        bbox=BoundingBox(650000.5, 6800000.25, 651000.5, 6800500.25),
        nodata=(12.0,) * channels,
    )
    info, pixels = gdal_read(GeotiffEncoder().encode(raster, {"compression": compression}), "tif")
    assert np.array_equal(pixels, raster.pixels)
    assert info["complaints"] == ""
    assert info["geoTransform"] == pytest.approx(
        [650000.5, 1000 / 457, 0.0, 6800500.25, 0.0, -500 / 123], rel=1e-12
    )
    assert 'ID["EPSG",2154]' in info["coordinateSystem"]["wkt"]
    assert info["metadata"][""]["AREA_OR_POINT"] == "Area"
    assert [band["noDataValue"] for band in info["bands"]] == [12.0] * channels


@pytest.mark.live
@pytest.mark.parametrize(
    ("code", "identifier"), [("CRS:84", 4326), ("EPSG:4326", 4326), ("IGNF:LAMB93", 2154)]
)
def test_gdal_knows_the_crs(
    make_raster: MakeRaster, gdal_read: GdalRead, code: str, identifier: int
) -> None:
    raster = make_raster(5, 5, crs=code, bbox=BoundingBox(1, 40, 6, 45))
    info, _ = gdal_read(GeotiffEncoder().encode(raster, {}), "tif")
    assert f'ID["EPSG",{identifier}]' in info["coordinateSystem"]["wkt"]
    assert info["geoTransform"] == [1.0, 1.0, 0.0, 45.0, 0.0, -1.0]


@pytest.mark.live
@pytest.mark.parametrize("code", ["IGNF:WGS84G", "IGNF:ETRS89LAEA"])
def test_gdal_shows_the_name_of_a_crs_without_epsg_code(
    make_raster: MakeRaster, gdal_read: GdalRead, code: str
) -> None:
    info, _ = gdal_read(GeotiffEncoder().encode(make_raster(5, 5, crs=code), {}), "tif")
    assert code in info["coordinateSystem"]["wkt"]
