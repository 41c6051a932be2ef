"""Corners of bounding boxes: GDAL derives rows and columns from them.

GDAL takes the floor of the distance of the upper left corner from the origin, in pixels, plus
1e-10. A corner that is rounded outwards gives one row or column too many.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from werkzeug.test import Client

from mastaba_conformance.tiny_installation import tiny_integer_tile
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import synthetic, web_mercator

OpenClient = Callable[[Path], Client]

NS = {"wmts": "http://www.opengis.net/wmts/1.0", "ows": "http://www.opengis.net/ows/1.1"}
DEGREES = synthetic(
    "4326",
    crs="EPSG:4326",
    origin=(-180, 90),
    cell_sizes=[180 / 256 / 2**z for z in range(20)],
    matrix_sizes=[(2 * 2**z, 2**z) for z in range(20)],
)
SETS = {"PM": web_mercator(22), "4326": DEGREES}
DEGREE = math.pi / 180 * 6378137
PLACES = [
    (name, level, row, col)
    for name in SETS
    for level in (9, 12, 14, 16, 19)
    for row, col in (
        (int(part * 2**level), int(other * 2**level))
        for part, other in ((0.345, 0.517), (0.357, 0.513), (0.2871, 0.3333), (0.61, 0.7071))
    )
]


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient) -> Any:
    folder = tmp_path_factory.mktemp("corners")
    layers = {}
    for number, (name, level, row, col) in enumerate(PLACES):
        pyramid = write_pyramid(
            folder / "pyramids",
            f"L{number}",
            tile_matrix_set=SETS[name],
            format="TIFF_PNG_UINT8",
            levels=[LevelPlan(str(level), row, row, col, col)],
            tile=tiny_integer_tile(3),
        )
        layers[f"L{number}"] = layer_document(pyramid, tile_matrix_sets=SETS)
    installed = write_installation(folder, layers=layers, tile_matrix_sets=SETS, services=["wmts"])
    response = open_client(installed).get("/wmts?SERVICE=WMTS&REQUEST=GetCapabilities")
    return etree.fromstring(response.data)


def values(element: Any, path: str) -> list[float]:
    return [float(value) for value in element.findtext(path, namespaces=NS).split()]


@pytest.mark.sampled(one_in=4)
@pytest.mark.parametrize("number", range(len(PLACES)))
def test_gdal_counts_the_pixels_of_the_tiles(document: Any, number: int) -> None:
    name, level, row, col = PLACES[number]
    (layer,) = document.xpath(f"//wmts:Layer[ows:Identifier='L{number}']", namespaces=NS)
    (box,) = layer.xpath("ows:BoundingBox", namespaces=NS)
    lower, upper = values(box, "ows:LowerCorner"), values(box, "ows:UpperCorner")
    (matrix,) = document.xpath(
        f"//wmts:TileMatrixSet[ows:Identifier='{name}']/wmts:TileMatrix[ows:Identifier='{level}']",
        namespaces=NS,
    )
    (scale,) = values(matrix, "wmts:ScaleDenominator")
    corner, size = values(matrix, "wmts:TopLeftCorner"), scale * 0.00028
    if name == "4326":
        lower, upper, corner = lower[::-1], upper[::-1], corner[::-1]
        size /= DEGREE
    first_col = math.floor((lower[0] - corner[0]) / size + 1e-10)
    first_row = math.floor((corner[1] - upper[1]) / size + 1e-10)
    assert (first_row, first_col) == (row * 256, col * 256)
    west, north = corner[0] + first_col * size, corner[1] - first_row * size
    assert int(0.5 + (upper[0] - west) / size) == 256
    assert int(0.5 + (north - lower[1]) / size) == 256
