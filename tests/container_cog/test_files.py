"""Files of GDAL: tiles as stored, masks, levels, reads, replacements, and refused files."""

from __future__ import annotations

import io
import os
import random
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import simplejpeg
import tifffile
from PIL import Image
from tests.container_cog import files
from tests.container_cog.files import (
    Storage,
    by_gdal,
    by_tifffile,
    ground,
    opened,
    pixels_of,
    reader_of,
)
from tests.sizes import sized

from mastaba.errors import ContainerFormatError, MastabaError, SlabFormatError, StorageError
from mastaba_containers.sets import web_mercator_set

SIZE = (300, 420)


def body(reader: Any, row: int, col: int) -> bytes:
    payload = reader.locate(row, col).read()
    return payload if reader.deliver is None else reader.deliver(payload)


def test_jpeg_tiles_are_complete_without_decoding(tmp_path: Path) -> None:
    data = by_gdal(tmp_path, ground("uint8", 3, SIZE), COMPRESS="JPEG", QUALITY=90)
    found = opened(Storage(data))
    assert (found.pyramid.format.media_type, list(found.pyramid.levels)) == (
        "image/jpeg",
        ["0", "1", "2"],
    )
    reader = reader_of(found)
    with tifffile.TiffFile(io.BytesIO(data)) as file:
        wanted = file.pages[0].asarray()[:128, 128:256]
    got = simplejpeg.decode_jpeg(body(reader, 0, 1), fastdct=False)
    np.testing.assert_array_equal(got, wanted)
    assert reader.decoder is None


def test_jpeg_of_colours_and_alpha_is_not_taken_for_cmyk(tmp_path: Path) -> None:
    target = tmp_path / "alpha.tif"
    profile = {
        "driver": "GTiff",
        "width": 90,
        "height": 70,
        "count": 4,
        "dtype": "uint8",
        "crs": "EPSG:32631",
        "transform": rasterio.Affine(10, 0, 5e5, 0, -10, 4.6e6),
        "tiled": True,
        "blockxsize": 64,
        "blockysize": 64,
        "compress": "jpeg",
        "photometric": "RGB",
        "alpha": "yes",
    }
    with rasterio.open(target, "w", **profile) as dataset:
        dataset.write(np.moveaxis(ground("uint8", 4), 2, 0))
    with rasterio.open(target) as dataset:
        wanted = np.moveaxis(dataset.read(), 0, 2)
    found = opened(Storage(target.read_bytes()))
    assert found.pyramid.format.media_type == "image/png"
    np.testing.assert_array_equal(pixels_of(found), wanted)


def test_webp_tiles_are_sent_as_stored(tmp_path: Path) -> None:
    values = ground("uint8", 3, SIZE)
    data = by_gdal(tmp_path, values, COMPRESS="WEBP", QUALITY=100)
    found = opened(Storage(data))
    tile = body(reader_of(found), 1, 2)
    assert found.pyramid.format.media_type == "image/webp"
    assert tile in data
    assert tile.startswith(b"RIFF")
    np.testing.assert_array_equal(pixels_of(found), values)


@pytest.mark.parametrize("compression", ["JPEG", "DEFLATE"])
def test_mask_becomes_alpha(tmp_path: Path, compression: str) -> None:
    mask = np.full(SIZE, 255, np.uint8)
    mask[100:210, 40:333] = 0
    values = ground("uint8", 3, SIZE)
    storage = Storage(by_gdal(tmp_path, values, mask=mask, COMPRESS=compression))
    found = opened(storage)
    pixels = pixels_of(found)
    np.testing.assert_array_equal(pixels[:, :, 3], mask)
    reader = reader_of(found)
    storage.reads.clear()
    tile = body(reader, 0, 1)
    # Image and interleaved mask together.
    assert len(storage.reads) == 1
    expected = "image/webp" if compression == "JPEG" else "image/png"
    assert found.pyramid.format.media_type == expected
    with Image.open(io.BytesIO(tile)) as picture:
        np.testing.assert_array_equal(np.asarray(picture)[:, :, 3], mask[:128, 128:256])


def test_spliced_tiff_is_read_by_gdal(tmp_path: Path) -> None:
    values = ground("float32", 1, SIZE)
    data = by_gdal(tmp_path, values, COMPRESS="ZSTD", PREDICTOR="YES")
    reader = reader_of(opened(Storage(data), format="tiff"))
    tile = body(reader, 1, 1)
    with (
        pytest.warns(rasterio.errors.NotGeoreferencedWarning),
        rasterio.MemoryFile(tile) as file,
        file.open() as dataset,
    ):
        np.testing.assert_array_equal(dataset.read(1), values[128:256, 128:256, 0])


def test_known_set_is_found_with_its_rows_and_columns(tmp_path: Path) -> None:
    known = web_mercator_set(256)
    matrix = known.matrices["15"]
    corner = (
        matrix.origin_x + 16610 * 256 * matrix.cell_size,
        matrix.origin_y - 11264 * 256 * matrix.cell_size,
        matrix.cell_size,
    )
    data = by_gdal(
        tmp_path,
        ground("uint8", 3, (512, 512)),
        crs="EPSG:3857",
        corner=corner,
        COMPRESS="JPEG",
        BLOCKSIZE=256,
    )
    found = opened(Storage(data), (known,))
    assert found.pyramid.tile_matrix_set is known
    limits = found.pyramid.levels["15"].limits
    assert (limits.min_row, limits.max_row, limits.min_col) == (11264, 11265, 16610)
    assert reader_of(found).locate(11265, 16611) is not None
    assert "14" in found.pyramid.levels
    own = opened(Storage(data), (known,), tile_matrix_set="own")
    assert list(own.pyramid.levels) == ["0", "1"]


def test_reads_of_a_small_file(tmp_path: Path) -> None:
    storage = Storage(by_gdal(tmp_path, ground("uint8", 3, SIZE), COMPRESS="JPEG"))
    found = opened(storage)
    assert len(storage.reads) == 1
    storage.reads.clear()
    reader = reader_of(found)
    body(reader, 0, 0)
    assert len(storage.reads) == 2
    storage.reads.clear()
    body(reader, 1, 1)
    assert len(storage.reads) == 1
    assert reader.known(1, 0) is not None
    assert len(storage.reads) == 1


class Giant(Storage):
    """A BigTIFF of a million pixels a side, of which bytes are made when they are read."""

    SIDE = 1_000_000
    ACROSS = -(-SIDE // 128)
    TILES = ACROSS * ACROSS
    ARRAY = 4096
    DATA = ARRAY + 12 * TILES
    BLOCK = 128 * 128 + 8

    def __init__(self) -> None:
        ghost = (
            b"LAYOUT=IFDS_BEFORE_DATA\nBLOCK_ORDER=ROW_MAJOR\nBLOCK_LEADER=SIZE_AS_UINT4\n"
            b"BLOCK_TRAILER=LAST_4_BYTES_REPEATED\nKNOWN_INCOMPATIBLE_EDITION=NO\n "
        )
        ghost = b"GDAL_STRUCTURAL_METADATA_SIZE=%06d bytes\n" % len(ghost) + ghost
        first = 16 + len(ghost)
        fields = [
            *((256, 4, 1, self.SIDE), (257, 4, 1, self.SIDE), (258, 3, 1, 8), (259, 3, 1, 1)),
            *((262, 3, 1, 1), (277, 3, 1, 1), (322, 3, 1, 128), (323, 3, 1, 128)),
            (324, 16, self.TILES, self.ARRAY),
            (325, 4, self.TILES, self.ARRAY + 8 * self.TILES),
        ]
        values = first + 16 + 20 * (len(fields) + 3)
        place = struct.pack("<9d", 1, 1, 0, 0, 0, 0, 0, 5e6, 0)
        keys = struct.pack("<12H", 1, 1, 0, 2, 1024, 0, 1, 1, 3072, 0, 1, 3857)
        fields += [(33550, 12, 3, values), (33922, 12, 6, values + 24), (34735, 3, 12, values + 72)]
        head = struct.pack("<2sHHHQ", b"II", 43, 8, 0, first) + ghost
        head += struct.pack("<Q", len(fields))
        for tag, kind, count, value in fields:
            head += struct.pack("<HHQQ", tag, kind, count, value)
        super().__init__((head + bytes(8) + place + keys).ljust(self.ARRAY, b"\0"))

    def part(self, offset: int, length: int) -> bytes:
        return bytes(self.byte(place) for place in range(offset, offset + length))

    def byte(self, place: int) -> int:
        if place < self.ARRAY:
            return self.data[place]
        if place < self.ARRAY + 8 * self.TILES:
            number, inside = divmod(place - self.ARRAY, 8)
            return (self.DATA + number * self.BLOCK + 4) >> 8 * inside & 255
        if place < self.DATA:
            return (128 * 128) >> 8 * ((place - self.ARRAY) % 4) & 255
        number, inside = divmod(place - self.DATA, self.BLOCK)
        return (128 * 128) >> 8 * inside & 255 if inside < 4 else number & 255


def test_first_tile_of_a_giant_file_takes_three_reads() -> None:
    storage = Giant()
    reader = reader_of(opened(storage))
    storage.reads.clear()
    row, col = 1000, 1500
    pixels = reader.decoder.decode(reader.locate(row, col).read())
    assert (pixels == (row * storage.ACROSS + col) & 255).all()
    assert len(storage.reads) == 3
    tile = 128 * 128
    assert sum(length for _, length in storage.reads) - tile < 64 * 1024
    # The tile at the end of a chunk, and the last one of all.
    for place in ((0, 511), (storage.ACROSS - 1, storage.ACROSS - 1)):
        payload = reader.locate(*place).read()
        assert payload[-1] == (place[0] * storage.ACROSS + place[1]) & 255


@pytest.mark.thorough
def test_first_tile_of_a_giant_file_takes_little_memory(tmp_path: Path) -> None:
    """At most 8 MiB, in a process that has read another file before."""
    other = Storage(by_tifffile(ground("uint8"), bigtiff=True))
    pixels_of(opened(other))
    report = tmp_path / "report"
    child = os.fork()
    if child == 0:
        status = 1
        try:
            before = resident()
            reader = reader_of(opened(Giant()))
            reader.decoder.decode(reader.locate(1000, 1500).read())
            report.write_text(str(resident() - before))
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert int(report.read_text()) <= 8 * 1024


def resident() -> int:
    """Return the resident memory of this process in KiB."""
    found = re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1])


class Edited(Giant):
    """A file in which a writer that knows nothing of leaders has replaced the first tile."""

    def byte(self, place: int) -> int:
        # The last byte before the trailer.
        return 7 if place == self.DATA + 4 + 128 * 128 - 1 else super().byte(place)


def test_edited_tile_is_refused_by_its_trailer() -> None:
    reader = reader_of(opened(Edited()))
    with pytest.raises(SlabFormatError, match="not the size before it"):
        reader.locate(0, 0).read()
    assert reader.locate(0, 1).read()


def test_file_that_gdal_has_edited_is_read(tmp_path: Path) -> None:
    values = ground("uint8", 3, SIZE)
    mask = np.full(SIZE, 255, np.uint8)
    mask[:50] = 0
    by_gdal(tmp_path, values, mask=mask, COMPRESS="DEFLATE")
    path = tmp_path / "cog.tif"
    noise = np.random.default_rng(1).integers(0, 256, (3, 128, 128), np.uint8)
    with rasterio.open(path, "r+", IGNORE_COG_LAYOUT_BREAK="YES") as dataset:
        dataset.write(noise, window=((128, 256), (128, 256)))
    data = path.read_bytes()
    assert b"KNOWN_INCOMPATIBLE_EDITION=YES" in data
    values[128:256, 128:256] = np.moveaxis(noise, 0, 2)
    pixels = pixels_of(opened(Storage(data)))
    np.testing.assert_array_equal(pixels[:, :, 3], mask)
    np.testing.assert_array_equal(pixels[50:, :, :3], values[50:])


@pytest.mark.parametrize(("kind", "shift"), [(1, 0.0), (2, 5.0)])
def test_matrix_without_rotation_is_a_position(
    kind: int, shift: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of corners, or of the middle of pixels."""
    keys = (1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, kind, 3072, 0, 1, 32631)
    matrix = (10.0, 0.0, 0.0, 5e5, 0.0, -10.0, 0.0, 4.6e6, *(0.0,) * 7, 1.0)
    monkeypatch.setattr(files, "PLACE", [(34264, "d", 16, matrix), (34735, "H", 16, keys)])
    data = by_tifffile(ground("uint8"))
    found = opened(Storage(data)).pyramid.levels["0"].matrix
    assert (found.origin_x, found.origin_y, found.cell_size) == (5e5 - shift, 4.6e6 + shift, 10)
    with rasterio.MemoryFile(data) as file, file.open() as dataset:
        assert (dataset.transform.c, dataset.transform.f) == (found.origin_x, found.origin_y)


def test_replaced_file_is_never_mixed(tmp_path: Path) -> None:
    versions = [
        by_gdal(tmp_path, ground("uint8", 3, SIZE, seed), COMPRESS="JPEG", QUALITY=quality)
        for seed, quality in ((1, 60), (2, 95))
    ]
    wanted = [body(reader_of(opened(Storage(data))), 1, 1) for data in versions]
    storage = Storage(versions[0])
    reader = reader_of(opened(storage))
    tile = reader.locate(1, 1)
    assert tile.read() == wanted[0]
    storage.replace(versions[1])
    assert tile.read() == wanted[1]
    assert tile.version.startswith("2-")
    storage.replace(by_gdal(tmp_path, ground("uint8", 1, SIZE), COMPRESS="JPEG"))
    with pytest.raises(StorageError, match="reload"):
        tile.read()


REFUSED: list[tuple[dict[str, Any], int, str, str]] = [
    ({"tile": None}, 1, "strips", "COG"),
    ({"photometric": "rgb", "planarconfig": "contig"}, 3, "3 bands of uint16", "rescale"),
    ({"tags": [(34264, "d", 16, (1.0, 0.5, *(0.0,) * 14))]}, 1, "rotated", "gdalwarp"),
    ({"tags": [(34735, "H", 8, (1, 1, 0, 1, 1024, 0, 1, 1))]}, 1, "CRS", "crs"),
    ({"planarconfig": "contig"}, 4, "bands", "bands"),
]


@pytest.mark.parametrize(("options", "bands", "reason", "remedy"), REFUSED)
def test_unsuitable_file_is_refused_with_a_remedy(
    options: dict[str, Any], bands: int, reason: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {tag[0] for tag in options.get("tags", ())}
    monkeypatch.setattr(files, "PLACE", [tag for tag in files.PLACE if tag[0] not in own])
    with pytest.raises(ContainerFormatError, match=reason) as error:
        opened(Storage(by_tifffile(ground("uint16", bands), **options)))
    assert remedy in f"{error.value} {error.value.remedy}"


def test_title_is_that_of_the_file_or_its_name() -> None:
    values = ground("uint8")
    assert opened(Storage(by_tifffile(values))).title == "x"
    assert opened(Storage(by_tifffile(values, description="Ortho"))).title == "Ortho"


def test_file_of_another_kind_is_named() -> None:
    with pytest.raises(ContainerFormatError, match="PMTiles"):
        opened(Storage(b"PMTiles\x03" + bytes(200)))


@pytest.mark.parametrize(
    "count", [150, pytest.param(sized(1500, 10_000), marks=pytest.mark.thorough)]
)
def test_mutated_heads_are_read_or_refused(count: int) -> None:
    chance = random.Random(3)
    data = by_tifffile(ground("uint8"), compression="deflate")
    for _ in range(count):
        changed = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            changed[chance.randrange(min(600, len(changed)))] = chance.choice((0, 255, 1, 77))
        if chance.random() < 0.1:
            del changed[chance.randrange(len(changed)) :]
        try:
            reader = reader_of(opened(Storage(bytes(changed))))
            limits = reader.level.limits
            tile = reader.locate(limits.min_row, limits.min_col)
            if tile is not None:
                reader.decoder.decode(tile.read())
        except MastabaError:
            pass


@pytest.mark.parametrize("overviews", ["NONE", "AUTO"])
def test_a_large_file_without_overviews_is_reported(tmp_path: Path, overviews: str) -> None:
    values = np.zeros((32, 4500, 1), np.uint8)
    data = by_gdal(tmp_path, values, COMPRESS="DEFLATE", OVERVIEWS=overviews)
    text = "\n".join(opened(Storage(data)).report)
    assert ("add overviews, or slabs above" in text) is (overviews == "NONE")
