"""What a container cannot do is told to operators."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from PIL import Image
from tests.container_cog.served import add_layer
from tests.container_pmtiles.test_archives import PNG, archive
from tests.tiny import tiny_installation

from mastaba.commands.main import main


def test_check_tells_it_of_the_containers_in_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = io.BytesIO()
    Image.new("RGB", (256, 256)).save(stream, "PNG")
    tile = stream.getvalue()
    (tmp_path / "a.pmtiles").write_bytes(archive([(0, 1, len(tile), 0)], tile, kind=PNG))
    server = tiny_installation(tmp_path / "site")
    assert main(["check", "-f", str(server)]) == 0
    assert "cannot" not in capsys.readouterr().out
    add_layer(tmp_path / "site", "A", {"path": str(tmp_path / "a.pmtiles")})
    assert main(["check", "-f", str(server)]) == 0
    found = [line for line in capsys.readouterr().out.splitlines() if "cannot" in line]
    assert [line.strip() for line in found] == [
        "the container pmtiles cannot: float, history, symbolic"
    ]
    assert main(["check", "-f", str(server), "--format", "json"]) == 0
    served = json.loads(capsys.readouterr().out)["served"]
    assert "the container pmtiles cannot: float, history, symbolic" in served


def test_plugins_tells_it_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    main(["plugins"])
    assert "cannot" not in capsys.readouterr().out
    main(["plugins", "--check"])
    lines = capsys.readouterr().out.splitlines()
    found = {line.split()[2] for line in lines if line.startswith("the container")}
    assert found == {"pmtiles", "mbtiles", "geopackage", "cog", "mosaic"}
    assert (
        "the container mbtiles cannot: batch, float, history, own_grid, remote, symbolic" in lines
    )
