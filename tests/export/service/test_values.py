"""Exports of values of dimensions and of versions, by jobs and by the command."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from tests.export.service.conftest import TILES, Exports
from tests.forked import run as mastaba
from tests.history.test_values import OLD, write_history
from tests.series import colour_of, series_installation

YEARS = ("1950", "1975", "2023")


@pytest.fixture
def server_json(tmp_path: Path) -> Path:
    """A layer with three years; the last one has versions."""
    rows = [{"time": year} for year in YEARS]
    export = {"enabled": True, "directory": str(tmp_path / "export")}
    file = series_installation(
        tmp_path,
        rows,
        services=["export", "history"],
        services_overrides={"export": export},
        names="ORTHO_{time}",
        export={"enabled": True},
        title="Orthophoto",
    )
    write_history(tmp_path / "pyramids/value_2.json", 3, "")
    return file


def shown(archive: Path) -> tuple[str, tuple[int, ...]]:
    """Return the name and the colour of an MBTiles archive."""
    with sqlite3.connect(archive) as database:
        (name,) = database.execute("SELECT value FROM metadata WHERE name = 'name'").fetchone()
        (data,) = database.execute("SELECT tile_data FROM tiles LIMIT 1").fetchone()
    with Image.open(io.BytesIO(data)) as image:
        return name, tuple(image.convert("RGB").getpixel((3, 3)))  # type: ignore[arg-type]


def test_jobs_export_values(
    open_exports: Callable[..., Exports], server_json: Path, tmp_path: Path
) -> None:
    exports = open_exports(server_json=server_json)
    for name, year in (
        ("ORTHO;time=1950", "1950"),
        ("ORTHO_1975", "1975"),
        ("ORTHO;time=2023-06", "2023"),
    ):
        path = exports.done({"layer": name, "format": "mbtiles"})
        file = exports.file(path)
        assert file.endswith(f"/ORTHO_time_{year}.mbtiles")
        assert exports.client.get(path).get_json()["status"] == "successful"
        saved = tmp_path / "saved.mbtiles"
        saved.write_bytes(exports.client.get(file).data)
        assert shown(saved) == (f"Orthophoto ({year})", colour_of(YEARS.index(year)))
    drawn = {"layer": "ORTHO;time=1950", "format": "mbtiles", "tile_format": "png"}
    assert exports.post(f"{TILES}/estimate", {**drawn, "style": "normal"}).status_code == 200


@pytest.mark.parametrize(
    "name", ["ORTHO;time=1960", "ORTHO;time=x", "ORTHO;height=1", "NONE;time=1950", "ORTHO~x"]
)
def test_other_values_are_refused(
    open_exports: Callable[..., Exports], server_json: Path, name: str
) -> None:
    exports = open_exports(server_json=server_json)
    for operation in ("estimate", "execution"):
        response = exports.post(f"{TILES}/{operation}", {"layer": name})
        assert response.status_code == 400
        assert "layer" in response.text


def test_the_command_exports_values(server_json: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.mbtiles"
    ended = mastaba("export", "-f", str(server_json), "ORTHO;time=1950", str(out))
    assert ended.returncode == 0, ended.stderr
    assert shown(out) == ("Orthophoto (1950)", colour_of(0))
    ended = mastaba("export", "-f", str(server_json), "ORTHO;time=1950", str(out), "--verify")
    assert ended.returncode == 0, ended.stderr
    ended = mastaba(
        "export", "-f", str(server_json), "ORTHO;time=1960", str(tmp_path / "a.pmtiles")
    )
    assert ended.returncode == 2
    assert "1960" in ended.stderr


def test_the_command_exports_versions(server_json: Path, tmp_path: Path) -> None:
    pyramids = tmp_path / "pyramids"
    document = json.loads((pyramids / "value_2.history.json").read_text())
    current = document["published"][-1]["generation"]
    (pyramids / "value_2_2.json").write_text((pyramids / "value_2.json").read_text())
    out = tmp_path / "out.mbtiles"
    ended = mastaba("export", "-f", str(server_json), f"ORTHO~{current}", str(out))
    assert ended.returncode == 0, ended.stderr
    assert shown(out) == (f"Orthophoto (2023, {current})", colour_of(2))
    # Its documents are not there.
    ended = mastaba("export", "-f", str(server_json), f"ORTHO~{OLD}", str(tmp_path / "b.mbtiles"))
    assert ended.returncode == 2
    assert "can no longer be read" in ended.stderr
