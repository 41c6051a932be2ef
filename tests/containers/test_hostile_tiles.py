"""Hostile tiles that are met while a layer is served: clean answers, and other layers go on."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.container_cog.served import add_layer, client_of
from tests.container_cog.test_hostile import TILES
from tests.container_sqlite.ground import picture, write_geopackage, write_mbtiles
from tests.containers.independent import write_pmtiles
from tests.tiny import tiny_installation

GOOD = picture(1)


def giant() -> bytes:
    """Return a PNG whose header claims 60,000 pixels a side."""
    head = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I4s", 13, b"IHDR") + head
    return GOOD[:8] + chunk + struct.pack(">I", zlib.crc32(b"IHDR" + head)) + GOOD[33:]


PICTURES: dict[str, Callable[[], bytes]] = {
    "cut off": lambda: GOOD[: len(GOOD) // 2],
    "giant": giant,
    "of another size": lambda: picture(1, size=512),
    "another format": lambda: b"\x1f\x8b" + bytes(200),
}
PLACE = {
    "mbtiles": ("EPSG:3857", "0,0,2504688,2504688", "4/8/7.png"),
    "pmtiles": ("EPSG:3857", "0,0,2504688,2504688", "4/8/7.png"),
    "gpkg": ("EPSG:2154", "600000,6799488,600512,6800000", "1/0/0.png"),
}


def write(directory: Path, kind: str, data: bytes) -> Path:
    """Write an archive, in one step."""
    path = directory / f"new.{kind}"
    if kind == "mbtiles":
        write_mbtiles(path, {(4, 7, 7): GOOD, (4, 8, 7): data})
    elif kind == "pmtiles":
        write_pmtiles(path, {(4, 7, 7): GOOD, (4, 7, 8): data}, 2, (-180, -85, 180, 85))
    else:
        write_geopackage(path, {(0, 0, 0): GOOD, (1, 0, 0): data})
    return path.replace(directory / f"map.{kind}")


def check(
    site: Path,
    entry: Path,
    replace: Callable[[], Any],
    crs: str,
    box: str,
    tile: str,
    *,
    decoded: bool,
) -> None:
    """Request maps, and a tile, of an archive that has become hostile since it was loaded.

    A layer beside it answers all the time.
    """
    server = tiny_installation(site)
    add_layer(site, "BAD", {"path": str(entry)})
    client = client_of(server)
    assert "BAD" in client.application.site.catalogue.layers
    replace()
    # As after the time for which an index is valid.
    client.application.site.catalogue.indices.clear()
    good = "/tms/1.0.0/RGB_PNG/2/2/1.png"
    expected = client.get(good).data
    assert expected
    for query in ("FORMAT=image/png", "FORMAT=image/jpeg"):
        answer = client.get(
            f"/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&STYLES=&LAYERS=BAD&CRS={crs}"
            f"&BBOX={box}&WIDTH=256&HEIGHT=256&{query}"
        )
        assert answer.status_code in (500, 503), answer.data[:300]
        assert b"Exception" in answer.data
        assert b"Traceback" not in answer.data
        assert str(site.parent).encode() not in answer.data
        assert client.get(good).data == expected
    answer = client.get(f"/tms/1.0.0/BAD/{tile}")
    assert answer.status_code in ((500, 503) if decoded else (200, 500, 503))
    assert b"Traceback" not in answer.data
    assert client.get(good).data == expected


@pytest.mark.thorough
@pytest.mark.parametrize("kind", PLACE)
@pytest.mark.parametrize("name", PICTURES)
def test_hostile_pictures(kind: str, name: str, tmp_path: Path) -> None:
    path = write(tmp_path, kind, GOOD)

    def replace() -> None:
        write(tmp_path, kind, PICTURES[name]())

    check(tmp_path / "site", path, replace, *PLACE[kind], decoded=False)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["DEFLATE", "LZMA", "ZSTD, false size", "LERC", "JPEG", "WebP"])
def test_hostile_samples(name: str, tmp_path: Path) -> None:
    path = tmp_path / "map.tif"
    path.write_bytes(TILES[name]())
    box = "500000,4599680,500320,4600000"
    check(tmp_path / "site", path, lambda: None, "EPSG:32631", box, "0/0/0.png", decoded=True)
