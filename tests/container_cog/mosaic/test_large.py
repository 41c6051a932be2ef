"""A mosaic of 10,000 files."""

from __future__ import annotations

import json
import random
import struct
import warnings
from pathlib import Path
from timeit import timeit

import numpy as np
import pytest
import rasterio
import tifffile
from rasterio.merge import merge
from tests.container_cog.files import by_gdal, ground, reader_of, stored_tiles
from tests.container_cog.mosaic.ground import CELL, X, Y, opened

COUNT = 100
"""Files in a row, and rows of files."""
SIDE = 128
KINDS = 16


def write_all(folder: Path, templates: list[bytes]) -> None:
    """Write all files: templates at other places."""
    for kind, data in enumerate(templates):
        path = folder / "template.tif"
        path.write_bytes(data)
        with tifffile.TiffFile(path) as file:
            place = file.pages[0].tags[33922].valueoffset + 24
        path.unlink()
        for number in range(kind, COUNT * COUNT, KINDS):
            row, col = divmod(number, COUNT)
            changed = bytearray(data)
            corner = X + col * SIDE * CELL, Y - row * SIDE * CELL
            struct.pack_into("<2d", changed, place, *corner)
            (folder / f"{number}.tif").write_bytes(changed)


def table() -> bytes:
    """Return a table of all files."""
    features = []
    for number in range(COUNT * COUNT):
        row, col = divmod(number, COUNT)
        left, top = X + col * SIDE * CELL, Y - row * SIDE * CELL
        side = SIDE * CELL
        ring = [[left, top - side], [left + side, top - side], [left + side, top]]
        geometry = {"type": "Polygon", "coordinates": [[*ring, ring[0]]]}
        properties = {"location": f"{number}.tif"}
        features.append({"type": "Feature", "properties": properties, "geometry": geometry})
    crs = {"type": "name", "properties": {"name": "EPSG:32631"}}
    return json.dumps({"type": "FeatureCollection", "crs": crs, "features": features}).encode()


@pytest.mark.thorough
def test_ten_thousand_files(tmp_path: Path) -> None:
    values = [ground("uint8", 3, (SIDE, SIDE), seed) for seed in range(KINDS)]
    options = {"COMPRESS": "WEBP", "QUALITY": 100, "OVERVIEWS": "NONE", "BLOCKSIZE": SIDE}
    templates = [by_gdal(tmp_path, one, **options) for one in values]
    (tmp_path / "cog.tif").unlink()
    write_all(tmp_path, templates)
    path = tmp_path / "table.json"
    path.write_bytes(table())
    found = opened(path)
    reader = reader_of(found)
    index = reader.mosaic.index.table.index
    assert len(index) == COUNT * COUNT
    chance = random.Random(1)
    boxes = [
        (X + x, Y - y - SIDE * CELL, X + x + SIDE * CELL, Y - y)
        for x, y in (
            (chance.uniform(0, COUNT * SIDE * CELL), chance.uniform(0, COUNT * SIDE * CELL))
            for _ in range(1000)
        )
    ]
    seconds = timeit(lambda: [index.meeting(*box) for box in boxes], number=1)
    print(f"{seconds * 1000:.1f} us a query of {len(index)} files")

    # One file: as stored.
    for number in chance.sample(range(COUNT * COUNT), 300):
        row, col = divmod(number, COUNT)
        tile = reader.locate(row, col)
        (stored,) = stored_tiles(templates[number % KINDS]).values()
        assert len(tile.recipe.parts) == 1
        assert reader.deliver(tile.read()) == stored

    # Four files: exactly the pixels of a mosaic by GDAL.
    half = SIDE * CELL / 2
    matrix = {
        "tile_matrix_set_id": "shifted",
        "extent": [X, Y - COUNT * SIDE * CELL, X + COUNT * SIDE * CELL, Y],
    }
    with rasterio.open(tmp_path / "0.tif") as first:
        profile = first.profile | {"driver": "GTiff", "height": SIDE, "width": SIDE}
    profile |= {
        "transform": rasterio.Affine(CELL, 0, X - half, 0, -CELL, Y + half),
        "compress": "WEBP",
        "photometric": "RGB",
        "tiled": True,
        "blockxsize": SIDE,
        "blockysize": SIDE,
    }
    with rasterio.open(tmp_path / "!.tif", "w", **profile) as dataset:
        dataset.write(np.zeros((3, SIDE, SIDE), np.uint8))
    document = json.loads(table())
    corner = {"type": "Point", "coordinates": [X - half, Y + half]}
    lowest = {"location": "!.tif", "order": -1}
    document["features"].append({"type": "Feature", "properties": lowest, "geometry": corner})
    path.write_text(json.dumps(document))
    reader = reader_of(opened(path, **matrix))
    # 20 rows and columns of files.
    sheets = [tmp_path / f"{row * COUNT + col}.tif" for row in range(20) for col in range(20)]
    files = [rasterio.open(one) for one in sheets]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        whole = np.moveaxis(merge(files)[0], 0, 2)
    for file in files:
        file.close()
    for row in range(1, 20):
        for col in range(1, 20):
            tile = reader.locate(row, col)
            assert len(tile.recipe.parts) == 4
            top, left = row * SIDE - SIDE // 2, col * SIDE - SIDE // 2
            pixels = reader.decoder.decode(tile.read())
            np.testing.assert_array_equal(pixels, whole[top : top + SIDE, left : left + SIDE])
