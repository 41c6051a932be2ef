"""The container and the contract of containers, and what only this container does."""

import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from mastaba.errors import ContainerFormatError
from mastaba_conformance.containers import ContainerTests, MemoryStorage, TileAddress
from mastaba_zip.container import ZipContainer


def png(colour: int) -> bytes:
    """Return an image of 256 pixels of one colour."""
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", 256, 256, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress((b"\0" + bytes((colour, 99, 255 - colour)) * 256) * 256)),
        (b"IEND", b""),
    )
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def write(path: Path, tiles: Mapping[TileAddress, bytes], packed: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", packed) as archive:
        for (zoom, row, column), data in tiles.items():
            archive.writestr(f"{zoom}/{column}/{row}.png", data)


class TestZipContainer(ContainerTests):
    container = ZipContainer
    # The directory is at the end.
    head_length = 100_000

    def make(self, path: Path, generation: int) -> Mapping[TileAddress, bytes]:
        tiles = {
            (str(zoom), row, column): png(64 * generation + 16 * zoom + 4 * row + column)
            for zoom in range(3)
            for row in range(1 << zoom)
            for column in range(1 << zoom)
            if (row, column) != (1, 0)
        }
        path.unlink(missing_ok=True)
        comment = b"" if generation else b"the earlier one"
        write(path, tiles)
        with zipfile.ZipFile(path, "a") as archive:
            archive.comment = comment
        return tiles


@pytest.mark.parametrize(
    ("tiles", "packed", "reason"),
    [
        ({("0", 0, 0): png(0)}, zipfile.ZIP_DEFLATED, "is compressed"),
        ({("1", 2, 0): png(0)}, zipfile.ZIP_STORED, "outside of the grid"),
        ({("0", 0, 0): b"text"}, zipfile.ZIP_STORED, "tiles are PNG"),
        ({}, zipfile.ZIP_STORED, "contains no tiles"),
    ],
)
def test_other_archives_are_refused(
    tiles: Mapping[TileAddress, bytes], packed: int, reason: str, tmp_path: Path
) -> None:
    write(tmp_path / "a", tiles, packed)
    storage = MemoryStorage()
    storage.put("a.zip", (tmp_path / "a").read_bytes())
    kit = TestZipContainer()
    with pytest.raises(ContainerFormatError, match=reason):
        kit.open(storage, "a.zip")
