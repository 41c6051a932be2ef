"""From a GeoTIFF to a map: built by the command, served by the real server."""

from __future__ import annotations

import io
import json
import re
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyproj
import pytest
from PIL import Image
from tests.build.conftest import Build
from tests.build.ground import MASTABA, grid, noise, write_raster
from tests.build.test_pixels import aligned, cell
from tests.fork_server import ForkServer
from tests.support.ports import free_port
from werkzeug.test import Client

from mastaba.wsgi import create_application
from mastaba_build.commands.server import write_server
from mastaba_build.config.configuration import configuration_of
from mastaba_build.errors import OutputError
from mastaba_build.plan.plan import Plan, make_plan

pytest.importorskip("mastaba_wms")
pytest.importorskip("mastaba_wmts")

TILE = (
    "/wmts?SERVICE=WMTS&REQUEST=GetTile&VERSION=1.0.0&LAYER={layer}&STYLE=normal"
    "&TILEMATRIXSET=PM&TILEMATRIX={level}&TILEROW={row}&TILECOL={col}&FORMAT=image/png"
)
MAP = (
    "/wms?SERVICE=WMS&REQUEST=GetMap&VERSION=1.3.0&LAYERS={layer}&STYLES=normal&CRS=EPSG:3857"
    "&BBOX={bbox}&WIDTH=500&HEIGHT=400&FORMAT=image/png"
)


def get(url: str) -> bytes:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=60) as answer:
        return bytes(answer.read())


def image(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)))


def test_one_command_serves_a_geotiff(tmp_path: Path) -> None:
    pixels = noise(3, 900, 1000)
    x, y = aligned(12, 1400, 2100)
    source = write_raster(tmp_path / "my town.tif", pixels, grid(x, y, cell(12)), "EPSG:3857")
    address = f"127.0.0.1:{free_port()}"
    words = ["build", str(source), "--output", str(tmp_path / "out"), "--tms", "PM"]
    words += ["--workers", "1"]
    with subprocess.Popen(
        [*MASTABA, *words, "--format", "png", "--slab", "2x2", "--serve", "--http", address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert any("/viewer" in line for line in process.stdout)
            base = f"http://{address}"
            for _ in range(600):
                try:
                    capabilities = get(f"{base}/wmts?SERVICE=WMTS&REQUEST=GetCapabilities")
                    break
                except OSError:
                    assert process.poll() is None
                    time.sleep(0.2)
            assert b"<ows:Identifier>my_town</ows:Identifier>" in capabilities
            tile = image(get(base + TILE.format(layer="my_town", level=12, row=1401, col=2102)))
            assert np.array_equal(tile, np.moveaxis(pixels[:, 256:512, 512:768], 0, -1))
            # 500 x 400 pixels of level 12, across the borders of four slabs.
            left, top = x + 300 * cell(12), y - 310 * cell(12)
            bbox = f"{left},{top - 400 * cell(12)},{left + 500 * cell(12)},{top}"
            drawn = image(get(base + MAP.format(layer="my_town", bbox=bbox)))
            wanted = np.moveaxis(pixels[:, 310:710, 300:800], 0, -1)
            assert np.array_equal(drawn[:, :, :3], wanted)
        finally:
            process.terminate()
            process.communicate()


@pytest.mark.thorough
def test_a_map_across_slabs_is_that_of_one_slab(tmp_path: Path, build_of: Build) -> None:
    source = write_raster(
        tmp_path / "a.tif", noise(3, 900, 1000), grid(900000.7, 6500003.1, 6.3), "EPSG:2154"
    )
    for size in (1, 16):
        build_of(source, name=f"s{size}", slab=[size, size], format="png")
    values = {"name": "s1", "output": str(tmp_path / "out"), "sources": [str(source)]}
    server = write_server(make_plan(configuration_of(values, "test")), "http://localhost")
    client = Client(create_application(str(server)))
    change = pyproj.Transformer.from_crs("EPSG:2154", "EPSG:3857", always_xy=True)
    left, top = change.transform(900500, 6499000)
    bbox = f"{left},{top - 4000},{left + 5000},{top}"
    answers = [client.get(MAP.format(layer=f"s{size}", bbox=bbox)) for size in (1, 16)]
    assert [answer.status_code for answer in answers] == [200, 200]
    first, second = (image(answer.data) for answer in answers)
    assert len(np.unique(first.reshape(-1, first.shape[2]), axis=0)) > 100
    assert np.array_equal(first, second)


def test_maps_are_offered_in_the_crs_of_each_source(
    tmp_path: Path, plan_of: Callable[..., Plan]
) -> None:
    place = grid(900000, 6500000, 50)
    for name, crs in (("lambert", "EPSG:2154"), ("mercator", "EPSG:3857")):
        source = write_raster(tmp_path / f"{name}.tif", noise(3, 64, 64), place, crs)
        write_server(plan_of(source, name=name), "http://127.0.0.1:1")
    services = json.loads((tmp_path / "out/server/services.json").read_text())
    assert services["global"]["map"]["crs"] == ["CRS:84", "EPSG:4326", "EPSG:3857", "EPSG:2154"]


def test_another_build_keeps_what_the_operator_has_edited(
    tmp_path: Path, plan_of: Callable[..., Plan]
) -> None:
    plan = plan_of(write_raster(tmp_path / "a.tif", noise(3, 64, 64), grid(0, 0, 50), "EPSG:3857"))
    server = write_server(plan, "http://127.0.0.1:1")
    services = server.with_name("services.json")
    edited, offered = json.loads(server.read_text()), json.loads(services.read_text())
    edited["cache"] = {"size": 7}
    offered["wms"]["enabled"] = False
    offered["wms"]["endpoint_uri"] = "https://maps.example/wms"
    offered["global"]["cors"] = False
    offered["global"]["map"]["crs"].append("EPSG:2154")
    server.write_text(json.dumps(edited))
    services.write_text(json.dumps(offered))

    write_server(plan, "http://127.0.0.1:2")

    assert json.loads(server.read_text()) == edited
    offered["wmts"]["endpoint_uri"] = "http://127.0.0.1:2/wmts"
    again = json.loads(services.read_text())
    assert [again[key] for key in ("wms", "wmts", "global")] == [
        offered[key] for key in ("wms", "wmts", "global")
    ]


@pytest.mark.parametrize("text", ["{", "[]", '{"global": {"map": {"crs": 1}}}', '{"global": 1}'])
def test_a_broken_file_of_the_installation_is_reported_and_kept(
    text: str, tmp_path: Path, plan_of: Callable[..., Plan]
) -> None:
    plan = plan_of(write_raster(tmp_path / "a.tif", noise(3, 64, 64), grid(0, 0, 50), "EPSG:3857"))
    services = write_server(plan, "http://127.0.0.1:1").with_name("services.json")
    services.write_text(text)

    with pytest.raises(OutputError, match=r"services\.json: "):
        write_server(plan, "http://127.0.0.1:1")

    assert services.read_text() == text


def test_the_end_of_a_build_names_the_command_that_serves_it(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    source = write_raster(tmp_path / "a.tif", noise(1, 300, 300), grid(5, 45, 1e-3), "EPSG:4326")
    words = ["build", source, "--output", tmp_path / "out", "--workers", "1", "--format", "png"]
    built = fork_server.run(*words, "--http", "127.0.0.1:9999")
    assert built.returncode == 0, built.stderr
    # The address is that in the URLs of the installation.
    found = re.search(r"mastaba -f (\S+server\.json) --http 127\.0\.0\.1:9999", built.stdout)
    assert found
    checked = fork_server.run("check", "-f", found[1])
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "0 errors, 0 warnings, 1 layers usable" in checked.stdout


def test_a_configuration_file_builds_the_same(
    tmp_path: Path, command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    source = write_raster(tmp_path / "a.tif", noise(1, 300, 300), grid(5, 45, 1e-3), "EPSG:4326")
    document = {
        "name": "grey",
        "output": str(tmp_path / "out"),
        "sources": [{"path": str(source), "nodata": [3], "tolerance": 1}],
        "format": "zip",
        "workers": 1,
        "masks": True,
    }
    (tmp_path / "build.json").write_text(json.dumps(document))
    lines = [f"{key}: {json.dumps(value)}" for key, value in document.items()]
    (tmp_path / "build.yaml").write_text("\n".join(lines) + "\n")
    assert command("--config", tmp_path / "build.json").returncode == 0
    again = command("--config", tmp_path / "build.yaml", "--json")
    assert again.returncode == 0
    assert '"event": "complete"' in again.stdout
    assert list((tmp_path / "out/grey/MASK").rglob("*.tif"))
