"""gdal.xml: the document, and what GDAL makes of it (tms.md section 8)."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest
from lxml import etree
from PIL import Image
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba_conformance.tiny_installation import tiny_integer_tile
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import synthetic

OpenClient = Callable[[Path], Client]
Serving = Callable[[Callable[[str], Path]], AbstractContextManager[str]]
HALF = 20037508.3427892


def test_document(tiny: Client) -> None:
    response = tiny.get("/tms/1.0.0/RGB_PNG/gdal.xml")
    # GDAL looks at the first bytes only.
    assert response.data.startswith(b"<GDAL_WMS>")
    root = etree.fromstring(response.data)
    service = root.find("Service")
    assert service is not None
    assert service.get("name") == "TMS"
    url = "http://maps.example/tms/1.0.0/RGB_PNG/${z}/${x}/${y}.png"
    assert service.findtext("ServerUrl") == url
    window = {node.tag: node.text for node in root.iterfind("DataWindow/*")}
    edges = [
        float(window.pop(name) or "")
        for name in ("UpperLeftX", "UpperLeftY", "LowerRightX", "LowerRightY")
    ]
    assert edges == pytest.approx([-HALF, HALF, HALF, -HALF])
    assert window == {
        "TileLevel": "4",
        "TileCountX": "1",
        "TileCountY": "1",
        "YOrigin": "top",
    }
    others = {node.tag: node.text for node in root if not len(node)}
    assert others == {
        "Projection": "EPSG:3857",
        "BlockSizeX": "256",
        "BlockSizeY": "256",
        "ZeroBlockHttpCodes": "204,404",
        "BandsCount": "3",
    }


@pytest.mark.parametrize(
    ("layer", "bands", "data_type"),
    [
        ("GREY_PNG", "1", None),
        ("RGBA_PNG", "4", None),
        # Images of the values: GDAL cannot read tiles without a header.
        ("FLOAT32_RAW", "4", None),
    ],
)
def test_bands(tiny: Client, layer: str, bands: str, data_type: str | None) -> None:
    root = etree.fromstring(tiny.get(f"/tms/1.0.0/{layer}/gdal.xml").data)
    assert root.findtext("BandsCount") == bands
    assert root.findtext("DataType") == data_type


@pytest.mark.parametrize(
    ("layer", "extension"),
    [("FLOAT32_RAW", "png"), ("RGB_RAW", "tif"), ("RGB_JPG", "jpeg")],
)
def test_tiles_are_in_a_format_that_gdal_reads(tiny: Client, layer: str, extension: str) -> None:
    root = etree.fromstring(tiny.get(f"/tms/1.0.0/{layer}/gdal.xml").data)
    url = f"http://maps.example/tms/1.0.0/{layer}/${{z}}/${{x}}/${{y}}.{extension}"
    assert root.findtext("Service/ServerUrl") == url


def test_vector_layer_is_refused(tiny: Client) -> None:
    response = tiny.get("/tms/1.0.0/VECTOR/gdal.xml")
    assert response.status_code == 400
    assert b"TileMapServerError" in response.data


@pytest.mark.parametrize(
    ("cell_sizes", "matrix_sizes", "identifiers", "why"),
    [
        ([300, 100], [(1, 1), (3, 3)], ["0", "1"], b"quadtree"),
        ([200, 100], [(2, 1), (4, 2)], ["0", "1"], b"one tile"),
        ([200, 100], [(1, 1), (2, 2)], ["a", "b"], b"not numbered"),
        ([200, 100], [(1, 1), (2, 2)], ["5", "6"], b"not numbered"),
    ],
)
def test_sets_that_gdal_cannot_address_are_refused(
    tmp_path: Path,
    open_client: OpenClient,
    cell_sizes: list[float],
    matrix_sizes: list[tuple[int, int]],
    identifiers: list[str],
    why: bytes,
) -> None:
    grid = synthetic(
        "GRID",
        crs="EPSG:3857",
        origin=(0, 0),
        cell_sizes=cell_sizes,
        matrix_sizes=matrix_sizes,
    )
    for matrix, identifier in zip(grid["tileMatrices"], identifiers, strict=True):
        matrix["id"] = identifier
    client = open_client(install(tmp_path, grid, [LevelPlan(identifiers[0], 0, 0, 0, 0)]))
    response = client.get("/tms/1.0.0/P/gdal.xml")
    assert response.status_code == 400
    assert why in response.data


def test_rows_from_the_bottom_need_full_squares(tmp_path: Path, open_client: OpenClient) -> None:
    server_json = install(tmp_path, PARTIAL, PARTIAL_LEVELS, tms={"y_origin": "bottom"})
    response = open_client(server_json).get("/tms/1.0.0/P/gdal.xml")
    assert response.status_code == 400


PARTIAL = synthetic(
    "GRID",
    crs="EPSG:2154",
    origin=(0, 12000000),
    cell_sizes=[4096, 2048, 1024],
    matrix_sizes=[(1, 1), (2, 1), (3, 2)],
)
PARTIAL_LEVELS = [LevelPlan("1", 0, 0, 0, 1), LevelPlan("2", 0, 1, 0, 2)]
"""A quadtree of which the CRS fills a part only, as in the sets of Lambert 93."""


def install(
    directory: Path, grid: Any, levels: list[LevelPlan], url: str = "http://x", **services: Any
) -> Path:
    """Write a layer P of one pyramid in the set GRID."""
    pyramid = write_pyramid(
        directory,
        "P",
        tile_matrix_set=grid,
        format="TIFF_PNG_UINT8",
        levels=levels,
        tile=lambda level, row, col: tiny_integer_tile(3)("0", row, col),
    )
    layer = layer_document(pyramid, tile_matrix_sets={"GRID": grid})
    return write_installation(
        directory,
        layers={"P": layer},
        tile_matrix_sets={"GRID": grid},
        services=["tms"],
        public_url=url,
        services_overrides=services,
    )


# ---------------------------------------------------------------- with GDAL itself


def translate(
    environment: dict[str, str], description: Path | str, target: Path, *arguments: object
) -> Any:
    """Let GDAL make a PNG of a part of the layer and return its pixels."""
    if shutil.which("gdal_translate") is None:
        pytest.skip("gdal_translate is not installed")
    subprocess.run(
        ["gdal_translate", "-q", "-of", "PNG", *map(str, arguments), description, target],
        check=True,
        capture_output=True,
        env=environment,
    )
    return np.asarray(Image.open(target))


def fetch(url: str, path: Path) -> Path:
    """Save a description, as GDAL opens it from a file."""
    with urlopen(url) as response:
        path.write_bytes(response.read())
    return path


@pytest.mark.live
@pytest.mark.parametrize("y_origin", ["top", "bottom"])
def test_gdal_reads_the_right_pixels(
    tmp_path: Path, serving: Serving, gdal_environment: dict[str, str], y_origin: str
) -> None:
    def install_at(url: str) -> Path:
        overrides = {"tms": {"y_origin": y_origin}}
        return tiny_installation(
            tmp_path, services=["tms"], public_url=url, services_overrides=overrides
        )

    with serving(install_at) as url:
        description = fetch(f"{url}/tms/1.0.0/RGB_PNG/gdal.xml", tmp_path / "layer.xml")
        # Across the corner of four tiles of level 4.
        left, top = 10 * 256 - 100, 6 * 256 - 50
        found = translate(
            gdal_environment, description, tmp_path / "out.png", "-srcwin", left, top, 200, 100
        )
    tile = tiny_integer_tile(3)
    rows = [np.hstack([np.asarray(tile("4", row, col)) for col in (9, 10)]) for row in (5, 6)]
    whole = np.vstack(rows)
    x, y = left - 9 * 256, top - 5 * 256
    assert np.array_equal(found, whole[y : y + 100, x : x + 200])


@pytest.mark.live
@pytest.mark.parametrize("y_origin", [None, "bottom"])
def test_gdal_follows_the_tile_map(
    tmp_path: Path, serving: Serving, gdal_environment: dict[str, str], y_origin: str | None
) -> None:
    """Of a layer that has tiles at levels 2 to 4 only."""

    def install_at(url: str) -> Path:
        overrides = {"tms": {"y_origin": y_origin}} if y_origin else {}
        return tiny_installation(
            tmp_path, services=["tms"], public_url=url, services_overrides=overrides
        )

    span = 2 * HALF / 16
    left, top = 9 * span - HALF, HALF - 5 * span
    tile = tiny_integer_tile(3)
    with serving(install_at) as url:
        for level, rows, cols, size in (("4", (5, 6), (9, 10), 512), ("3", (2, 3), (4, 5), 512)):
            side = (2 if level == "4" else 4) * span
            x, y = (left, top) if level == "4" else (8 * span - HALF, HALF - 4 * span)
            corners = (x, y, x + side, y - side)
            window = ("-projwin", *map(repr, corners), "-outsize", size, size)
            address = f"{url}/tms/1.0.0/RGB_PNG"
            found = translate(gdal_environment, address, tmp_path / f"{level}.png", *window)
            stored = np.vstack(
                [np.hstack([np.asarray(tile(level, row, col)) for col in cols]) for row in rows]
            )
            assert np.array_equal(found, stored), level


@pytest.mark.live
def test_gdal_opens_the_address(
    tmp_path: Path, serving: Serving, gdal_environment: dict[str, str]
) -> None:
    if shutil.which("gdalinfo") is None:
        pytest.skip("gdalinfo is not installed")
    with serving(lambda url: tiny_installation(tmp_path, public_url=url, services=["tms"])) as url:
        information = json.loads(
            subprocess.run(
                ["gdalinfo", "-json", f"{url}/tms/1.0.0/RGB_PNG/gdal.xml"],
                check=True,
                capture_output=True,
                env=gdal_environment,
            ).stdout
        )
    assert information["driverShortName"] == "WMS"
    assert information["size"] == [4096, 4096]
    assert information["geoTransform"][0] == pytest.approx(-HALF)
    assert len(information["bands"]) == 3


@pytest.mark.live
def test_gdal_reads_a_coarser_level(
    tmp_path: Path, serving: Serving, gdal_environment: dict[str, str]
) -> None:
    with serving(lambda url: tiny_installation(tmp_path, public_url=url, services=["tms"])) as url:
        description = fetch(f"{url}/tms/1.0.0/RGB_PNG/gdal.xml", tmp_path / "layer.xml")
        window = ("-srcwin", 8 * 256, 4 * 256, 1024, 1024)
        found = translate(
            gdal_environment, description, tmp_path / "out.png", *window, "-outsize", 512, 512
        )
    tile = tiny_integer_tile(3)
    rows = [np.hstack([np.asarray(tile("3", row, col)) for col in (4, 5)]) for row in (2, 3)]
    assert np.array_equal(found, np.vstack(rows))


@pytest.mark.live
def test_gdal_places_a_partial_quadtree(
    tmp_path: Path, serving: Serving, gdal_environment: dict[str, str]
) -> None:
    with serving(lambda url: install(tmp_path, PARTIAL, PARTIAL_LEVELS, url)) as url:
        description = fetch(f"{url}/tms/1.0.0/P/gdal.xml", tmp_path / "layer.xml")
        # By ground coordinates: the second tile of the second row of the finest level.
        span = 256 * 1024
        corners = (span, 12000000 - span, 2 * span, 12000000 - 2 * span)
        found = translate(gdal_environment, description, tmp_path / "out.png", "-projwin", *corners)
    assert np.array_equal(found, np.asarray(tiny_integer_tile(3)("0", 1, 1)))
