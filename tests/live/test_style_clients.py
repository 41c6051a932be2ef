"""Vector layers open finished in web clients and in QGIS, each from the address of its style."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest
from PIL import Image
from tests.conftest import Serving
from tests.export.ground import planned
from tests.live.browsers import MAPLIBRE, Pixels, drawn, web_clients
from tests.tiny import tiny_installation

from mastaba.api.tools import create_application
from mastaba_export.run import run

pytestmark = pytest.mark.live
pytest.importorskip("fontTools", reason="mastaba-styles[fonts] is not installed")

LAYERS = ("VECTOR", "VECTOR_pmtiles", "VECTOR_mbtiles")
"""The same tiles in slabs and in archives."""
LEVEL = 4
CENTRE = (33.75, 31.952162238024968)
"""Of one tile of the finest level. Its name is there."""
DARK = 140
"""Labels are the only thing that is as dark."""


def write(directory: Path, public_url: str) -> Path:
    """Write an installation whose vector layer is there three times, and a picture."""
    server = tiny_installation(
        directory, services=["tms", "stylesheets", "viewer"], public_url=public_url
    )
    application = create_application(str(server))
    for name in LAYERS[1:]:
        kind = name.rpartition("_")[2]
        archive = directory / f"{name}.{kind}"
        run(planned(application.site, "VECTOR", kind), archive)
        document = json.loads((directory / "layers/VECTOR.json").read_text())
        document["pyramids"] = [{"path": str(archive)}]
        (directory / "layers" / f"{name}.json").write_text(json.dumps(document))
    application.site.catalogue.storages.close()
    with (directory / "layers.txt").open("a") as file:
        file.writelines(f"{directory}/layers/{name}.json\n" for name in LAYERS[1:])
    return server


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, serving: Serving) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("styles")
    with serving(lambda address: write(directory, address)) as address:
        yield address


def check_drawn(found: Pixels) -> None:
    """Check that the tile is filled, and that there are dark pixels of a label in the middle."""
    is_dark = found.astype(int).sum(axis=2) < 3 * DARK
    assert is_dark[133:155, 78:178].sum() > 20, "no label"
    assert not is_dark[:60].any()
    colours = {tuple(pixel) for pixel in found[30:220:10, 30:60:10].reshape(-1, 3).tolist()}
    assert len(colours) == 1, "the polygon is not filled"


@pytest.mark.parametrize("layer", [*LAYERS, "RGB_PNG"])
def test_styles_are_valid(url: str, layer: str, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed (Debian package nodejs)")
    with urlopen(f"{url}/styles/{layer}.json") as answer:
        (tmp_path / "style.json").write_bytes(answer.read())
    package = web_clients() / "@maplibre/maplibre-gl-style-spec/dist/index.mjs"
    script = (
        f"import {{validateStyleMin}} from {json.dumps(str(package))};"
        "import {readFileSync} from 'node:fs';"
        "const style = JSON.parse(readFileSync(process.argv[1], 'utf8'));"
        "console.log(JSON.stringify(validateStyleMin(style).map((error) => error.message)));"
    )
    command = [node, "--input-type=module", "-e", script, str(tmp_path / "style.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


@pytest.mark.parametrize("layer", LAYERS)
def test_maplibre(browser: Any, url: str, layer: str) -> None:
    modules = web_clients() / "maplibre-gl" / "dist"
    script = """
        const maplibregl = await import(`${url}/client/maplibre-gl.mjs`);
        const map = new maplibregl.Map({
            container: "map", interactive: false, attributionControl: false, fadeDuration: 0,
            pixelRatio: 1, canvasContextAttributes: {preserveDrawingBuffer: true},
            style: a[0]});
        await new Promise((resolve, reject) => {
            map.on("error", (event) => reject(event.error));
            map.once("load", () => map.jumpTo({center: a[1], zoom: a[2]}));
            map.once("idle", () => map.once("idle", resolve));
            map.once("idle", () => map.triggerRepaint());
        });
        return pixels(map.getCanvas());
    """
    files = {name: modules / name for name in MAPLIBRE}
    address = f"{url}/styles/{layer}.json"
    # The middle of the tile, which has 512 pixels at its zoom.
    found = drawn(browser, url, files, script, address, CENTRE, LEVEL)
    check_drawn(found)


@pytest.mark.parametrize("layer", LAYERS)
def test_openlayers(browser: Any, url: str, layer: str) -> None:
    modules = web_clients()
    files = {
        "ol.js": modules / "ol/dist/ol.js",
        "olms.js": modules / "ol-mapbox-style/dist/olms.js",
    }
    script = """
        const map = new ol.Map({target: "map", controls: [], pixelRatio: 1});
        await olms.apply(map, a[0]);
        map.getView().setCenter(ol.proj.fromLonLat(a[1]));
        map.getView().setZoom(a[2] + 1);
        await new Promise((resolve) => map.once("rendercomplete", resolve));
        const canvas = document.createElement("canvas");
        canvas.width = canvas.height = 256;
        const context = canvas.getContext("2d");
        context.fillStyle = "white";
        context.fillRect(0, 0, 256, 256);
        for (const one of document.querySelectorAll("#map canvas")) context.drawImage(one, 0, 0);
        return pixels(canvas);
    """
    found = drawn(browser, url, files, script, f"{url}/styles/{layer}.json", CENTRE, LEVEL)
    check_drawn(found)


def test_viewer(browser: Any, url: str) -> None:
    page = browser.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda line: line.type in ("error", "warning") and faults.append(line.text))
    # The font is loaded when the first label is drawn.
    with page.expect_response(f"{url}/styles/fonts/noto-sans.ttf"):
        page.goto(f"{url}/viewer/VECTOR#at=3757033,3757033,4891.97")
    page.close()
    assert not faults, faults


@pytest.mark.parametrize("layer", LAYERS)
def test_qgis(url: str, layer: str, tmp_path: Path) -> None:
    if not Path("/usr/lib/python3/dist-packages/qgis").exists():
        pytest.skip("python3-qgis is not installed")
    with urlopen(f"{url}/styles/{layer}.json") as answer:
        (source,) = json.load(answer)["sources"].values()
    middle = ["3757032.814", "3757032.814"]
    picture = tmp_path / "picture.png"
    subprocess.run(
        [
            "/usr/bin/python3",
            str(Path(__file__).with_name("qgis_style.py")),
            *(source["tiles"][0], f"{url}/styles/{layer}.json", *middle, str(picture)),
        ],
        env={"QT_QPA_PLATFORM": "offscreen", "HOME": str(tmp_path)},
        check=True,
    )
    check_drawn(np.asarray(Image.open(picture).convert("RGB")))
