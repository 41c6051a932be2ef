"""The demo with archives: the same tiles as its pyramids."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.demo.test_command import tiny_world
from werkzeug.test import Client

from mastaba.api.tools import create_application
from mastaba.commands.main import main

__all__ = ["tiny_world"]


@pytest.mark.thorough
def test_archives_have_the_tiles_of_the_world(
    tiny_world: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["demo", str(tmp_path), "--no-serve", "--http", "127.0.0.1:9996"]
    assert main([*words, "--archives"]) == 0
    assert "mastaba demo:" not in capsys.readouterr().err
    written = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "archives").iterdir()}
    assert {*written} == {"features.pmtiles", "topographic.mbtiles", "imagery.tif"}
    application = create_application(str(tmp_path / "server.json"))
    client = Client(application)
    for layer, archive, extension in (
        ("features", "features_pmtiles", "pbf"),
        ("topographic", "topographic_mbtiles", "png"),
        ("imagery", "imagery_tif", "jpg"),
        ("imagery", "imagery_hybrid", "jpg"),
    ):
        for place in ("1/0/0", "1/1/1"):
            found = client.get(f"/tms/1.0.0/{archive}/{place}.{extension}")
            expected = client.get(f"/tms/1.0.0/{layer}/{place}.{extension}")
            assert (found.status_code, expected.status_code) == (200, 200), (archive, place)
            assert found.data == expected.data, (archive, place)
    hybrid = application.site.catalogue.layers["imagery_hybrid"].pyramid
    assert list(hybrid.levels) == ["0", "1"]
    # The next start keeps them.
    assert main([*words, "--archives"]) == 0
    assert written == {
        path.name: path.stat().st_mtime_ns for path in (tmp_path / "archives").iterdir()
    }
