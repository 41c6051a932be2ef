"""Ten thousand archives with changed heads, in a process of little memory."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import signal
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pyarrow
import pytest
import shapely
from pyarrow import parquet
from tests.container_cog.files import by_gdal, by_tifffile, ground
from tests.container_cog.mosaic.ground import Sheet, geojson, geopackage, sheets
from tests.container_pmtiles.test_archives import LAYER, archive
from tests.container_pmtiles.test_directories import written
from tests.container_sqlite.ground import picture, write_geopackage, write_mbtiles
from tests.containers.independent import write_pmtiles
from tests.sizes import sized

from mastaba.api.containers import Container, ContainerFormatError, Context, IndexCache, Source
from mastaba.api.storages import FileStorage, ResourcePath
from mastaba.errors import MastabaError
from mastaba_cog.container import CogContainer
from mastaba_cog.mosaic.container import MosaicContainer
from mastaba_pmtiles.container import PMTiles
from mastaba_sqlite_tiles.database import _opened
from mastaba_sqlite_tiles.geopackage import GeoPackage
from mastaba_sqlite_tiles.mbtiles import MBTiles

MIB = 1024 * 1024
SECONDS = 1.0
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


def archives(directory: Path) -> list[bytes]:
    """Return PMTiles with leaf directories of gzip, and without any compression."""
    tiles = {(4, row, column): data for (_, column, row), data in _TILES.items()}
    tiles |= {(5, row * 2, column * 2): data for (_, row, column), data in tiles.items()}
    write_pmtiles(directory / "a.pmtiles", tiles, 2, (-180, -85, 180, 85))
    leaves = written([(n, 1, len(LAYER), 0) for n in range(1, 5)])
    root = [(0, 1, len(LAYER), 0), (1, 0, len(leaves), 0)]
    return [(directory / "a.pmtiles").read_bytes(), archive(root, leaves=leaves)]


def members(directory: Path) -> list[Sheet]:
    """Write the files of a mosaic beside the table."""
    made = sheets("float32", 1, 128)[:2]
    for one in made:
        one.write(directory, COMPRESS="DEFLATE", OVERVIEWS="NONE")
    return made


def geojson_tables(directory: Path) -> list[bytes]:
    return [geojson(members(directory))]


def geopackage_tables(directory: Path) -> list[bytes]:
    geopackage(directory / "table.gpkg", members(directory))
    return [(directory / "table.gpkg").read_bytes()]


def geoparquet_tables(directory: Path) -> list[bytes]:
    made, path = members(directory), directory / "table.parquet"
    found = []
    for compression in ("none", "snappy", "zstd"):
        boxes = [shapely.to_wkb(shapely.box(*one.box)) for one in made]
        columns = {"geometry": boxes, "path": [one.name for one in made], "order": [1, 2]}
        geo = {"encoding": "WKB", "crs": {"id": {"authority": "EPSG", "code": 32631}}}
        described = {"primary_column": "geometry", "columns": {"geometry": geo}}
        table = pyarrow.table(columns).replace_schema_metadata({"geo": json.dumps(described)})
        parquet.write_table(table, path, compression=compression)
        found.append(path.read_bytes())
    return found


KINDS: dict[str, tuple[type[Container], Callable[[Path], list[bytes]], int]] = {
    "tif": (CogContainer, cogs, 4096),
    "mbtiles": (MBTiles, mbtiles, 30_000),
    "gpkg": (GeoPackage, geopackages, 100_000),
    "pmtiles": (PMTiles, archives, 1024),
    "json": (MosaicContainer, geojson_tables, 4096),
    "table.gpkg": (MosaicContainer, geopackage_tables, 50_000),
    "parquet": (MosaicContainer, geoparquet_tables, 8192),
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
    "count", [40, pytest.param(sized(500, 10_000), marks=pytest.mark.thorough)]
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
                    _opened.drop()
            status = 0
        except BaseException:
            report.write_text(f"archive {number}: {traceback.format_exc()}")
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, report.read_text() if report.exists() else status
