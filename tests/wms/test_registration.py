"""Values of areas and of posts in georeferenced data formats of WMS and OGC API Maps."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, TiffImagePlugin
from werkzeug.test import Client

from mastaba_conformance.tiny_installation import tiny_float_tile
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

rasterio = pytest.importorskip("rasterio")

OpenClient = Callable[[Path], Client]
MapQuery = Callable[..., dict[str, str]]
HALF_WORLD = 20037508.342789244
CELL = 2 * HALF_WORLD / 2**4 / 256
"""Of the finest level."""
WEST, NORTH = -HALF_WORLD + 8 * 256 * CELL, HALF_WORLD - 4 * 256 * CELL
AREA, POST = 1, 2
STEPS = {
    "no_value": {"value": -1e6, "red": 0, "green": 0, "blue": 0, "alpha": 0},
    "colours": [{"value": 0, "red": 1, "green": 2, "blue": 3, "alpha": 255}],
}


@pytest.fixture
def posts(tmp_path: Path, open_client: OpenClient) -> Client:
    descriptors = {}
    for name in ("area", "post"):
        descriptors[name] = write_pyramid(
            tmp_path / "pyramids",
            name,
            tile_matrix_set=web_mercator(),
            format="TIFF_ZIP_FLOAT32",
            levels=[LevelPlan("3", 2, 3, 4, 5), LevelPlan("4", 4, 7, 8, 11)],
            tile=tiny_float_tile,
            channels=1,
            nodata=[-99999.0],
        )
    document = json.loads(descriptors["post"].read_text())
    document["raster_specifications"]["registration"] = "post"
    descriptors["post"].write_text(json.dumps(document))
    return open_client(
        write_installation(
            tmp_path,
            layers={
                "plain": layer_document(descriptors["area"]),
                "posts": layer_document(descriptors["post"], styles=["normal", "slope"]),
                "declared": layer_document(descriptors["area"], registration="post"),
                "denied": layer_document(descriptors["post"], registration="area"),
            },
            styles={
                "normal": {"identifier": "normal", "title": "n", "abstract": "", "keywords": []},
                "slope": {
                    "identifier": "slope",
                    "title": "s",
                    "abstract": "",
                    "keywords": [],
                    "pente": {},
                },
            },
            services=["wms", "ogcapi"],
            services_overrides={
                "global": {
                    "map": {
                        "formats": ["image/png", "image/geotiff", "text/asc"],
                        "crs": ["EPSG:3857", "EPSG:32637"],
                        "limits": {"layers_count": 2},
                    }
                }
            },
        )
    )


@pytest.fixture
def ask(posts: Client, map_query: MapQuery) -> Callable[..., bytes]:
    def get(cells: float = 1.0, **changes: Any) -> bytes:
        """Return a map of 64 x 32 pixels that are so many cells wide."""
        east, south = WEST + 64 * cells * CELL, NORTH - 32 * cells * CELL
        values: dict[str, Any] = {
            "LAYERS": "posts",
            "FORMAT": "image/geotiff",
            "BBOX": f"{WEST!r},{south!r},{east!r},{NORTH!r}",
            "WIDTH": "64",
            "HEIGHT": "32",
        }
        response = posts.get("/wms", query_string=map_query(**(values | changes)))
        assert response.status_code == 200, response.text
        return response.data

    return get


def raster_type(data: bytes) -> int:
    with Image.open(io.BytesIO(data)) as picture:
        assert isinstance(picture, TiffImagePlugin.TiffImageFile)
        keys = picture.tag_v2[34735]
    entries = [keys[place : place + 4] for place in range(4, len(keys), 4)]
    (found,) = [entry[3] for entry in entries if entry[0] == 1025]
    return int(found)


@pytest.mark.sampled(one_in=4)
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, POST),
        ({"LAYERS": "declared"}, POST),
        ({"LAYERS": "plain"}, AREA),
        ({"LAYERS": "denied"}, AREA),
        ({"cells": 0.3}, POST),
        ({"cells": 1.24}, POST),
        # Finest level, but mixed
        ({"cells": 1.3}, AREA),
        # Means of four
        ({"cells": 2}, AREA),
        ({"STYLES": "slope"}, AREA),
        ({"LAYERS": "posts,declared", "STYLES": ","}, AREA),
        # Drawn from the coarser level
        ({"DPI": "300"}, AREA),
        ({"CRS": "EPSG:4326", "BBOX": "40,10,41,12"}, POST),
        ({"CRS": "EPSG:4326", "BBOX": "10,10,40,70"}, AREA),
    ],
)
def test_a_geotiff_says_what_its_values_belong_to(
    ask: Callable[..., bytes], changes: dict[str, Any], expected: int
) -> None:
    assert raster_type(ask(**changes)) == expected


def test_gdal_sees_the_same_pixels_on_the_ground(ask: Callable[..., bytes]) -> None:
    seen = []
    for layer in ("plain", "posts"):
        with rasterio.MemoryFile(ask(LAYERS=layer)) as file, file.open() as dataset:
            seen.append((dataset.transform, dataset.bounds, dataset.read().tolist()))
            assert dataset.tags()["AREA_OR_POINT"] == ("Area" if layer == "plain" else "Point")
    (one, bounds, pixels), (other, others, same) = seen
    assert pixels == same
    assert list(one)[:6] == pytest.approx(list(other)[:6], abs=1e-6)
    assert list(bounds) == pytest.approx(list(others), abs=1e-6)
    assert bounds.left == pytest.approx(WEST)
    assert bounds.top == pytest.approx(NORTH)


def test_an_ascii_grid_names_the_middle_of_its_corner(ask: Callable[..., bytes]) -> None:
    def header(**changes: Any) -> dict[str, float]:
        lines = ask(FORMAT="text/asc", **changes).decode().splitlines()[:6]
        return {name: float(value) for name, value in map(str.split, lines)}

    areas, posts, coarse = header(LAYERS="plain"), header(), header(cells=2)
    south = NORTH - 32 * CELL
    assert areas["xllcorner"] == pytest.approx(WEST)
    assert areas["yllcorner"] == pytest.approx(south)
    assert posts["xllcenter"] == pytest.approx(WEST + CELL / 2)
    assert posts["yllcenter"] == pytest.approx(south + CELL / 2)
    assert "xllcorner" not in posts
    assert "xllcorner" in coarse


def test_maps_of_ogc_api_say_it_too(posts: Client) -> None:
    box = f"{WEST},{NORTH - 32 * CELL},{WEST + 64 * CELL},{NORTH}"
    crs = "http://www.opengis.net/def/crs/EPSG/0/3857"
    for layer, expected in (("posts", POST), ("plain", AREA)):
        response = posts.get(
            f"/ogcapi/collections/{layer}/map?bbox={box}&bbox-crs={crs}&crs={crs}"
            "&width=64&height=32",
            headers={"Accept": "image/geotiff"},
        )
        assert response.status_code == 200, response.text
        assert raster_type(response.data) == expected


def test_another_registration_is_another_version(posts: Client, map_query: MapQuery) -> None:
    tags = {
        posts.get("/wms", query_string=map_query(LAYERS=layer, FORMAT="image/geotiff")).headers[
            "ETag"
        ]
        for layer in ("posts", "denied", "plain", "declared")
    }
    assert len(tags) == 4
