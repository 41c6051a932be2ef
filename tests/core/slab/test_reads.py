"""Number of storage reads per tile (slab.md section 1, storage.md section 3)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import Client

from mastaba.slab.index import index_length
from mastaba_conformance.counting_storage import CountingStorage, count_calls
from mastaba_storage.base import ByteRange
from mastaba_writer.slab_names import slab_path

TILE = "/tiles/RGB_PNG/normal/4/5/9"


@pytest.fixture
def client(tiles: Client) -> Client:
    return tiles


@pytest.fixture
def application(tiles: Client) -> Any:
    return tiles.application


@pytest.fixture
def storage(application: Any) -> CountingStorage:
    return count_calls(application.site.catalogue, "RGB_PNG")


def test_a_tile_needs_two_reads_without_a_cached_index_and_one_with_it(
    client: Client, storage: CountingStorage
) -> None:
    first = client.get(TILE)
    assert first.status_code == 200
    index, tile = storage.reads
    assert index.byte_ranges == (ByteRange(0, index_length(4)),)
    assert tile.byte_ranges[0].length == len(first.data)
    assert tile.key == index.key
    assert tile.version is not None

    storage.clear()
    assert client.get(TILE).data == first.data
    assert [call.byte_ranges for call in storage.reads] == [tile.byte_ranges]


def test_another_tile_of_a_cached_slab_needs_one_read(
    client: Client, storage: CountingStorage
) -> None:
    client.get(TILE)
    storage.clear()

    assert client.get("/tiles/RGB_PNG/normal/4/5/9").status_code == 200
    assert len(storage.calls) == 1


def test_unmodified_tile_with_cached_index_needs_no_read(
    client: Client, storage: CountingStorage
) -> None:
    etag = client.get(TILE).headers["ETag"]
    storage.clear()

    assert client.get(TILE, headers={"If-None-Match": etag}).status_code == 304
    assert storage.calls == []


def test_tile_outside_the_limits_needs_no_read(client: Client, storage: CountingStorage) -> None:
    # The slab contains a nodata tile here, but the limits exclude it.
    assert client.get("/tiles/RGB_PNG/normal/4/4/9").status_code == 404
    assert storage.calls == []


def test_absent_slab_is_requested_each_time(
    client: Client, storage: CountingStorage, tmp_path: Path
) -> None:
    for slab in tmp_path.glob("*/pyramids/RGB_PNG/DATA/4/**/*.tif"):
        slab.unlink()

    assert client.get(TILE).status_code == 404
    assert client.get(TILE).status_code == 404
    assert len(storage.calls) == 2


def test_new_slab_is_found_at_once(client: Client, tmp_path: Path) -> None:
    (level,) = tmp_path.glob("*/pyramids/RGB_PNG/DATA/4")
    slab = level / slab_path(4, 2)
    hidden = slab.rename(slab.with_suffix(".hidden"))
    assert client.get(TILE).status_code == 404

    hidden.rename(slab)
    assert client.get(TILE).status_code == 200


def test_layers_over_one_pyramid_share_its_indices(open_application: Callable[..., Any]) -> None:
    application = open_application()
    catalogue = application.site.catalogue
    reader = catalogue.readers["RGB_PNG"]["4"]
    twin = reader.moved(reader.storage, catalogue.indices)

    first, second = reader.locate(5, 9), twin.locate(5, 9)
    assert first is not None
    assert second is not None
    assert first.index is second.index
