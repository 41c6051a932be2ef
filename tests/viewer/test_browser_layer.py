"""The page of one layer in a real browser."""

from __future__ import annotations

import io
import json
from itertools import product
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from PIL import Image
from tests.viewer import ground
from tests.viewer.browser import Page, live_in_chromium

pytestmark = live_in_chromium

# A pixel of the tile at column 9, row 5 of level 4, which is the north-westernmost tile.
COLUMN, ROW = 9 * 256 + 100, 5 * 256 + 40
RED, GREEN = COLUMN // 4 % 256, ROW // 4 % 256
ALPHA = 255 if (COLUMN // 32 + ROW // 32) % 2 == 0 else 128


def ember(value: int) -> list[int]:
    """Return a colour of the first half of the style ember, from 96,0,16 to 224,80,0."""
    assert value <= 128
    part = value / 128
    return [
        int(low + (high - low) * part)
        for low, high in zip((96, 0, 16, 255), (224, 80, 0, 192), strict=True)
    ]


LOOKS = {"normal": [RED, RED, RED, 255], "ember": ember(RED)}


@pytest.mark.parametrize("layer", [*ground.FORMATS, "WORLD", "GRID", "VECTOR"])
def test_every_kind_of_layer_is_shown(page: Page, layer: str) -> None:
    page.open(layer)
    title = ground.HOSTILE if layer == "WORLD" else layer
    assert page.page.locator("h1").inner_text() == title
    assert page.page.title() == f"{title} – Map viewer"
    assert page.tile_pixel(100, 30 if layer == "VECTOR" else 100)[3] > 0
    assert page.page.locator("#notice").is_hidden()


@pytest.mark.parametrize("layer", ["GREY", "LZW", "ZIP", "PACKED"])
def test_tiff_tiles_are_decoded(page: Page, layer: str) -> None:
    page.open(layer)
    wanted = {
        "GREY": [RED, RED, RED, 255],
        "LZW": [RED, GREEN, 64, 255],
        "ZIP": [RED, RED, RED, ALPHA],
        "PACKED": [RED, GREEN, 64, ALPHA],
    }[layer]
    # A canvas stores premultiplied colours, which rounds them.
    assert page.tile_pixel(100, 40) == pytest.approx(wanted, abs=2)


PARTS = {
    "tms": "/tms/1.0.0/PALETTE/4/9/5.png",
    "wmts": "/wmts?",
    "ogcapi-tiles": "/map/tiles/PM/4/5/9?",
    "wms": "/wms?",
    "ogcapi-maps": "/map?",
}


@pytest.mark.parametrize(
    ("source", "style"),
    # TMS only offers the default style.
    [pair for pair in product(PARTS, LOOKS) if pair != ("tms", "ember")],
)
def test_every_source_shows_every_style(page: Page, source: str, style: str) -> None:
    page.open(f"PALETTE#source={source}&style={style}")
    assert page.page.input_value("#source") == source
    assert page.page.input_value("#style") == style
    assert page.tile_pixel(100, 40) == pytest.approx(LOOKS[style], abs=3)
    assert any(PARTS[source] in url for url in page.requests)


def test_choosing_a_style_changes_pixels(page: Page) -> None:
    page.open("PALETTE")
    assert page.page.input_value("#source") == "tms"
    assert page.tile_pixel(100, 40) == LOOKS["normal"]
    page.choose("style", "ember")
    # TMS only offers the default style, so the source changes.
    assert page.page.input_value("#source") == "wmts"
    assert page.page.locator("#hint").inner_text() == "Source: WMTS"
    assert page.tile_pixel(100, 40) == pytest.approx(LOOKS["ember"], abs=3)
    assert page.page.locator("#legend .ends:visible").inner_text().split() == ["0", "255"]
    assert "style=ember" in page.page.url
    page.page.reload()
    page.settle()
    assert page.page.input_value("#style") == "ember"
    page.choose("source", "tms")
    assert page.page.input_value("#style") == "normal"
    assert page.tile_pixel(100, 40) == LOOKS["normal"]


@pytest.mark.parametrize("source", ["wmts", "ogcapi-tiles", "wms", "ogcapi-maps"])
def test_extra_tile_matrix_set(page: Page, source: str) -> None:
    page.open(f"PALETTE#source={source}&style=normal")
    page.choose("set", "4326")
    assert page.page.input_value("#source") == source
    assert "EPSG:4326" in page.page.locator("#readout").inner_text()
    # The middle of the layer is at 45 degrees east.
    red = round((45 + 180) / 360 * 4096) // 4 % 256
    assert page.screen_pixel(0.5, 0.5) == pytest.approx([red, red, red], abs=3)


@pytest.mark.parametrize("layer", ["WORLD", "GRID"])
@pytest.mark.parametrize("source", ["wmts", "ogcapi-tiles", "wms", "ogcapi-maps"])
def test_axis_order(page: Page, layer: str, source: str) -> None:
    page.open(layer)
    places = [(0.42, 0.45), (0.58, 0.62)]
    stored = [page.screen_pixel(*place) for place in places]
    assert stored[0] != stored[1]
    page.choose("source", source)
    for place, colour in zip(places, stored, strict=True):
        assert page.screen_pixel(*place) == pytest.approx(colour, abs=3)


def test_transparency_of_maps(page: Page) -> None:
    page.open("PACKED#source=wms")
    # The next square of the pattern is half transparent.
    red = (COLUMN + 32) // 4 % 256
    assert ALPHA == 255
    assert page.tile_pixel(132, 40) == pytest.approx([red, GREEN, 64, 128], abs=2)
    page.page.locator("#advanced summary").click()
    page.page.uncheck("#transparent")
    page.settle()
    assert "transparent=false" in page.page.url
    on_white = [round((value + 255) / 2) for value in (red, GREEN, 64)]
    assert page.tile_pixel(132, 40) == pytest.approx([*on_white, 255], abs=2)


def test_format_of_maps(page: Page) -> None:
    page.open("IMAGE#source=wms")
    page.choose("format", "image/jpeg")
    assert any("REQUEST=GetMap" in url and "FORMAT=image/jpeg" in url for url in page.requests)
    page.choose("source", "ogcapi-maps")
    assert any("/map?" in url and "f=jpeg" in url for url in page.requests)
    assert page.tile_pixel(100, 40) == pytest.approx([RED, GREEN, 64, 255], abs=16)


@pytest.mark.parametrize("layer", ["HEIGHT", "HEIGHT_ZIP", "HEIGHT_LZW"])
def test_elevation_under_the_pointer(page: Page, layer: str) -> None:
    page.open(layer)
    place_pointer(page)
    shown = page.page.locator("#readout b").inner_text().replace(",", "")
    assert shown.endswith(" m")
    assert float(shown.removesuffix(" m")) == pytest.approx(4000 + COLUMN / 2 + ROW / 4, abs=2)
    assert page.page.locator("#legend canvas:visible").count() == 1


def test_elevation_requested_from_a_service(page: Page) -> None:
    page.open("HEIGHT#source=wms")
    assert page.page.input_value("#style") == "tint"
    assert page.page.locator("#legend .ends:visible").inner_text().split() == [
        "0",
        "m",
        "10000",
        "m",
    ]
    place_pointer(page)
    # The value for the centre of the map appears first; the one for the pointer follows.
    page.page.wait_for_function(
        """(wanted) => {
            const shown = document.querySelector("#readout b")?.textContent;
            return Math.abs(Number.parseFloat(shown?.replace(",", "")) - wanted) < 2;
        }""",
        arg=4000 + COLUMN / 2 + ROW / 4,
    )
    assert any("REQUEST=GetFeatureInfo" in url for url in page.requests)


def place_pointer(page: Page) -> None:
    """Move the pointer over the pixel at COLUMN and ROW."""
    page.page.mouse.move(*page.point(100, 40))


def test_values_of_a_pixel(page: Page) -> None:
    page.open("PALETTE")
    page.page.mouse.click(*page.point(100, 40))
    panel = page.page.locator("#identified")
    panel.wait_for()
    name, value = panel.locator("tr").first.inner_text().split("\t")
    assert name == "pixel"
    assert int(value) == pytest.approx(RED, abs=1)
    panel.locator(".close").click()
    assert panel.is_hidden()


def test_vector_features_are_identified(page: Page) -> None:
    page.open("VECTOR#at=5009377,5009377,9783.939621")
    box = page.page.locator("#map").bounding_box()
    # The corner of four tiles is in the middle of the map.
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.page.mouse.click(x - 128, y - 128)
    panel = page.page.locator("#identified")
    panel.wait_for()
    assert "(1 of 2)" in panel.inner_text()
    page.page.mouse.click(x - 196, y - 196)
    panel.locator("th", has_text="row").wait_for()
    assert panel.locator("tr").all_inner_texts() == ["row\t5", "col\t9"]
    # Between the features of four tiles.
    page.page.mouse.click(x - 7, y - 7)
    panel.wait_for(state="hidden")


def test_tiles_that_are_not_stored_are_not_requested(page: Page) -> None:
    page.open("VECTOR#at=5009377,5009377,9783.939621")
    requested = {tuple(url.split("/")[-2:]) for url in page.requests if "/1.0.0/VECTOR/4/" in url}
    assert requested == {(str(col), f"{row}.pbf") for row in (5, 6) for col in (9, 10)}
    # In OGC API, a tile that is not stored is not an error.
    page.choose("source", "ogcapi-tiles")
    assert sum("/tiles/PM/4/" in url for url in page.requests) > 4
    assert page.page.locator("#notice").is_hidden()


def test_overlays(page: Page) -> None:
    page.open("IMAGE")
    plain = page.tile_pixel(128, 128)
    page.choose("overlay", "VECTOR")
    page.settle()
    assert page.page.locator("#overlays li").inner_text() == "VECTOR"
    assert "over=VECTOR" in page.page.url
    covered = page.tile_pixel(128, 128)
    assert covered != plain
    # A layer in another CRS is reprojected.
    page.page.reload()
    page.settle()
    assert page.tile_pixel(128, 128) == covered
    page.page.locator("#overlays .close").click()
    page.settle()
    assert page.tile_pixel(128, 128) == plain
    assert page.page.locator("#overlays").is_hidden()


def test_overlay_in_another_crs(page: Page) -> None:
    page.open("GRID")
    plain = page.tile_pixel(40, 40)
    page.choose("overlay", "WORLD")
    page.settle()
    assert page.tile_pixel(40, 40) != plain


def test_opacity(page: Page) -> None:
    page.open("IMAGE")
    page.page.locator("#opacity").fill("40")
    page.settle()
    assert page.tile_pixel(100, 100)[3] == pytest.approx(0.4 * 255, abs=2)
    assert "opacity=40" in page.page.url
    page.page.reload()
    page.settle()
    assert page.tile_pixel(100, 100)[3] == pytest.approx(0.4 * 255, abs=2)


def test_view_is_kept_in_the_url(page: Page) -> None:
    page.open("IMAGE")
    page.page.locator(".ol-zoom-in").click()
    page.page.wait_for_url("**/viewer/IMAGE#at=*,4891.969*")
    page.settle()
    before = page.page.url
    page.page.reload()
    page.settle()
    assert page.page.url == before


def test_attribution_is_shown_as_text(page: Page) -> None:
    page.open("GRID")
    attribution = page.page.locator("#attribution")
    assert attribution.inner_text() == ground.HOSTILE
    assert attribution.locator("a, img").count() == 0


TYPES = {
    "TMS XYZ template": "image/png",
    "TMS TileJSON": "application/json",
    "TMS TileMap": "text/xml",
    "TMS GDAL": "text/xml",
    "WMTS KVP template": "image/png",
    "WMTS REST template": "image/png",
    "WMTS Capabilities": "text/xml",
    "OGC API Tiles Tile template": "image/png",
    "OGC API Tiles Tileset": "application/json",
    "OGC API Tiles Collection": "application/json",
    "WMS GetMap of this view": "image/png",
    "WMS Capabilities": "text/xml",
    "OGC API Maps Map of this view": "image/png",
    "OGC API Maps Collection": "application/json",
}


def addresses(page: Page) -> dict[str, tuple[str, str]]:
    """Return the text to copy and the URL to open, by name."""
    page.page.wait_for_selector("#requests[aria-busy=false]")
    rows = page.page.locator("#requests li").all()
    return {
        row.locator("input").get_attribute("aria-label"): (
            row.locator("input").input_value(),
            row.locator("a").get_attribute("href"),
        )
        for row in rows
    }


@pytest.mark.parametrize(
    "state", ["", "#style=ember", "#set=4326", "#source=wms&set=4326&style=ember"]
)
def test_request_urls_work(page: Page, state: str) -> None:
    page.open(f"PALETTE{state}")
    found = addresses(page)
    legend = {"WMS Legend": "image/png"} if "ember" in state else {}
    assert found.keys() == TYPES.keys() | legend.keys()
    for name, media_type in (TYPES | legend).items():
        text, example = found[name]
        response = page.page.request.get(example)
        assert response.status == 200, (name, example)
        assert response.headers["content-type"].startswith(media_type), name
        # Only templates have placeholders; other URLs are their own example.
        assert ("{" in text) == ("template" in name)
        if "template" not in name:
            assert text == example


def test_request_urls_match_what_is_shown(page: Page) -> None:
    page.open("PALETTE#style=ember&set=4326")
    found = addresses(page)
    template = found["WMTS KVP template"][0]
    query = parse_qs(urlsplit(template).query)
    assert query["STYLE"] == ["ember"]
    assert query["TILEMATRIXSET"][0].startswith("4326_")
    assert query["TILEMATRIX"] == ["{TileMatrix}"]
    assert "/styles/ember/map/tiles/4326/" in found["OGC API Tiles Tile template"][0]
    query = parse_qs(urlsplit(found["WMS GetMap of this view"][0]).query)
    assert query["CRS"] == ["EPSG:4326"]
    south, west, north, east = map(float, query["BBOX"][0].split(","))
    assert (west, east) == pytest.approx((22.5, 67.5))
    assert (south, north) == pytest.approx((21.943046, 55.776573))
    # A source that cannot show this style and set says so.
    group = page.page.locator("#requests .group").first
    assert "style normal, PM" in group.locator("h3").inner_text()
    assert found["TMS XYZ template"][0] == f"{page.site}/tms/1.0.0/PALETTE/{{z}}/{{x}}/{{y}}.png"


def test_map_request_follows_the_view(page: Page) -> None:
    page.open("IMAGE")
    for _ in range(2):
        before = page.page.url
        page.page.locator(".ol-zoom-in").click()
        page.wait_for("(url) => location.href !== url", before)
        page.settle()
    url = addresses(page)["WMS GetMap of this view"][1]
    query = parse_qs(urlsplit(url).query)
    width, height = int(query["WIDTH"][0]), int(query["HEIGHT"][0])
    box = page.page.locator("#map").bounding_box()
    assert (width, height) == (round(box["width"]), round(box["height"]))
    image = Image.open(io.BytesIO(page.page.request.get(url).body())).convert("RGB")
    assert image.size == (width, height)
    middle = image.getpixel((width // 2, height // 2))
    assert page.screen_pixel(0.5, 0.5) == pytest.approx(middle, abs=8)


def test_copy_buttons(browser: Any, site: str) -> None:
    page = Page(browser, site, permissions=["clipboard-read", "clipboard-write"])
    page.open("PALETTE")
    page.page.wait_for_selector("#requests[aria-busy=false]")
    for row in page.page.locator("#requests li").all()[:3]:
        button = row.locator("button")
        button.click()
        page.page.wait_for_function(
            "(b) => b.textContent === 'Copied'", arg=button.element_handle()
        )
        copied = page.page.evaluate("navigator.clipboard.readText()")
        assert copied == row.locator("input").input_value()
    page.close()


def test_layer_without_a_service(page: Page) -> None:
    def serve(route: Any) -> None:
        response = route.fetch()
        before, start, rest = response.text().partition('id="data">')
        data, end, after = rest.partition("</script>")
        values = json.loads(data)
        # The description of a layer that no service offers.
        values["layer"]["sources"] = []
        changed = json.dumps(values).replace("<", "\\u003c")
        body = before + start + changed + end + after
        route.fulfill(response=response, body=body)

    page.page.route("**/viewer/HEIGHT_ZIP", serve)
    page.page.goto(f"{page.site}/viewer/HEIGHT_ZIP")
    notice = page.page.locator("#notice")
    notice.wait_for()
    assert "No service" in notice.inner_text()
