"""What ``mastaba check`` says of terrain."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.elevation.conftest import TERRAIN_STACK, read
from werkzeug.test import Client

from mastaba.commands.main import main

Output = pytest.CaptureFixture[str]
STACK = {"terrain": {"datasets": [TERRAIN_STACK]}}


def check(server_json: Path, capsys: Output) -> tuple[int, list[str]]:
    status = main(["check", "-f", str(server_json)])
    return status, capsys.readouterr().out.splitlines()


def test_zooms_of_every_dataset_are_those_of_its_documents(
    write_terrain: Callable[..., Path], terrain: Callable[..., Client], capsys: Output
) -> None:
    status, lines = check(write_terrain(STACK), capsys)
    assert status == 0
    client = terrain(STACK)
    for name in ("stack", "alps", "merc", "world"):
        (line,) = [line for line in lines if line.startswith(f"terrain: {name}: ")]

        def zooms(document: str, name: str = name) -> str:
            found: Any = read(client.get(f"/terrain/{name}/{document}"))
            return f"{found['minzoom']} to {found['maxzoom']}"

        assert f"mapbox and terrarium {zooms('mapbox.json')} (png, webp)" in line
        assert f"mesh {zooms('mesh/layer.json')}" in line
        assert f"contours {zooms('contours.json')}" in line


def test_errors_of_a_dataset_have_a_remedy(
    write_terrain: Callable[..., Path], capsys: Output
) -> None:
    wrong = write_terrain({}, alps={"vertical": {"to_ellipsoid": "no_such_grid.tif"}})
    status, lines = check(wrong, capsys)
    assert status == 1
    at = lines.index("error: layer alps: $.vertical.to_ellipsoid")
    assert "no_such_grid.tif" in lines[at + 1]
    assert lines[at + 2].startswith("    to do: correct it, or set terrain.mesh.grids")
    assert not any("plugin" in line for line in lines)


def test_a_dataset_of_unknown_layers_has_a_remedy(
    write_terrain: Callable[..., Path], capsys: Output
) -> None:
    settings = {"terrain": {"datasets": [{"id": "best", "layers": ["alps", "nowhere"]}]}}
    status, lines = check(write_terrain(settings), capsys)
    assert status == 1
    at = lines.index("error: services.json: $.terrain.datasets[0].layers[1]")
    assert "'nowhere'" in lines[at + 1]
    assert lines[at + 2] == "    to do: remove it from the dataset, or correct the name"
