"""``mastaba slab``: whole slabs, symbolic objects and damage."""

from __future__ import annotations

import io
import struct
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import pytest
from PIL import Image
from tests.support.sampling import one_in
from tests.tiny import tiny_installation

from mastaba import hookimpl
from mastaba.commands.main import main
from mastaba.errors import ObjectNotFoundError
from mastaba.model.format import TILE_FORMATS
from mastaba.plugins.manager import Plugins
from mastaba_conformance.tiny_installation import tiny_vector_tile
from mastaba_doctor.commands import slab as slab_command
from mastaba_doctor.slab_report import inspect_slab
from mastaba_storage.base import ByteRange, ObjectRead, ObjectStat, Storage
from mastaba_storage.environment import Environment
from mastaba_storage.file import FileStorage
from mastaba_writer.slab_writer import build_slab, encode_tile

SIDE = 64
INDEX_END = 2048 + 8 * 4

Output = pytest.CaptureFixture[str]


def pixels(channels: int, kind: str = "uint8") -> np.ndarray:
    """A ramp to the right, lighter by one in each further channel."""
    ramp = np.broadcast_to(np.arange(SIDE)[None, :, None], (SIDE, SIDE, channels))
    return (ramp + np.arange(channels)).astype(kind)


def slab(format: str, channels: int = 3, absent: tuple[int, ...] = ()) -> bytes:
    kind = "float32" if "FLOAT32" in format else "uint8"
    tile = tiny_vector_tile("1", 0, 0) if "PBF" in format else None
    tile = tile or encode_tile(format, pixels(channels, kind))
    tiles = [None if number in absent else tile for number in range(4)]
    return build_slab(tiles, format=format, channels=channels, tile_width=SIDE, tile_height=SIDE)


def entry(data: bytes, number: int) -> tuple[int, int]:
    (offset,) = struct.unpack_from("<I", data, 2048 + 4 * number)
    (size,) = struct.unpack_from("<I", data, 2048 + 16 + 4 * number)
    return offset, size


def changed(data: bytes, number: int, offset: int | None = None, size: int | None = None) -> bytes:
    """The slab with another entry in its index."""
    array = bytearray(data)
    if offset is not None:
        struct.pack_into("<I", array, 2048 + 4 * number, offset)
    if size is not None:
        struct.pack_into("<I", array, 2048 + 16 + 4 * number, size)
    return bytes(array)


@pytest.fixture
def look(tmp_path: Path, capsys: Output) -> Callable[..., tuple[int, str]]:
    """Return a function that gives the exit status and output of the command for some bytes."""

    def run(data: bytes, *options: str) -> tuple[int, str]:
        path = tmp_path / "slab.tif"
        path.write_bytes(data)
        status = main(["slab", str(path), *options])
        printed = capsys.readouterr()
        return status, printed.out + printed.err

    return run


Look = Callable[..., tuple[int, str]]


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("name", sorted(TILE_FORMATS))
def test_every_format_is_recognised(look: Look, name: str) -> None:
    channels = TILE_FORMATS[name].channels[0]
    status, text = look(slab(name, channels))
    assert status == 0, text
    (line,) = [line for line in text.splitlines() if line.startswith("format")]
    assert name in line.split()
    assert "No problem found." in text


def test_facts_of_a_slab(look: Look) -> None:
    data = slab("TIFF_PNG_UINT8", 4, absent=(2,))
    _, text = look(data)
    assert f"{len(data)} bytes" in text
    assert "128 × 128 pixels, 4 tiles of 64 × 64" in text
    assert "channels: 4, 8 bits (unsigned), RGB, compression: deflate" in text
    assert "4 entries: 3 stored, 1 absent" in text
    assert "3 png" in text


def test_tiles_are_listed(look: Look) -> None:
    data = slab("TIFF_JPG_UINT8", absent=(1,))
    _, text = look(data, "--list")
    rows = [line.split() for line in text.splitlines()]
    rows = rows[rows.index(["TILE", "COLUMN", "ROW", "OFFSET", "SIZE", "CONTENT"]) + 1 :]
    assert [row[:3] for row in rows] == [list(place) for place in ("000", "110", "201", "311")]
    assert (int(rows[3][3]), int(rows[3][4])) == entry(data, 3)
    assert rows[1][5] == "absent"


@pytest.mark.parametrize(
    ("name", "channels"),
    [("TIFF_RAW_UINT8", 1), ("TIFF_LZW_UINT8", 2), ("TIFF_PNG_UINT8", 3), ("TIFF_ZIP_UINT8", 4)],
)
def test_a_tile_becomes_a_picture(look: Look, tmp_path: Path, name: str, channels: int) -> None:
    out = tmp_path / "tile.png"
    status, text = look(slab(name, channels), "--tile", "1", "--out", str(out))
    assert status == 0, text
    with Image.open(out) as image:
        assert image.format == "PNG"
        found = np.array(image).reshape(SIDE, SIDE, channels)
    np.testing.assert_array_equal(found, pixels(channels))


@pytest.mark.parametrize(
    ("name", "suffix"),
    [("TIFF_JPG_UINT8", ".jpg"), ("TIFF_PNG_UINT8", ".png"), ("TIFF_PBF_MVT", ".pbf")],
)
def test_tiles_in_the_requested_format_are_not_converted(
    look: Look, tmp_path: Path, name: str, suffix: str
) -> None:
    out, data = tmp_path / f"tile{suffix}", slab(name)
    assert look(data, "--tile", "2", "--out", str(out))[0] == 0
    offset, size = entry(data, 2)
    assert out.read_bytes() == data[offset : offset + size]


def test_elevations_become_grey_levels(look: Look, tmp_path: Path) -> None:
    heights = pixels(1, "float32") * 10
    heights[0, 0] = -99999
    tile = encode_tile("TIFF_ZIP_FLOAT32", heights)
    data = build_slab(
        [tile] * 4, format="TIFF_ZIP_FLOAT32", channels=1, tile_width=SIDE, tile_height=SIDE
    )
    out = tmp_path / "tile.png"
    status, text = look(data, "--tile", "0", "--out", str(out))
    assert status == 0
    assert "black is 0, white is 630" in text
    with Image.open(out) as image:
        assert (image.getpixel((SIDE - 1, 1)), image.getpixel((0, 1))) == (255, 0)


def test_elevations_in_tiff_are_not_converted(look: Look, tmp_path: Path) -> None:
    out = tmp_path / "tile.tif"
    look(slab("TIFF_RAW_FLOAT32", 1), "--tile", "0", "--out", str(out))
    with Image.open(out) as image:
        np.testing.assert_array_equal(np.array(image), pixels(1, "float32")[:, :, 0])


def test_jpeg_has_no_alpha_channel(look: Look, tmp_path: Path) -> None:
    out = tmp_path / "tile.jpg"
    status, text = look(slab("TIFF_PNG_UINT8", 4), "--tile", "0", "--out", str(out))
    assert status == 0
    assert "without its alpha channel" in text
    with Image.open(out) as image:
        assert image.mode == "RGB"


def test_a_vector_tile_is_no_picture(look: Look, tmp_path: Path) -> None:
    out = tmp_path / "tile.png"
    status, text = look(slab("TIFF_PBF_MVT"), "--tile", "0", "--out", str(out))
    assert status == 1
    assert "tile.bin" in text
    assert not out.exists()


def test_values_of_a_tile_are_shown(look: Look) -> None:
    status, text = look(slab("TIFF_PNG_UINT8", 2), "--tile", "0")
    assert status == 0
    assert "from 0 to 63" in text
    assert "from 1 to 64" in text


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--tile", "4"), "has the tiles 0 to 3"),
        (("--tile", "-1"), "has the tiles 0 to 3"),
        (("--tile", "1"), "tile 1 is absent"),
        (("--out", "x.png"), "--out needs --tile"),
    ],
)
def test_a_missing_tile_is_explained(look: Look, options: tuple[str, ...], reason: str) -> None:
    status, text = look(slab("TIFF_PNG_UINT8", absent=(1,)), *options)
    assert status == (1 if "--tile" in options else 2)
    assert reason in text


def test_a_symbolic_object_is_shown(look: Look) -> None:
    status, text = look(b"SYMLINK#bucket/ORTHO/DATA_9_16_11")
    assert status == 0
    assert "a link to bucket/ORTHO/DATA_9_16_11" in text
    assert "not followed" in text
    status, text = look(b"SYMLINK#bucket/ORTHO/DATA_9_16_11", "--tile", "0")
    assert status == 1
    assert "link" in text


def _in_header(position: int, kind: str, value: int) -> Callable[[bytes], bytes]:
    def damage(data: bytes) -> bytes:
        array = bytearray(data)
        struct.pack_into(kind, array, position, value)
        return bytes(array)

    return damage


DAMAGE: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("nothing", lambda data: b"", "it is empty"),
    ("text", lambda data: b"<html>not found</html>", "a header alone has 2048"),
    ("zeros", lambda data: bytes(len(data)), "begins with 00 00 00 00"),
    ("big-endian", lambda data: b"MM\0*" + data[4:], "little-endian"),
    ("directory elsewhere", _in_header(4, "<I", 2**31), "outside the header"),
    ("too many entries", _in_header(16, "<H", 60000), "60000 entries"),
    ("no offsets", _in_header(114, "<H", 400), "no tile offsets"),
    ("values elsewhere", _in_header(50, "<I", 1 << 30), "outside the header"),
    ("unknown compression", _in_header(62, "<I", 99), "the compression 99"),
    ("more tiles", _in_header(118, "<I", 1 << 30), "less than header and index"),
    ("fewer tiles", _in_header(118, "<I", 2), "are not 2 tiles"),
    ("no whole tiles", _in_header(26, "<I", 100), "not whole tiles"),
    ("no tile size", _in_header(98, "<I", 0), "is missing"),
    ("cut within the index", lambda data: data[:2060], "4 tiles (2080)"),
    ("cut within a tile", lambda data: data[:-5], "tile 3 ends at"),
    ("offset in the header", lambda data: changed(data, 1, offset=100), "inside header or index"),
    ("offset far away", lambda data: changed(data, 1, offset=2**32 - 1), "tile 1 ends at"),
    ("size of half the world", lambda data: changed(data, 1, size=2**32 - 1), "tile 1 ends at"),
    (
        "two tiles at one place",
        lambda data: changed(data, 1, offset=entry(data, 0)[0] + 8),
        "overlap by",
    ),
    (
        "garbage in a tile",
        lambda data: data[: entry(data, 2)[0]] + b"garbage!" + data[entry(data, 2)[0] + 8 :],
        "begins with 67 61 72 62",
    ),
]


@pytest.mark.sampled(one_in=4)
@pytest.mark.parametrize(
    ("damage", "reason"), [case[1:] for case in DAMAGE], ids=[case[0] for case in DAMAGE]
)
@pytest.mark.parametrize("options", [(), ("--list",), ("--tile", "3")])
def test_damage_is_described(
    look: Look, damage: Callable[[bytes], bytes], reason: str, options: tuple[str, ...]
) -> None:
    status, text = look(damage(slab("TIFF_PNG_UINT8")), *options)
    if "--tile" not in options:
        assert status == 1
        assert reason in text
        assert "No problem found." not in text
    assert "Traceback" not in text


@pytest.mark.thorough
def test_no_damage_causes_a_traceback(tmp_path: Path, capsys: Output) -> None:
    plugins, path = Plugins(autoload=False), tmp_path / "slab.tif"
    generator = np.random.default_rng(7)
    good = slab("TIFF_ZIP_UINT8")
    statuses = set()
    for _ in range(300):
        array = bytearray(good)
        for position in generator.integers(0, 150, 2):
            array[position] = generator.integers(0, 256)
        for position in generator.integers(2048, INDEX_END, 2):
            array[position] = generator.integers(0, 256)
        length = int(generator.choice([generator.integers(0, len(array)), len(array)]))
        path.write_bytes(array[:length])
        for tile in (None, 0):
            arguments = Namespace(
                slab=str(path), list=tile is None, tile=tile, out=None, plugins=plugins
            )
            statuses.add(slab_command.run(arguments))
            printed = capsys.readouterr()
            assert printed.out + printed.err
    assert statuses == {0, 1}


def test_holes_and_shared_tiles_are_counted(tmp_path: Path) -> None:
    data = slab("TIFF_JPG_UINT8")
    third = entry(data, 2)
    # Tile 1 is that of 2, which leaves a hole where it was; and something follows the last one.
    data = changed(data, 1, *third) + bytes(40)
    path = tmp_path / "slab.tif"
    path.write_bytes(data)
    report = inspect_slab(FileStorage(), str(path))
    assert report.problems == []
    assert report.shared == 1
    assert [position for position, _ in report.gaps] == [sum(entry(data, 0))]
    assert report.trailing == 40


def test_absent_files_and_folders_are_reported(tmp_path: Path, capsys: Output) -> None:
    found = (
        (tmp_path / "none.tif", "the slab does not exist"),
        (tmp_path, "it is not a regular file"),
    )
    for path, reason in found:
        assert main(["slab", str(path)]) == 1
        assert reason in capsys.readouterr().err


def test_an_unknown_storage_is_reported(capsys: Output) -> None:
    assert main(["slab", "tape://reel/slab"]) == 1
    assert "no storage driver 'tape'" in capsys.readouterr().err


def test_a_picture_that_cannot_be_written(look: Look, tmp_path: Path) -> None:
    out = tmp_path / "none" / "tile.png"
    status, text = look(slab("TIFF_ZIP_UINT8"), "--tile", "0", "--out", str(out))
    assert status == 1
    assert "cannot write" in text


def test_a_tile_whose_pixels_are_damaged(look: Look, tmp_path: Path) -> None:
    data = slab("TIFF_PNG_UINT8")
    offset, size = entry(data, 0)
    data = data[: offset + 40] + bytes(size - 40) + data[offset + size :]
    out = tmp_path / "tile.jpg"
    status, text = look(data, "--tile", "0", "--out", str(out))
    assert status == 1
    assert "cannot be decoded" in text or "does not inflate" in text
    assert not out.exists()
    assert look(data, "--tile", "0", "--out", str(out.with_suffix(".raw")))[0] == 0


def test_the_picture_of_no_data_is_black(look: Look, tmp_path: Path) -> None:
    tile = encode_tile("TIFF_RAW_FLOAT32", np.full((SIDE, SIDE, 1), np.nan, "float32"))
    data = build_slab(
        [tile] * 4, format="TIFF_RAW_FLOAT32", channels=1, tile_width=SIDE, tile_height=SIDE
    )
    out = tmp_path / "tile.png"
    status, text = look(data, "--tile", "0", "--out", str(out))
    assert status == 0, text
    with Image.open(io.BytesIO(out.read_bytes())) as image:
        assert np.array(image).max() == 0


class Tape(Storage):
    """A remote storage of two objects: a slab, and a symbolic link to it."""

    name: ClassVar[str] = "tape"
    container_field: ClassVar[str | None] = "reel_name"

    @classmethod
    def open(cls, container: str, environment: Environment) -> Self:
        return cls(container)

    def _object(self, key: str) -> bytes:
        objects = {"MAP/DATA_3_0_0": slab("TIFF_PNG_UINT8"), "link": b"SYMLINK#reel/MAP/DATA_3_0_0"}
        if key not in objects:
            raise ObjectNotFoundError("nothing there")
        return objects[key]

    def read(
        self, key: str, byte_range: ByteRange | None = None, version: str | None = None
    ) -> ObjectRead:
        data = self._object(key)
        if byte_range is not None:
            data = data[byte_range.offset : byte_range.offset + byte_range.length]
        return ObjectRead(data)

    def stat(self, key: str) -> ObjectStat:
        return ObjectStat(len(self._object(key)))


class TapePlugin:
    @hookimpl
    def register_storages(self) -> Sequence[type[Storage]]:
        return [Tape]


def on_tape(path: str, capsys: Output) -> tuple[int, str]:
    plugins = Plugins(autoload=False, extra={"tape": TapePlugin()})
    arguments = Namespace(slab=path, list=False, tile=None, out=None, plugins=plugins)
    status = slab_command.run(arguments)
    printed = capsys.readouterr()
    return status, printed.out + printed.err


def test_slabs_of_object_storages(capsys: Output) -> None:
    status, text = on_tape("tape://reel/MAP/DATA_3_0_0", capsys)
    assert status == 0
    assert "tape://reel/MAP/DATA_3_0_0" in text
    assert "TIFF_PNG_UINT8" in text
    assert on_tape("tape://reel/none", capsys)[0] == 1


def test_a_symbolic_object_says_where_to_go_on(capsys: Output) -> None:
    status, text = on_tape("tape://reel/link", capsys)
    assert status == 0
    assert "Its target: mastaba slab tape://reel/MAP/DATA_3_0_0" in text


@pytest.mark.parametrize(
    "data",
    [
        b"II*\0" + (50_000).to_bytes(4, "little") + bytes(60_000),
        b"II+\0\x08\0\0\0" + bytes(4000),
        b"MM\0*\0\0\0\x08" + bytes(4000),
        b"II*\0\x08\0\0\0\x01\0\x11\x01\x04\0\x01\0\0\0\x08\0\0\0" + bytes(4000),
        b"II*\0\x08\0\0\0\x01\0\x44\x01\x04\0\x04\0\0\0\x90\x01\0\0" + bytes(4000),
    ],
    ids=["directory at the end", "BigTIFF", "big-endian", "strips", "tiles elsewhere"],
)
def test_a_plain_tiff_is_named_as_such(
    data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "geo.tif"
    path.write_bytes(data)
    assert main(["slab", str(path)]) == 1
    assert "it is an ordinary TIFF or GeoTIFF file, not a slab" in capsys.readouterr().out


@pytest.mark.sampled(one_in=2)
@pytest.mark.parametrize("magic", one_in(2, [b"II*\0", b"II+\0", b"MM\0+", b"MM\0*"]))
def test_a_tiff_as_pyramid_is_named_as_such(
    magic: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server_json = tiny_installation(tmp_path / "i", services=["health"])
    pyramid = tmp_path / "i" / "pyramids" / "RGB_JPG.json"
    for size in (4000, 70 * 1024**2):
        with pyramid.open("wb") as stream:
            stream.write(magic)
            stream.truncate(size)
        assert main(["check", "-f", str(server_json)]) == 1
        printed = capsys.readouterr().out
        assert printed.count("is a TIFF image (a GeoTIFF or a slab), not a JSON document") == 1
        assert printed.endswith("1 errors, 0 warnings, 8 layers usable; not published: RGB_JPG\n")
