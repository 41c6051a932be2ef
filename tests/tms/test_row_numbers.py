"""The setting y_origin (tms.md section 5)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from werkzeug.test import Client

from mastaba.errors import ConfigurationError
from mastaba.testing.tiny_installation import tiny_installation
from mastaba.wsgi import create_application


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

    assert rows(tiny) == [("1", "1", "2", "2"), ("2", "3", "4", "5"), ("5", "6", "9", "10")]
    assert rows(tiny_from_bottom) == [
        ("2", "2", "2", "2"),
        ("4", "5", "4", "5"),
        ("9", "10", "9", "10"),
    ]


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
