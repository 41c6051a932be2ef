"""The source of a pixel, those of the view, and footprints, in a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.access.identification.conftest import Credentials
from tests.live.processes import Mastaba, changed, free_port
from tests.provenance.conftest import CELL, SIZE, make_pyramid, position
from tests.viewer.browser import Page, live_in_chromium
from tests.viewer.conftest import Serving

from mastaba_writer.installation import layer_document, write_installation

pytestmark = live_in_chromium

SERVICES = ("provenance", "wms", "tms", "viewer")
RULES = {"default": "deny", "rules": [{"name": "all", "who": ["group:partners"], "allow": {}}]}


@pytest.fixture(scope="module")
def descriptor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = make_pyramid(tmp_path_factory.mktemp("sheets"))
    table = path.with_name(json.loads(path.read_text())["provenance"])
    document = json.loads(table.read_text())
    for row in document["sources"]:
        row |= {"gsd": 0.2, "licence": "etalab-2.0"}
        if row["id"] == "sheet1.tif":
            row |= {"title": "<b>Flight</b> 1", "date": "2023-04-12"}
    table.write_text(json.dumps(document))
    return path


@pytest.fixture(scope="module")
def sheets(
    tmp_path_factory: pytest.TempPathFactory, descriptor: Path, serving: Serving
) -> Iterator[str]:
    with serving(lambda url: install(tmp_path_factory.mktemp("server"), descriptor, url)) as url:
        yield url


def install(folder: Path, descriptor: Path, url: str) -> Path:
    addresses = {
        name: {"endpoint_uri": f"{url}/{name}", "root_path": f"/{name}"} for name in SERVICES
    }
    fields = {"resampling": "nn", "get_feature_info": {"type": "PYRAMID"}}
    sheets = layer_document(descriptor, title="Map", **fields)
    layers = {"MAP": sheets, "PLAIN": {**sheets, "title": "Plain", "provenance": False}}
    return write_installation(
        folder, layers=layers, services=SERVICES, services_overrides=addresses
    )


@pytest.fixture
def page(browser: Any, sheets: str) -> Iterator[Page]:
    opened = Page(browser, sheets)
    yield opened
    opened.close()


def place(page: Page, column: float, row: float) -> tuple[float, float]:
    """Return the place of a pixel of the sheets in the window."""
    left, top = page.corner()
    box = page.page.locator("#map").bounding_box()
    return box["x"] + left + column, box["y"] + top + row


def click(page: Page, column: float, row: float) -> str:
    """Click on a pixel and return what the panel says about its source."""
    page.page.mouse.click(*place(page, column, row))
    page.page.wait_for_selector("#passport")
    text: str = page.page.locator("#passport").inner_text()
    # Browsers put an empty line between paragraphs.
    return text.replace("\n\n", "\n")


def test_a_click_says_where_the_pixel_comes_from(page: Page) -> None:
    page.open("MAP")
    lines = click(page, 1.5 * SIZE, 20).split("\n")
    assert lines == [
        "Flown on April 12, 2023, 20 cm, licence etalab-2.0",
        "© A",
        "<b>Flight</b> 1 (G1)",
    ]
    # Attributes of the pixel are below; the source is not shown twice.
    assert "number" not in page.page.locator("#features table").inner_text()
    page.page.locator("#close-identified").click()
    assert click(page, SIZE / 2, 0.75 * SIZE).startswith("Flown in 1998, 20 cm")


def test_a_click_outside_shows_no_source(page: Page) -> None:
    page.open("MAP")
    click(page, 1.5 * SIZE, 20)
    with page.page.expect_response("**/provenance/MAP/at?*"):
        page.page.mouse.click(*place(page, 2 * SIZE + 10, 20))
    page.wait_for("document.getElementById('passport') === null")


def test_the_attribution_names_the_sources_of_the_view(page: Page) -> None:
    with page.page.expect_response("**/provenance/MAP/view?*"):
        page.open("MAP")
    line = page.page.locator("#view-sources")
    line.wait_for()
    assert set(line.inner_text().removeprefix("© ").split(", ")) == {
        "A 2023",
        "B & <C> 1998–2023",
    }
    # Once, although several events say that the map has moved.
    page.page.wait_for_timeout(1000)
    assert len([one for one in page.requests if "/view?" in one]) == 1
    # Only the third sheet, at the left edge.
    width = page.page.locator("#map").bounding_box()["width"]
    x, y = position(2.5 * SIZE + width / 2, SIZE / 2)
    page.open(f"MAP#at={x},{y},{CELL}")
    page.wait_for("document.getElementById('view-sources')?.textContent.startsWith('© B & <C> ')")
    assert "A 2" not in line.inner_text()


def test_layers_without_sources_ask_nothing(page: Page) -> None:
    page.open("PLAIN")
    page.page.mouse.click(*place(page, 1.5 * SIZE, 20))
    page.page.wait_for_selector("#features table")
    page.page.wait_for_timeout(1000)
    assert not [one for one in page.requests if "/provenance/" in one]
    assert not page.page.locator("#footprints").is_visible()
    assert page.page.locator("#passport").count() == 0


def test_footprints_are_switched_on_and_kept_in_the_address(page: Page) -> None:
    page.open("MAP")
    before = page.page.locator("#map canvas").first.evaluate("one => one.toDataURL()")
    with page.page.expect_response("**/provenance/MAP/sources.geojson?*"):
        page.page.locator("#footprints").check()
    page.wait_for("document.getElementById('footprints-count').textContent === '4'")
    page.settle()
    assert page.page.locator("#map canvas").first.evaluate("one => one.toDataURL()") != before
    address = page.page.url
    assert address.endswith("&footprints=true")
    page.page.goto("about:blank")
    page.page.goto(address)
    page.wait_for("document.getElementById('footprints-count').textContent === '4'")
    # In another projection of the map.
    page.choose("crs", "EPSG:4326")
    page.wait_for("document.getElementById('footprints-count').textContent === '4'")
    page.page.locator("#footprints").uncheck()
    page.wait_for("document.getElementById('footprints-count').textContent === ''")


def test_texts_are_in_french(browser: Any, sheets: str) -> None:
    page = Page(browser, sheets, locale="fr-FR")
    page.open("MAP")
    first = click(page, 1.5 * SIZE, 20).split("\n")[0]
    assert first == "Prise de vue du 12 avril 2023, 20 cm, licence etalab-2.0"
    page.close()


def test_keys_are_in_all_addresses(
    browser: Any, descriptor: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("keys")
    credentials, port = Credentials(folder), free_port()
    key = credentials.key(groups=["partners"])
    (folder / "rules.json").write_text(json.dumps(RULES))
    url = f"http://127.0.0.1:{port}"
    installation = install(folder / "installation", descriptor, url)
    access = {"rules": str(folder / "rules.json"), **credentials.section()}
    file = changed(installation, folder / "server.json", plugins={"access": access})
    with Mastaba(file, folder, http=port):
        page = Page(browser, url)
        page.page.goto(f"{url}/viewer/~{key}/MAP#footprints=true")
        page.settle()
        page.page.wait_for_selector("#view-sources")
        page.wait_for("document.getElementById('footprints-count').textContent === '4'")
        box = page.page.locator("#map").bounding_box()
        # On the second sheet: the whole layer is shown, with the sheets in its upper left part.
        page.page.mouse.click(box["x"] + 0.28 * box["width"], box["y"] + 0.3 * box["height"])
        page.page.wait_for_selector("#passport")
        asked = [one for one in page.requests if "/provenance/" in one]
        assert {one.partition("?")[0].rpartition("/")[2] for one in asked} == {
            *("at", "view", "sources.geojson"),
        }
        assert [one for one in asked if f"/provenance/~{key}/MAP/" not in one] == []
        assert key not in page.page.locator("body").inner_text()
        page.close()
