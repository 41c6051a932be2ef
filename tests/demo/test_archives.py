"""The demo with archives: the same tiles as its pyramids."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.demo.test_command import tiny_world
from werkzeug.test import Client

import mastaba_demo.settings
from mastaba.api.tools import create_application
from mastaba.commands.main import main
from mastaba_demo.settings import Settings

__all__ = ["tiny_world"]


@pytest.mark.thorough
def test_archives_have_the_tiles_of_the_world(
    tiny_world: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    words = ["demo", str(tmp_path), "--no-serve", "--http", "127.0.0.1:9996"]
    assert main([*words, "--archives"]) == 0
    assert "mastaba demo:" not in capsys.readouterr().err
    written = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "archives").iterdir()}
    assert {*written} == {"features.pmtiles", "topographic.mbtiles", "imagery.tif"}
    application = create_application(str(tmp_path / "server.json"))
    # A warning at the first start looks like a fault.
    assert "imagery.tif" not in caplog.text
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


@pytest.mark.thorough
def test_a_world_of_several_levels_starts_without_errors(
    tiny_world: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The file under the slabs has levels of theirs, as overviews."""
    world = Settings(levels=tuple(range(5)), last_whole=2, span=4, drainage_size=64)
    monkeypatch.setattr(mastaba_demo.settings, "Settings", lambda: world)
    words = ["demo", str(tmp_path), "--no-serve", "--http", "127.0.0.1:9996"]
    assert main([*words, "--archives"]) == 0
    assert main(["check", "-f", str(tmp_path / "server.json")]) == 0
    assert "0 errors" in capsys.readouterr().out
    hybrid = create_application(str(tmp_path / "server.json")).site.catalogue.layers[
        "imagery_hybrid"
    ]
    assert list(hybrid.pyramid.levels) == ["0", "1", "2", "3", "4"]
