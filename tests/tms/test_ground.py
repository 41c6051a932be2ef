"""Where a client that knows only TMS 1.0.0 places the tiles of a TileMap."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lxml import etree
from tests.tms.test_gdal import PARTIAL, fetch, translate
from werkzeug.test import Client

from mastaba_conformance.tiny_installation import tiny_integer_tile
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import synthetic

OpenClient = Callable[[Path], Client]
Serving = Callable[[Callable[[str], Path]], AbstractContextManager[str]]

PUBLIC_URL = "http://maps.example"
SIZE = 256


def shifted() -> dict[str, Any]:
    """Return a set as those of national elevation models: origins shifted by half a cell."""
    grid = synthetic(
        "SHIFTED",
        crs="EPSG:2154",
        origin=(0, 7_000_000),
        cell_sizes=[100, 75, 50, 25],
        matrix_sizes=[(40, 30), (54, 40), (80, 60), (160, 120)],
    )
    for matrix in grid["tileMatrices"]:
        half = matrix["cellSize"] / 2
        matrix["pointOfOrigin"] = [-half, 7_000_000 + half]
    return grid


IRREGULAR = synthetic(
    "IRREGULAR",
    crs="EPSG:2154",
    origin=(0, 12_000_000),
    cell_sizes=[104.5, 52.3, 26.1],
    matrix_sizes=[(5, 7), (9, 13), (18, 25)],
)
"""A common upper left corner, and cell sizes that are not halves of each other."""

SETS = {"SHIFTED": shifted(), "IRREGULAR": IRREGULAR, "GRID": PARTIAL}
LEVELS = {
    "SHIFTED": [LevelPlan("0", 2, 2, 3, 3), LevelPlan("1", 2, 3, 4, 5), LevelPlan("2", 4, 5, 6, 7)],
    "IRREGULAR": [LevelPlan("0", 0, 1, 0, 1), LevelPlan("1", 0, 3, 0, 3)],
    "GRID": [LevelPlan("0", 0, 0, 0, 0), LevelPlan("1", 0, 0, 0, 1), LevelPlan("2", 0, 1, 0, 2)],
}


def install(directory: Path, url: str, y_origin: str | None) -> Path:
    """Write one layer in each set."""
    layers = {}
    for name, grid in SETS.items():
        pyramid = write_pyramid(
            directory / "pyramids",
            name,
            tile_matrix_set=grid,
            format="TIFF_PNG_UINT8",
            levels=LEVELS[name],
            tile=tiny_integer_tile(3),
        )
        layers[name] = layer_document(pyramid, tile_matrix_sets=SETS)
    overrides = {"tms": {"y_origin": y_origin}} if y_origin else {}
    return write_installation(
        directory,
        layers=layers,
        tile_matrix_sets=SETS,
        services=["tms"],
        public_url=url,
        services_overrides=overrides,
    )


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient) -> Client:
    """Return a client of tiles whose rows are counted from the top."""
    return open_client(install(tmp_path_factory.mktemp("stored"), PUBLIC_URL, None))


@pytest.fixture(scope="module", params=[None, "bottom"])
def client(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    open_client: OpenClient,
) -> Client:
    return open_client(install(tmp_path_factory.mktemp("ground"), PUBLIC_URL, request.param))


def xml(client: Client, url: str) -> Any:
    response = client.get(url.removeprefix(PUBLIC_URL))
    assert response.status_code == 200, response.data
    return etree.fromstring(response.data)


def tile_maps(client: Client) -> Iterator[tuple[str, Any, bool]]:
    """Yield layer and document of each TileMap, and whether the document is of one level alone."""
    for layer in SETS:
        document = xml(client, f"/tms/1.0.0/{layer}")
        yield layer, document, False
        for item in document.iterfind("TileSets/TileSet/TileMap"):
            yield layer, xml(client, item.get("href")), True


def numbers(element: Any, *names: str) -> list[float]:
    return [float(element.get(name)) for name in names]


def matrix_of(layer: str, cell_size: float) -> Any:
    (found,) = (m for m in SETS[layer]["tileMatrices"] if m["cellSize"] == cell_size)
    return found


def test_every_tile_is_where_the_origin_places_it(client: Client, stored: Client) -> None:
    levels: list[tuple[str, str, bool]] = []
    for layer, document, alone in tile_maps(client):
        whole = numbers(document.find("Origin"), "x", "y")
        box = numbers(document.find("BoundingBox"), "minx", "miny")
        assert box == whole, "GDAL counts from this corner"
        for tile_set in document.iterfind("TileSets/TileSet[@minrow]"):
            own = tile_set.find("Origin")
            left, bottom = whole if own is None else numbers(own, "x", "y")
            (cell,) = numbers(tile_set, "units-per-pixel")
            matrix = matrix_of(layer, cell)
            levels.append((layer, matrix["id"], alone))
            x0, y0 = matrix["pointOfOrigin"]
            places = [("mincol", "minrow"), ("maxcol", "maxrow")]
            for column, row in (map(int, map(tile_set.get, names)) for names in places):
                across = (left + column * SIZE * cell - x0) / (SIZE * cell)
                down = (y0 - bottom - (row + 1) * SIZE * cell) / (SIZE * cell)
                assert (across, down) == pytest.approx((round(across), round(down)), abs=1e-6)
                found = client.get(f"{path_of(tile_set)}/{column}/{row}.png")
                path = f"/tms/1.0.0/{layer}/{matrix['id']}/{round(across)}/{round(down)}.png"
                expected = stored.get(path)
                assert found.status_code == expected.status_code == 200
                assert found.data == expected.data
    plans = [(name, plan.id) for name, plans in LEVELS.items() for plan in plans]
    assert sorted(levels) == sorted(
        [(*plan, False) for plan in plans] + [(*plan, True) for plan in plans if plan[0] != "GRID"]
    )


def path_of(tile_set: Any) -> str:
    return str(tile_set.get("href")).removeprefix(PUBLIC_URL)


def test_from_the_top_all_levels_remain_in_one_document(
    tmp_path: Path, open_client: OpenClient
) -> None:
    """As in existing servers."""
    client = open_client(install(tmp_path, PUBLIC_URL, "top"))
    tile_sets = xml(client, "/tms/1.0.0/SHIFTED").findall("TileSets/TileSet")
    assert [path_of(item) for item in tile_sets] == [f"/tms/1.0.0/SHIFTED/{i}" for i in range(3)]
    assert [item.get("order") for item in tile_sets] == ["0", "1", "2"]
    assert all(len(item) == 0 for item in tile_sets)


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("SHIFTED@SHIFTED:1", 200),
        ("SHIFTED@SHIFTED:3", 404),
        ("SHIFTED@SHIFTED:x", 404),
        ("SHIFTED@SHIFTED:", 404),
        ("SHIFTED@:1", 404),
        ("SHIFTED@GRID:1", 404),
        ("SHIFTED:1", 404),
    ],
)
def test_names_of_single_levels(stored: Client, name: str, status: int) -> None:
    for path in (name, f"{name}/metadata.json", f"{name}/gdal.xml", f"{name}/0/4/2.png"):
        assert stored.get(f"/tms/1.0.0/{path}").status_code == status
    assert stored.get(f"/tms/1.0.0/{name}/1/4/2.png").status_code == 404


def test_metadata_of_a_single_level(stored: Client) -> None:
    document = stored.get("/tms/1.0.0/SHIFTED@SHIFTED:1/metadata.json").get_json()
    assert document["tiles"] == [f"{PUBLIC_URL}/tms/1.0.0/SHIFTED@SHIFTED:1/{{z}}/{{x}}/{{y}}.png"]
    assert (document["minzoom"], document["maxzoom"], document["center"][2]) == (0, 0, 0)
    assert "levels" not in document


def test_metadata_places_each_matrix(stored: Client) -> None:
    document = stored.get("/tms/1.0.0/SHIFTED/metadata.json").get_json()
    found = [(m["zoom"], m["origin"], m["cellSize"], m["matrixSize"]) for m in document["matrices"]]
    assert found == [
        (0, [-50, 7_000_050], 100, [40, 30]),
        (1, [-37.5, 7_000_037.5], 75, [54, 40]),
        (2, [-25, 7_000_025], 50, [80, 60]),
    ]
    assert "matrices" not in stored.get("/tms/1.0.0/GRID/metadata.json").get_json()


# ---------------------------------------------------------------- with GDAL itself


@pytest.mark.live
@pytest.mark.parametrize("y_origin", [None, "bottom"])
def test_gdal_reads_every_level_at_its_place(
    tmp_path: Path, serving: Serving, gdal_environment: dict[str, str], y_origin: str | None
) -> None:
    with serving(lambda url: install(tmp_path, url, y_origin)) as url:
        for layer in ("SHIFTED", "IRREGULAR"):
            whole = f"{url}/tms/1.0.0/{layer}"
            refused = subprocess.run(
                ["gdalinfo", whole], capture_output=True, text=True, env=gdal_environment
            )
            assert refused.returncode, "GDAL cannot place the levels of this set together"
            for plan in LEVELS[layer]:
                address = f"{whole}@{layer}:{plan.id}"
                description = fetch(f"{address}/gdal.xml", tmp_path / f"{layer}{plan.id}.xml")
                matrix = next(m for m in SETS[layer]["tileMatrices"] if m["id"] == plan.id)
                x0, y0 = matrix["pointOfOrigin"]
                side = SIZE * matrix["cellSize"]
                left, top = x0 + plan.min_col * side, y0 - plan.min_row * side
                corners = left, top, left + side, top - side
                for source in (address, description):
                    found = translate(
                        gdal_environment, source, tmp_path / "out.png", "-projwin", *corners
                    )
                    expected = tiny_integer_tile(3)(plan.id, plan.min_row, plan.min_col)
                    assert np.array_equal(found, np.asarray(expected)), source
