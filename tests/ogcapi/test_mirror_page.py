"""The commands of docs/mirror.md, run as they are against a server."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.coverage.ground import TILE, Ground
from tests.ogcapi.test_coverages_live import whole

rasterio = pytest.importorskip("rasterio")

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(
        any(shutil.which(name) is None for name in ("curl", "wget", "gdalbuildvrt")),
        reason="curl, wget or GDAL is not installed",
    ),
]

PAGE = Path(__file__).parents[2] / "docs/mirror.md"


@pytest.fixture(scope="module")
def served(serving: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ground, str]]:
    """Return an installation whose layer has the name of the page, and its address."""
    written: list[Ground] = []

    def write(public_url: str) -> Path:
        directory = tmp_path_factory.mktemp("heights")
        services = {"ogcapi": {"coverages": True}}
        written.append(Ground(directory, services=services, public_url=public_url, coverages=True))
        layers = directory / "layers"
        (layers / "ground.json").rename(layers / "HEIGHTS.json")
        names = directory / "layers.txt"
        names.write_text(names.read_text().replace("ground", "HEIGHTS"))
        return written[0].server_json

    with serving(write) as url:
        yield written[0], url
    written[0].close()


def test_commands_of_the_page(served: Any, tmp_path: Path) -> None:
    ground, url = served
    text = PAGE.read_text("utf-8")
    commands = "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    assert commands.count("curl") >= 9
    script = "set -eu\n" + commands.replace("https://maps.example.org", url)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "NO_PROXY": "*", "no_proxy": "*"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("304")
    # The name of the layer is in the metadata.
    assert len((tmp_path / "heights.tif").read_bytes()) == len(whole(ground))
    expected = ground.values("3", 500, 900, 300, 700)[:, :, 0]
    for name in ("part.tif", "part-raw.tif"):
        with rasterio.open(tmp_path / name) as file:
            assert file.read(1).tobytes() == expected.tobytes()
    cells = ground.whole().cells
    with rasterio.open(tmp_path / "heights.vrt") as file:
        values = file.read(1)
    assert values.shape == (cells.rows, cells.columns)
    assert (
        values[: 22 * TILE].tobytes()
        == ground.values("3", cells.top, cells.top + 22 * TILE, cells.left, cells.right)[
            :, :, 0
        ].tobytes()
    )
