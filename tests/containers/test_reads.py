"""How often a store is read: for a tile, again, by clients that have it, and for a map."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.container_cog.files import ground
from tests.container_cog.served import COL, ROW, SIDE, add_layer, cog_of
from tests.containers.stores import store_of
from tests.containers.test_stores import pmtiles, raster
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.api.tools import create_application
from mastaba_conformance.counting_storage import CountingStorage, count_calls
from mastaba_containers.sets import web_mercator_matrix

SIZE = 256 * SIDE, 256 * SIDE


def cog(directory: Path, **options: Any) -> bytes:
    return cog_of(directory, ground("uint8", 3, SIZE), COMPRESS="JPEG", **options)


def masked(directory: Path) -> bytes:
    """Return a COG each of whose tiles is followed by its mask, half of which is 0."""
    mask = (ground("uint8", 1, SIZE)[:, :, 0] > 90).astype("uint8") * 255
    data = cog(directory, mask=mask)
    assert b"MASK_INTERLEAVED_WITH_IMAGERY=YES" in data[:512]
    return data


# The file, its level, a tile there, its extension, and the most reads of a map.
KINDS: dict[str, tuple[str, Callable[[Path], bytes], str, tuple[int, int], str, int]] = {
    "COG": ("tif", cog, "4", (ROW, COL), "jpg", 4),
    "COG with masks": ("tif", masked, "4", (ROW, COL), "webp", 4),
    "PMTiles": ("pmtiles", lambda path: raster(path, 0)[0], "3", (2, 2), "png", 6),
    "vector PMTiles": ("pmtiles", lambda path: pmtiles(path, 0)[0], "3", (2, 2), "pbf", 6),
}
Served = tuple[Client, CountingStorage, str]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(params=["file", "s3"])
def served(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Served]:
    suffix, make, *_ = KINDS[kind]
    with store_of(request.param, tmp_path, monkeypatch) as store:
        store.put(f"a.{suffix}", make(tmp_path))
        server = tiny_installation(tmp_path / "site", services=["tms", "wms"])
        add_layer(tmp_path / "site", "A", {"path": f"{store.prefix}a.{suffix}"})
        application = create_application(str(server))
        yield Client(application), count_calls(application.site.catalogue, "A"), kind


def reads(counting: CountingStorage) -> int:
    """Return the number of ranges that were read since the last call."""
    found = sum(max(1, len(call.byte_ranges)) for call in counting.reads)
    counting.clear()
    return found


def test_reads_of_a_tile(served: Served) -> None:
    client, counting, kind = served
    _, _, level, (row, col), extension, _ = KINDS[kind]
    address = f"/tms/1.0.0/A/{level}/{{}}/{{}}.{extension}"
    client.application.site.catalogue.indices.clear()
    reads(counting)
    first = client.get(address.format(col, row))
    assert first.status_code == 200
    assert 1 <= reads(counting) <= 3
    assert client.get(address.format(col + 1, row + 1)).status_code == 200
    assert reads(counting) == 1
    known = {"If-None-Match": first.headers["ETag"]}
    assert client.get(address.format(col, row), headers=known).status_code == 304
    assert reads(counting) == 0
    assert client.get(address.format(col, 2 ** int(level))).status_code == 404
    assert client.get(address.format(2**20, row)).status_code == 404
    assert counting.calls == []


def test_reads_of_a_map(served: Served) -> None:
    client, counting, kind = served
    _, _, level, (row, col), extension, most = KINDS[kind]
    if extension == "pbf":
        pytest.skip("vector tiles have no maps")
    if not counting.is_remote:
        pytest.skip("reads of local files are not merged: none is slow")
    client.application.site.catalogue.indices.clear()
    address = f"/tms/1.0.0/A/{level}/{col}/{row}.{extension}"
    assert client.get(address).status_code == 200
    matrix = web_mercator_matrix(int(level), 256)
    side = 256 * matrix.cell_size
    x, y = matrix.origin_x + col * side, matrix.origin_y - row * side
    box = ",".join(map(str, (x, y - 3 * side, x + 3 * side, y)))
    reads(counting)
    answer = client.get(
        "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&STYLES=&LAYERS=A&CRS=EPSG:3857"
        f"&WIDTH=768&HEIGHT=768&FORMAT=image/png&BBOX={box}"
    )
    assert answer.mimetype == "image/png"
    assert 1 <= reads(counting) <= most
