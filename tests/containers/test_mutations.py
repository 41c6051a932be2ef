"""Ten thousand archives with changed heads, in a process of little memory."""

from __future__ import annotations

import os
import random
import re
import resource
import signal
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from tests.container_cog.files import by_gdal, by_tifffile, ground
from tests.container_sqlite.ground import picture, write_geopackage, write_mbtiles
from tests.sizes import sized

from mastaba.api.containers import Container, ContainerFormatError, Context, IndexCache, Source
from mastaba.api.storages import FileStorage, ResourcePath
from mastaba.errors import MastabaError
from mastaba_cog.container import CogContainer
from mastaba_sqlite_tiles.database import close_connections
from mastaba_sqlite_tiles.geopackage import GeoPackage
from mastaba_sqlite_tiles.mbtiles import MBTiles

MIB = 1024 * 1024
SECONDS = 5.0
"""Processor time in which an archive must be read or refused."""
_TILES = {(4, column, row): picture(row, size=64) for column in (8, 9) for row in (5, 6)}


def cogs(directory: Path) -> list[bytes]:
    mask = ground("uint8", 1, (300, 300))[:, :, 0] & 128
    values = ground("float32")
    return [
        by_gdal(directory, ground("uint8", 3, (300, 300)), mask=mask, COMPRESS="JPEG"),
        by_gdal(directory, ground("uint8", 3, (300, 300)), COMPRESS="LZW", BIGTIFF="YES"),
        by_tifffile(values, compression="deflate", predictor=3, byteorder=">"),
        by_tifffile(ground("uint8", 3), compression="zstd", planarconfig="separate"),
    ]


def mbtiles(directory: Path) -> list[bytes]:
    return [write_mbtiles(directory / "a.mbtiles", _TILES).read_bytes()]


def geopackages(directory: Path) -> list[bytes]:
    tiles = {(1, column, row): data for (_, column, row), data in _TILES.items()}
    tiles = {(1, column - 8, row - 5): data for (_, column, row), data in tiles.items()}
    path = directory / "a.gpkg"
    found = [write_geopackage(path, tiles, size=64).read_bytes()]
    heights = {place: picture(1, "L", size=64) for place in tiles}
    coverage = ("integer", 0.5, 10.0, 255.0, "grid-value-is-center")
    found.append(write_geopackage(path, heights, size=64, coverage=coverage).read_bytes())
    return found


KINDS: dict[str, tuple[type[Container], Callable[[Path], list[bytes]], int]] = {
    "tif": (CogContainer, cogs, 4096),
    "mbtiles": (MBTiles, mbtiles, 30_000),
    "gpkg": (GeoPackage, geopackages, 100_000),
}


def read_all(container: type[Container], path: Path) -> None:
    """Open an archive, and read and decode two tiles of each level."""

    def named_set(identifier: str) -> NoReturn:
        raise ContainerFormatError(f"there is no set {identifier}")

    context = Context(IndexCache(100, 60.0), named_set, tuple, lambda reason, remedy: None)
    storage = FileStorage()
    source = Source(ResourcePath("file", "", str(path)), storage)
    try:
        found = container.open(source, {}, context)
        for name, level in found.pyramid.levels.items():
            reader = found.readers[name](level)
            limits = level.limits
            for row, col in (
                (limits.min_row, limits.min_col),
                (limits.max_row, limits.max_col),
            ):
                tile = reader.locate(row, col)
                if tile is not None:
                    data = tile.read()
                    if reader.decoder is not None:
                        reader.decoder.decode(data)
                    if reader.deliver is not None:
                        reader.deliver(data)
    except MastabaError:
        return
    finally:
        storage.close()


def mutated(data: bytes, head: int, choose: random.Random) -> bytes:
    """Return an archive with other bytes in its head, or cut off."""
    changed = bytearray(data)
    for _ in range(choose.choice((1, 1, 2, 4, 16))):
        at = choose.randrange(min(head, len(data)))
        new = choose.choice((b"\0", b"\x7f", b"\xff", b"\xff\xff\xff\xff", bytes([at & 255])))
        changed[at : at + len(new)] = new
    return bytes(changed[: choose.randrange(len(data))] if choose.random() < 0.05 else changed)


@pytest.mark.parametrize("suffix", KINDS)
@pytest.mark.parametrize(
    "count", [40, pytest.param(sized(1500, 10_000), marks=pytest.mark.thorough)]
)
def test_changed_heads_are_refused_or_read(suffix: str, count: int, tmp_path: Path) -> None:
    container, make, head = KINDS[suffix]
    files = make(tmp_path)
    path, report = tmp_path / f"changed.{suffix}", tmp_path / "report"
    read_all(container, path.with_name("absent"))
    child = os.fork()
    if child == 0:
        status, number, choose = 1, -1, random.Random(11)
        try:
            text = Path("/proc/self/status").read_text()
            found = re.search(r"VmSize:\s+(\d+)", text)
            assert found is not None
            size = int(found[1]) * 1024 + 512 * MIB
            resource.setrlimit(resource.RLIMIT_AS, (size, size))
            # Its default action ends the process.
            signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
            for number in range(count):
                data = mutated(files[number % len(files)], head, choose)
                path.with_suffix(".part").write_bytes(data)
                os.replace(path.with_suffix(".part"), path)
                signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
                read_all(container, path)
                if number % 100 == 0:
                    close_connections()
            status = 0
        except BaseException:
            report.write_text(f"archive {number}: {traceback.format_exc()}")
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, report.read_text() if report.exists() else status
