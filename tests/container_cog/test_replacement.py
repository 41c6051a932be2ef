"""A file in an object store that is replaced while it is read."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.container_cog.files import (
    Storage,
    by_gdal,
    by_tifffile,
    ground,
    opened,
    pixels_of,
    reader_of,
    stored_tiles,
)
from tests.container_cog.served import SIDE, add_layer, addresses, client_of, cog_of, place_of
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.errors import ObjectNotFoundError, StorageError
from mastaba_conformance.object_server import S3_KEYS, ObjectServer

Versions = list[dict[tuple[str, int, int], bytes]]


def test_no_answer_mixes_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small one; tests/containers/test_stores.py has many readers."""
    readers, requests, replacements = 6, 20, 10
    size = 256 * SIDE, 256 * SIDE
    files = [
        cog_of(tmp_path, ground("uint8", 3, size, seed), COMPRESS="JPEG", QUALITY=quality)
        for seed, quality in ((1, 60), (2, 90))
    ]
    versions: Versions = [
        {place_of(str(int(n) + 2), *at): tile for (n, *at), tile in stored_tiles(data).items()}
        for data in files
    ]
    ((key, secret),) = S3_KEYS.items()
    store = ObjectServer()
    monkeypatch.setenv("ROK4_S3_URL", store.url)
    monkeypatch.setenv("ROK4_S3_KEY", key)
    monkeypatch.setenv("ROK4_S3_SECRETKEY", secret)
    store.put("maps", "cog.tif", files[0])
    server = tiny_installation(tmp_path / "site")
    add_layer(tmp_path / "site", "COG", {"path": "s3://maps/cog.tif"})
    application = client_of(server).application
    places, step = list(versions[0]), requests // replacements

    def reading(seed: int) -> list[int]:
        chance, client = random.Random(seed), Client(application)
        found = []
        for number in range(requests):
            # The first reader replaces the file too.
            if seed == 0 and number % step == 0:
                store.put("maps", "cog.tif", files[number // step % 2])
            place = chance.choice(places)
            answer = client.get(addresses("COG", *place, "image/jpeg", "jpg")["TMS"])
            is_right = answer.data in (versions[0][place], versions[1][place])
            found.append(answer.status_code if is_right or answer.status_code != 200 else 0)
        return found

    with store, ThreadPoolExecutor(readers) as pool:
        found = [status for part in pool.map(reading, range(readers)) for status in part]
    assert set(found) <= {200, 503}
    assert found.count(503) <= max(1, len(found) // 1000)


def test_texts_and_statistics_may_change() -> None:
    values = [ground("uint8", seed=seed) for seed in (1, 2)]

    def file(number: int) -> bytes:
        item = f'<Item name="STATISTICS_MEAN" sample="0">{number}</Item>'
        text = f"<GDALMetadata>{item}</GDALMetadata>"
        return by_tifffile(
            values[number],
            compression="deflate",
            description=f"version {number}",
            tags=[(42112, "s", len(text), text)],
        )

    storage = Storage(file(0))
    found = opened(storage)
    np.testing.assert_array_equal(pixels_of(found), values[0])
    storage.replace(file(1))
    np.testing.assert_array_equal(pixels_of(found), values[1])


def test_masks_may_be_ignored(tmp_path: Path) -> None:
    mask = np.full((300, 420), 255, np.uint8)
    mask[100:210, 40:333] = 0
    data = by_gdal(tmp_path, ground("uint8", 3, mask.shape), mask=mask, COMPRESS="JPEG")
    found = opened(Storage(data), mask="ignore")
    assert found.pyramid.format.media_type == "image/jpeg"
    for (level, *at), tile in stored_tiles(data).items():
        assert reader_of(found, level).locate(*at).read() == tile


def test_file_that_is_gone_is_no_absent_tile(tmp_path: Path) -> None:
    class Gone(Storage):
        def read(self, key: str, byte_range: Any = None, version: str | None = None) -> Any:
            if not self.data:
                raise ObjectNotFoundError("gone", key=key)
            return super().read(key, byte_range, version)

    storage = Gone(by_gdal(tmp_path, ground("uint8", 3), COMPRESS="JPEG"))
    reader = reader_of(opened(storage))
    storage.data = b""
    with pytest.raises(StorageError, match="gone") as error:
        reader.locate(0, 0)
    assert not isinstance(error.value, ObjectNotFoundError)


class Together(Storage):
    """Reads that wait for each other, after `barrier` is set."""

    is_remote = True
    barrier: threading.Barrier | None = None

    def read(self, key: str, byte_range: Any = None, version: str | None = None) -> Any:
        if self.barrier is not None:
            self.barrier.wait(30)
        return super().read(key, byte_range, version)


def test_parts_that_are_far_apart_are_read_in_parallel() -> None:
    """Three bands, each with tiles and places of its own, behind the first 32 KiB."""
    values = ground("uint8", 3, (16 * 80, 16 * 80))
    data = by_tifffile(values, planarconfig="separate", photometric="rgb", tile=(16, 16))
    storage = Together(data)
    found = opened(storage)
    reader = reader_of(found)
    assert reader.locate(0, 0) is not None
    storage.reads.clear()
    storage.barrier = threading.Barrier(3)
    tile = reader.locate(70, 60)
    pixels = reader.decoder.decode(tile.read())
    np.testing.assert_array_equal(pixels, values[70 * 16 : 71 * 16, 60 * 16 : 61 * 16])
    # The places of all bands, and all bands.
    assert len(storage.reads) == 6
    places = [(row, col) for row in (40, 41) for col in (10, 11)]
    assert all(reader.locate_all(places))
    assert len(storage.reads) == 9
