"""The option ``overviews: "cut"``: levels of overviews whose tiles have other corners."""

from __future__ import annotations

import io
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.container_cog.files import Storage, ground, opened, reader_of
from tests.container_cog.served import add_layer, addresses, client_of, cog_of, images_of
from tests.tiny import tiny_installation

from mastaba_containers.sets import web_mercator_set

ROW, COL = 5, 9
"""Of the first tile at level 4: odd, so that no overview begins with a tile."""
PLACES = {"3": (640, 1152), "2": (320, 576)}
"""Row and column of the first pixel of each overview."""


cog_beside = partial(cog_of, place=(ROW, COL))


def shown(found: Any, level: str, channels: int) -> Any:
    """Return the pixels of a level from its first tile on, absent tiles filled with zeros."""
    reader = reader_of(found, level)
    limits, places = reader.level.limits, []
    for row in range(limits.min_row, limits.max_row + 1):
        for col in range(limits.min_col, limits.max_col + 1):
            places.append((row, col))
    tiles = [
        np.zeros((256, 256, channels)) if tile is None else reader.decoder.decode(tile.read())
        for tile in reader.locate_all(places)
    ]
    across = limits.max_col - limits.min_col + 1
    rows = [np.concatenate(tiles[at : at + across], 1) for at in range(0, len(tiles), across)]
    return np.concatenate(rows)


@pytest.mark.parametrize(
    ("dtype", "bands", "has_mask", "options"),
    [
        ("uint8", 3, False, {"COMPRESS": "DEFLATE"}),
        ("uint8", 3, True, {"COMPRESS": "DEFLATE"}),
        ("float32", 1, False, {"COMPRESS": "DEFLATE", "PREDICTOR": "YES"}),
        ("uint8", 1, True, {"COMPRESS": "LZW"}),
    ],
)
def test_pixels_are_those_of_the_overviews(
    dtype: str, bands: int, has_mask: bool, options: dict[str, Any], tmp_path: Path
) -> None:
    values = ground(dtype, bands, (1000, 900))
    mask = None
    if has_mask:
        mask = np.full(values.shape[:2], 255, np.uint8)
        mask[300:700, 100:640] = 0
    data = cog_beside(tmp_path, values, mask=mask, **options)
    images = images_of(data)
    found = opened(Storage(data), (web_mercator_set(256),), overviews="cut")
    assert list(found.pyramid.levels) == ["2", "3", "4"]
    assert any("cut from overviews" in line for line in found.report)
    for level, (top, left) in PLACES.items():
        expected = images[level]
        high, wide, channels = expected.shape
        if has_mask:
            expected = expected * (expected[:, :, -1:] > 0)
        pixels = shown(found, level, channels)
        limits = found.pyramid.levels[level].limits
        down, right = top - 256 * limits.min_row, left - 256 * limits.min_col
        np.testing.assert_array_equal(
            pixels[down : down + high, right : right + wide], expected, level
        )
        assert found.pyramid.levels[level].window == (left + wide, top + high)
        rest = pixels.copy()
        rest[down : down + high, right : right + wide] = rest[0, 0]
        assert (rest == found.pyramid.raster.nodata[0] if channels == 1 else rest == 0).all()


def test_a_tile_takes_four_reads_and_keeps_to_one_version(tmp_path: Path) -> None:
    files = [
        cog_beside(tmp_path, ground("uint8", 3, (1024, 1024), seed), COMPRESS="DEFLATE")
        for seed in (1, 2)
    ]
    storage = Storage(files[0])
    found = opened(storage, (web_mercator_set(256),), overviews="cut")
    reader = reader_of(found, "3")
    place = 3, 5  # in the middle of four tiles
    reader.locate(*place).read()
    storage.reads.clear()
    tile = reader.known(*place)
    assert storage.reads == []
    assert tile.version == reader.expect(*place).version == reader.locate_all([place])[0].version
    first = reader.decoder.decode(tile.read())
    assert len(storage.reads) == 4
    version, identity = tile.version, tile.identity
    assert reader.moved(storage, reader._indices).locate(*place).identity == identity
    storage.replace(files[1])
    second = reader.decoder.decode(tile.read())
    assert tile.version != version
    assert tile.identity != identity
    for pixels, data in ((first, files[0]), (second, files[1])):
        overview, (top, left) = images_of(data)["3"], PLACES["3"]
        row, col = place[0] * 256 - top, place[1] * 256 - left
        np.testing.assert_array_equal(pixels, overview[row : row + 256, col : col + 256])
    assert reader.locate(7, 7) is None


def test_overviews_of_a_jpeg_are_cut_and_encoded(tmp_path: Path) -> None:
    values = ground("uint8", 3, (1024, 1024))
    data = cog_beside(tmp_path, values, COMPRESS="JPEG", QUALITY=90)
    path = tmp_path / "a.tif"
    path.write_bytes(data)
    server = tiny_installation(tmp_path / "site")
    add_layer(tmp_path / "site", "COG", {"path": str(path), "options": {"overviews": "cut"}})
    client = client_of(server)
    overview, (top, left) = images_of(data)["3"], PLACES["3"]
    expected = overview[3 * 256 - top :, 5 * 256 - left :][:256, :256]
    for address in addresses("COG", "3", 3, 5, "image/jpeg", "jpg").values():
        answer = client.get(address)
        assert (answer.status_code, answer.content_type) == (200, "image/jpeg"), address
        pixels = np.asarray(Image.open(io.BytesIO(answer.data)), int)
        assert abs(pixels - expected).mean() < 4
        etag = answer.headers["ETag"]
        assert client.get(address, headers={"If-None-Match": etag}).status_code == 304
    assert client.get(addresses("COG", "2", 9, 9, "image/jpeg", "jpg")["TMS"]).status_code == 404


def test_tiles_that_are_cut_cannot_be_tiff(tmp_path: Path) -> None:
    data = cog_beside(tmp_path, ground("float32", 1, (1024, 1024)), COMPRESS="DEFLATE")
    with pytest.raises(Exception, match="cut cannot be sent as TIFF"):
        opened(Storage(data), (web_mercator_set(256),), overviews="cut", format="tiff")
