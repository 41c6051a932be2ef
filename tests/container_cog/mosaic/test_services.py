"""Layers from mosaics in every protocol, in coverages, exports and elevations, and in tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from tests.container_cog.files import by_gdal, ground, stored_tiles
from tests.container_cog.mosaic.ground import corners
from tests.container_cog.mosaic.test_replacement import later
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
from tests.container_cog.test_services import VIEWS, maps
from tests.containers.test_everywhere import NODATA, all_heights, published, write_heights
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.api.tools import create_application
from mastaba.commands.main import main
from mastaba_conformance.object_server import S3_KEYS, ObjectServer
from mastaba_containers.sets import web_mercator_matrix
from mastaba_export.plan import plan
from mastaba_export.request import ExportRequest
from mastaba_export.run import run
from mastaba_writer.installation import write_installation

SIZE = (256 * SIDE, 256 * SIDE)
HALF = 128 * SIDE


def quarters(
    folder: Path, values: Any, level: int = 4, row: int = ROW, col: int = COL, **options: Any
) -> dict[str, bytes]:
    """Write an image as four files, and a table of them; return the files."""
    matrix = web_mercator_matrix(level, 256)
    size = values.shape[0] // 2
    files, features = {}, []
    for down in (0, 1):
        for right in (0, 1):
            x = matrix.origin_x + (col * 256 + right * size) * matrix.cell_size
            y = matrix.origin_y - (row * 256 + down * size) * matrix.cell_size
            part = values[down * size :, right * size :][:size, :size]
            name = f"{down}{right}.tif"
            files[name] = by_gdal(
                folder,
                part,
                crs="EPSG:3857",
                corner=(x, y, matrix.cell_size),
                **{"BLOCKSIZE": 256, **options},
            )
            (folder / name).write_bytes(files[name])
            side = size * matrix.cell_size
            ring = [corners((x, y - side, x + side, y))]
            features.append(
                {
                    "type": "Feature",
                    "properties": {"path": name},
                    "geometry": {"type": "Polygon", "coordinates": ring},
                }
            )
    (folder / "cog.tif").unlink()
    crs = {"type": "name", "properties": {"name": "EPSG:3857"}}
    document = {"type": "FeatureCollection", "crs": crs, "features": features}
    (folder / "table.json").write_text(json.dumps(document))
    return files


def entry(path: object, **options: Any) -> dict[str, Any]:
    return {"path": str(path), "container": "mosaic", "options": options}


@pytest.mark.parametrize("place", ["file", "s3"])
def test_stored_tiles_are_equal_in_every_protocol(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    files = quarters(tmp_path, ground("uint8", 3, SIZE), COMPRESS="JPEG")
    server = tiny_installation(tmp_path / "site")
    with ObjectServer() as store:
        ((key, secret),) = S3_KEYS.items()
        monkeypatch.setenv("ROK4_S3_URL", store.url)
        monkeypatch.setenv("ROK4_S3_KEY", key)
        monkeypatch.setenv("ROK4_S3_SECRETKEY", secret)
        for name, data in files.items():
            store.put("maps", f"ortho/{name}", data)
        store.put("maps", "ortho/table.json", (tmp_path / "table.json").read_bytes())
        path = {"file": str(tmp_path / "table.json"), "s3": "s3://maps/ortho/table.json"}[place]
        add_layer(tmp_path / "site", "MOSAIC", entry(path, tile_matrix_set="PM"))
        client = client_of(server)
        for name, data in files.items():
            down, right = int(name[0]), int(name[1])
            for (level, row, col), tile in stored_tiles(data).items():
                at = place_of(
                    str(int(level) + 3),
                    row + down * (HALF >> 1 - int(level)) // 256,
                    col + right * (HALF >> 1 - int(level)) // 256,
                )
                for protocol, address in addresses("MOSAIC", *at, "image/jpeg", "jpg").items():
                    answer = client.get(address)
                    assert answer.status_code == 200, (protocol, address, answer.text)
                    assert answer.data == tile, (protocol, at)
        before = len(store.requests)
        again = client.get(address, headers={"If-None-Match": answer.headers["ETag"]})
        assert again.status_code == 304
        outside = addresses("MOSAIC", "4", ROW + SIDE, COL, "image/jpeg", "jpg")["TMS"]
        assert client.get(outside).status_code == 404
        assert len(store.requests) == before
        client.get(address)
        assert len(store.requests) - before == (place == "s3")


@pytest.mark.parametrize(
    ("compression", "tolerance"),
    [("DEFLATE", 0), pytest.param("JPEG", 2, marks=pytest.mark.thorough)],
)
def test_maps_are_those_of_slabs(tmp_path: Path, compression: str, tolerance: int) -> None:
    values = ground("uint8", 3, SIZE)
    quarters(tmp_path, values, COMPRESS=compression, OVERVIEW_RESAMPLING="AVERAGE")
    server = tiny_installation(tmp_path / "site")
    data = cog_of(tmp_path, values, COMPRESS=compression, OVERVIEW_RESAMPLING="AVERAGE")
    slabs = write_slabs(tmp_path, "slabs", data, levels="43", jpeg=compression == "JPEG")
    descriptor = json.loads(slabs.read_text())
    # The colour that pixels at the edge are mixed with.
    descriptor["raster_specifications"]["nodata"] = "255,255,255"
    slabs.write_text(json.dumps(descriptor))
    fields = {"extra_crs": ["EPSG:3035"], "resampling": "linear"}
    levels = {"bottom_level": "4", "top_level": "3"}
    add_layer(tmp_path / "site", "SLABS", {"path": str(slabs), **levels}, **fields)
    source = entry(tmp_path / "table.json", tile_matrix_set="PM")
    add_layer(tmp_path / "site", "MOSAIC", {**source, **levels}, **fields)
    client = client_of(server)
    for view in VIEWS:
        for ours, theirs in zip(
            maps(client, "MOSAIC", view), maps(client, "SLABS", view), strict=True
        ):
            assert np.abs(ours.astype(int) - theirs).max() <= tolerance, view
            assert len(np.unique(theirs)) > 50


def test_heights_coverages_exports_and_tools(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cogs").mkdir()
    quarters(
        *(tmp_path / "cogs", all_heights()[..., np.newaxis], 5, 10, 18),
        nodata=NODATA,
        COMPRESS="DEFLATE",
        OVERVIEWS="NONE",
    )
    cog = write_heights(tmp_path)["COG"]
    source = entry(tmp_path / "cogs/table.json")
    fields: dict[str, Any] = {
        "title": "M",
        "abstract": "",
        "vertical": {"crs": "EPSG:5720", "kind": "terrain"},
        "coverages": True,
    }
    layers = {
        "MOSAIC": {**fields, "pyramids": [source]},
        "COG": {**fields, "pyramids": [{"path": str(cog)}]},
    }
    services = ["elevation", "terrain", "ogcapi"]
    server = write_installation(tmp_path / "site", layers=layers, services=services)
    document = json.loads((tmp_path / "site/services.json").read_text())
    document["ogcapi"] |= {"coverages": True}
    (tmp_path / "site/services.json").write_text(json.dumps(document))
    client = Client(create_application(str(server)))
    for request in (
        "/elevation/points?dataset={}&coords=MULTIPOINT(25 50,26.01 51.3,44 41.5)",
        "/elevation/statistics?dataset={}&coords=POLYGON((23 54,44 54,44 42,23 54))",
        "/terrain/{}/mapbox/5/18/10.png",
    ):
        ours, theirs = (client.get(request.format(name)) for name in ("MOSAIC", "COG"))
        assert theirs.status_code == 200, theirs.data
        assert ours.data == theirs.data.replace(b"COG", b"MOSAIC"), request
    answer = client.get("/ogcapi/collections/MOSAIC/coverage?f=geotiff")
    assert answer.status_code == 200, answer.data
    with rasterio.MemoryFile(answer.data) as file, file.open() as dataset:
        np.testing.assert_array_equal(dataset.read(1), all_heights())
    with published(server) as site:
        # Files without overviews also have the level above their own.
        for form, count in (("tif", 4), ("pyramid", 5)):
            found = plan(ExportRequest("MOSAIC", format=form), site)
            assert run(found, tmp_path / f"out{found.extension}").tiles == count
    with rasterio.open(tmp_path / "out.tif") as dataset:
        np.testing.assert_array_equal(dataset.read(1), all_heights())
    main(["check", "-f", str(server), "--deep"])
    printed = capsys.readouterr().out
    assert "4 files, 1 bands of float32" in printed
    assert "level 5: up to 1 files in a tile" in printed
    limits = ["MOSAIC", "PM", "5", "10", "18"]
    words = [word if word != "PM" else "WebMercatorQuad" for word in limits]
    with published(server) as site:
        words[1] = site.catalogue.layers["MOSAIC"].pyramid.tile_matrix_set.id
    assert main(["tile", "-f", str(server), *words]) == 0
    assert "state      stored" in capsys.readouterr().out


def test_too_many_sources_and_faulty_tables_are_reported(tmp_path: Path) -> None:
    quarters(tmp_path, ground("uint8", 3, SIZE), COMPRESS="JPEG")
    document = json.loads((tmp_path / "table.json").read_text())
    document["features"] = [
        {**one, "properties": {"path": f"x/../{one['properties']['path']}", "nodata": number}}
        for number in range(5)
        for one in document["features"]
    ]
    table = tmp_path / "table.json"
    table.write_text(json.dumps(document))
    server = tiny_installation(tmp_path / "site")
    options = {"tile_matrix_set": "PM", "levels": ["2", "3", "4"], "refresh": 1}
    add_layer(tmp_path / "site", "MOSAIC", entry(table, **options))
    client = client_of(server)
    at = place_of("2", 0, 0)
    answer = client.get(addresses("MOSAIC", *at, "image/jpeg", "jpg")["KVP"])
    assert answer.status_code == 400
    assert "too many sources" in answer.text
    box = "-20000000,-20000000,20000000,20000000"
    answer = client.get(
        "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&STYLES=&FORMAT=image/png"
        f"&LAYERS=MOSAIC&CRS=EPSG:3857&BBOX={box}&WIDTH=1000&HEIGHT=1000"
    )
    assert answer.status_code == 400
    assert "too many sources" in answer.text

    at = place_of("4", 0, 0)
    address = addresses("MOSAIC", *at, "image/jpeg", "jpg")["TMS"]
    assert client.get(address).status_code == 200
    table.write_text("{")
    ready = "/healthcheck/ready"
    assert later(lambda: client.get(address) and b"mosaic" in client.get(ready).data)
    assert client.get(address).status_code == 200
    assert client.get(ready).status_code == 200
    table.write_text(json.dumps(document))
    assert later(lambda: client.get(address) and b"mosaic" not in client.get(ready).data)
