"""Tiles of mosaics: as stored, copied and resampled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.container_cog.files import by_gdal, ground, reader_of, stored_tiles
from tests.container_cog.mosaic.ground import (
    CELL,
    Sheet,
    X,
    Y,
    geojson,
    mosaic_pixels,
    opened,
    reference,
    sheets,
)

from mastaba.api.catalogue import CRS, TileMatrix, TileMatrixSet
from mastaba.errors import ContainerFormatError, InvalidParameterError, StorageUnavailableError


def written(folder: Path, those: list[Sheet], table: bytes | None = None, **options: Any) -> Path:
    for one in those:
        one.write(folder, **options)
    path = folder / "table.geojson"
    path.write_bytes(geojson(those) if table is None else table)
    return path


def body(reader: Any, row: int, col: int) -> bytes:
    return reader.deliver(reader.locate(row, col).read())


def test_a_tile_of_one_file_is_as_stored(tmp_path: Path) -> None:
    those = sheets()
    found = opened(written(tmp_path, those, COMPRESS="JPEG", OVERVIEWS="NONE"))
    reader = reader_of(found)
    assert found.pyramid.format.media_type == "image/jpeg"
    for one in those:
        for (_, row, col), stored in stored_tiles((tmp_path / one.name).read_bytes()).items():
            assert body(reader, one.top // 128 + row, one.left // 128 + col) == stored


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_files_that_overlap_are_painted_in_order(tmp_path: Path, dtype: str) -> None:
    bands = 3 if dtype == "uint8" else 1
    those = [
        Sheet("a.tif", 0, 0, ground(dtype, bands, (150, 170), 1)),
        Sheet("b.tif", 100, 30, ground(dtype, bands, (150, 170), 2)),
        Sheet("c.tif", 60, 90, ground(dtype, bands, (120, 90), 3)),
        Sheet("d.tif", 200, 120, ground(dtype, bands, (120, 90), 4)),
    ]
    path = written(tmp_path, those, COMPRESS="DEFLATE", OVERVIEWS="NONE", nodata=0)
    pixels = mosaic_pixels(opened(path))
    rows, columns = pixels.shape[:2]
    box = (X, Y - rows * CELL, X + columns * CELL, Y)
    expected = reference(tmp_path, those, box)
    np.testing.assert_array_equal(pixels[..., : expected.shape[2]], expected)
    if dtype == "uint8":
        np.testing.assert_array_equal(pixels[..., 3] != 0, expected.any(axis=2))


def test_order_is_that_of_the_table(tmp_path: Path) -> None:
    those = [Sheet(f"{n}.tif", 0, 0, ground("float32", seed=n, size=(64, 64))) for n in range(3)]
    path = written(tmp_path, those, OVERVIEWS="NONE")
    text = path.read_text()
    for number, order in enumerate((5, 9, 7)):
        text = text.replace(f'"{number}.tif"', f'"{number}.tif", "order": {order}')
    path.write_text(text)
    np.testing.assert_array_equal(mosaic_pixels(opened(path))[:64, :64], those[1].values)
    lowest = opened(path, sort_ascending=False)
    np.testing.assert_array_equal(mosaic_pixels(lowest)[:64, :64], those[0].values)
    by_path = opened(path, sort_field="other")
    np.testing.assert_array_equal(mosaic_pixels(by_path)[:64, :64], those[2].values)


def test_files_of_other_resolutions_are_resampled(tmp_path: Path) -> None:
    """A plane stays a plane, whatever the pixels; next to gaps too."""
    y, x = np.mgrid[:100, :100]

    def plane(left: float, top: float, cell: float) -> Any:
        east, south = left + (x + 0.5) * cell / CELL, top + (y + 0.5) * cell / CELL
        return (100 + 0.5 * east + 0.25 * south).astype("float32")[..., np.newaxis]

    those = [
        Sheet("a.tif", 0, 0, plane(0, 0, 10)),
        Sheet("b.tif", 100, 0, plane(100, 0, 7.0), 7.0),
        Sheet("c.tif", 0, 100, plane(0, 100, 15.0), 15.0),
    ]
    path = written(tmp_path, those, OVERVIEWS="NONE", nodata=-9999)
    pixels = mosaic_pixels(opened(path, resampling="linear"))[..., 0]
    rows, columns = np.mgrid[: pixels.shape[0], : pixels.shape[1]]
    expected = 100 + 0.5 * (columns + 0.5) + 0.25 * (rows + 0.5)
    known = pixels != -9999
    assert known[:100, :170].any(axis=0).all()
    assert known[100:250, :150].all()
    # The last half pixel of a file has no neighbour: it is that of the edge.
    assert np.abs(pixels - expected)[known].max() <= 0.6
    inner = known.copy()
    for edge in (100, 99, 101, 98):
        inner[edge], inner[:, edge] = False, False
    assert np.abs(pixels - expected)[3:240, 3:140][inner[3:240, 3:140]].max() < 0.05


def test_coarser_levels_are_of_the_overviews(tmp_path: Path) -> None:
    those = sheets("float32", 1, 512)
    path = written(tmp_path, those, BLOCKSIZE=128, OVERVIEW_RESAMPLING="AVERAGE")
    found = opened(path)
    assert list(found.pyramid.levels) == ["0", "1", "2"]
    coarse = mosaic_pixels(found, "0")
    full = mosaic_pixels(found)
    means = full.reshape(256, 4, 256, 4).mean(axis=(1, 3))
    np.testing.assert_allclose(coarse[..., 0], means, rtol=1e-5)


def test_too_many_sources_are_refused_and_reported(tmp_path: Path) -> None:
    those = [Sheet(f"{n:02}.tif", n * 4, 0, ground("uint8", 3, (64, 64), n)) for n in range(20)]
    warnings: list[str] = []
    path = written(tmp_path, those, OVERVIEWS="NONE", nodata=0, BLOCKSIZE=128)
    found = opened(path, (), warnings, levels=["0"])
    assert "level 0: up to 20 files in a tile" in found.report
    assert "too many sources; make slabs" in warnings[0]
    reader = reader_of(found)
    with pytest.raises(InvalidParameterError, match="too many sources: more than 16"):
        reader.locate(0, 0)


def test_absent_files(tmp_path: Path) -> None:
    those = sheets("uint8", 3, 128)
    path = written(tmp_path, those, COMPRESS="JPEG", OVERVIEWS="NONE", BLOCKSIZE=128)
    (tmp_path / "1-1.tif").unlink()
    reader = reader_of(opened(path))
    assert reader.locate(0, 0) is not None
    with pytest.raises(StorageUnavailableError, match="does not exist"):
        reader.locate(1, 1)
    reader = reader_of(opened(path, missing="skip"))
    assert reader.locate(1, 1) is None


def test_versions_change_with_the_files_of_a_tile(tmp_path: Path) -> None:
    those = sheets("uint8", 3, 128)
    path = written(tmp_path, those, COMPRESS="JPEG", OVERVIEWS="NONE", BLOCKSIZE=128)
    reader = reader_of(opened(path))
    before = {place: reader.locate(*place) for place in ((0, 0), (0, 1))}
    Sheet("0-0.tif", 0, 0, ground("uint8", 3, (128, 128), 99)).write(
        tmp_path, COMPRESS="JPEG", OVERVIEWS="NONE"
    )
    (stored,) = stored_tiles((tmp_path / "0-0.tif").read_bytes()).values()
    old = before[0, 0].version
    tile = reader.locate(0, 0)
    before[0, 0].forget_index()
    tile = reader.locate(0, 0)
    assert reader.deliver(tile.read()) == stored
    assert tile.version != old
    assert reader.locate(0, 1).version == before[0, 1].version


def test_files_without_overviews_have_no_coarse_levels(tmp_path: Path) -> None:
    """A tile would need too many pixels of the only file."""
    those = [Sheet("a.tif", 0, 0, ground("uint8", 1, (2560, 2560)))]
    path = written(tmp_path, those, COMPRESS="DEFLATE", OVERVIEWS="NONE")
    matrices = [
        TileMatrix(str(number), CELL * cell, X, Y, 128, 128, 100, 100)
        for number, cell in enumerate((64, 16, 1))
    ]
    known = TileMatrixSet.of("known", CRS.from_code("EPSG:32631"), matrices)
    found = opened(path, (known,), tile_matrix_set="known")
    assert list(found.pyramid.levels) == ["2"]
    found = opened(path, (known,), tile_matrix_set="known", levels=["0", "1"])
    for level in ("0", "1"):
        with pytest.raises(InvalidParameterError, match="no overviews for this scale"):
            reader_of(found, level).locate(0, 0)


def test_files_of_another_kind_are_refused(tmp_path: Path) -> None:
    those = sheets("uint8", 3, 128)[:2]
    path = written(tmp_path, those, COMPRESS="DEFLATE", OVERVIEWS="NONE")
    grey = Sheet("0-1.tif", 128, 0, ground("uint8", 1, (128, 128)))
    grey.write(tmp_path)
    with pytest.raises(ContainerFormatError, match="other bands"):
        reader_of(opened(path)).locate(0, 1)
    data = by_gdal(tmp_path, those[1].values, crs="EPSG:32632")
    (tmp_path / "0-1.tif").write_bytes(data)
    with pytest.raises(ContainerFormatError, match="its CRS is EPSG:32632") as caught:
        reader_of(opened(path)).locate(0, 1)
    assert caught.value.remedy == "warp it with gdalwarp -t_srs EPSG:32631"
    assert reader_of(opened(path, missing="skip")).locate(0, 1) is None
