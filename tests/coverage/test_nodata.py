"""Numbers of nodata that float32 does not have are those of the pixels in every answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lxml import etree
from tests.coverage.ground import ORIGIN, TILE, Ground, Pixels
from werkzeug.test import Client

from mastaba.api.catalogue import WGS84, RasterSpecification, transform_points

rasterio = pytest.importorskip("rasterio")
pytest.importorskip("mastaba_elevation")
pytest.importorskip("mastaba_ogcapi")
pytest.importorskip("mastaba_wcs")

LOWEST = -3.4028234663852886e38
"""The least float32, which GIS software writes where nothing is known."""
TOP, LEFT = 6 * TILE, 4 * TILE
"""A tile whose left half has no values."""


class Holes(Ground):
    """A layer whose tiles are nodata in their left halves, and 100 in the right ones."""

    def __init__(self, directory: Path, nodata: float) -> None:
        self.nodata = nodata
        super().__init__(
            directory,
            services={
                "ogcapi": {"coverages": True},
                "wcs": {},
                "wms": {"reprojection": True},
                "elevation": {"edr": True},
            },
            coverages=True,
            vertical={"crs": "EPSG:5720"},
            **{name: {"enabled": True} for name in ("wcs", "elevation")},
        )

    def write(self, **changes: Any) -> None:
        def tile(level: str, row: int, col: int) -> Pixels:
            values = np.full((TILE, TILE, 1), 100, np.float32)
            values[:, : TILE // 2] = self.nodata
            return values

        super().write(nodata=[self.nodata], tile=tile)


@pytest.fixture(scope="module", params=[-9999.1, LOWEST, 0.1, 1e-40])
def holes(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Holes]:
    opened = Holes(tmp_path_factory.mktemp("holes"), request.param)
    yield opened
    opened.close()


@pytest.fixture
def client(holes: Holes) -> Client:
    return Client(holes.application)


def degrees(holes: Holes, column: int) -> tuple[float, float]:
    """Return longitude and latitude of the middle of a cell in the first row of the tile."""
    x, y = np.array([ORIGIN[0] + LEFT + column + 0.5]), np.array([ORIGIN[1] - TOP - 0.5])
    lon, lat = transform_points(holes.coverage.crs, WGS84, x, y)
    return float(lon[0]), float(lat[0])


def test_specification_has_the_value_of_the_pixels(holes: Holes) -> None:
    (value,) = holes.coverage.nodata
    assert value == np.float32(holes.nodata).item()
    described = json.loads((holes.directory / "pyramids/ground.json").read_text("utf-8"))
    text = described["raster_specifications"]["nodata"]
    assert np.float32(float(text)) == np.float32(holes.nodata)


def test_numbers_beyond_float32_become_the_largest() -> None:
    assert RasterSpecification(2, (1e300, -1e300), "gray").nodata == (-LOWEST, LOWEST)
    assert RasterSpecification(3, (255, 0, 7), "rgb").nodata == (255.0, 0.0, 7.0)


@pytest.mark.parametrize(("column", "value"), [(5, None), (TILE // 2 + 5, 100.0)])
def test_positions_in_holes_have_no_value(
    holes: Holes, client: Client, column: int, value: float | None
) -> None:
    lon, lat = degrees(holes, column)
    at = f"subset=Lon({lon!r}),Lat({lat!r})&f=json"
    assert client.get(f"/ogcapi/collections/ground/coverage?{at}").json == value
    point = f"coords=POINT({lon!r}+{lat!r})"
    found = client.get(f"/elevation/edr/collections/ground/position?{point}")
    assert found.status_code == (204 if value is None else 200)
    if value is not None:
        assert found.json["ranges"]["elevation"]["values"] == [value]
    points = client.get(f"/elevation/points?dataset=ground&{point}").json
    assert points["results"][0]["elevation"] == value


def test_statistics_leave_holes_out(holes: Holes, client: Client) -> None:
    (west, south), (east, north) = degrees(holes, 0), degrees(holes, 10 * TILE)
    south -= 0.003
    ring = f"{west} {south},{east} {south},{east} {north},{west} {north},{west} {south}"
    found = client.get(f"/elevation/statistics?dataset=ground&coords=POLYGON(({ring}))")
    assert found.status_code == 200, found.text
    values = found.json["statistics"]
    assert (values["min"]["value"], values["max"]["value"]) == (100, 100)


def test_files_declare_the_value_of_their_pixels(holes: Holes, client: Client) -> None:
    east, north = ORIGIN[0] + LEFT, ORIGIN[1] - TOP
    box = f"{east},{north - TILE},{east + TILE},{north}"
    files = [
        f"/ogcapi/collections/ground/coverage?bbox={box}&bbox-crs=[EPSG:2154]&f=geotiff",
        "/wms?service=WMS&version=1.3.0&request=GetMap&layers=ground&styles=&crs=EPSG:2154"
        f"&bbox={box}&width={TILE}&height={TILE}&format=image/geotiff",
    ]
    for address in files:
        response = client.get(address)
        assert response.status_code == 200, response.text
        with rasterio.MemoryFile(response.data) as file, file.open() as source:
            mask = source.read(1, masked=True).mask
        assert mask[:, : TILE // 2].all()
        assert not mask[:, TILE // 2 :].any()


def test_documents_name_the_value_of_the_pixels(holes: Holes, client: Client) -> None:
    schema = client.get("/ogcapi/collections/ground/schema").json
    (value,) = schema["properties"]["elevation"]["x-ogc-nullValues"]
    assert np.float32(value) == np.float32(holes.nodata)
    query = "/wcs?service=WCS&version=2.0.1&request=DescribeCoverage&coverageId=ground"
    root = etree.fromstring(client.get(query).data)
    (text,) = root.xpath("//*[local-name() = 'nilValue']/text()")
    assert np.float32(float(text)) == np.float32(holes.nodata)
