"""The numbers of docs/heights.md are those of the demo."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import Client

from mastaba_demo.hydrology import drain
from mastaba_demo.light import MARGIN, inner
from mastaba_demo.render import _stored
from mastaba_demo.settings import TILE_SIZE, Settings
from mastaba_demo.terrain import evaluate
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

PAGE = Path(__file__).parents[2] / "docs/heights.md"
LEVEL = 12


@pytest.fixture(scope="module")
def client(
    tmp_path_factory: pytest.TempPathFactory, open_client: Callable[[Path], Client]
) -> Client:
    """Return a client of the finest heights of the demo."""
    settings, directory = Settings(), tmp_path_factory.mktemp("demo")
    drainage = drain(settings.drainage_window(), settings.world)
    world, tiles = replace(settings.world, valleys=drainage.valleys), {}
    for level, window in settings.blocks():
        if level != LEVEL:
            continue
        terrain = evaluate(window, world, MARGIN)
        for top in range(0, window.size, TILE_SIZE):
            for left in range(0, window.size, TILE_SIZE):
                part = terrain.part(left, top, TILE_SIZE)
                place = (window.top + top) // TILE_SIZE, (window.left + left) // TILE_SIZE
                tiles[place] = _stored(inner(part.elevation, part), LEVEL)
    rows, columns = zip(*tiles, strict=True)
    pyramid = write_pyramid(
        directory,
        "elevation",
        tile_matrix_set=web_mercator(),
        format="TIFF_ZIP_FLOAT32",
        channels=1,
        levels=[LevelPlan(str(LEVEL), min(rows), max(rows), min(columns), max(columns))],
        tile=lambda level, row, col: tiles[row, col],
    )
    return open_client(
        write_installation(
            directory, layers={"elevation": layer_document(pyramid)}, services=["elevation"]
        )
    )


def examples() -> dict[str, dict[str, Any]]:
    """Return the answers on the page by the path and query of their request."""
    text = PAGE.read_text("utf-8")
    pairs = re.findall(r"curl 'http://[^/]*(/[^']*)'\n```\n\n```json\n([^`]*)```", text)
    return {path: json.loads(answer) for path, answer in pairs}


def agrees(quoted: Any, found: Any) -> bool:
    """Return whether an answer has what is quoted, with numbers that may be rounded there."""
    if isinstance(quoted, dict):
        return all(agrees(value, found[name]) for name, value in quoted.items())
    if isinstance(quoted, list):
        pairs = zip(quoted, found, strict=True)
        return all(agrees(*pair) for pair in pairs)
    if isinstance(quoted, float):
        return bool(quoted == round(found, len(repr(quoted).partition(".")[2])))
    return bool(quoted == found)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["points", "statistics"])
def test_answers_on_the_page_are_true(client: Client, name: str) -> None:
    ((path, quoted),) = [item for item in examples().items() if f"/{name}?" in item[0]]
    found = json.loads(client.get(path).data)
    quoted.pop("vertical", None)
    assert agrees(quoted, found), found


@pytest.mark.thorough
@pytest.mark.parametrize("width", [2, 5, 10, 15])
def test_narrow_corridors_have_heights(client: Client, width: int) -> None:
    """Narrower than a cell, which has 23 m there; with heights all along the line of the page."""
    (query,) = re.findall(r'"\$uri/corridor\?([^"]*)"', PAGE.read_text("utf-8"))
    assert "corridor-width=2&width-units=km" in query
    query = query.replace(
        "corridor-width=2&width-units=km", f"corridor-width={width}&width-units=m"
    )
    response = client.get(f"/elevation/edr/collections/elevation/corridor?{query}")
    assert response.status_code == 200, response.data
    rows = list(csv.DictReader(response.data.decode().splitlines()))
    found = sorted(float(row["x"]) for row in rows if row["elevation"])
    cell = 360 / 2**LEVEL / TILE_SIZE
    assert found[0] < 9.4 + cell
    assert found[-1] > 9.6 - cell
    assert max(b - a for a, b in pairwise(found)) < 1.01 * cell
