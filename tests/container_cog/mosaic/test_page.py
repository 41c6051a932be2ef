"""The commands and documents of the page "Publish a folder of COGs", as they are."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
from tests.container_cog.files import ground, stored_tiles
from tests.container_cog.mosaic.ground import geopackage
from tests.container_cog.mosaic.test_services import quarters
from tests.container_cog.served import client_of
from tests.forked import run as mastaba
from tests.tiny import tiny_installation

from mastaba_cog.mosaic.container import MosaicContainer

PAGE = Path(__file__).parents[3] / "docs/cog-folder.md"
ROW, COL = 90000, 132000


def index(folder: Path, line: str) -> None:
    """Run the command that makes the table; without GDAL, write what it does."""
    if shutil.which("gdaltindex"):
        subprocess.run(line, shell=True, cwd=folder, check=True, capture_output=True)
        return
    boxes = json.loads((folder.parent / "table.json").read_text())["features"]
    sheets: list[Any] = []
    for feature in boxes:
        (ring,) = feature["geometry"]["coordinates"]
        low, high = np.min(ring, axis=0), np.max(ring, axis=0)
        sheet = type("Sheet", (), {"name": feature["properties"]["path"], "box": (*low, *high)})
        sheets.append(sheet)
    system = "UPDATE gpkg_spatial_ref_sys SET organization_coordsys_id = 3857;"
    geopackage(folder / "index.gpkg", sheets, system)


def test_commands_of_the_page(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "ortho"
    folder.mkdir()
    files = quarters(folder, ground("uint8", 3, (1024, 1024)), 18, ROW, COL, COMPRESS="JPEG")
    (folder / "table.json").rename(tmp_path / "table.json")
    text = PAGE.read_text("utf-8").replace("/data", str(tmp_path))
    documents = re.findall(r"^```json\n(.*?)^```$", text, re.M | re.S)
    first, second = json.loads(documents[0]), json.loads(f"{{{documents[1]}}}")
    server = tiny_installation(tmp_path / "site")
    layers = tmp_path / "site/layers"
    (layers / "ORTHO.json").write_text(json.dumps(first))
    (layers / "HYBRID.json").write_text(json.dumps({**first, **second}))
    with (tmp_path / "site/layers.txt").open("a") as file:
        file.write(f"{layers}/ORTHO.json\n{layers}/HYBRID.json\n")
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S)
    ran = []
    # A command may be on several lines.
    joined = [block.replace("\\\n", "") for block in blocks]
    for line in (line for block in joined for line in block.splitlines()):
        words = shlex.split(line)
        if words[0] == "gdaltindex":
            index(folder, line)
        elif words[:2] in (["mastaba", "build"], ["mastaba", "check"]):
            ended = mastaba(*words[1:])
            printed = ended.stdout + ended.stderr
            if words[1] == "build":
                assert ended.returncode == 0, printed
            else:
                assert "index.gpkg: 4 files, 3 bands of uint8" in printed
        else:
            continue
        ran.append(words[:2])
    assert len(ran) == 3
    levels = json.loads((tmp_path / "pyramids/ORTHO.json").read_text())["levels"]
    assert max(int(level["id"]) for level in levels) == 17
    client = client_of(server)
    catalogue = client.application.site.catalogue
    assert {"ORTHO", "HYBRID"} <= set(catalogue.layers)
    assert list(catalogue.layers["HYBRID"].pyramid.levels)[-2:] == ["17", "18"]
    (stored, *_) = (
        tile for (level, *_), tile in stored_tiles(files["00.tif"]).items() if level == "1"
    )
    for layer in ("ORTHO", "HYBRID"):
        answer = client.get(f"/tms/1.0.0/{layer}/18/{COL}/{ROW}.jpg")
        assert answer.status_code == 200
        assert answer.data == stored
    assert client.get(f"/tms/1.0.0/HYBRID/17/{COL // 2}/{ROW // 2}.jpg").status_code == 200


def test_options_of_the_page_are_those_of_the_container() -> None:
    table = PAGE.read_text("utf-8").partition("## Options\n")[2].partition("\n## ")[0]
    named = {
        name
        for row in re.findall(r"^\| (`.*?) \|", table, re.M)
        for name in re.findall(r"`(\w+)`", row)
    }
    assert named == set(MosaicContainer.options_schema)
