"""What `mastaba export` writes is served like the layer that it came from."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.container_sqlite.ground import picture
from tests.export.ground import planned
from werkzeug.test import Client

from mastaba.api.tools import create_application
from mastaba_export.run import run
from mastaba_writer.installation import write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

LEVELS = [LevelPlan("5", 13, 17, 16, 19), LevelPlan("4", 6, 8, 8, 9)]


@pytest.mark.parametrize("format", ["mbtiles", "gpkg"])
def test_exports_are_served_like_the_layer(tmp_path: Path, format: str) -> None:
    pyramid = write_pyramid(
        tmp_path / "pyramids",
        "P",
        tile_matrix_set=web_mercator(),
        format="TIFF_PNG_UINT8",
        levels=LEVELS,
        tile=lambda level, row, column: picture(int(level) * 1000 + row * 50 + column),
    )
    services = ["wmts", "wms", "ogcapi"]
    first = create_application(
        str(write_installation(tmp_path / "first", layers={"P": pyramid}, services=services))
    )
    archive = tmp_path / f"p.{format}"
    run(planned(first.site, "P", format), archive)
    layer = {"title": "Q", "abstract": "", "pyramids": [{"path": str(archive)}]}
    second = create_application(
        str(write_installation(tmp_path / "second", layers={"P": layer}, services=services))
    )
    one, other = Client(first), Client(second)
    for level in LEVELS:
        for row in range(level.min_row, level.max_row + 1):
            for column in range(level.min_col, level.max_col + 1):
                address = f"/ogcapi/collections/P/map/tiles/PM/{level.id}/{row}/{column}"
                assert one.get(address).status_code == 200
                assert one.get(address).data == other.get(address).data
    for crs, box in (
        ("EPSG:3857", "100000,-100000,4900000,4800000"),
        ("EPSG:3857", "-3000000,-3000000,9000000,7000000"),
        ("EPSG:4326", "1,1,30,35"),
    ):
        address = (
            "/wms?SERVICE=WMS&REQUEST=GetMap&VERSION=1.3.0&LAYERS=P&STYLES=&FORMAT=image/png"
            f"&CRS={crs}&BBOX={box}&WIDTH=300&HEIGHT=200"
        )
        maps = [client.get(address) for client in (one, other)]
        assert [answer.status_code for answer in maps] == [200, 200]
        with Image.open(io.BytesIO(maps[0].data)) as a, Image.open(io.BytesIO(maps[1].data)) as b:
            assert np.array_equal(np.asarray(a), np.asarray(b))
