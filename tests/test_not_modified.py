"""Answers without content because the client has it (RFC 9110, 13.1.2 and 15.4.5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.coverage.ground import ORIGIN, TILE, Ground
from werkzeug.test import Client, TestResponse

REQUIRED = ("Cache-Control", "Content-Location", "ETag", "Expires", "Vary")
"""Headers of a 200 that a 304 has too; Date is the server's."""
WEST, NORTH = ORIGIN[0] + 4 * TILE, ORIGIN[1] - 6 * TILE
BOX = f"{WEST},{NORTH - 100},{WEST + 100},{NORTH}"
TILE_QUERY = "request=GetTile&layer=ground&style=normal&tilematrixset=LAMB&tilematrix=3"
MAP_QUERY = f"request=GetMap&layers=ground&styles=&crs=EPSG:2154&bbox={BOX}&width=64&height=64"
WCS = "/wcs?service=WCS&version=2.0.1"
SUBSET = f"subset=E({WEST}:{WEST + 99}),N({NORTH - 99}:{NORTH})&subset-crs=[EPSG:2154]"
ADDRESSES = [
    "/wms?service=WMS&request=GetCapabilities",
    f"/wms?service=WMS&version=1.3.0&{MAP_QUERY}&format=image/geotiff",
    "/wmts?service=WMTS&request=GetCapabilities",
    f"/wmts?service=WMTS&version=1.0.0&{TILE_QUERY}&tilerow=8&tilecol=5&format=image/x-bil;bits=32",
    "/tms/1.0.0/ground",
    "/tms/1.0.0/ground/3/5/8.zbil",
    f"{WCS}&request=GetCapabilities",
    f"{WCS}&request=DescribeCoverage&coverageId=ground",
    f"{WCS}&request=GetCoverage&coverageId=ground&format=image/tiff&geotiff:compression=None",
    f"{WCS}&request=GetCoverage&coverageId=ground&subset=E({WEST + 3},{WEST + 50})",
    "/ogcapi",
    "/ogcapi/api?f=json",
    "/ogcapi/collections/ground",
    "/ogcapi/collections/ground/map?width=64&f=tiff",
    "/ogcapi/collections/ground/coverage",
    f"/ogcapi/collections/ground/coverage?{SUBSET}&f=geotiff&compression=deflate",
    f"/ogcapi/collections/ground/coverage?{SUBSET}&f=geotiff&width=20",
    "/ogcapi/collections/ground/map/tiles/LAMB/3/8/5?f=tiff",
    "/ogcapi/collections/ground/coverage/parts",
    "/ogcapi/collections/ground/schema",
    "/elevation",
    "/elevation/edr/collections/ground",
    "/elevation/edr/collections/ground/position?coords=POINT(1.66 48.28)",
    "/elevation/points?coords=POINT(1.66 48.28)",
    "/elevation/profile?coords=LINESTRING(1.66 48.28,1.67 48.27)",
    "/terrain",
    "/export/processes",
    "/viewer/",
]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    directory = tmp_path_factory.mktemp("ground")
    services: dict[str, Any] = {
        "ogcapi": {"coverages": True},
        "export": {
            "endpoint_uri": "http://maps.example/export",
            "directory": str(directory / "jobs"),
        },
    } | {name: {} for name in ("wcs", "wms", "wmts", "tms", "elevation", "terrain", "viewer")}
    enabled = {name: {"enabled": True} for name in ("wcs", "elevation", "terrain", "export")}
    ground = Ground(directory, services=services, coverages=True, **enabled)
    yield Client(ground.application)
    ground.close()


def get(client: Client, address: str, **options: Any) -> TestResponse:
    return client.get(address, buffered=True, **options)


@pytest.mark.parametrize("address", ADDRESSES)
def test_not_modified_has_the_headers_of_caches(client: Client, address: str) -> None:
    whole = get(client, address)
    assert whole.status_code == 200, whole.text
    etag = whole.headers["ETag"]
    again = get(client, address, headers={"If-None-Match": etag})
    assert (again.status_code, again.data) == (304, b"")
    for name in REQUIRED:
        assert again.headers.getlist(name) == whole.headers.getlist(name), name


POINT = b'{"type": "Point", "coordinates": [1.7, 48.2]}'
POSTED = [
    ("/elevation/points", POINT, "application/geo+json"),
    (
        "/wcs",
        b'<GetCapabilities service="WCS" xmlns="http://www.opengis.net/wcs/2.0"/>',
        "application/xml",
    ),
    (
        "/wcs",
        b'<GetCoverage service="WCS" version="2.0.1" xmlns="http://www.opengis.net/wcs/2.0">'
        b"<CoverageId>ground</CoverageId></GetCoverage>",
        "application/xml",
    ),
    ("/wms", MAP_QUERY.encode() + b"&service=WMS&version=1.3.0&format=image/geotiff", "form"),
]


@pytest.mark.parametrize(("address", "body", "media_type"), POSTED)
def test_posts_are_answered_whatever_the_client_has(
    client: Client, address: str, body: bytes, media_type: str
) -> None:
    if media_type == "form":
        media_type = "application/x-www-form-urlencoded"
    sent: dict[str, Any] = {"data": body, "content_type": media_type, "buffered": True}
    whole = client.post(address, **sent)
    assert whole.status_code == 200, whole.text
    for known in ("*", whole.headers.get("ETag", "")):
        again = client.post(address, **sent, headers={"If-None-Match": known})
        assert (again.status_code, again.data) == (200, whole.data)
