"""What a layer of posts changes, and what it does not: what no other test compares.

Elsewhere: what the builder finds (`tests/build/test_registration.py`), GeoTIFFs and grids of maps
(`tests/wms/test_registration.py`), coverages (`tests/ogcapi/test_coverages.py`,
`tests/wcs/test_getcoverage.py`), and heights at posts (`tests/elevation/test_posts.py`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyproj
import pytest
from werkzeug.test import Client

from mastaba.plugins.manager import Plugins
from mastaba.wsgi import create_application
from mastaba_export.opening import opened_descriptor
from mastaba_export.plan import plan
from mastaba_export.request import ExportRequest
from mastaba_export.run import run
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import synthetic

rasterio = pytest.importorskip("rasterio")

TILE = 256
CELL = 30.0
WEST, NORTH = 885_985.0, 6_534_015.0
"""Corner of the pixel of the first post."""
SET = synthetic(
    "POSTS",
    crs="EPSG:2154",
    origin=(WEST, NORTH),
    cell_sizes=[2 * CELL, CELL],
    matrix_sizes=[(1, 1), (2, 2)],
    tile_size=(TILE, TILE),
)
HILLSHADE = {
    "identifier": "shade",
    "title": "Shade",
    "abstract": "",
    "keywords": [],
    "hillshade": {"zenith": 45, "azimuth": 315, "z_factor": 1},
}


def heights(level: str, row: int, column: int) -> Any:
    """Return waves without holes, so that all derived tiles have something to show."""
    step = CELL if level == "1" else 2 * CELL
    y, x = np.mgrid[row * TILE : (row + 1) * TILE, column * TILE : (column + 1) * TILE] * step
    return (700 + 300 * np.sin(x / 900) * np.cos(y / 1300)).astype(np.float32)


@pytest.fixture(scope="module")
def pyramid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pyramid(
        tmp_path_factory.mktemp("posts"),
        "heights",
        tile_matrix_set=SET,
        format="TIFF_ZIP_FLOAT32",
        channels=1,
        nodata=[-99999.0],
        levels=[LevelPlan("0", 0, 0, 0, 0), LevelPlan("1", 0, 1, 0, 1)],
        tile=heights,
    )


def installation(folder: Path, pyramid: Path, **fields: Any) -> Path:
    layer = layer_document(pyramid, tile_matrix_sets={"POSTS": SET}, **fields)
    return write_installation(
        folder,
        layers={"heights": layer},
        tile_matrix_sets={"POSTS": SET},
        styles={"shade": HILLSHADE},
        services=["wmts", "tms", "ogcapi", "terrain"],
    )


@pytest.fixture(scope="module")
def clients(pyramid: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Client]]:
    """Return the same stored values as those of areas and of posts."""
    found = {}
    with ExitStack() as stack:
        for registration in ("area", "post"):
            server = installation(
                tmp_path_factory.mktemp(registration),
                pyramid,
                registration=registration,
                styles=["shade"],
            )
            application = create_application(str(server))
            stack.callback(application.site.close_services)
            assert application.site.catalogue.layers["heights"].registration == registration
            found[registration] = Client(application)
        yield found


TILES = {
    "WMTS": "/wmts?SERVICE=WMTS&REQUEST=GetTile&VERSION=1.0.0&LAYER=heights&STYLE=shade"
    "&TILEMATRIXSET=POSTS&TILEMATRIX=1&TILEROW=1&TILECOL=0&FORMAT=image/x-bil;bits=32",
    "TMS": "/tms/1.0.0/heights/1/0/1.zbil",
    "OGC API": "/ogcapi/collections/heights/map/tiles/POSTS/1/1/0",
    "terrain-RGB": "/terrain/heights/mapbox/POSTS/1/0/1.png",
    "hillshade": "/wmts?SERVICE=WMTS&REQUEST=GetTile&VERSION=1.0.0&LAYER=heights&STYLE=shade"
    "&TILEMATRIXSET=POSTS&TILEMATRIX=1&TILEROW=1&TILECOL=0&FORMAT=image/png",
    "mesh": "/terrain/heights/mesh/{z}/{geographic}.terrain",
    "contours": "/terrain/heights/contours/{z}/{mercator}.pbf",
}


def address(kind: str, zoom: int = 12) -> str:
    """Return the path of a tile; derived ones contain the middle of the layer."""
    lon, lat = pyproj.Transformer.from_crs("EPSG:2154", "EPSG:4326", always_xy=True).transform(
        WEST + TILE * CELL, NORTH - TILE * CELL
    )
    side = 1 << zoom
    geographic = f"{int((lon + 180) / 180 * side)}/{int((lat + 90) / 180 * side)}"
    y = (1 - math.asinh(math.tan(math.radians(lat))) / math.pi) / 2
    mercator = f"{int((lon + 180) / 360 * side)}/{int(y * side)}"
    return TILES[kind].format(z=zoom, geographic=geographic, mercator=mercator)


@pytest.mark.parametrize("kind", TILES)
def test_tiles_are_those_of_areas(kind: str, clients: dict[str, Client]) -> None:
    answers = [client.get(address(kind)) for client in clients.values()]
    assert [one.status_code for one in answers] == [200, 200], answers[0].text[:300]
    assert answers[0].data == answers[1].data
    assert len(answers[0].data) > 100


@pytest.mark.parametrize(
    ("in_pyramid", "in_layer", "expected"),
    [
        (None, None, "area"),
        ("post", None, "post"),
        ("post", "area", "area"),
        ("area", "post", "post"),
    ],
)
def test_the_layer_wins_over_the_pyramid(
    pyramid: Path, tmp_path: Path, in_pyramid: str | None, in_layer: str | None, expected: str
) -> None:
    document = json.loads(pyramid.read_text())
    if in_pyramid is not None:
        document["raster_specifications"]["registration"] = in_pyramid
    changed = pyramid.with_name("changed.json")
    changed.write_text(json.dumps(document))
    fields = {} if in_layer is None else {"registration": in_layer}
    application = create_application(str(installation(tmp_path, changed, **fields)))
    assert application.site.catalogue.layers["heights"].registration == expected
    application.site.close_services()


@pytest.mark.parametrize("registration", ["area", "post"])
def test_a_cog_is_read_back_where_it_was(registration: str, pyramid: Path, tmp_path: Path) -> None:
    """A file whose positions are centres becomes a layer with the same edges and values."""
    document = json.loads(pyramid.read_text())
    document["raster_specifications"]["registration"] = registration
    changed = pyramid.with_name(f"{registration}.json")
    changed.write_text(json.dumps(document))
    cog, again = tmp_path / "a.tif", tmp_path / "again.tif"
    inputs = {"format": "cog"}
    sets = pyramid.with_name("tilematrixsets")
    sets.mkdir(exist_ok=True)
    (sets / "POSTS.json").write_text(json.dumps(SET))
    with opened_descriptor(str(changed), Plugins(), sets) as (site, layer):
        run(plan(ExportRequest.from_inputs({"layer": layer, **inputs}), site), cog)
    layer_json = {"title": "A", "abstract": "", "pyramids": [{"path": str(cog)}]}
    server = write_installation(tmp_path / "s", layers={"A": layer_json}, services=["tms"])
    application = create_application(str(server))
    run(plan(ExportRequest.from_inputs({"layer": "A", **inputs}), application.site), again)
    application.site.close_services()
    application.site.catalogue.storages.close()
    with rasterio.open(cog) as one, rasterio.open(again) as other:
        assert one.tags()["AREA_OR_POINT"] == ("Point" if registration == "post" else "Area")
        assert one.bounds == other.bounds
        assert (one.bounds.left, one.bounds.top) == (WEST, NORTH)
        assert one.read().tobytes() == other.read().tobytes()
        assert one.tags()["AREA_OR_POINT"] == other.tags()["AREA_OR_POINT"]
