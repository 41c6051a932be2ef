import io
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from mastaba_writer.pyramids import LevelPlan, object_pyramid, write_pyramid
from mastaba_writer.slab_names import slab_path
from mastaba_writer.tile_encoder import Pixels
from mastaba_writer.tile_matrix_sets import synthetic, web_mercator


def tiles_of(slab: bytes, count: int = 4) -> list[bytes]:
    index = struct.unpack_from(f"<{2 * count}I", slab, 2048)
    return [slab[o : o + s] for o, s in zip(index[:count], index[count:], strict=True)]


def plain(level: str, row: int, col: int) -> Pixels:
    return np.full((256, 256, 3), (int(level), row, col), np.uint8)


def test_descriptor_describes_what_was_written(tmp_path: Path) -> None:
    path = write_pyramid(
        tmp_path,
        "PLAIN",
        tile_matrix_set=web_mercator(),
        format="TIFF_PNG_UINT8",
        levels=[LevelPlan("9", 187, 187, 258, 259)],
        tile=plain,
        nodata=(1, 2, 3),
    )
    assert path == tmp_path / "PLAIN.json"
    assert json.loads(path.read_text()) == {
        "tile_matrix_set": "PM",
        "format": "TIFF_PNG_UINT8",
        "levels": [
            {
                "id": "9",
                "tiles_per_width": 2,
                "tiles_per_height": 2,
                "tile_limits": {"min_row": 187, "max_row": 187, "min_col": 258, "max_col": 259},
                "storage": {"type": "FILE", "image_directory": "PLAIN/DATA/9", "path_depth": 2},
            }
        ],
        "raster_specifications": {
            "channels": 3,
            "nodata": "1,2,3",
            "photometric": "rgb",
            "interpolation": "nn",
        },
    }
    slab = (tmp_path / "PLAIN/DATA/9/00/32/LL.tif").read_bytes()
    colours = [Image.open(io.BytesIO(tile)).getpixel((9, 9)) for tile in tiles_of(slab)]
    # Row 186 is outside the limits: stored, but as nodata.
    assert colours == [(1, 2, 3), (1, 2, 3), (9, 187, 258 % 256), (9, 187, 259 % 256)]


def test_slabs_without_data_are_not_written(tmp_path: Path) -> None:
    def tile(level: str, row: int, col: int) -> bytes | None:
        return b"tile" if col == 3 else None

    write_pyramid(
        tmp_path,
        "V",
        tile_matrix_set=web_mercator(),
        format="TIFF_PBF_MVT",
        levels=[LevelPlan("4", 0, 3, 0, 5)],
        tile=tile,
        path_depth=1,
        tables={"4": [{"name": "t", "geometry": "POINT", "attributes": []}]},
    )
    slabs = sorted((tmp_path / "V/DATA/4").rglob("*.tif"))
    assert [str(path.relative_to(tmp_path / "V/DATA/4")) for path in slabs] == [
        slab_path(1, 0, 1),
        slab_path(1, 1, 1),
    ]
    assert tiles_of(slabs[0].read_bytes()) == [b"", b"tile", b"", b"tile"]
    level = json.loads((tmp_path / "V.json").read_text())["levels"][0]
    assert level["tables"][0]["name"] == "t"


def test_objects_contain_the_same_bytes_as_files(tmp_path: Path) -> None:
    matrices = synthetic("S", crs="EPSG:2154", origin=(0, 0), cell_sizes=[4, 2], tile_size=(32, 16))
    arguments: dict[str, Any] = {
        "tile_matrix_set": matrices,
        "tile_matrix_set_id": "OTHER",
        "format": "TIFF_ZIP_FLOAT32",
        "channels": 1,
        "levels": [LevelPlan("0", 1, 1, 2, 3), LevelPlan("1", 2, 3, 4, 7)],
        "tile": lambda level, row, col: np.full((16, 32), row + col, np.float32),
    }
    path = write_pyramid(tmp_path, "F", **arguments)
    storage = {"type": "S3", "bucket_name": "b"}
    descriptor, slabs = object_pyramid("F", storage=storage, **arguments)
    objects = dict(slabs)
    assert list(objects) == ["F/DATA_0_1_0", "F/DATA_1_2_1", "F/DATA_1_3_1"]
    file = tmp_path / "F/DATA/1" / slab_path(3, 1)
    assert objects["F/DATA_1_3_1"] == file.read_bytes()
    assert descriptor["levels"][1]["storage"] == {**storage, "image_prefix": "F/DATA_1"}
    document = json.loads(path.read_text())
    assert document["tile_matrix_set"] == "OTHER"
    assert document["raster_specifications"]["nodata"] == "-99999"
    for one, other in zip(document["levels"], descriptor["levels"], strict=True):
        assert {**one, "storage": 0} == {**other, "storage": 0}


@pytest.mark.parametrize(
    "change",
    [
        {"format": "TIFF_RAW_INT16"},
        {"levels": [LevelPlan("99", 0, 0, 0, 0)]},
        {"nodata": (0,)},
        {"tile": lambda level, row, col: np.zeros((256, 256), np.uint8)},
    ],
)
def test_invalid_pyramids_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {
        "tile_matrix_set": web_mercator(),
        "format": "TIFF_JPG_UINT8",
        "levels": [LevelPlan("4", 0, 0, 0, 0)],
        "tile": plain,
        **change,
    }
    with pytest.raises(ValueError):
        write_pyramid(tmp_path, "P", **arguments)
