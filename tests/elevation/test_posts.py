"""Layers whose values are those of posts: answers are exact at a post, and name the posts."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from tests.elevation.conftest import OpenClient, post, read
from werkzeug.test import Client

from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import synthetic

rasterio = pytest.importorskip("rasterio")

NODATA = -99999.0
TILE, SIZE = 16, 32
STEP = 1 / 3600
WEST, NORTH = 6.0, 46.0
"""The first post: half a cell inside of the corner of its pixel."""
LAMBERT = synthetic(
    "LIDAR",
    crs="EPSG:2154",
    origin=(885999.75, 6534000.25),
    cell_sizes=[1.0, 0.5],
    matrix_sizes=[(1, 1), (2, 2)],
    tile_size=(TILE, TILE),
)
DEGREES = synthetic(
    "SECOND",
    crs="EPSG:4326",
    origin=(WEST - STEP / 2, NORTH + STEP / 2),
    cell_sizes=[2 * STEP, STEP],
    matrix_sizes=[(1, 1), (2, 2)],
    tile_size=(TILE, TILE),
    geographic=True,
)
SETS = {"LIDAR": LAMBERT, "SECOND": DEGREES}
GRIDS = {"lidar": (886000.0, 6534000.0, 0.5, "EPSG:2154"), "second": (WEST, NORTH, STEP, "CRS84")}
"""First post, step and CRS of each layer."""
METHODS = ["nearest", "bilinear", "cubic"]


def heights(level: str = "1") -> npt.NDArray[np.float32]:
    """Return the posts; some on the edge and in the middle have no height."""
    found = np.random.default_rng(7).uniform(0, 3000, (SIZE, SIZE)).astype(np.float32)
    for row, column in ((0, 5), (31, 31), (10, 0), (12, 12), (13, 12)):
        found[row, column] = NODATA
    if level == "0":
        return found.reshape(TILE, 2, TILE, 2).mean(axis=(1, 3)).astype(np.float32)
    return found


def tile(level: str, row: int, column: int) -> npt.NDArray[np.float32]:
    window = np.s_[row * TILE : (row + 1) * TILE, column * TILE : (column + 1) * TILE]
    return np.asarray(heights(level)[window])


@pytest.fixture(scope="module")
def open_posts(
    tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient
) -> Callable[[str], Client]:
    """Return a function that opens the layers with a registration."""
    directory = tmp_path_factory.mktemp("posts")
    pyramids: dict[str, Path] = {
        name: write_pyramid(
            directory,
            name,
            tile_matrix_set=document,
            format="TIFF_ZIP_FLOAT32",
            channels=1,
            nodata=[NODATA],
            levels=[LevelPlan("0", 0, 0, 0, 0), LevelPlan("1", 0, 1, 0, 1)],
            tile=tile,
        )
        for name, document in (("lidar", LAMBERT), ("second", DEGREES))
    }

    def it(registration: str) -> Client:
        layers = {
            name: layer_document(
                path,
                tile_matrix_sets=SETS,
                registration=registration,
                styles=["normal"],
                get_feature_info={"type": "PYRAMID"},
            )
            for name, path in pyramids.items()
        }
        normal = {"identifier": "normal", "title": "n", "abstract": "", "keywords": []}
        return open_client(
            write_installation(
                tmp_path_factory.mktemp("posts"),
                layers=layers,
                tile_matrix_sets=SETS,
                styles={"normal": normal},
                services=["elevation", "terrain", "wms"],
                services_overrides={"elevation": {"decimals": -1}},
            )
        )

    return it


@pytest.fixture(scope="module")
def client(open_posts: Callable[[str], Client]) -> Client:
    return open_posts("post")


def places(name: str) -> list[list[float]]:
    """Return the posts as a client computes them, row by row."""
    x, y, step, _ = GRIDS[name]
    return [[x + column * step, y - row * step] for row in range(SIZE) for column in range(SIZE)]


def stored() -> list[float | None]:
    values = heights().ravel()
    return [None if value == NODATA else float(value) for value in values]


def single(values: list[float | None]) -> list[float | None]:
    return [None if value is None else float(np.float32(value)) for value in values]


def extent(client: Client, name: str) -> list[float]:
    content = read(client.get(f"/elevation/edr/collections/{name}"))
    return list(content["extent"]["spatial"]["bbox"][0])


@pytest.mark.parametrize("name", list(GRIDS))
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("strict", ["true", "false"])
def test_a_post_has_its_stored_height(client: Client, name: str, method: str, strict: str) -> None:
    body = {
        "geometry": {"type": "MultiPoint", "coordinates": places(name)},
        "interpolation": method,
        "strict": strict,
        "crs": GRIDS[name][3].replace("CRS84", "EPSG:4326"),
        "dataset": name,
    }
    results = read(post(client, "/elevation/points", body))["results"]
    assert single([item["elevation"] for item in results]) == stored()


@pytest.mark.parametrize("name", list(GRIDS))
@pytest.mark.parametrize("method", METHODS)
def test_a_post_of_rounded_coordinates_has_it_too(client: Client, name: str, method: str) -> None:
    rounded = [[round(x, 12), round(y, 12)] for x, y in places(name)]
    body = {
        "geometry": {"type": "MultiPoint", "coordinates": rounded},
        "interpolation": method,
        "crs": GRIDS[name][3].replace("CRS84", "EPSG:4326"),
        "dataset": name,
    }
    results = read(post(client, "/elevation/points", body))["results"]
    assert single([item["elevation"] for item in results]) == stored()


def test_the_extent_is_that_of_the_posts(client: Client, open_posts: Any) -> None:
    last = (SIZE - 1) * STEP
    assert extent(client, "second") == pytest.approx([WEST, NORTH - last, WEST + last, NORTH])
    edge = STEP / 2
    wide = [WEST - edge, NORTH - last - edge, WEST + last + edge, NORTH + edge]
    assert extent(open_posts("area"), "second") == pytest.approx(wide)
    posts, areas = extent(client, "lidar"), extent(open_posts("area"), "lidar")
    for inner, outer in zip(posts[:2], areas[:2], strict=True):
        assert inner > outer
    for inner, outer in zip(posts[2:], areas[2:], strict=True):
        assert inner < outer


@pytest.mark.parametrize("name", list(GRIDS))
@pytest.mark.parametrize("method", METHODS)
def test_axes_of_a_grid_are_the_posts(client: Client, name: str, method: str) -> None:
    x, y, step, crs = GRIDS[name]
    last = (SIZE - 1) * step
    box = f"{x!r},{y - last!r},{x + last!r},{y!r}"
    query = {"bbox": box, "crs": crs, "interpolation": method, "f": "CoverageJSON"}
    content = read(client.get(f"/elevation/edr/collections/{name}/cube", query_string=query))
    axes = content["domain"]["axes"]
    assert axes["x"]["num"] == axes["y"]["num"] == SIZE
    assert [axes["x"]["start"], axes["x"]["stop"]] == pytest.approx([x, x + last])
    assert [axes["y"]["start"], axes["y"]["stop"]] == pytest.approx([y, y - last])
    assert single(content["ranges"]["elevation"]["values"]) == stored()


def test_the_extent_asks_for_all_posts(client: Client) -> None:
    box = ",".join(map(repr, extent(client, "second")))
    response = client.get(f"/elevation/edr/collections/second/cube?bbox={box}&f=CSV")
    rows = list(csv.DictReader(io.StringIO(response.text, newline="")))
    found = [float(row["elevation"]) if row["elevation"] else None for row in rows]
    assert single(found) == stored()


@pytest.mark.parametrize(("registration", "name"), [("post", "Point"), ("area", "Area")])
def test_a_geotiff_of_edr_says_it(open_posts: Any, registration: str, name: str) -> None:
    client = open_posts(registration)
    path = "/elevation/edr/collections/lidar/cube?crs=EPSG:2154&f=GeoTIFF"
    box = "886000,6533984.5,886015.5,6534000"
    response = client.get(f"{path}&bbox={box}")
    with rasterio.MemoryFile(response.data) as file, file.open() as image:
        assert image.tags()["AREA_OR_POINT"] == name
        assert image.xy(0, 0) == pytest.approx((886000.0, 6534000.0))
        assert np.array_equal(image.read(1), heights())
    # Cells of another size belong to no post.
    response = client.get(f"{path}&bbox={box}&resolution-x=5&resolution-y=5")
    with rasterio.MemoryFile(response.data) as file, file.open() as image:
        assert image.tags()["AREA_OR_POINT"] == "Area"


def test_profiles_agree(client: Client) -> None:
    x, y, step, _ = GRIDS["lidar"]
    line = [[x + column * step, y - 20 * step] for column in range(SIZE)]
    body = {
        "geometry": {"type": "LineString", "coordinates": line},
        "crs": "EPSG:2154",
        "dataset": "lidar",
        "points": SIZE,
        "path": "straight",
    }
    results = read(post(client, "/elevation/profile", body))["results"]
    at = {item["x"]: item["elevation"] for item in results}
    found = [at[place] for place, _ in line]
    assert single(found) == [float(value) for value in heights()[20]]


def test_terrain_tiles_and_feature_info_agree(client: Client) -> None:
    response = client.get("/terrain/lidar/mapbox/LIDAR/1/1/1.png?precision=full")
    assert response.status_code == 200, response.text
    with Image.open(io.BytesIO(response.data)) as picture:
        red, green, blue = np.moveaxis(np.asarray(picture.convert("RGB"), np.int64), 2, 0)
    decoded = -10000 + (red * 65536 + green * 256 + blue) * 0.1
    wanted = heights()[TILE:, TILE:]
    known = wanted != NODATA
    assert np.abs(decoded - wanted)[known].max() <= 0.051
    # A pixel of this map is the square around a post.
    query = {
        "service": "WMS",
        "version": "1.3.0",
        "request": "GetFeatureInfo",
        "layers": "lidar",
        "query_layers": "lidar",
        "styles": "",
        "crs": "EPSG:2154",
        "bbox": "885999.75,6533984.25,886015.75,6534000.25",
        "width": SIZE,
        "height": SIZE,
        "format": "image/png",
        "info_format": "application/json",
    }
    for row, column in ((0, 0), (31, 30), (20, 7)):
        response = client.get("/wms", query_string={**query, "i": column, "j": row})
        assert response.status_code == 200, response.text
        (feature,) = json.loads(response.data)["features"]
        ((value,),) = feature["properties"].values()
        assert value == round(float(heights()[row, column]), 2)


def test_the_extent_of_posts_contains_a_pole(tmp_path: Path, open_client: OpenClient) -> None:
    document = synthetic(
        "SOUTH",
        crs="EPSG:3031",
        origin=(-1.6e6, 1.6e6),
        cell_sizes=[1e5],
        matrix_sizes=[(2, 2)],
        tile_size=(TILE, TILE),
    )
    path = write_pyramid(
        tmp_path,
        "south",
        tile_matrix_set=document,
        format="TIFF_ZIP_FLOAT32",
        channels=1,
        levels=[LevelPlan("0", 0, 1, 0, 1)],
        tile=lambda level, row, col: np.zeros((TILE, TILE), np.float32),
    )
    sets = {"SOUTH": document}
    layer = layer_document(path, tile_matrix_sets=sets, registration="post")
    client = open_client(
        write_installation(
            tmp_path, layers={"south": layer}, tile_matrix_sets=sets, services=["elevation"]
        )
    )
    west, south, east, north = extent(client, "south")
    assert (west, south, east) == (-180.0, -90.0, 180.0)
    assert north < -60
    near = client.get("/elevation/edr/collections?bbox=10,-85,12,-84")
    assert [one["id"] for one in read(near)["collections"]] == ["south"]
