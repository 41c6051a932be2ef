"""No service and no format shows a value that nobody measured."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyproj
import pytest
from PIL import Image
from tests.elevation.conftest import ClosingClient
from tests.elevation.quantized_mesh import decode
from tests.export.ground import planned
from tests.render.ground import MESH, MESH_CENTRE, MESH_LEVELS
from tests.render.test_value_range import HIGH, LOW, islands
from werkzeug.test import Client

from mastaba.wsgi import create_application
from mastaba_export.run import run
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import write_pyramid
from mastaba_writer.tile_matrix_sets import synthetic

rasterio = pytest.importorskip("rasterio")

NODATA = -99999.0
ROUNDING = 1e-2
HALF = 60000.0
FORMATS = ("image/tiff", "image/geotiff", "image/x-bil;bits=32")
CRSS = ("EPSG:3857", "EPSG:2154")
DERIVED = synthetic(
    "DERIVED",
    crs="EPSG:2154",
    origin=(500_000, 6_900_000),
    cell_sizes=[700, 300],
    matrix_sizes=[(8, 16), (16, 32)],
    tile_size=(64, 48),
)
"""An oblique set, of which tiles are computed."""
LAYERS = {"islands": MESH_LEVELS, "finest": MESH_LEVELS[2:]}
"""Levels of each layer. The overviews of the second one are computed."""
SERVICES: dict[str, Any] = {
    "wms": {},
    "wmts": {},
    "wcs": {},
    "ogcapi": {"coverages": True},
    "elevation": {"facades": {"edr": True}},
    "terrain": {"datasets": [{"id": "heights", "layers": ["islands"], "nodata_height": 0.0}]},
    "global": {
        "tile": {"reprojection": True},
        "map": {"crs": list(CRSS), "formats": list(FORMATS)},
    },
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    directory = tmp_path_factory.mktemp("islands")
    layers = {}
    for name, levels in LAYERS.items():
        descriptor = write_pyramid(
            directory / "pyramids",
            name,
            tile_matrix_set=MESH,
            format="TIFF_ZIP_FLOAT32",
            levels=levels,
            tile=islands,
            channels=1,
            tiles_per_width=4,
            tiles_per_height=4,
        )
        layers[name] = layer_document(
            descriptor,
            tile_matrix_sets={"MESH": MESH},
            extra_tilematrixsets=["DERIVED"],
            resampling="linear",
            wcs={"enabled": True},
            coverages=True,
        )
    server_json = write_installation(
        directory,
        layers=layers,
        tile_matrix_sets={"MESH": MESH, "DERIVED": DERIVED},
        services=[name for name in SERVICES if name != "global"],
        services_overrides=SERVICES,
    )
    client = ClosingClient(create_application(str(server_json)))
    yield client
    client.application.site.close_services()


def content(client: Client, path: str, **query: Any) -> bytes:
    response = client.get(path, query_string=query or None)
    assert response.status_code == 200, response.data[:500]
    return response.data


def check(values: npt.NDArray[Any], nodata: float = NODATA) -> None:
    """Check that each value is one between the stored ones, or nodata, and that both are there."""
    assert np.isfinite(values).all()
    measured = values[values != nodata]
    assert 0 < measured.size < values.size
    assert measured.min() >= LOW - ROUNDING
    assert measured.max() <= HIGH + ROUNDING


def raster(data: bytes) -> npt.NDArray[Any]:
    with rasterio.MemoryFile(data) as file, file.open() as source:
        assert source.nodata in (NODATA, None)
        return source.read(1)


def box(crs: str) -> tuple[float, float, float, float]:
    """Return west, south, east and north around the middle of the layer."""
    x, y = pyproj.Transformer.from_crs("EPSG:3857", crs, always_xy=True).transform(*MESH_CENTRE)
    return x - HALF, y - HALF, x + HALF, y + HALF


@pytest.mark.parametrize("size", [(97, 61), (613, 401)])
@pytest.mark.parametrize("crs", CRSS)
def test_scaled_coverages(client: Client, crs: str, size: tuple[int, int]) -> None:
    west, south, east, north = box(crs)
    reference = f"http://www.opengis.net/def/crs/EPSG/0/{crs[5:]}"
    path = "/wcs?SERVICE=WCS&VERSION=2.0.1&REQUEST=GetCoverage&COVERAGEID=islands"
    x, y = ("X", "Y") if crs == "EPSG:3857" else ("E", "N")
    path += f"&SUBSET={x}({west},{east})&SUBSET={y}({south},{north})&SUBSETTINGCRS={reference}"
    path += f"&OUTPUTCRS={reference}&SCALESIZE=i({size[0]}),j({size[1]})"
    found = raster(content(client, path))
    assert found.shape == size[::-1]
    check(found)
    path = f"/ogcapi/collections/islands/coverage?bbox={west},{south},{east},{north}"
    path += f"&bbox-crs=[{crs}]&crs=[{crs}]&width={size[0]}&height={size[1]}"
    found = raster(content(client, path))
    assert found.shape == size[::-1]
    check(found)


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("crs", CRSS)
def test_maps(client: Client, crs: str, format: str) -> None:
    data = content(
        client,
        "/wms",
        SERVICE="WMS",
        VERSION="1.3.0",
        REQUEST="GetMap",
        LAYERS="islands",
        STYLES="",
        CRS=crs,
        BBOX=",".join(map(str, box(crs))),
        WIDTH=211,
        HEIGHT=173,
        FORMAT=format,
    )
    check(np.frombuffer(data, "<f4") if "bil" in format else raster(data))


@pytest.mark.parametrize("level", DERIVED["tileMatrices"], ids=lambda level: level["id"])
def test_computed_tiles(client: Client, level: dict[str, Any]) -> None:
    x, y = pyproj.Transformer.from_crs("EPSG:3857", "EPSG:2154", always_xy=True).transform(
        *MESH_CENTRE
    )
    column = int((x - 500_000) / level["cellSize"] / level["tileWidth"])
    row = int((6_900_000 - y) / level["cellSize"] / level["tileHeight"])
    place = f"{level['id']}/{row}/{column}"
    tiles = [
        content(client, f"/ogcapi/collections/islands/map/tiles/DERIVED/{place}"),
        content(
            client,
            "/wmts",
            SERVICE="WMTS",
            VERSION="1.0.0",
            REQUEST="GetTile",
            LAYER="islands",
            STYLE="normal",
            FORMAT="image/x-bil;bits=32",
            TILEMATRIXSET="DERIVED",
            TILEMATRIX=level["id"],
            TILEROW=row,
            TILECOL=column,
        ),
    ]
    for tile in tiles:
        check(np.frombuffer(tile, "<f4"))


@pytest.mark.parametrize("compression", ["none", "deflate"])
def test_overviews_of_a_cog(client: Client, tmp_path: Path, compression: str) -> None:
    plan = planned(client.application.site, "finest", "cog", compression=compression)
    assert run(plan, tmp_path / "a.tif").is_complete
    with rasterio.open(tmp_path / "a.tif") as source:
        overviews = source.overviews(1)
        # The stored values are those of the layer, with all that are no numbers.
        assert not np.isfinite(source.read(1)).all()
    assert overviews
    for number in range(len(overviews)):
        with rasterio.open(tmp_path / "a.tif", overview_level=number) as source:
            check(source.read(1))


@pytest.mark.parametrize("zoom", [7, 9])
def test_terrain_tiles(client: Client, zoom: int) -> None:
    longitude, latitude = pyproj.Transformer.from_crs(
        "EPSG:3857", "OGC:CRS84", always_xy=True
    ).transform(*MESH_CENTRE)
    turn = math.pi * 6378137.0
    column = int((MESH_CENTRE[0] + turn) / (2 * turn) * 2**zoom)
    row = int((turn - MESH_CENTRE[1]) / (2 * turn) * 2**zoom)
    path = f"/terrain/heights/mapbox/{zoom}/{column}/{row}.png"
    colours = np.asarray(Image.open(io.BytesIO(content(client, path, precision="full"))))
    red, green, blue = colours.astype(np.int64).transpose(2, 0, 1)
    tenths = (red * 65536 + green * 256 + blue) - 100_000
    check(tenths / 10, 0.0)
    x, y = (int(angle / (180 / 2**zoom)) for angle in (longitude + 180, latitude + 90))
    mesh = decode(content(client, f"/terrain/heights/mesh/{zoom}/{x}/{y}.terrain"))
    step = (mesh.highest - mesh.lowest) / 32767
    heights = np.where(mesh.heights < 2 * step, 0.0, mesh.heights)
    check(heights, 0.0)


def test_cube_of_heights(client: Client) -> None:
    west, south, east, north = box("EPSG:2154")
    path = (
        f"/elevation/edr/collections/islands/cube?crs=EPSG:2154&bbox={west},{south},{east},{north}"
    )
    document = client.get(f"{path}&resolution-x=71&resolution-y=53").json
    (values,) = [item["values"] for item in document["ranges"].values()]
    assert len(values) == 71 * 53
    check(np.array([NODATA if value is None else value for value in values]))
