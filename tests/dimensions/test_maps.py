"""Maps of values, compared with those of layers that have one value each (time.md section 1.5)."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from tests.series import series_installation
from tests.sizes import sized
from werkzeug.test import Client

from mastaba_writer.installation import layer_document
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

OpenClient = Callable[[Path], Client]
Map = NDArray[np.uint8]

VALUES = tuple(str(year) for year in range(1900, 2020, 6))
MOST = 16
"""Values that a map of a range shows."""
QUARTER = 20037508.342789244 / 2
BOXES = {
    "EPSG:3857": (0.0, 0.0, QUARTER, QUARTER),
    "CRS:84": (0.0, 0.0, 90.0, 66.0),
    "EPSG:2154": (100_000.0, 6_000_000.0, 1_300_000.0, 7_200_000.0),
}
CRSS = {"global": {"map": {"reprojection": True, "crs": ["EPSG:4326", "EPSG:2154"]}}}


def pyramid(folder: Path, year: str, rng: random.Random, share: float) -> Path:
    """Write a pyramid that has some of the tiles, each with a pattern of its own."""
    present = {(row, col): rng.random() < share for row in range(8) for col in range(8)}
    seeds = {place: rng.randrange(1 << 30) for place in present}

    def tile(_level: str, row: int, col: int) -> Any:
        place = row % 8, col % 8
        if not present[place]:
            return None
        cells = np.random.default_rng(seeds[place]).integers(0, 256, (8, 8, 3), np.uint8)
        return cells.repeat(32, 0).repeat(32, 1)

    return write_pyramid(
        folder / "scattered",
        f"scattered_{year}",
        tile_matrix_set=web_mercator(),
        format="TIFF_PNG_UINT8",
        channels=3,
        levels=[LevelPlan("5", 8, 15, 16, 23)],
        tile=tile,
        tables=(),
    )


class Maps:
    """Draws maps of a layer with values, and of one layer for each value."""

    def __init__(self, folder: Path, open_client: OpenClient, rng: random.Random) -> None:
        self._rng = rng
        # Few tiles, so that all of sixteen values are seen.
        files = {year: pyramid(folder, year, rng, 0.12) for year in VALUES}
        layers = {f"OF_{year}": layer_document(path) for year, path in files.items()}
        document = {
            **layers[f"OF_{VALUES[-1]}"],
            "dimensions": [{"name": "time"}],
            "variants": [
                {"at": {"time": year}, "pyramids": [{"path": str(path)}]}
                for year, path in files.items()
            ],
        }
        self._client = open_client(
            series_installation(
                folder,
                services=("wms",),
                others={**layers, "HOLES": document},
                services_overrides=CRSS,
            )
        )

    def somewhere(self) -> Mapping[str, str]:
        """Return the parameters of a random place."""
        rng = self._rng
        code, (west, south, east, north) = rng.choice(list(BOXES.items()))
        # The whole box, or a part down to a fortieth.
        part = rng.choice((1.0, 0.5, 0.1, 0.025))
        width, height = part * (east - west), part * (north - south)
        x = rng.uniform(west, east - width)
        y = rng.uniform(south, north - height)
        box = f"{x},{y},{x + width},{y + height}"
        size = rng.choice(((64, 48), (101, 33)))
        return {"CRS": code, "BBOX": box, "WIDTH": str(size[0]), "HEIGHT": str(size[1])}

    def draw(self, layer: str, place: Mapping[str, str], **more: str) -> Map:
        query = {
            "SERVICE": "WMS",
            "VERSION": "1.3.0",
            "REQUEST": "GetMap",
            "LAYERS": layer,
            "STYLES": "",
            "FORMAT": "image/png",
            "TRANSPARENT": "TRUE",
            **place,
            **more,
        }
        response = self._client.get("/wms", query_string=query)
        assert response.status_code == 200, response.text
        return np.asarray(Image.open(io.BytesIO(response.data)))

    def merged(self, years: Sequence[str], place: Mapping[str, str]) -> Map:
        """Return the maps of the layers of some values, the last one on top."""
        result = self.draw(f"OF_{years[0]}", place)
        for year in years[1:]:
            above = self.draw(f"OF_{year}", place)
            result = np.where(above[..., 3:] > 0, above, result)
        return result


def several(rng: random.Random) -> tuple[list[str], str]:
    """Return values in ascending order, and a text that means them."""
    first, last = sorted(rng.sample(range(len(VALUES)), 2))
    kind = rng.randrange(3)
    if kind == 0:
        chosen = VALUES[first : last + 1][-MOST:]
        return list(chosen), f"{VALUES[first]}/{VALUES[last]}"
    if kind == 1:
        chosen = sorted(rng.sample(VALUES, rng.randint(2, MOST)))
        return chosen, ",".join(rng.sample(chosen, len(chosen)))
    # A list of a value, and a range with a step, twice that of the values.
    other = rng.choice(VALUES)
    chosen = sorted({other, *VALUES[first : last + 1 : 2]})
    return chosen, f"{other},{VALUES[first]}/{VALUES[last]}/P12Y"


@pytest.mark.parametrize(
    ("single", "multiple"),
    [(6, 6), pytest.param(*sized((50, 20), (500, 200)), marks=pytest.mark.thorough)],
)
def test_maps_of_values_are_those_of_layers_merged(
    tmp_path: Path, open_client: OpenClient, single: int, multiple: int
) -> None:
    """Single values, ranges and lists, in the CRS of the set and two others."""
    rng = random.Random(5)
    maps = Maps(tmp_path, open_client, rng)
    seen = 0
    for _ in range(single):
        year, place = rng.choice(VALUES), maps.somewhere()
        found = maps.draw("HOLES", place, TIME=year)
        assert np.array_equal(found, maps.draw(f"OF_{year}", place)), (year, place)
        seen += bool(found[..., 3].any())
    assert seen > single / 4
    mixed = 0
    for _ in range(multiple):
        (years, text), place = several(rng), maps.somewhere()
        found = maps.draw("HOLES", place, TIME=text)
        assert np.array_equal(found, maps.merged(years, place)), (text, place)
        newest = maps.draw(f"OF_{years[-1]}", place)
        mixed += not np.array_equal(found, newest)
    assert mixed > multiple / 3
