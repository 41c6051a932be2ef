"""A mosaic of four sources of constant values, served with its numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mastaba_writer.installation import layer_document, write_installation

LEVEL = 12
CELL = 2 * 20037508.342789244 / 256 / 2**LEVEL
LEFT, TOP = -20037508.342789244 + 2060 * 256 * CELL, 20037508.342789244 - 1440 * 256 * CELL
"""Corner of a tile in the north of France."""
SIZE = 100
"""Pixels of a side of a sheet. The sheets are in a row, with 20 pixels of nothing after the second;
the fourth lies on the upper half of the first one."""
PLACES = ((0, 0, SIZE), (SIZE, 0, SIZE), (2 * SIZE + 20, 0, SIZE), (0, 0, SIZE // 2))
DATES = ("1998", "2021-05", "2019-04/2023-09", "2023-07-01")
SERVICES = ("provenance", "wms", "wmts", "elevation")


def position(column: float, row: float) -> tuple[float, float]:
    """Return x and y of a place in pixels from the corner of the sheets, Web Mercator."""
    return LEFT + column * CELL, TOP - row * CELL


def make_pyramid(folder: Path) -> Path:
    """Build the pyramid and return its descriptor."""
    # Not at the top: the conformance tests also run without the builder.
    import rasterio
    from rasterio.transform import Affine
    from tests.build.conftest import built, plan_in

    entries: list[dict[str, Any]] = []
    for number, (column, row, height) in enumerate(PLACES):
        path = folder / f"sheet{number}.tif"
        x, y = position(column, row)
        with rasterio.open(
            path,
            "w",
            driver="GTiff",
            width=SIZE,
            height=height,
            count=1,
            dtype="float32",
            crs="EPSG:3857",
            nodata=-1,
            transform=Affine(CELL, 0, x, 0, -CELL, y),
        ) as dataset:
            dataset.write(np.full((1, height, SIZE), 10 * (number + 1), np.float32))
        entry = {"path": str(path), "date": DATES[number], "group": f"G{number % 2}"}
        entries.append({**entry, "attribution": "A" if number % 2 else "B & <C>"})
        if number == 0:
            entries[-1]["accuracy"] = 0.4
    options = {"bottom": str(LEVEL), "top": str(LEVEL - 1), "interpolation": "nn"}
    return built(plan_in(folder, *entries, **options, provenance=True, format="zip"))


def write(folder: Path, descriptor: Path, **more: Any) -> Path:
    """Write an installation with the layers MAP and PLAIN, which has no sources."""
    fields = {"resampling": "nn", "get_feature_info": {"type": "PYRAMID"}}
    map_ = layer_document(descriptor, title="Map", **fields)
    layers = {"MAP": map_, "PLAIN": {**map_, "title": "Plain", "provenance": False}}
    more.setdefault("services_overrides", {"elevation": {"facades": {"ign": {}}}})
    return write_installation(folder, layers=layers, services=SERVICES, **more)


@pytest.fixture(scope="session")
def pyramid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pyramid(tmp_path_factory.mktemp("sheets"))


@pytest.fixture(scope="session")
def number_of(pyramid: Path) -> dict[int, int]:
    """Numbers in the table by that of the sheet."""
    table = json.loads(pyramid.with_name("map.sources.json").read_text())
    return {int(row["id"][5]): row["number"] for row in table["sources"]}
