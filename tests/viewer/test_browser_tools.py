"""Layers, projections, places, files and tools for elevations, in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from PIL import Image
from tests.viewer import ground
from tests.viewer.browser import Page, live_in_chromium

from mastaba_conformance.tiny_installation import tiny_float_tile
from mastaba_writer.installation import layer_document
from mastaba_writer.pyramids import LevelPlan, write_pyramid

pytestmark = live_in_chromium

VIEW = "#at=5009377,5009377,9783.939621"


def place(page: Page) -> list[float]:
    """Return x, y and the cell size in the URL."""
    return [float(part) for part in page.page.url.partition("#at=")[2].partition("&")[0].split(",")]


def switch(page: Page, layer: str) -> None:
    """Choose another layer, which has a page of its own."""
    page.page.select_option("#layer", layer)
    page.page.wait_for_url(f"**/viewer/{layer}#*")
    page.settle()


def test_switch_layers_without_losing_the_view(page: Page) -> None:
    page.open(f"IMAGE{VIEW}")
    before = page.screen_pixel(0.4, 0.4)
    switch(page, "PALETTE")
    assert page.page.url.startswith(f"{page.site}/viewer/PALETTE#at=5009377,5009377,")
    assert page.page.locator("h1").inner_text() == "PALETTE"
    assert page.page.title() == "PALETTE – Map viewer"
    assert page.screen_pixel(0.4, 0.4) != before
    page.page.go_back()
    page.page.wait_for_url("**/viewer/IMAGE#*")
    page.wait_for("document.querySelector('h1').textContent === 'IMAGE'")
    page.settle()
    assert page.screen_pixel(0.4, 0.4) == pytest.approx(before, abs=2)


def test_switch_to_a_layer_in_another_crs(page: Page) -> None:
    page.open(f"IMAGE{VIEW}")
    switch(page, "WORLD")
    x, y, _ = place(page)
    assert (x, y) == pytest.approx((45, 40.979898), abs=1e-3)


@pytest.mark.parametrize("crs", ["EPSG:4326", "CRS:84"])
def test_projection_of_the_map(page: Page, crs: str) -> None:
    page.open(f"PALETTE{VIEW}")
    page.choose("crs", crs)
    assert page.page.input_value("#set") == "PM"
    assert f"crs={crs.replace(':', '%3A')}" in page.page.url
    assert place(page)[:2] == pytest.approx((45, 40.979898), abs=1e-3)
    # The middle of the layer is at 45 degrees east.
    red = round((45 + 180) / 360 * 4096) // 4 % 256
    assert page.screen_pixel(0.5, 0.5) == pytest.approx([red, red, red], abs=3)
    page.page.reload()
    page.settle()
    assert page.page.input_value("#crs") == crs
    assert page.screen_pixel(0.5, 0.5) == pytest.approx([red, red, red], abs=3)


def test_projection_of_vector_tiles(page: Page) -> None:
    page.open(f"VECTOR{VIEW}")
    page.choose("crs", "EPSG:4326")
    box = page.page.locator("#map").bounding_box()
    page.page.mouse.click(box["x"] + box["width"] / 2 - 60, box["y"] + box["height"] / 2 - 60)
    page.page.locator("#identified tr", has_text="row").wait_for()


def test_go_to_coordinates_and_names(browser: Any, tmp_path: Path, serving: Any) -> None:
    places = [{"name": "Summit <b>", "longitude": 30.0, "latitude": 50.0}]

    def install(url: str) -> Path:
        return ground.install(tmp_path, url, services_overrides={"viewer": {"places": places}})

    with serving(install) as url:
        page = Page(browser, url)
        page.open("WORLD#at=0,0,2.8125")
        for text, wanted in (("48.5, 2.25", (2.25, 48.5)), ("summit", (30, 50))):
            page.page.fill("#goto", text)
            page.page.keyboard.press("Enter")
            page.page.wait_for_url(f"**#at={wanted[0]},{wanted[1]},*")
            page.settle()
            # The only level of the layer has this cell size.
            assert place(page)[2] == pytest.approx(0.703125)
            marked = page.screen_pixel(0.5, 0.5)
            assert marked == pytest.approx((194, 87, 26), abs=8)
        page.page.fill("#goto", "nowhere")
        page.page.keyboard.press("Enter")
        page.wait_for("!document.getElementById('goto').validity.valid")
        assert place(page)[:2] == [30, 50]
        page.close()


def test_zoom_to_layer_and_graticule(page: Page) -> None:
    page.open("WORLD#at=100,60,0.703125")
    page.page.locator("#zoom-to-layer").click()
    page.wait_for("location.hash.startsWith('#at=0,0,')")
    page.settle()
    plain = page.page.screenshot()
    lines = page.page.locator("#graticule")
    lines.click()
    page.settle()
    assert lines.get_attribute("aria-pressed") == "true"
    assert page.page.screenshot() != plain
    assert page.page.locator(".ol-scale-line-inner").inner_text().endswith("km")


def test_basemap(browser: Any, tmp_path: Path, serving: Any) -> None:
    def install(url: str) -> Path:
        basemap = {
            "title": "Ground",
            "url": f"{url}/tms/1.0.0/IMAGE/{{z}}/{{x}}/{{y}}.jpeg",
            "attribution": "© <i>Surveyors</i>",
            "max_zoom": 4,
        }
        return ground.install(tmp_path, url, services_overrides={"viewer": {"basemap": basemap}})

    with serving(install) as url:
        page = Page(browser, url)
        page.open("VECTOR#at=5009377,5009377,9783.939621")
        plain = page.screen_pixel(0.6, 0.6)
        page.page.check("#basemap")
        page.settle()
        assert page.screen_pixel(0.6, 0.6) != plain
        assert page.page.locator("#attribution").inner_text() == "© <i>Surveyors</i>"
        page.faults = [fault for fault in page.faults if "404" not in fault]
        page.close()


@pytest.mark.parametrize(("button", "format"), [("png", "PNG"), ("jpeg", "JPEG")])
def test_picture_of_the_view(page: Page, button: str, format: str) -> None:
    page.open(f"IMAGE{VIEW}")
    with page.page.expect_download() as download:
        page.page.locator(f"#save-{button}").click()
    assert download.value.suggested_filename == f"IMAGE.{button}"
    with Image.open(download.value.path()) as image:
        assert image.format == format
        image.load()
    box = page.page.locator("#map").bounding_box()
    assert image.size == (round(box["width"]), round(box["height"]))
    found = image.convert("RGB").getpixel((image.width // 2 - 80, image.height // 2 - 80))
    shown = page.screen_pixel(0.5 - 80 / image.width, 0.5 - 80 / image.height)
    assert found == pytest.approx(shown, abs=12)


def test_geotiff_of_the_view(page: Page) -> None:
    page.open(f"IMAGE{VIEW}")
    with page.page.expect_download() as download:
        page.page.locator("#save-geotiff").click()
    query = parse_qs(urlsplit(download.value.url).query)
    assert query["CRS"] == ["EPSG:3857"]
    with Image.open(download.value.path()) as image:
        assert image.format == "TIFF"


def test_colours_and_light_of_elevations(page: Page) -> None:
    page.open("SLOPE")
    seen = {tuple(page.tile_pixel(100, 100))}
    # The slope rises to the east and to the south.
    for name, value in (("exaggeration", "5"), ("azimuth", "90"), ("altitude", "20")):
        page.page.locator(f"#{name}").fill(value)
        page.settle()
        seen.add(tuple(page.tile_pixel(100, 100)))
    assert len(seen) == 4
    page.page.locator("#shade").fill("0")
    page.page.select_option("#palette", "grey")
    page.page.fill("#lowest", "0")
    page.page.fill("#highest", "1")
    page.settle()
    # All heights are above the range.
    assert page.tile_pixel(100, 100) == [250, 250, 250, 255]
    assert page.page.locator("#legend .ends:visible").inner_text().split() == [
        "0.0",
        "m",
        "1.0",
        "m",
    ]


def test_shading_is_in_the_link(page: Page) -> None:
    page.open("HEIGHT#palette=nonsense&azimuth=what")
    assert page.page.input_value("#palette") == "tints"
    page.page.select_option("#palette", "viridis")
    page.page.locator("#azimuth").fill("90")
    page.page.locator("#exaggeration").fill("2.5")
    page.page.locator("#lowest").fill("5000")
    page.page.locator("#highest").fill("9000")
    page.settle()
    shown = page.screen_pixel(0.5, 0.5)
    link = page.page.url
    for part in (
        "palette=viridis",
        "azimuth=90",
        "exaggeration=2.5",
        "lowest=5000",
        "highest=9000",
    ):
        assert part in link.partition("#")[2].split("&")
    page.open(link.rpartition("/")[2])
    assert page.page.input_value("#palette") == "viridis"
    assert page.screen_pixel(0.5, 0.5) == pytest.approx(shown, abs=2)
    page.choose("palette", "tints")
    page.page.locator("#azimuth").fill("315")
    assert "palette" not in page.page.url
    page.page.wait_for_url(lambda url: "azimuth" not in url)


@pytest.mark.parametrize("source", ["wms", "ogcapi-maps"])
def test_pointer_reads_heights_of_other_grids(
    browser: Any, tmp_path: Path, serving: Any, source: str
) -> None:
    """Images of heights that are not in Web Mercator."""

    def install(url: str) -> Path:
        descriptor = write_pyramid(
            tmp_path,
            "ALTI",
            tile_matrix_set=ground.GRID,
            format="TIFF_ZIP_FLOAT32",
            channels=1,
            levels=[LevelPlan("1", 1, 2, 1, 3)],
            tile=lambda level, row, col: tiny_float_tile("1", row, col)[:, :128],
        )
        alti = layer_document(
            descriptor,
            tile_matrix_sets={"GRID": ground.GRID},
            styles=["tint"],
            get_feature_info={"type": "PYRAMID"},
        )
        return ground.install(tmp_path, url, more={"ALTI": alti})

    with serving(install) as url:
        page = Page(browser, url)
        page.open(f"ALTI#source={source}&style=tint")
        for crs in ("EPSG:2154", "EPSG:3857", "EPSG:4326"):
            page.choose("crs", crs)
            box = page.page.locator("#map").bounding_box()
            # Also outside the layer, and outside its limits.
            for x in (0.5, 0.55, 0.02, 0.98):
                page.page.mouse.move(
                    box["x"] + x * box["width"], box["y"] + box["height"] * 0.5, steps=2
                )
                page.page.wait_for_timeout(400)
                if x == 0.55:
                    page.wait_for(
                        "document.querySelector('#readout b')?.textContent.endsWith(' m')"
                    )
        page.close()


def test_histogram_of_the_view(page: Page) -> None:
    page.open("HEIGHT")
    low, high = page.page.locator("#histogram .ends span").all_inner_texts()
    # Also from the coarser tiles around those of the finest level.
    assert low == "3,672 m"
    assert high == "5,855 m"


def draw(page: Page, *places: tuple[int, int]) -> None:
    """Click places of the layer; the last one twice."""
    for at in places[:-1]:
        page.page.mouse.click(*page.point(*at))
        # A second click too soon would be a double click.
        page.page.wait_for_timeout(350)
    page.page.mouse.dblclick(*page.point(*places[-1]))


def test_heights_of_a_layer_in_another_grid(page: Page) -> None:
    page.open("SLOPE")
    page.page.locator("#profile").click()
    box = page.page.locator("#map").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.page.mouse.click(x - 60, y)
    page.page.mouse.dblclick(x + 60, y)
    page.page.wait_for_selector("#result-body .chart canvas")
    page.page.locator("#close-result").click()
    page.page.locator("#goto").fill("50.0, 3.0")
    page.page.locator("#go").click()
    page.wait_for("location.hash.startsWith('#at=700000,')")
    page.settle()
    page.choose("crs", "CRS:84")
    assert place(page)[:2] == pytest.approx((3, 50), abs=1e-3)
    page.page.locator("#three").click()
    page.page.wait_for_selector("#terrain-map[aria-busy=false]")


def test_profile(page: Page) -> None:
    page.open("HEIGHT_ZIP")
    page.page.locator("#profile").click()
    draw(page, (20, 20), (200, 200))
    page.page.wait_for_selector("#result-body .chart canvas")
    text = page.page.locator("#result-body .facts-line").inner_text()
    assert "ascent" in text
    with page.page.expect_download() as download:
        page.page.locator("#result-body button", has_text="CSV").click()
    head, first, *rows = Path(download.value.path()).read_text("utf-8").splitlines()
    assert head == "distance,longitude,latitude,elevation"
    height = 4000 + (9 * 256 + 20) / 2 + (5 * 256 + 20) / 4
    assert float(first.split(",")[3]) == pytest.approx(height, abs=2)
    assert len(rows) > 100
    with page.page.expect_download() as download:
        page.page.locator("#result-body button", has_text="GPX").click()
    assert "<ele>" in Path(download.value.path()).read_text("utf-8")
    page.page.locator("#close-result").click()
    assert page.page.locator("#result").is_hidden()


def test_statistics_of_an_area(page: Page) -> None:
    page.open("HEIGHT_ZIP")
    page.page.locator("#statistics").click()
    draw(page, (20, 20), (200, 20), (200, 200))
    page.page.wait_for_selector("#result-body dl")
    names = page.page.locator("#result-body dt").all_inner_texts()
    values = page.page.locator("#result-body dd").all_inner_texts()
    found = dict(zip(names, values, strict=True))
    assert found["Computed from cells of"].endswith(" m (level 4)")
    assert found["Highest"].endswith(" m")
    mean = float(found["Mean"].removesuffix(" m").replace(",", ""))
    assert 4000 + 9 * 128 + 5 * 64 < mean < 4000 + 10 * 128 + 6 * 64


def test_escape_ends_a_drawing(page: Page) -> None:
    page.open("HEIGHT_ZIP")
    page.page.locator("#profile").click()
    page.page.locator("#notice", has_text="double click").wait_for()
    page.page.keyboard.press("Escape")
    page.page.locator("#notice").wait_for(state="hidden")


def test_tools_are_only_for_elevations(page: Page) -> None:
    page.open("IMAGE")
    # An image can be draped over the terrain of another layer.
    assert page.page.locator("#three").is_visible()
    tools = ("relief-tools", "measure-tools", "contours")
    assert all(page.page.locator(f"#{name}").is_hidden() for name in tools)
    switch(page, "HEIGHT")
    assert all(page.page.locator(f"#{name}").is_visible() for name in tools)
