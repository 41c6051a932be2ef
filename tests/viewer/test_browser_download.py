"""Downloads of an area, ordered in a real browser from a real server and its worker."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.live.processes import Mastaba, changed, free_port, wait_until
from tests.viewer import ground
from tests.viewer.browser import Page, live_in_chromium

from mastaba_conformance.tiny_installation import TINY_LEVELS
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

pytestmark = live_in_chromium

OPEN = {"coverages": True, "export": {"enabled": True}}
LIMITS = {"max_tiles": 4, "directory_bytes": 14_000}
NAMES = ("IMAGE", "HEIGHT_ZIP", "PALETTE")


@contextmanager
def serving(folder: Path, **settings: Any) -> Iterator[str]:
    """Serve layers; all but PALETTE can be downloaded. Settings are those of the service."""
    layers = {}
    for name in NAMES:
        format, channels, tile = ground.FORMATS[name]
        descriptor = write_pyramid(
            folder,
            name,
            tile_matrix_set=web_mercator(),
            format=format,
            channels=channels,
            levels=TINY_LEVELS,
            tile=tile,
        )
        switches = {} if name == "PALETTE" else OPEN
        layers[name] = layer_document(descriptor, title=name, **switches)
    grid = write_pyramid(
        folder,
        "GRID",
        tile_matrix_set=ground.GRID,
        format="TIFF_ZIP_FLOAT32",
        channels=1,
        levels=[LevelPlan("1", 1, 2, 1, 3), LevelPlan("2", 2, 4, 2, 6)],
        tile=partial(_grid_tile, 2),
    )
    layers["GRID"] = layer_document(grid, tile_matrix_sets={"GRID": ground.GRID}, **OPEN)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    server_json = write_installation(
        folder,
        layers=layers,
        tile_matrix_sets={"GRID": ground.GRID},
        services=["tms", "wms", "ogcapi", "export", "viewer"],
        public_url=url,
        services_overrides={
            "global": {"tile": {"reprojection": True}, "map": {"crs": ["EPSG:3857", "EPSG:2154"]}},
            "ogcapi": {"coverages": True},
            "export": {"enabled": True, "directory": str(folder / "export"), **settings},
        },
    )
    with Mastaba(changed(server_json, folder / "live.json", workers=1), folder, http=port):
        yield url


def _grid_tile(factor: int, level: str, row: int, col: int) -> Any:
    _, _, tile = ground.FORMATS["HEIGHT_ZIP"]
    return factor * tile("1", row, col)[:, :128]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module")
def generous(folder: Path) -> Iterator[str]:
    with serving(folder, workers=1) as url:
        yield url


@pytest.fixture
def page(browser: Any, generous: str) -> Iterator[Page]:
    opened = Page(browser, generous)
    yield opened
    opened.close()


def begin(page: Page, layer: str, format: str) -> None:
    """Open the panel of a layer, and choose a format by the end of its name."""
    page.open(layer)
    page.page.locator("#download").click()
    select = page.page.locator("#download-format")
    option = select.locator("option", has_text=format).last
    select.select_option(value=option.get_attribute("value"))


def estimate(page: Page) -> str:
    """Return the estimate, or what is wrong."""
    shown = page.page.locator("#download-estimate[aria-busy=false]:not(:empty)")
    shown.wait_for()
    return str(shown.inner_text())


def draw(page: Page, button: str, *places: tuple[int, int]) -> None:
    """Draw on the map: places are pixels of the layer."""
    page.page.locator(f"[data-area={button}]").click()
    page.page.locator("#map.drawing").wait_for()
    for at in places[:-1]:
        page.page.mouse.click(*page.point(*at))
        # A second click too soon would be a double click.
        page.page.wait_for_timeout(350)
    last = page.page.mouse.click if button == "area-box" else page.page.mouse.dblclick
    last(*page.point(*places[-1]))
    page.page.locator("#download-area").wait_for()


def saved(page: Page, link: str) -> bytes:
    with page.page.expect_download() as download:
        page.page.locator(link).click()
    return Path(download.value.path()).read_bytes()


def command(page: Page) -> list[str]:
    """Return the words of the command that does the same."""
    return shlex.split(page.page.locator("#download-area > .command .snippet").inner_text())


def run(words: list[str], folder: Path) -> None:
    program = [sys.executable, "-m", "mastaba"] if words[0] == "mastaba" else words[:1]
    subprocess.run([*program, *words[1:]], cwd=folder, check=True, capture_output=True)


def test_job_of_a_polygon(page: Page, folder: Path) -> None:
    begin(page, "IMAGE", "PMTiles")
    whole = estimate(page)
    # A triangle of the finest level: its box has a corner with other tiles.
    draw(page, "area-polygon", (10, 10), (480, 10), (10, 480))
    shown = estimate(page)
    assert shown.endswith("about 1 s")
    tiles = int(shown.partition(" tile")[0])
    assert tiles < int(whole.partition(" tiles")[0])
    page.page.locator("#download-start").click()
    page.page.locator(".job[data-status=successful]").wait_for()
    content = saved(page, "#download-result")
    assert content.startswith(b"PMTiles")
    words = command(page)
    assert words[:4] == ["mastaba", "export", "IMAGE", "IMAGE.pmtiles"]
    with page.page.expect_download() as area:
        page.page.locator("#download-area > .buttons", has_text="area.geojson").get_by_role(
            "button"
        ).click()
    (folder / "area.geojson").write_bytes(Path(area.value.path()).read_bytes())
    run(words, folder)
    assert (folder / "IMAGE.pmtiles").read_bytes() == content
    run([*words, "--verify"], folder)
    # The command that follows the link gives the same file.
    fetch = shlex.split(page.page.locator(".job .snippet").inner_text())
    run(fetch, _new(folder / "fetched"))
    assert (folder / "fetched" / "IMAGE.pmtiles").read_bytes() == content


def test_job_equals_an_order_by_hand(page: Page, folder: Path) -> None:
    begin(page, "HEIGHT_ZIP", "GeoTIFF of one level")
    draw(page, "area-box", (20, 30), (400, 300))
    estimate(page)
    with page.page.expect_request("**/execution") as ordered:
        page.page.locator("#download-start").click()
    page.page.locator(".job[data-status=successful]").wait_for()
    content = saved(page, "#download-result")
    inputs = json.loads(ordered.value.post_data)["inputs"]
    assert inputs["crs"] == "EPSG:3857"
    assert inputs["levels"] == ["4"]
    west, south, east, north = inputs["bbox"]
    layer = page.page.request.get(page.url("data/layers/HEIGHT_ZIP.json")).json()
    left, _, _, top = layer["sets"][0]["bbox"]
    cell = 156543.03392804097 / 2**4
    pixels = [(x - left) / cell for x in (west, east)] + [(top - y) / cell for y in (north, south)]
    assert pixels == pytest.approx([20.5, 400.5, 30.5, 300.5], abs=1)
    request = urllib.request.Request(
        ordered.value.url,
        json.dumps({"inputs": inputs}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as response:
        job = response.headers["Location"]
    wait_until(lambda: _get(job)["status"] == "successful")
    with urllib.request.urlopen(_get(f"{job}/results")["result"]["href"]) as response:
        assert response.read() == content


def _get(url: str) -> Any:
    with urllib.request.urlopen(url) as response:
        return json.load(response)


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_cog_at_once(page: Page, folder: Path) -> None:
    page.open("HEIGHT_ZIP")
    page.page.locator("#download").click()
    whole = estimate(page)
    draw(page, "area-box", (20, 30), (200, 200))
    shown = estimate(page)
    assert shown != whole
    content = saved(page, "#download-file")
    assert shown == f"{len(content) / 1000:.1f} kB" or shown == f"{len(content) / 1000:.0f} kB"
    words = command(page)
    assert words[:4] == ["curl", "-g", "-C", "-"]
    target = _new(folder / "curl")
    # What an interrupted download has left is kept.
    (target / "HEIGHT_ZIP.tif").write_bytes(content[:1000])
    run(words, target)
    assert (target / "HEIGHT_ZIP.tif").read_bytes() == content


def test_typed_corners_in_a_national_crs(page: Page) -> None:
    page.open("GRID")
    page.page.locator("#download").click()
    assert page.page.locator(".corners legend").inner_text() == "Corners in EPSG:2154"
    page.page.select_option("#download-format", index=1)
    for corner, value in enumerate((703000, 6990000, 704000, 6991000)):
        page.page.fill(f"[data-corner='{corner}']", str(value))
        page.page.keyboard.press("Tab")
    estimate(page)
    href = page.page.locator("#download-file").get_attribute("href")
    assert "subset=E(703000:704000),N(6990000:6991000)" in href
    hand = f"{page.site}/ogcapi/collections/GRID/coverage"
    query = "f=geotiff&compression=none&level=2&bbox=703000,6990000,704000,6991000&bbox-crs="
    with urllib.request.urlopen(f"{hand}?{query}[EPSG:2154]") as response:
        assert saved(page, "#download-file") == response.read()
    page.page.fill("[data-corner='0']", "705000")
    page.page.keyboard.press("Tab")
    assert "lowest one below the highest" in estimate(page)
    assert page.page.locator("#download-file").count() == 0


def test_box_by_keyboard(page: Page) -> None:
    page.open("IMAGE")
    page.page.locator("#download").click()
    west = page.page.input_value("[data-corner='0']")
    page.page.locator("[data-area=area-box]").focus()
    page.page.keyboard.press("Enter")
    page.page.locator("#map.drawing").wait_for()
    page.page.keyboard.press("Enter")
    for key in ("ArrowRight", "ArrowDown"):
        before = page.page.url
        page.page.keyboard.press(key)
        page.wait_for("(url) => location.href !== url", before)
        page.settle()
    page.page.keyboard.press("Enter")
    page.page.locator("#download-area").wait_for()
    corners = [float(page.page.input_value(f"[data-corner='{i}']")) for i in range(4)]
    assert float(west) < corners[0] < corners[2]
    assert corners[1] < corners[3]
    page.page.keyboard.press("Escape")
    page.page.locator("#download-area").wait_for(state="hidden")


def test_layers_without_the_switch_offer_nothing(page: Page) -> None:
    page.open("PALETTE")
    assert page.page.locator("#download").is_hidden()
    page.page.select_option("#layer", "IMAGE")
    page.page.wait_for_url("**/viewer/IMAGE#*")
    page.settle()
    assert page.page.locator("#download").is_visible()


def test_limits_in_plain_words(browser: Any, tmp_path: Path) -> None:
    # Without a worker, a job waits until it is cancelled.
    with serving(tmp_path, per_owner={"waiting": 1}, limits=LIMITS) as url:
        page = Page(browser, url, (390, 844), locale="fr-FR")
        begin(page, "IMAGE", "PMTiles")
        page.page.locator("[data-area=area-whole]").click()
        assert estimate(page).startswith("Le fichier serait trop volumineux")
        assert page.page.locator("#download-start").is_disabled()
        for box in page.page.locator("#download-area :is(button, select, input)").all():
            assert box.bounding_box()["height"] >= 44
        assert page.overflow() <= 0
        begin(page, "HEIGHT_ZIP", "GeoTIFF d’un niveau")
        assert estimate(page).startswith("4 tuiles, 13,1 ko, ")
        page.page.locator("#download-start").click()
        page.page.locator(".job[data-status=accepted]", has_text="En attente").wait_for()
        # Another page of the same client orders one more.
        other = Page(browser, url, locale="fr-FR")
        begin(other, "HEIGHT_ZIP", "GeoTIFF d’un niveau")
        estimate(other)
        other.page.locator("#download-start").click()
        refused = other.page.locator("#download-estimate", has_text="Réessayez dans")
        refused.wait_for()
        assert refused.inner_text().startswith("Le serveur a déjà accepté")
        assert all("429" in fault for fault in other.faults)
        other.faults.clear()
        page.page.locator("#download-cancel").click()
        page.page.locator(".job[data-status=dismissed]", has_text="Annulé").wait_for()
        # Larger than all results together may be.
        begin(other, "IMAGE", "PMTiles")
        other.page.get_by_label("Niveau le plus grossier", exact=True).select_option(index=0)
        other.page.get_by_label("Niveau le plus fin", exact=True).select_option(index=0)
        assert estimate(other).startswith("1 tuile, 18,9 ko")
        other.page.locator("#download-start").click()
        other.page.locator("#download-estimate", has_text="plus de place").wait_for()
        assert all("507" in fault for fault in other.faults)
        other.faults.clear()
        other.close()
        page.close()
