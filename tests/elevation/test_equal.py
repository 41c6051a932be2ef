"""Queries, feature info and tiles give the same numbers (elevation.md 8 row 2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.elevation.conftest import SETS, OpenClient, post, read
from tests.elevation.world import HALF, MERC, MERCATOR, NODATA, TILE
from werkzeug.test import Client

from mastaba_writer.installation import layer_document, write_installation

POINTS = 1000
LEVEL = MERC.plans[-1]
CELL = MERC.matrix(LEVEL.id)[0]


@pytest.fixture(scope="module")
def both(
    pyramids: dict[str, Path], tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient
) -> Client:
    """Return a client of a layer with queries, feature info and tiles."""
    document = layer_document(
        pyramids["merc"], tile_matrix_sets=SETS, get_feature_info={"type": "PYRAMID"}
    )
    return open_client(
        write_installation(
            tmp_path_factory.mktemp("both"),
            layers={"merc": document},
            tile_matrix_sets=SETS,
            services=["elevation", "wmts"],
            services_overrides={"elevation": {"decimals": -1}},
        )
    )


@pytest.mark.thorough
def test_a_thousand_pixels_are_equal_in_all_services(both: Client) -> None:
    dice = np.random.default_rng(2)
    rows = dice.integers(LEVEL.min_row * TILE, (LEVEL.max_row + 1) * TILE, POINTS)
    columns = dice.integers(LEVEL.min_col * TILE, (LEVEL.max_col + 1) * TILE, POINTS)
    # Missing tiles are filled from the coarser level in queries, but not in tiles.
    stored = [
        MERC.stored(LEVEL.id, int(row) // TILE, int(column) // TILE) is not None
        for row, column in zip(rows, columns, strict=True)
    ]
    rows, columns = rows[stored], columns[stored]
    assert len(rows) > 0.9 * POINTS
    points = np.column_stack([-HALF + (columns + 0.5) * CELL, HALF - (rows + 0.5) * CELL])
    geometry = {"type": "MultiPoint", "coordinates": points.tolist()}
    found: dict[str, Any] = {
        method: [
            item["elevation"]
            for item in read(
                post(both, f"/elevation/points?crs=EPSG:3857&interpolation={method}", geometry)
            )["results"]
        ]
        for method in ("nearest", "bilinear")
    }
    base = (
        "/wmts?SERVICE=WMTS&VERSION=1.0.0&LAYER=merc&STYLE=normal&FORMAT=image/x-bil;bits=32"
        f"&TILEMATRIXSET={MERCATOR['id']}&TILEMATRIX={LEVEL.id}"
    )
    tiles: dict[str, Any] = {}
    for number, (row, column) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
        place = f"{base}&TILEROW={row // TILE}&TILECOL={column // TILE}"
        if place not in tiles:
            response = both.get(f"{place}&REQUEST=GetTile")
            assert response.status_code == 200, response.data
            tiles[place] = np.frombuffer(response.data, "<f4").reshape(TILE, TILE)
        pixel = tiles[place][row % TILE, column % TILE]
        info = both.get(
            f"{place}&REQUEST=GetFeatureInfo&INFOFORMAT=text/plain&I={column % TILE}&J={row % TILE}"
        )
        # As in the existing server, feature info has six significant digits.
        assert info.text == f"{pixel:.6g}"
        for heights in found.values():
            height = heights[number]
            assert np.float32(NODATA if height is None else height) == pixel
    assert None in found["nearest"]
    assert len(tiles) > 80
