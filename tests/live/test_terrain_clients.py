"""MapLibre GL and Cesium draw terrain from the addresses of one document each."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import quote, unquote

import numpy as np
import numpy.typing as npt
import pytest
from tests.live.browsers import Pixels, web_clients
from tests.live.processes import Mastaba, changed, free_port, public_folder

from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

pytestmark = pytest.mark.live

Floats = npt.NDArray[np.float64]

FINEST = 12
ROW, COLUMN = 1456, 2112
"""Upper left tile of 8 × 8 of the finest level, in the Alps."""
SIZE = 256
VIEW = 512
"""Pixels of a side of the map."""

_PAGE = """<!doctype html><html><head><link rel="icon" href="data:,">{head}</head>
<body style="margin:0;background:#000">
<div id="map" style="width:{size}px;height:{size}px"></div></body></html>"""


def mountains(level: str, row: int, column: int) -> npt.NDArray[np.float32]:
    """Return a tile of a ground without steps between tiles; coarse levels show the same ground."""
    factor = 2 ** (FINEST - int(level))
    x = (np.arange(column * SIZE, (column + 1) * SIZE)[np.newaxis, :] + 0.5) * factor
    y = (np.arange(row * SIZE, (row + 1) * SIZE)[:, np.newaxis] + 0.5) * factor
    x, y = x - COLUMN * SIZE, y - ROW * SIZE
    heights = 1500 + 700 * np.sin(x / 90) * np.cos(y / 70) + 250 * np.sin((x + y) / 23)
    return np.asarray(heights, np.float32)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server of one layer of heights."""
    with public_folder() as folder:
        plans = [
            LevelPlan(
                str(z), ROW >> shift, (ROW + 7) >> shift, COLUMN >> shift, (COLUMN + 7) >> shift
            )
            for z in range(FINEST - 3, FINEST + 1)
            for shift in [FINEST - z]
        ]

        def pyramid(name: str, tile: Any) -> Path:
            return write_pyramid(
                folder / "pyramids",
                name,
                tile_matrix_set=web_mercator(),
                format="TIFF_ZIP_FLOAT32",
                channels=1,
                nodata=[-99999],
                levels=plans,
                tile=tile,
            )

        def sparse(level: str, row: int, column: int) -> npt.NDArray[np.float32] | None:
            is_missing = level == str(FINEST) and row >= ROW + 4
            return None if is_missing else mountains(level, row, column)

        layers = {
            "alps": layer_document(pyramid("alps", mountains)),
            "sparse": layer_document(pyramid("sparse", sparse)),
        }
        port = free_port()
        address = f"http://127.0.0.1:{port}"
        server_json = write_installation(
            folder,
            layers=layers,
            services=["terrain"],
            public_url=address,
        )
        with Mastaba(changed(server_json, folder / "server-http.json"), folder, http=port):
            yield address


@pytest.fixture(scope="module")
def alps(shared_data: Path) -> Iterator[str]:
    """The address of a dataset whose pyramid was written by other tools: 4 × 4 flat tiles."""
    with public_folder() as folder:
        port = free_port()
        address = f"http://127.0.0.1:{port}"
        conf = shared_data / "alps" / "conf"
        services = folder / "services.json"
        document = json.loads((conf / "services.json").read_text("utf-8"))
        document["terrain"] = {"enabled": True, "endpoint_uri": f"{address}/terrain"}
        services.write_text(json.dumps(document), encoding="utf-8")
        places = json.loads((conf / "server.json").read_text("utf-8"))["configurations"]
        places["services"] = str(services)
        server_json = changed(
            conf / "server.json", folder / "server-http.json", configurations=places
        )
        with Mastaba(server_json, folder, http=port, cwd=conf.parent):
            yield f"{address}/terrain/DEV_F32_ZIP"


@pytest.fixture(scope="module")
def libraries() -> Iterator[str]:
    """The address of another server, of the libraries of npm: answers cross origins."""
    with served(web_clients()) as address:
        yield address


class _Files(SimpleHTTPRequestHandler):
    """Sends the libraries, and a page with any head: ``/page?<head>``."""

    extensions_map: ClassVar = {
        **SimpleHTTPRequestHandler.extensions_map,
        ".mjs": "text/javascript",
    }

    def do_GET(self) -> None:
        path, _, head = self.path.partition("?")
        if path != "/page":
            super().do_GET()
            return
        body = _PAGE.format(head=unquote(head), size=VIEW).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Files, directory=str(folder)))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def page_with(browser: Any, libraries: str, head: str, ignored: str | None = None) -> Iterator[Any]:
    """Open a page of the server of libraries; any error in its console fails, but the ignored ones.

    Args:
        ignored: a part of their text.
    """
    page = browser.new_page(viewport={"width": VIEW, "height": VIEW})
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda line: line.type == "error" and faults.append(line.text))
    page.goto(f"{libraries}/page?{quote(head)}")
    try:
        yield page
        assert [fault for fault in faults if ignored is None or ignored not in fault] == []
    finally:
        page.close()


def pixels_of(shot: bytes) -> Pixels:
    from io import BytesIO

    from PIL import Image

    return np.asarray(Image.open(BytesIO(shot)).convert("RGB"))


MAPLIBRE = """
    const maplibregl = await import(`${location.origin}/maplibre-gl/dist/maplibre-gl.mjs`);
    const failed = [];
    const map = window.map = new maplibregl.Map({
        container: "map", style: a.style, interactive: false, attributionControl: false,
        fadeDuration: 0, pixelRatio: 1, canvasContextAttributes: {preserveDrawingBuffer: true},
        ...a.options});
    map.on("error", (event) => failed.push(String(event.error)));
    const idle = () => new Promise((resolve, reject) => {
        map.once("idle", resolve);
        map.once("error", (event) => reject(event.error));
        setTimeout(() => reject(new Error("the map is not drawn in time")), 120000);
    });
    await idle();
"""


def in_maplibre(page: Any, style: str, options: dict[str, Any], script: str, **more: Any) -> Any:
    """Return what a script returns after the map is drawn; no event of an error may have come."""
    return page.evaluate(
        f"""async (a) => {{ {MAPLIBRE}
            const found = await (async () => {{ {script} }})();
            if (failed.length) throw new Error(failed.join("; "));
            return found; }}""",
        {"style": style, "options": options, **more},
    )


HEAD = '<link rel="stylesheet" href="/maplibre-gl/dist/maplibre-gl.css">'


def place_of(x: float, y: float) -> tuple[float, float]:
    """Return longitude and latitude of a pixel of the finest level, from the upper left tile."""
    across = (COLUMN * SIZE + x) / (SIZE * 2**FINEST)
    down = (ROW * SIZE + y) / (SIZE * 2**FINEST)
    latitude = math.degrees(math.atan(math.sinh(math.pi * (1 - 2 * down))))
    return across * 360 - 180, latitude


@pytest.mark.parametrize("query", ["", "?encoding=mapbox&size=512&format=webp"])
def test_maplibre_has_the_stored_heights(
    browser: Any, url: str, libraries: str, query: str
) -> None:
    middle = place_of(4 * SIZE, 4 * SIZE)
    x, y = np.meshgrid(
        np.arange(3.5, 4.5, 0.125) * SIZE + 0.5, np.arange(3.5, 4.5, 0.25) * SIZE + 0.5
    )
    places = [place_of(a, b) for a, b in zip(x.ravel(), y.ravel(), strict=True)]
    with page_with(browser, libraries, HEAD) as page:
        found = in_maplibre(
            page,
            f"{url}/terrain/alps/style.json{query}",
            {"center": middle, "zoom": FINEST},
            "return a.places.map((place) => map.terrain.getElevationForLngLat("
            "new maplibregl.LngLat(...place), map.transform));",
            places=places,
        )
    wanted = [
        float(
            mountains(str(FINEST), ROW + int(b) // SIZE, COLUMN + int(a) // SIZE)[
                int(b) % SIZE, int(a) % SIZE
            ]
        )
        for a, b in zip(x.ravel(), y.ravel(), strict=True)
    ]
    # MapLibre interpolates between the pixels of the tile that it has loaded for the terrain.
    assert np.abs(np.array(found) - wanted).max() < 20
    assert np.median(np.abs(np.array(found) - wanted)) < 2


@pytest.mark.parametrize(("query", "is_coarser"), [("", True), ("?missing=200", False)])
def test_maplibre_has_coarser_heights_where_finer_tiles_are_missing(
    browser: Any, url: str, libraries: str, query: str, is_coarser: bool
) -> None:
    """With a constant tile for a missing one, as clients of other servers want it, it has none."""
    middle = place_of(4 * SIZE, 6 * SIZE)
    offsets = [(x, y) for x in (-20, 0, 20) for y in (-20, 0, 20)]
    points = [(4 * SIZE + x, 6 * SIZE + y) for x, y in offsets]
    with page_with(browser, libraries, HEAD, ignored="404 (Not Found)") as page:
        found = in_maplibre(
            page,
            f"{url}/terrain/sparse/style.json{query}",
            {"center": middle, "zoom": FINEST + 2},
            "return a.places.map((place) => map.terrain.getElevationForLngLat("
            "new maplibregl.LngLat(...place), map.transform));",
            places=[place_of(x + 0.5, y + 0.5) for x, y in points],
        )
    wanted = [
        float(mountains(str(FINEST), ROW + y // SIZE, COLUMN + x // SIZE)[y % SIZE, x % SIZE])
        for x, y in points
    ]
    is_near = bool(np.median(np.abs(np.array(found) - wanted)) < 100)
    assert is_near is is_coarser


def test_maplibre_draws_the_hillshade(browser: Any, url: str, libraries: str) -> None:
    """One pixel of the map is one of the finest level: the picture is that of the formula."""
    middle = place_of(4 * SIZE, 4 * SIZE)
    options = {"center": middle, "zoom": FINEST - 1}
    with page_with(browser, libraries, HEAD) as page:
        # With terrain, perspective moves pixels; contour lines hide them.
        in_maplibre(
            page,
            f"{url}/terrain/alps/style.json",
            options,
            """
            map.setTerrain(null);
            map.removeLayer("contours");
            await idle();
            return null;
            """,
        )
        found = pixels_of(page.screenshot())
    ground = np.block(
        [
            [mountains(str(FINEST), ROW + row, COLUMN + col) for col in range(2, 6)]
            for row in range(2, 6)
        ]
    ).astype(np.float64)
    wanted = hillshade(ground)[256:-256, 256:-256]
    assert found.shape == (512, 512, 3)
    assert wanted.std() > 20
    difference = np.abs(found.astype(float) - wanted[:, :, np.newaxis])
    assert difference.mean() < 0.01 * 255
    assert difference.max() < 0.05 * 255


@pytest.mark.shared_data
def test_maplibre_draws_the_alps(browser: Any, alps: str, libraries: str) -> None:
    """The style alone shows the place."""
    with page_with(browser, libraries, HEAD) as page:
        in_maplibre(page, f"{alps}/style.json", {}, "return null;")
        shot = pixels_of(page.screenshot())
    assert _share_of_ground(shot) > 0.2


@pytest.mark.shared_data
def test_cesium_draws_the_alps(browser: Any, alps: str, libraries: str) -> None:
    with page_with(browser, libraries, CESIUM_HEAD) as page:
        height = in_cesium(
            page,
            f"{alps}/mesh",
            f"""
            const layer = await (await fetch(`${{a.url}}/layer.json`)).json();
            const [west, south, east, north] = layer.bounds;
            const x = (west + east) / 2, height = (north - south) * 111000;
            const middle = Cesium.Cartographic.fromDegrees(x, (south + north) / 2);
            await Cesium.sampleTerrainMostDetailed(provider, [middle]);
            viewer.camera.setView({{
                destination: Cesium.Cartesian3.fromDegrees(x, 2 * south - north, height),
                orientation: {{heading: 0, pitch: -0.6, roll: 0}}}});
            {DRAWN}
            return middle.height;
            """,
        )
        shot = pixels_of(page.screenshot())
    assert 15 < height < 40  # the lowest and highest pixel there have 17 and 33.5 m
    assert _share_of_ground(shot) > 0.02


def _share_of_ground(shot: Pixels) -> float:
    """Return the share of the picture whose neighbourhoods are not of one colour."""
    blocks = shot.reshape(VIEW // 16, 16, VIEW // 16, 16, 3).astype(float)
    return float((blocks.std(axis=(1, 3)).max(axis=-1) > 4).mean())


def hillshade(ground: Floats) -> Floats:
    """Return the grey of the default hillshade of MapLibre on black, 0 to 255.

    The slope is that of Horn, exaggerated by zoom. Shadows are black, lights white, each as opaque
    as the sine of the slope.
    """
    padded = np.pad(ground, 1, mode="edge")
    west, east = padded[:, :-2], padded[:, 2:]
    across = east[:-2] + 2 * east[1:-1] + east[2:] - west[:-2] - 2 * west[1:-1] - west[2:]
    north, south = padded[:-2], padded[2:]
    down = south[:, :-2] + 2 * south[:, 1:-1] + south[:, 2:]
    down -= north[:, :-2] + 2 * north[:, 1:-1] + north[:, 2:]
    metres = 2**25.2562 / 2**FINEST / SIZE
    exaggeration = 2 ** (0.3 * (15 - FINEST))
    rows = ROW + 2 + (np.arange(len(ground)) + 0.5) / SIZE
    latitude = np.arctan(np.sinh(np.pi * (1 - 2 * rows / 2**FINEST)))
    scale = exaggeration / 8 / metres / np.cos(latitude)[:, np.newaxis]
    across, down = across * scale, down * scale
    slope = np.arctan(0.625 * np.hypot(across, down))
    aspect = np.arctan2(down, -across)
    light = math.radians(315) + math.pi
    towards = np.abs(np.mod((aspect + light) / math.pi + 0.5, 2.0) - 1.0)
    return np.asarray(towards * np.sin(slope) * 255)


CESIUM = """
    const viewer = window.viewer = new Cesium.Viewer("map", {
        baseLayer: false, baseLayerPicker: false, geocoder: false, timeline: false,
        animation: false, homeButton: false, sceneModePicker: false, fullscreenButton: false,
        navigationHelpButton: false, infoBox: false, selectionIndicator: false,
        requestRenderMode: false, contextOptions: {webgl: {preserveDrawingBuffer: true}},
        creditContainer: document.createElement("div")});
    viewer.scene.requestRenderMode = false;
    const failed = [];
    const wanted = {requestVertexNormals: true};
    const provider = await Cesium.CesiumTerrainProvider.fromUrl(a.url, wanted);
    provider.errorEvent.addEventListener((error) => failed.push(error.message));
    viewer.terrainProvider = provider;
    viewer.scene.globe.enableLighting = true;
"""


DRAWN = """
    viewer.clock.currentTime = Cesium.JulianDate.fromIso8601("2024-06-21T08:00:00Z");
    await new Promise((resolve, reject) => {
        let still = 0;
        setTimeout(() => reject(new Error("the globe is not drawn in time")), 120000);
        viewer.scene.postRender.addEventListener(() => {
            still = viewer.scene.globe.tilesLoaded ? still + 1 : 0;
            if (still > 5) resolve();
        });
    });
"""


def in_cesium(page: Any, url: str, script: str, **more: Any) -> Any:
    return page.evaluate(
        f"""async (a) => {{ {CESIUM}
            const found = await (async () => {{ {script} }})();
            if (failed.length) throw new Error(failed.join("; "));
            return found; }}""",
        {"url": url, **more},
    )


CESIUM_HEAD = """<script>window.CESIUM_BASE_URL = "/cesium/Build/Cesium/";</script>
<script src="/cesium/Build/Cesium/Cesium.js"></script>
<link rel="stylesheet" href="/cesium/Build/Cesium/Widgets/widgets.css">"""


def test_cesium_draws_the_mesh(browser: Any, url: str, libraries: str) -> None:
    """Heights of the most detailed tiles are those of the ground; the globe is drawn from them."""
    points = [place_of(x * SIZE, y * SIZE) for x in (2.5, 4.1, 5.7) for y in (2.2, 4.6, 5.9)]
    with page_with(browser, libraries, CESIUM_HEAD) as page:
        found = in_cesium(
            page,
            f"{url}/terrain/alps/mesh",
            """
            const places = a.points.map(([x, y]) => Cesium.Cartographic.fromDegrees(x, y));
            await Cesium.sampleTerrainMostDetailed(provider, places);
            const [x, y] = a.points[4];
            viewer.camera.setView({
                destination: Cesium.Cartesian3.fromDegrees(x, y - 0.25, 16000),
                orientation: {heading: 0, pitch: -0.5, roll: 0}});
            """
            + DRAWN
            + """
            return places.map((place) => place.height);
            """,
            points=points,
        )
        shot = pixels_of(page.screenshot())
    wanted = []
    for x in (2.5, 4.1, 5.7):
        for y in (2.2, 4.6, 5.9):
            tile = mountains(str(FINEST), ROW + int(y), COLUMN + int(x))
            wanted.append(float(tile[int(y % 1 * SIZE), int(x % 1 * SIZE)]))
    # The error of a mesh at its finest zoom, and half a pixel of the ground.
    assert np.abs(np.array(found) - wanted).max() < 30
    assert shot[:, :, 2].std() > 10
