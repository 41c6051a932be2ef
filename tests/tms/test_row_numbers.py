"""The setting y_origin (tms.md section 5)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.errors import ConfigurationError
from mastaba.wsgi import create_application
from mastaba_conformance.tiny_installation import tiny_integer_tile
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import synthetic


@pytest.mark.parametrize(("level", "col", "row"), [(2, 2, 1), (3, 4, 2), (3, 5, 3), (4, 9, 6)])
def test_from_bottom_serves_the_mirrored_row(
    tiny: Client, tiny_from_bottom: Client, level: int, col: int, row: int
) -> None:
    mirrored = 2**level - 1 - row
    expected = tiny.get(f"/tms/1.0.0/RGB_PNG/{level}/{col}/{row}.png")
    found = tiny_from_bottom.get(f"/tms/1.0.0/RGB_PNG/{level}/{col}/{mirrored}.png")
    assert found.status_code == 200
    assert found.data == expected.data


@pytest.mark.parametrize("row", [0, 3, 6, 7, 8, 4_000_000_000])
def test_from_bottom_other_rows_are_absent(tiny_from_bottom: Client, row: int) -> None:
    assert tiny_from_bottom.get(f"/tms/1.0.0/RGB_PNG/3/4/{row}.png").status_code == 404


def test_from_bottom_limits_are_mirrored(tiny: Client, tiny_from_bottom: Client) -> None:
    def rows(client: Client) -> list[tuple[str | None, ...]]:
        document = etree.fromstring(client.get("/tms/1.0.0/RGB_PNG").data)
        names = ("minrow", "maxrow", "mincol", "maxcol")
        return [tuple(map(tile_set.get, names)) for tile_set in document.iter("TileSet")]

    expected: list[tuple[str | None, ...]] = [
        (None, None, None, None),
        (None, None, None, None),
        ("2", "2", "2", "2"),
        ("4", "5", "4", "5"),
        ("9", "10", "9", "10"),
    ]
    assert rows(tiny) == rows(tiny_from_bottom) == expected


@pytest.mark.parametrize(("level", "col", "row"), [(2, 2, 1), (3, 4, 2), (3, 5, 3), (4, 9, 6)])
def test_addresses_of_the_tile_map_count_from_the_bottom(
    tiny: Client, tiny_from_bottom: Client, level: int, col: int, row: int
) -> None:
    expected = tiny.get(f"/tms/1.0.0/RGB_PNG/{level}/{col}/{row}.png").data
    path = f"/tms/1.0.0/RGB_PNG/bottom/{level}/{col}/{2**level - 1 - row}.png"
    for client in (tiny, tiny_from_bottom):
        assert client.get(path).data == expected


@pytest.mark.parametrize(
    ("path", "status"),
    [("top/4/9/9.png", 404), ("bottom/4/9/9", 400), ("bottom/4/9/9/9.png", 404)],
)
def test_no_other_addresses(tiny: Client, path: str, status: int) -> None:
    assert tiny.get(f"/tms/1.0.0/RGB_PNG/{path}").status_code == status


def test_from_the_top_documents_are_those_of_existing_servers(
    tmp_path: Path, open_client: Callable[[Path], Client]
) -> None:
    client = open_client(
        tiny_installation(
            tmp_path, services=["tms"], services_overrides={"tms": {"y_origin": "top"}}
        )
    )
    document = etree.fromstring(client.get("/tms/1.0.0/RGB_PNG").data)
    names = ("minrow", "maxrow", "mincol", "maxcol")
    sets = [tuple(map(tile_set.get, names)) for tile_set in document.iter("TileSet")]
    assert sets == [("1", "1", "2", "2"), ("2", "3", "4", "5"), ("5", "6", "9", "10")]
    hrefs = [tile_set.attrib["href"] for tile_set in document.iter("TileSet")]
    assert [href.partition("/RGB_PNG/")[2] for href in hrefs] == ["2", "3", "4"]


def test_rows_of_a_quadtree_have_one_origin(
    tmp_path: Path, open_client: Callable[[Path], Client]
) -> None:
    """Matrices that end at different heights: 1, 1 and 2 rows of 4096, 2048 and 1024 m."""
    grid = synthetic(
        "GRID",
        crs="EPSG:2154",
        origin=(0, 12000000),
        cell_sizes=[4096, 2048, 1024],
        matrix_sizes=[(1, 1), (2, 1), (3, 2)],
    )
    pyramid = write_pyramid(
        tmp_path,
        "P",
        tile_matrix_set=grid,
        format="TIFF_PNG_UINT8",
        levels=[LevelPlan("1", 0, 0, 0, 1), LevelPlan("2", 0, 1, 0, 2)],
        tile=lambda level, row, col: tiny_integer_tile(3)("0", row, col),
    )
    client = open_client(
        write_installation(
            tmp_path,
            layers={"P": layer_document(pyramid, tile_matrix_sets={"GRID": grid})},
            tile_matrix_sets={"GRID": grid},
            services=["tms"],
        )
    )
    document = etree.fromstring(client.get("/tms/1.0.0/P").data)
    box, origin = document.find("BoundingBox"), document.find("Origin")
    assert box is not None
    assert origin is not None
    assert float(origin.attrib["y"]) == float(box.attrib["miny"]) == 12000000 - 4096 * 256
    stored = {level: client.get(f"/tms/1.0.0/P/{level}/0/0.png").data for level in "12"}
    for level, row in (("1", 1), ("2", 3)):
        assert client.get(f"/tms/1.0.0/P/bottom/{level}/0/{row}.png").data == stored[level]


def test_documents_tell_where_rows_begin(tiny: Client, tiny_from_bottom: Client) -> None:
    for client, scheme, y_origin in ((tiny, "xyz", "top"), (tiny_from_bottom, "tms", "bottom")):
        metadata: Any = client.get("/tms/1.0.0/RGB_PNG/metadata.json").json
        assert metadata["scheme"] == scheme
        gdal = etree.fromstring(client.get("/tms/1.0.0/RGB_PNG/gdal.xml").data)
        assert gdal.findtext("DataWindow/YOrigin") == y_origin


@pytest.mark.parametrize("value", ["middle", "Top", "", 1, True])
def test_other_values_are_refused(tmp_path: Path, value: object) -> None:
    server_json = tiny_installation(
        tmp_path, services=["tms"], services_overrides={"tms": {"y_origin": value}}
    )
    with pytest.raises(ConfigurationError, match="y_origin"):
        create_application(str(server_json))
