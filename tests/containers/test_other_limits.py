"""Archives that are replaced by others with other levels or bounds are told of in the log."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.container_cog.served import add_layer
from tests.container_pmtiles.test_archives import LAYER, archive
from tests.container_sqlite.ground import picture, write_geopackage, write_mbtiles
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.api.tools import create_application

BOXES = ((-180.0, -85.0, 180.0, 85.0), (0.0, 0.0, 90.0, 60.0))


def pmtiles(path: Path, zooms: int, box: int) -> None:
    part = path.with_name("part")
    part.write_bytes(archive([(0, 5, len(LAYER), 0)], zooms=(0, zooms), bounds=BOXES[box]))
    part.rename(path)


def mbtiles(path: Path, zooms: int, box: int) -> None:
    tiles = {(zoom, 0, 0): picture(zoom) for zoom in range(zooms + 1)}
    facts = {"name": "A", "format": "png", "bounds": ",".join(map(str, BOXES[box]))}
    write_mbtiles(path, tiles, facts)


WRITERS: dict[str, Callable[[Path, int, int], None]] = {"pmtiles": pmtiles, "mbtiles": mbtiles}


@pytest.mark.parametrize("suffix", WRITERS)
def test_other_levels_and_bounds_are_told_once(
    suffix: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, write = tmp_path / f"a.{suffix}", WRITERS[suffix]
    write(path, 2, 0)
    server = tiny_installation(tmp_path / "site", services=["tms"])
    add_layer(tmp_path / "site", "A", {"path": str(path)})
    application = create_application(str(server))
    client = Client(application)
    extension = application.site.catalogue.layers["A"].pyramid.format.extension

    def told() -> list[str]:
        caplog.clear()
        for _ in range(2):
            application.site.catalogue.indices.clear()
            for level in "012":
                answer = client.get(f"/tms/1.0.0/A/{level}/0/0.{extension}")
                assert answer.status_code in (200, 400, 404)
        return [one.getMessage() for one in caplog.records if "replaced" in one.getMessage()]

    assert told() == []
    for facts, word in (((1, 0), "zooms"), ((2, 1), "bounds"), ((1, 1), "zooms and bounds")):
        write(path, *facts)
        assert told() == [
            f"{path} was replaced by an archive with other {word}: reload to publish them"
        ]
    write(path, 2, 0)
    assert told() == []


def test_another_box_of_a_geopackage_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.gpkg"
    write_geopackage(path, {(1, 0, 0): picture(1)})
    server = tiny_installation(tmp_path / "site", services=["tms"])
    add_layer(tmp_path / "site", "A", {"path": str(path)})
    client = Client(create_application(str(server)))
    other = write_geopackage(tmp_path / "b.gpkg", {(1, 0, 0): picture(1)})
    with closing(sqlite3.connect(other)) as database, database:
        database.execute("UPDATE gpkg_contents SET max_x = max_x - 400")
    other.rename(path)
    client.get("/tms/1.0.0/A/1/0/0.png")
    assert "replaced by an archive with other bounds" in caplog.text
