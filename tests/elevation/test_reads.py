"""Points are read in one plan (elevation.md 1.4, 8 row 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.elevation.conftest import OpenClient, post, read
from tests.elevation.world import MERCATOR, TILE
from werkzeug.test import Client

from mastaba.api.slabs import HEADER_SIZE
from mastaba_conformance.counting_storage import Call, count_calls
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid

SLABS = 40
LON, LAT = 5.612044, 46.46745
"""A place in the alps."""
POINTS = 5000


@pytest.fixture
def remote(tmp_path: Path, open_client: OpenClient) -> Client:
    """Return a client of a layer of 8 × 5 slabs of 4 × 4 tiles, without a cache of tiles."""
    shape = (TILE, TILE)
    pyramid = write_pyramid(
        tmp_path,
        "many",
        tile_matrix_set=MERCATOR,
        format="TIFF_ZIP_FLOAT32",
        channels=1,
        levels=[LevelPlan("6", 0, 19, 0, 31)],
        tile=lambda level, row, col: np.full(shape, row + col / 64, np.float32),
        tiles_per_width=4,
        tiles_per_height=4,
    )
    document = layer_document(pyramid, tile_matrix_sets={"M16": MERCATOR})
    server_json = write_installation(
        tmp_path,
        layers={"many": document},
        tile_matrix_sets={"M16": MERCATOR},
        services=["elevation"],
        server_overrides={"cache": {"decoded_mebibytes": 0}},
    )
    return open_client(server_json)


def ask(client: Client) -> Any:
    dice = np.random.default_rng(5)
    cell, half = MERCATOR["tileMatrices"][6]["cellSize"], 20037508.342789244
    x = -half + dice.uniform(1, 32 * TILE - 1, POINTS) * cell
    y = half - dice.uniform(1, 20 * TILE - 1, POINTS) * cell
    points = {"type": "MultiPoint", "coordinates": np.column_stack([x, y]).tolist()}
    return read(post(client, "/elevation/points?crs=EPSG:3857", points))["results"]


def is_index(call: Call) -> bool:
    return call.byte_ranges[0].offset < HEADER_SIZE


def test_five_thousand_points_need_two_rounds_cold_and_one_warm(remote: Client) -> None:
    """Each slab is read once for its index and once for its tiles, all indices first."""
    storage = count_calls(remote.application.site.catalogue, "many")
    vars(storage)["is_remote"] = True
    cold = ask(remote)
    assert all(item["elevation"] is not None for item in cold)
    kinds = [is_index(call) for call in storage.reads]
    assert kinds == [True] * SLABS + [False] * SLABS
    for kind in (True, False):
        keys = Counter(call.key for call in storage.reads if is_index(call) is kind)
        assert len(keys) == SLABS
        assert set(keys.values()) == {1}
    storage.clear()
    assert ask(remote) == cold
    assert [is_index(call) for call in storage.reads] == [False] * SLABS


def test_no_more_tiles_are_held_than_a_group(
    remote: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mastaba_render.api.maps import LevelPixels

    groups: list[int] = []
    plain: Callable[..., Any] = LevelPixels.groups

    def counted(self: Any, *arguments: Any) -> Any:
        for group in plain(self, *arguments):
            groups.append(len(group))
            yield group

    monkeypatch.setattr(LevelPixels, "groups", counted)
    ask(remote)
    assert sum(groups) == SLABS * 16
    assert max(groups) <= 64


def test_cached_tiles_are_not_read_again(client: Client) -> None:
    path = "/elevation/points?dataset=alps&crs=EPSG:2154&coords=POINT(900400 6599700)"
    first = read(client.get(path))
    storage = count_calls(client.application.site.catalogue, "alps")
    assert read(client.get(path)) == first
    assert storage.reads == []


def test_failing_slab_is_an_error_and_no_hole(open_with: Any) -> None:
    from mastaba.errors import StorageUnavailableError

    client = open_with({"facades": {"ign": True, "google": True, "swisstopo": {"dataset": "alps"}}})
    storage = count_calls(client.application.site.catalogue, "alps")

    def fail(*arguments: Any, **more: Any) -> Any:
        raise StorageUnavailableError("the store is away")

    storage.read = storage.read_ranges = fail  # type: ignore[method-assign]
    x, y = 900400, 6599700
    place = f"coords=POINT({x} {y})&crs=EPSG:2154"
    for path in (
        f"/elevation/points?dataset=alps&{place}",
        f"/elevation/edr/collections/alps/position?{place}",
        f"/elevation/1.0/calcul/alti/rest/elevation.json?resource=alps&lon={LON}&lat={LAT}",
        f"/elevation/v1/alps?locations={LAT},{LON}",
        f"/elevation/rest/services/height?easting={x}&northing={y}&sr=2154",
    ):
        response = client.get(path)
        assert response.status_code == 503, path
        assert "the store" not in response.text
