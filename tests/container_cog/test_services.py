"""Layers from COGs in every protocol: tiles as stored, and maps as those of slabs."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.container_cog.files import ground, stored_tiles
from tests.container_cog.served import (
    COL,
    ROW,
    SIDE,
    add_layer,
    addresses,
    client_of,
    cog_of,
    place_of,
    write_slabs,
)
from tests.export.ground import planned
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba_conformance.object_server import S3_KEYS, ObjectServer
from mastaba_export.run import run
from mastaba_render.api.decoding import TileDecoder

SIZE = (256 * SIDE, 256 * SIDE)
EXPORTED = ("RGB_PNG", "RGBA_PNG", "RGB_RAW", "GREY_PNG", "GREYA_ZIP", "FLOAT32_ZIP", "FLOAT32_RAW")
MASK = np.where(np.hypot(*np.mgrid[-512:512, -512:512]) < 450, 255, 0).astype(np.uint8)


@pytest.mark.parametrize(
    ("compression", "media", "extension"),
    [
        ("JPEG", "image/jpeg", "jpg"),
        pytest.param("WEBP", "image/webp", "webp", marks=pytest.mark.thorough),
    ],
)
@pytest.mark.parametrize("place", [pytest.param("file", marks=pytest.mark.thorough), "s3"])
def test_stored_tiles_are_equal_in_every_protocol(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    compression: str,
    media: str,
    extension: str,
    place: str,
) -> None:
    data = cog_of(tmp_path, ground("uint8", 3, SIZE), COMPRESS=compression)
    server = tiny_installation(tmp_path / "site")
    with ObjectServer() as store:
        ((key, secret),) = S3_KEYS.items()
        monkeypatch.setenv("ROK4_S3_URL", store.url)
        monkeypatch.setenv("ROK4_S3_KEY", key)
        monkeypatch.setenv("ROK4_S3_SECRETKEY", secret)
        store.put("maps", "cog.tif", data)
        path = {"file": str(tmp_path / "cog.tif"), "s3": "s3://maps/cog.tif"}[place]
        add_layer(tmp_path / "site", "COG", {"path": path})
        client = client_of(server)
        tiles = stored_tiles(data)
        assert len(tiles) == SIDE**2 + SIDE**2 // 4 + 1
        for (level, row, col), tile in tiles.items():
            at = place_of(str(int(level) + 2), row, col)
            for protocol, address in addresses("COG", *at, media, extension).items():
                answer = client.get(address)
                assert answer.status_code == 200, (protocol, address, answer.text)
                assert answer.headers["Content-Type"] == media
                assert answer.data == tile, (protocol, at)
        before = len(store.requests)
        again = client.get(address, headers={"If-None-Match": answer.headers["ETag"]})
        assert again.status_code == 304
        outside = addresses("COG", "4", ROW + SIDE, COL, media, extension)["TMS"]
        assert client.get(outside).status_code == 404
        assert len(store.requests) == before
        client.get(address)
        assert len(store.requests) - before == (place == "s3")


VIEWS = {
    "own": ("EPSG:3857", "1500000,1000000,9000000,8000000"),
    "degrees": ("CRS:84", "5,3,80,60"),
    "Europe": ("EPSG:3035", "2500000,3200000,4800000,5900000"),
}


def maps(client: Client, layer: str, view: str) -> list[np.ndarray[Any, np.dtype[np.uint8]]]:
    """Return the same map by WMS, and by OGC API Maps."""
    crs, box = VIEWS[view]
    first = box.split(",")
    # WMS has the order of axes of the CRS, latitude or northing first.
    if view == "Europe":
        first = [first[1], first[0], first[3], first[2]]
    wms = (
        f"/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&STYLES=&FORMAT=image/png&TRANSPARENT=TRUE"
        f"&LAYERS={layer}&CRS={crs}&BBOX={','.join(first)}&WIDTH=310&HEIGHT=270"
    )
    uri = (
        "http://www.opengis.net/def/crs/OGC/1.3/CRS84"
        if view == "degrees"
        else f"http://www.opengis.net/def/crs/EPSG/0/{crs[5:]}"
    )
    ogc = (
        f"/ogcapi/collections/{layer}/map?f=png&crs={uri}&bbox-crs={uri}&bbox={','.join(first)}"
        "&width=310&height=270"
    )
    found = []
    for address in (wms, ogc):
        answer = client.get(address)
        assert answer.status_code == 200, answer.text
        with Image.open(io.BytesIO(answer.data)) as picture:
            found.append(np.asarray(picture.convert("RGBA")))
    return found


@pytest.mark.parametrize(
    ("compression", "masked", "tolerance"),
    [
        ("DEFLATE", False, 0),
        pytest.param("DEFLATE", True, 0, marks=pytest.mark.thorough),
        pytest.param("WEBP", False, 2, marks=pytest.mark.thorough),
        pytest.param("JPEG", False, 2, marks=pytest.mark.thorough),
    ],
)
def test_maps_are_those_of_slabs(
    tmp_path: Path, compression: str, masked: bool, tolerance: int
) -> None:
    mask = MASK if masked else None
    data = cog_of(tmp_path, ground("uint8", 3, SIZE), mask=mask, COMPRESS=compression)
    server = tiny_installation(tmp_path / "site")
    slabs = write_slabs(tmp_path, "slabs", data, jpeg=compression == "JPEG")
    fields = {"extra_crs": ["EPSG:3035"], "resampling": "linear"}
    add_layer(
        tmp_path / "site",
        "SLABS",
        {"path": str(slabs), "bottom_level": "4", "top_level": "2"},
        **fields,
    )
    add_layer(tmp_path / "site", "COG", {"path": str(tmp_path / "cog.tif")}, **fields)
    client = client_of(server)
    for view in VIEWS:
        for ours, theirs in zip(
            maps(client, "COG", view), maps(client, "SLABS", view), strict=True
        ):
            difference = np.abs(ours.astype(int) - theirs).max()
            assert difference <= tolerance, view
            assert len(np.unique(theirs)) > 50


@pytest.mark.parametrize(
    "name", ["RGB_JPG", *(pytest.param(one, marks=pytest.mark.thorough) for one in EXPORTED)]
)
def test_exported_cog_has_the_tiles_of_its_layer(tmp_path: Path, name: str) -> None:
    server = tiny_installation(tmp_path)
    application: Any = client_of(server).application
    run(planned(application.site, name, "cog"), tmp_path / "out.tif")
    add_layer(tmp_path, "COG", {"path": str(tmp_path / "out.tif")})
    application = client_of(server).application
    catalogue = application.site.catalogue
    ours, theirs = catalogue.layers["COG"].pyramid, catalogue.layers[name].pyramid
    assert ours.tile_matrix_set is theirs.tile_matrix_set
    assert ours.levels["4"].limits == theirs.levels["4"].limits
    for row in (5, 6):
        for col in (9, 10):
            mine, other = (catalogue.readers[one]["4"].locate(row, col) for one in ("COG", name))
            if name == "RGB_JPG":
                assert mine.read() == other.read()
                continue
            pixels = mine.reader.decoder.decode(mine.read())
            raster = theirs.raster
            expected = TileDecoder(theirs.format, raster.channels, 256, 256).decode(other.read())
            if pixels.shape[2] == raster.channels:
                np.testing.assert_array_equal(pixels, expected)
                continue
            # Nodata has become alpha.
            known = (expected != raster.nodata).any(axis=2)
            assert known.any()
            np.testing.assert_array_equal(pixels[:, :, -1], known * np.uint8(255))
            np.testing.assert_array_equal(pixels[known, :-1], expected[known])
