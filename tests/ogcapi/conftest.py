"""Installations that the tests of OGC API ask, and readers of the answers."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from openapi_schema_validator import OAS30Validator
from PIL import Image
from tests.tiny import tiny_installation
from werkzeug.test import Client, TestResponse

from mastaba_conformance.tiny_installation import tiny_integer_tile
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import geographic, synthetic, web_mercator

PUBLIC_URL = "http://maps.example"
ROOT = f"{PUBLIC_URL}/ogcapi"

OpenClient = Callable[[Path], Client]
Serving = Callable[[Callable[[str], Path]], AbstractContextManager[str]]
ReadPixels = Callable[[TestResponse], npt.NDArray[Any]]
Validate = Callable[[str, Any], None]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient) -> Client:
    """Return a client of the tiny installation: limits and formats are the default ones."""
    directory = tmp_path_factory.mktemp("tiny")
    return open_client(tiny_installation(directory, services=["ogcapi"], public_url=PUBLIC_URL))


@pytest.fixture(scope="session")
def rich_path(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that writes an installation for a public address.

    Collections, all of one colour where they have data: ``a_world`` fills every tile of levels 0
    to 2, ``b_europe`` is a part of it with gaps and an extra CRS, ``c_degrees`` is in EPSG:4326
    (northing first), ``d_lambert`` in EPSG:3035 (northing first, projected), ``e heights/é`` is
    float with a palette style, ``f_pacific`` reaches to both sides of the antimeridian,
    ``g_extra`` is offered in an extra tile matrix set, ``h_vector`` has vector tiles, ``hidden``
    is not in this service. Up to three collections go into one map.
    """

    def write(public_url: str) -> Path:
        return _rich(tmp_path_factory.mktemp("rich"), public_url)

    return write


@pytest.fixture(scope="session")
def rich(rich_path: Callable[[str], Path], open_client: OpenClient) -> Client:
    return open_client(rich_path(PUBLIC_URL))


def colour_tile(*colour: int) -> Callable[[str, int, int], npt.NDArray[np.uint8]]:
    """Return a source of tiles of one colour."""
    pixels = np.full((256, 256, len(colour)), colour, np.uint8)
    return lambda level, row, col: pixels


def _rich(directory: Path, public_url: str) -> Path:
    lambert = synthetic(
        "LAEA",
        crs="EPSG:3035",
        origin=(2000000, 5500000),
        cell_sizes=[4394.53125, 2197.265625],
        matrix_sizes=[(4, 4), (8, 8)],
    )
    sets = {"PM": web_mercator(), "4326": geographic(), "LAEA": lambert}
    pyramids = directory / "pyramids"

    def pyramid(name: str, levels: list[LevelPlan], **options: Any) -> Path:
        settings: dict[str, Any] = {
            "tile_matrix_set": sets["PM"],
            "format": "TIFF_PNG_UINT8",
            "channels": 3,
            "levels": levels,
        } | options
        return write_pyramid(pyramids, name, **settings)

    everything = [LevelPlan(str(n), 0, 2**n - 1, 0, 2**n - 1) for n in range(3)]
    world = pyramid("world", everything, tile=colour_tile(200, 100, 50))
    europe = pyramid(
        "europe",
        [LevelPlan("3", 2, 3, 4, 5), LevelPlan("4", 4, 6, 8, 10)],
        tile=lambda level, row, col: (
            None if (row, col) == (6, 10) else np.full((256, 256, 3), (10, 120, 30), np.uint8)
        ),
        tiles_per_width=1,
        tiles_per_height=1,
    )
    degrees = pyramid(
        "degrees",
        [LevelPlan("1", 0, 1, 0, 3), LevelPlan("2", 0, 1, 4, 6)],
        tile_matrix_set=sets["4326"],
        tile=tiny_integer_tile(3),
    )
    laea = pyramid(
        "laea",
        [LevelPlan("0", 1, 2, 1, 2), LevelPlan("1", 2, 5, 2, 5)],
        tile_matrix_set=lambert,
        tile=colour_tile(90, 90, 200),
    )
    heights = pyramid(
        "heights",
        [LevelPlan("3", 2, 3, 4, 5)],
        format="TIFF_RAW_FLOAT32",
        channels=1,
        tile=lambda level, row, col: np.full((256, 256, 1), 1000.0, np.float32),
    )
    pacific = pyramid(
        "pacific",
        [LevelPlan("1", 0, 1, 0, 1), LevelPlan("3", 3, 4, 0, 7)],
        tile=lambda level, row, col: np.full(
            (256, 256, 3), (0, 0, 255) if col >= 2 ** int(level) // 2 else (255, 0, 0), np.uint8
        ),
    )
    vector = pyramid("vector", [LevelPlan("3", 2, 3, 4, 5)], format="TIFF_PBF_MVT", tile=_mvt)
    record = {"format": "application/xml", "type": "ISO19115:2003", "url": "http://r.example/?a&b"}
    texts = {
        "title": "Europe <b>",
        "abstract": 'A "quoted" text & more',
        "keywords": ["k<1>", "k&2"],
        "metadata": [record],
        "attribution": {"title": "A & B", "url": "http://a.example/"},
        "extra_crs": ["EPSG:32631"],
    }
    layers: dict[str, Any] = {
        "a_world": world,
        "b_europe": layer_document(europe, **texts),
        "c_degrees": degrees,
        # Not "lanczos": kernels are as wide as the map around the pole of EPSG:3035.
        "d_lambert": layer_document(laea, tile_matrix_sets=sets, resampling="nn"),
        "e heights é": layer_document(heights, styles=["normal", "relief"], resampling="nn"),
        "f_pacific": layer_document(pacific, resampling="nn"),
        "g_extra": layer_document(world, extra_tilematrixsets=["4326"]),
        "h_vector": vector,
        "hidden": layer_document(world, ogcapi={"enabled": False}),
    }
    relief = {
        "identifier": "relief",
        "title": "Heights in colours",
        "abstract": "",
        "keywords": [],
        "legend": {
            "format": "image/png",
            "url": "http://maps.example/legend.png",
            "width": 20,
            "height": 100,
            "min_scale_denominator": 0,
            "max_scale_denominator": 0,
        },
        "palette": {
            "no_alpha": True,
            "rgb_continuous": False,
            "alpha_continuous": False,
            "colours": [
                {"value": 0, "red": 0, "green": 0, "blue": 255, "alpha": 255},
                {"value": 500, "red": 255, "green": 255, "blue": 0, "alpha": 255},
            ],
        },
    }
    return write_installation(
        directory,
        layers=layers,
        tile_matrix_sets={"LAEA": lambert},
        services=["ogcapi"],
        public_url=public_url,
        styles={"relief": relief},
        services_overrides={
            "global": {
                "contact": {"name": "N", "email": "e@p.example"},
                "map": {
                    "crs": ["EPSG:3857", "EPSG:4326", "EPSG:3035"],
                    "limits": {"width": 3000, "height": 2000, "layers_count": 3, "pixels": 3000000},
                    "formats": [
                        "image/jpeg",
                        "image/png",
                        "image/tiff",
                        "image/geotiff",
                        "image/x-bil;bits=32",
                        "text/asc",
                    ],
                },
                "tile": {"reprojection": True},
            },
            "ogcapi": {
                "title": "Maps & <tiles>",
                "abstract": "About",
                "keywords": ["one"],
                "metadata": record,
                "default_size": 300,
            },
        },
    )


def _mvt(level: str, row: int, col: int) -> bytes:
    from mastaba_conformance.tiny_installation import tiny_vector_tile

    return tiny_vector_tile(level, row, col)


@pytest.fixture(scope="session")
def validate(shared_data: Path) -> Validate:
    """Return a function that validates a document with a schema of OGC API Maps or Tiles."""
    folder = shared_data / "schemas" / "ogcapi"
    documents = [
        json.loads((folder / f"ogcapi-{name}-1.bundled.json").read_text())
        for name in ("maps", "tiles")
    ]
    for document in documents:
        # It forbids the very members that it takes over from extent: spatial and temporal.
        del document["components"]["schemas"]["extent-uad"]["allOf"][1]["additionalProperties"]

    def check(name: str, content: Any) -> None:
        for document in documents:
            components = document["components"]
            found = next(
                (
                    item
                    for item in (name, name.replace("Desc", "Info"))
                    if item in components["schemas"]
                ),
                None,
            )
            if found is not None:
                reference = {"$ref": f"#/components/schemas/{found}", "components": components}
                OAS30Validator(reference).validate(content)

    return check


@pytest.fixture
def pixels() -> ReadPixels:
    """Return a function that reads the pixels of a picture, in the channels that it has."""

    def read(response: TestResponse) -> npt.NDArray[Any]:
        assert response.status_code == 200, response.data[:500]
        return np.asarray(Image.open(io.BytesIO(response.data)))

    return read


@pytest.fixture
def fault() -> Callable[[TestResponse], tuple[int, str]]:
    """Return a function that reads status and type of a problem report."""

    def read(response: TestResponse) -> tuple[int, str]:
        assert response.content_type == "application/json"
        content = json.loads(response.data)
        assert set(content) == {"type", "title", "status", "detail"}
        assert content["status"] == response.status_code
        assert content["title"]
        assert content["detail"]
        return response.status_code, content["type"]

    return read
