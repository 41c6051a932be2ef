"""Profiles and statistics where only coarser levels have tiles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

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


@pytest.fixture
def client(tmp_path: Path, open_client: Callable[[Path], Client]) -> Client:
    """Return a client of a layer whose finest level is four levels finer in one place."""
    descriptor = write_pyramid(
        tmp_path,
        "P",
        tile_matrix_set=web_mercator(),
        format="TIFF_ZIP_FLOAT32",
        channels=1,
        levels=[LevelPlan("2", 0, 3, 0, 3), LevelPlan("8", 100, 101, 130, 131)],
        tile=tile,
    )
    services = ["elevation"]
    return open_client(
        write_installation(tmp_path, layers={"P": layer_document(descriptor)}, services=services)
    )


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
