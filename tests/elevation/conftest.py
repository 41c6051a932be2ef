"""An installation with tiny layers of heights, and its service."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.elevation import ridge
from tests.elevation.world import ALPS, GEOGRAPHIC, GROUNDS, LAMBERT, MERCATOR, NODATA
from werkzeug.test import Client, TestResponse

from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

PUBLIC_URL = "http://maps.example"

OpenClient = Callable[[Path], Client]
Open = Callable[..., Client]

SETS = {"G16": GEOGRAPHIC, "M16": MERCATOR, "L16": LAMBERT}
VERTICAL = {
    "crs": "EPSG:5720",
    "kind": "terrain",
    "accuracy": 0.5,
    "source": "survey",
    "date": "2020-01-02T00:00:00Z",
}
TERRAIN_STACK = {"id": "stack", "layers": ["alps", "merc", "world"], "nodata_height": -32.5}
EVERYTHING = {
    "datasets": [{"id": "stack", "title": "All", "layers": ["alps", "merc", "world"]}],
    "facades": {
        "edr": True,
        "ign": {"default_resource": "stack", "aliases": {"ign_rge_alti_wld": "stack"}},
        "swisstopo": {"dataset": "alps", "crs": [2154, 4326]},
        "google": {"dataset": "stack"},
        "tileserver": True,
    },
}


class ClosingClient(Client):
    """A client that closes each answer: large ones are open files."""

    def open(self, *args: Any, **kwargs: Any) -> TestResponse:
        return super().open(*args, **{"buffered": True, **kwargs})


@pytest.fixture(scope="session")
def open_client(open_client: OpenClient) -> OpenClient:
    """Return a function that opens the installation of a server.json."""
    return lambda server_json: ClosingClient(open_client(server_json).application)


@pytest.fixture(scope="session")
def pyramids(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the descriptors of the pyramids, by name."""
    directory = tmp_path_factory.mktemp("heights")
    formats = {"world": "TIFF_ZIP_FLOAT32", "alps": "TIFF_LZW_FLOAT32", "merc": "TIFF_RAW_FLOAT32"}
    found = {
        ground.name: write_pyramid(
            directory,
            ground.name,
            tile_matrix_set=ground.document,
            format=formats[ground.name],
            channels=1,
            nodata=[NODATA],
            levels=ground.plans,
            tile=ground.tile,
            tiles_per_width=1,
            tiles_per_height=1,
        )
        for ground in GROUNDS
    }
    found["colour"] = write_pyramid(
        directory,
        "colour",
        tile_matrix_set=web_mercator(),
        format="TIFF_PNG_UINT8",
        channels=3,
        levels=[LevelPlan("0", 0, 0, 0, 0)],
        tile=lambda level, row, col: np.zeros((256, 256, 3), np.uint8),
    )
    return found


@pytest.fixture(scope="session")
def write(
    pyramids: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """Return a function that writes an installation with settings of the service."""

    def it(settings: Mapping[str, Any], **layers: Mapping[str, Any]) -> Path:
        documents = {
            name: layer_document(
                path,
                tile_matrix_sets=SETS,
                **({"vertical": VERTICAL} if name == ALPS.name else {}) | layers.get(name, {}),
            )
            for name, path in pyramids.items()
        }
        return write_installation(
            tmp_path_factory.mktemp("installation"),
            layers=documents,
            tile_matrix_sets=SETS,
            services=["elevation"],
            public_url=PUBLIC_URL,
            services_overrides={"elevation": dict(settings)},
        )

    return it


@pytest.fixture(scope="session")
def open_with(write: Callable[..., Path], open_client: OpenClient) -> Open:
    """Return a function that opens an installation with settings of the service."""

    def it(settings: Mapping[str, Any], **layers: Mapping[str, Any]) -> Client:
        return open_client(write(settings, **layers))

    return it


@pytest.fixture(scope="session")
def client(open_with: Open) -> Client:
    """Return a client of the service with all protocols."""
    return open_with(EVERYTHING)


@pytest.fixture(scope="session")
def queries(client: Client) -> Any:
    """Return the queries of the service."""
    return client.application.site.services["elevation"]._native.context.queries


@pytest.fixture(scope="session")
def datasets(client: Client) -> Any:
    """Return the datasets of the service."""
    return client.application.site.services["elevation"]._datasets


@pytest.fixture(scope="session")
def ridge_pyramid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the descriptor of the pyramid of `ridge`."""
    return ridge.write(tmp_path_factory.mktemp("ridge"))


@pytest.fixture(scope="session")
def open_ridge(
    ridge_pyramid: Path, tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient
) -> Open:
    """Return a function that opens the service ``terrain`` on the pyramid of `ridge`."""

    def it(settings: Mapping[str, Any], **layer: Any) -> Client:
        server_json = write_installation(
            tmp_path_factory.mktemp("ridge"),
            layers={"ridge": layer_document(ridge_pyramid, **layer)},
            services=["terrain"],
            public_url=PUBLIC_URL,
            services_overrides={"terrain": dict(settings)},
        )
        return open_client(server_json)

    return it


@pytest.fixture(scope="session")
def write_terrain(
    pyramids: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """Return a function that writes an installation with the service ``terrain``."""

    def it(
        services: Mapping[str, Any], names: tuple[str, ...] = ("terrain",), **layers: Any
    ) -> Path:
        documents = {
            name: layer_document(path, tile_matrix_sets=SETS, **layers.get(name, {}))
            for name, path in pyramids.items()
        }
        return write_installation(
            tmp_path_factory.mktemp("terrain"),
            layers=documents,
            tile_matrix_sets=SETS,
            services=list(names),
            public_url=PUBLIC_URL,
            services_overrides=services,
        )

    return it


@pytest.fixture(scope="session")
def terrain(write_terrain: Callable[..., Path], open_client: OpenClient) -> Open:
    """Return a function that opens the service ``terrain`` with settings."""

    def it(*given: Any, **layers: Any) -> Client:
        return open_client(write_terrain(*given, **layers))

    return it


@pytest.fixture(scope="session")
def tiles(terrain: Open) -> Client:
    """Return a client of the service ``terrain`` with a stack."""
    settings = {"datasets": [TERRAIN_STACK], "overzoom": 2, "limits": {"tiles": 8192}}
    return terrain({"terrain": settings})


def read(response: TestResponse, status: int = 200) -> Any:
    """Return the JSON of a response."""
    assert response.status_code == status, response.data[:500]
    assert response.content_type.partition(";")[0].endswith("json")
    return json.loads(response.data)


def post(client: Client, path: str, document: Any, **options: Any) -> TestResponse:
    """Send a JSON document."""
    return client.post(path, data=json.dumps(document), content_type="application/json", **options)
