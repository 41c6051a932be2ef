"""Profiles, statistics and contours where only coarser levels have tiles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mapbox_vector_tile  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt
import pytest
from werkzeug.test import Client

from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

OUTSIDE = [[-80, 30], [-79.9, 30], [-79.9, 30.1], [-80, 30.1], [-80, 30]]
CELL = 40075016.68557849 / 256 / 2**2 * np.cos(np.radians(30))
"""Metres, of level 2 at the latitude of the area."""


def tile(level: str, row: int, col: int) -> npt.NDArray[np.float32]:
    return np.full((256, 256, 1), 100 * int(level), np.float32)


def slope(level: str, row: int, col: int) -> npt.NDArray[np.float32]:
    """Return heights that rise by 100 m in each row of level 9, and nowhere else."""
    heights = np.full((256, 256, 1), 50, np.float32)
    if level == "9":
        heights += 100 * np.arange(256, dtype=np.float32)[:, np.newaxis, np.newaxis]
    return heights


@pytest.fixture
def client(tmp_path: Path, open_client: Callable[[Path], Client]) -> Client:
    """Return a client of layers whose finest level is some levels finer in one place."""
    layers = {
        name: layer_document(
            write_pyramid(
                tmp_path,
                name,
                tile_matrix_set=web_mercator(),
                format="TIFF_ZIP_FLOAT32",
                channels=1,
                levels=levels,
                tile=heights,
            )
        )
        for name, heights, levels in (
            ("P", tile, [LevelPlan("2", 0, 3, 0, 3), LevelPlan("8", 100, 101, 130, 131)]),
            (
                "SLOPE",
                slope,
                [LevelPlan("9", 200, 201, 260, 261), LevelPlan("12", 1600, 1601, 2080, 2081)],
            ),
        )
    }
    services = ["elevation", "terrain"]
    return open_client(write_installation(tmp_path, layers=layers, services=services))


def ask(client: Client, route: str, geometry: dict[str, Any]) -> dict[str, Any]:
    body = {"dataset": "P", "geometry": geometry, "resolution": CELL}
    response = client.post(f"/elevation/{route}", json=body)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json
    return found


def test_statistics_come_from_the_level_that_has_tiles(client: Client) -> None:
    found = ask(client, "statistics", {"type": "Polygon", "coordinates": [OUTSIDE]})["statistics"]
    assert (found["level"], found["mean"]) == ("2", pytest.approx(200))


def test_profiles_come_from_the_level_that_has_tiles(client: Client) -> None:
    found = ask(client, "profile", {"type": "LineString", "coordinates": OUTSIDE[:2]})["results"]
    assert {(point["level"], point["elevation"]) for point in found} == {("2", 200)}


def test_contours_are_those_of_the_level_that_has_tiles(client: Client) -> None:
    """A client draws the tile of the coarser zoom where the finer one is not there."""

    def heights(z: int, x: int, y: int) -> set[float] | None:
        response = client.get(f"/terrain/SLOPE/contours/{z}/{x}/{y}.pbf")
        if response.status_code == 404:
            return None
        decoded = mapbox_vector_tile.decode(response.data)
        return {line["properties"]["ele"] for line in decoded["contour"]["features"]}

    document = client.get("/terrain/SLOPE/contours.json").json
    assert (document["minzoom"], document["maxzoom"]) == (9, 12)
    for place in ((12, 2082, 1600), (12, 2080, 1602)):
        assert heights(*place) is None
    found = heights(9, 260, 200)
    assert found is not None
    assert found <= {*range(500, 25_501, 500)}
    assert len(found) > 10
