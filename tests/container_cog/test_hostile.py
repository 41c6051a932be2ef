"""Files that are made to exhaust or break the server."""

from __future__ import annotations

import io
import lzma
import os
import re
import resource
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest
import tifffile
from tests.container_cog.files import Storage, by_gdal, by_tifffile, changed, ground, opened

from mastaba.api.containers import Context, IndexCache, Source
from mastaba.api.storages import FileStorage, ResourcePath
from mastaba.errors import ContainerFormatError, MastabaError, SlabFormatError
from mastaba_cog.container import CogContainer

MIB = 1024 * 1024


def plain(**options: Any) -> bytes:
    return by_tifffile(ground("uint8"), compression="deflate", **options)


def with_tile(compression: str, payload: bytes, sample: str = "uint8") -> bytes:
    """Return a file whose first tile is a payload."""
    data = by_tifffile(ground(sample), compression=compression, bigtiff=True)
    at = len(data)
    made = bytearray(changed(data, 324, at) + payload)
    # Sizes of small tiles have 16 bits: the array is written again behind the payload.
    with tifffile.TiffFile(io.BytesIO(data)) as file:
        entry, count = file.pages[0].tags[325], len(file.pages[0].databytecounts)
        sizes = [len(payload), *file.pages[0].databytecounts[1:]]
    struct.pack_into("<HHQQ", made, entry.offset, 325, 16, count, len(made))
    return bytes(made) + struct.pack(f"<{count}Q", *sizes)


def cycle() -> bytes:
    data = bytearray(plain())
    (first,) = struct.unpack_from("<I", data, 4)
    (count,) = struct.unpack_from("<H", data, first)
    struct.pack_into("<I", data, first + 2 + 12 * count, first)
    return bytes(data)


def chain() -> bytes:
    """Return a file of 100 directories."""
    data = bytearray(plain())
    (first,) = struct.unpack_from("<I", data, 4)
    (count,) = struct.unpack_from("<H", data, first)
    length = 2 + 12 * count + 4
    directory = bytes(data[first : first + length])
    at = first + length - 4
    for _ in range(100):
        struct.pack_into("<I", data, at, len(data))
        at = len(data) + length - 4
        data += directory
    return bytes(data)


def many_entries() -> bytes:
    data = bytearray(plain(bigtiff=True))
    (first,) = struct.unpack_from("<Q", data, 8)
    struct.pack_into("<Q", data, first, 2**32)
    return bytes(data)


def far_directory() -> bytes:
    data = bytearray(plain(bigtiff=True))
    struct.pack_into("<Q", data, 8, 2**64 - 8)
    return bytes(data)


def far_array() -> bytes:
    data = bytearray(plain(bigtiff=True))
    (first,) = struct.unpack_from("<Q", data, 8)
    place = data.index(struct.pack("<H", 324), first)
    struct.pack_into("<QQ", data, place + 4, 2**40, 2**63 - 20)
    return bytes(data)


def number_tag(tag: int, *values: float) -> Callable[[], bytes]:
    """Return what makes a file with a tag of doubles."""

    def made() -> bytes:
        data = bytearray(plain(bigtiff=True))
        (first,) = struct.unpack_from("<Q", data, 8)
        place = data.index(struct.pack("<H", tag), first + 8)
        struct.pack_into("<HHQQ", data, place, tag, 12, len(values), len(data))
        return bytes(data) + struct.pack(f"<{len(values)}d", *values)

    return made


def negative_key() -> bytes:
    keys = (1, 1, 0, 2, 1024, -30000, 1, 1, 3072, 34736 - 65536, 1, -30000)
    data = bytearray(plain(bigtiff=True))
    (first,) = struct.unpack_from("<Q", data, 8)
    place = data.index(struct.pack("<H", 34735), first + 8)
    struct.pack_into("<HHQQ", data, place, 34735, 9, len(keys), len(data))
    return bytes(data) + struct.pack(f"<{len(keys)}i", *keys)


HEADS: dict[str, Callable[[], bytes]] = {
    "a directory that follows itself": cycle,
    "100 directories": chain,
    "2**32 entries": many_entries,
    "a directory at 2**64": far_directory,
    "places of tiles at 2**63": far_array,
    "a gigantic image": lambda: changed(changed(plain(), 256, 2**31 - 1), 257, 2**31 - 1),
    "a tile of 2**31 pixels": lambda: changed(plain(), 322, 2**31 - 16),
    "a width that is not a number": number_tag(256, np.nan),
    "an infinite width": number_tag(256, np.inf),
    "a scale that is not a number": number_tag(33550, np.nan, np.nan, 0.0),
    "a negative place of a key": negative_key,
}


@pytest.mark.parametrize("name", HEADS)
def test_head_is_refused(name: str, tmp_path: Path) -> None:
    """From a file, because systems refuse places that memory does not have."""
    path = tmp_path / "x.tif"
    path.write_bytes(HEADS[name]())
    with pytest.raises(ContainerFormatError) as error:
        _opened_file(path)
    assert error.value.remedy


def _opened_file(path: Path) -> Any:
    context = Context(IndexCache(9, 9.0), lambda name: None, lambda: (), lambda *texts: None)
    storage = FileStorage()
    try:
        source = Source(ResourcePath("file", "", str(path)), storage)
        return CogContainer.open(source, {}, context)
    finally:
        storage.close()


def lerc_blobs() -> bytes:
    """Return 2,000 blobs of few bytes, for each of which the library makes room."""
    return imagecodecs.lerc_encode(np.full((32, 32), 7.0, np.float32)) * 2000


def large_lerc() -> bytes:
    return imagecodecs.lerc_encode(np.full((4096, 4096), 7.0, np.float32))


def false_zstd() -> bytes:
    """Return a frame that claims 2**40 bytes."""
    frame = bytearray(imagecodecs.zstd_encode(bytes(20 * MIB)))
    head = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 2**40)
    return head + bytes(frame[9:])


def large_webp() -> bytes:
    return imagecodecs.webp_encode(np.zeros((4000, 4000, 3), np.uint8), level=1)


def large_jpeg() -> bytes:
    found = bytearray(imagecodecs.jpeg8_encode(np.zeros((32, 32), np.uint8)))
    place = found.index(b"\xff\xc0")
    struct.pack_into(">HH", found, place + 5, 65000, 65000)
    return bytes(found)


TILES: dict[str, Callable[[], bytes]] = {
    "DEFLATE": lambda: with_tile("deflate", zlib.compress(bytes(20 * MIB), 9)),
    "LZMA": lambda: with_tile("lzma", lzma.compress(bytes(20 * MIB))),
    "ZSTD": lambda: with_tile("zstd", imagecodecs.zstd_encode(bytes(20 * MIB))),
    "ZSTD, false size": lambda: with_tile("zstd", false_zstd()),
    "LERC": lambda: with_tile("lerc", large_lerc(), "float32"),
    "LERC, many blobs": lambda: with_tile("lerc", lerc_blobs(), "float32"),
    "LZW": lambda: with_tile("lzw", imagecodecs.lzw_encode(bytes(20 * MIB))),
    "PackBits": lambda: with_tile("packbits", b"\x81\0" * 400_000),
    "JPEG": lambda: changed(with_tile("deflate", large_jpeg()), 259, 7),
    "WebP": lambda: changed(with_tile("deflate", large_webp()), 259, 50001),
    "empty": lambda: with_tile("deflate", b"\0"),
}


def attacked(data: bytes) -> None:
    found = opened(Storage(data))
    name = list(found.pyramid.levels)[-1]
    reader = found.readers[name](found.pyramid.levels[name])
    payload = reader.locate(0, 0).read()
    (reader.deliver or reader.decoder.decode)(payload)


@pytest.mark.parametrize("name", TILES)
def test_tile_is_refused_in_little_memory(name: str) -> None:
    data = TILES[name]()
    tracemalloc.start()
    try:
        # Libraries stop when a tile is full.
        with nullcontext() if name in ("LZW", "PackBits") else pytest.raises(SlabFormatError):
            attacked(data)
        # The dictionary of LZMA takes 8 MiB.
        assert tracemalloc.get_traced_memory()[1] < 12 * MIB
    finally:
        tracemalloc.stop()


def test_size_beyond_the_limit_reads_nothing() -> None:
    made = bytearray(with_tile("deflate", b"x"))
    place = made.rindex(struct.pack("<Q", 1))
    struct.pack_into("<Q", made, place, 65 * MIB)
    storage = Storage(bytes(made))
    opened_file = opened(storage)
    storage.reads.clear()
    reader = opened_file.readers["0"](opened_file.pyramid.levels["0"])
    with pytest.raises(SlabFormatError, match="size"):
        reader.locate(0, 0)
    assert max(length for _, length in storage.reads) <= MIB


@pytest.mark.thorough
def test_attacks_in_a_small_process(tmp_path: Path) -> None:
    """All files in a process with 512 MiB more than it has."""
    files = [make() for make in (*HEADS.values(), *TILES.values())]
    files.append(by_gdal(tmp_path, ground("uint8", 3, (300, 300)), COMPRESS="JPEG")[:4000])
    child = os.fork()
    if child == 0:
        status = 1
        try:
            text = Path("/proc/self/status").read_text()
            size = int(re.search(r"VmSize:\s+(\d+)", text)[1]) * 1024
            resource.setrlimit(resource.RLIMIT_AS, (size + 512 * MIB, size + 512 * MIB))
            for data in files:
                try:
                    attacked(data)
                except MastabaError:
                    continue
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
