"""The commands of the page "Take a map offline" run as they are."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from tests.forked import run as mastaba

PAGE = Path(__file__).parents[2] / "docs/take-offline.md"


@pytest.mark.thorough
def test_commands_of_the_page(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.json").symlink_to(world)
    (tmp_path / "pyramids").symlink_to(world.parent / "pyramids")
    area = {"type": "Polygon", "coordinates": [[[0, 30], [20, 30], [10, 50]]]}
    (tmp_path / "area.geojson").write_text(json.dumps(area))
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) >= 9
    for line in lines:
        if "--resume" in line:  # of an export that was complete before
            Path("area.pmtiles").unlink()
        words = shlex.split(line)
        assert words[0] == "mastaba"
        ended = mastaba(*words[1:])
        assert ended.returncode == 0, f"{line}\n{ended.stderr}"
    written = {one.name for one in tmp_path.iterdir()}
    assert {"area.pmtiles", "area.mbtiles", "heights.gpkg", "heights.tif", "small.json"} <= written
