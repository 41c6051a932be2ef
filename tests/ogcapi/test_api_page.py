"""The page of the API: every operation with a request that finds data, and can be changed."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from lxml import html
from PIL import Image
from tests.ogcapi.conftest import Serving
from tests.viewer.browser import DESKTOP, PHONE, Page
from werkzeug.test import Client

from mastaba_conformance.tiny_installation import tiny_integer_tile
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

HOSTILE = "<img src=x onerror=\"document.title='hacked'\"> & 'quoted'"


def page(client: Client, query: str = "", lang: str = "en") -> Any:
    headers = {"Accept": "text/html", "Accept-Language": lang}
    response = client.get(f"/ogcapi/api{query}", headers=headers)
    assert response.status_code == 200
    return html.fromstring(response.data.decode())


def requests(tree: Any) -> list[str]:
    return [link.get("href") for link in tree.xpath("//p[@class='address']/a")]


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize(
    "collection", [None, "a_world", "b_europe", "d_lambert", "f_pacific", "g_extra", "h_vector"]
)
def test_every_example_finds_data(rich: Client, collection: str | None) -> None:
    tree = page(rich, f"?collection={collection}" if collection else "")
    found = requests(tree)
    definition = rich.get("/ogcapi/api?f=json").get_json()
    assert len(found) == len(definition["paths"])
    assert not [address for address in found if "{" in address or "%7B" in address]
    for address in found:
        response = rich.get(address)
        assert response.status_code == 200, address
        assert response.data, address
    kinds = {rich.get(address).content_type for address in found}
    assert "application/vnd.mapbox-vector-tile" in kinds
    if collection and collection != "h_vector":
        assert [address for address in found if f"collections/{collection}/map/tiles/" in address]


def test_public_url_is_shown_and_the_own_host_is_asked(rich: Client) -> None:
    for link in page(rich).xpath("//p[@class='address']/a"):
        assert link.get("href").startswith("/ogcapi")
        assert link.text == f"http://maps.example{link.get('href')}"


def test_names_in_descriptions_are_code(rich: Client) -> None:
    tree = page(rich)
    assert "`" not in tree.text_content()
    assert "bbox-crs" in tree.xpath("//div[@class='parameter']/p/code/text()")


def test_definition_has_the_same_examples(rich: Client) -> None:
    definition = rich.get("/ogcapi/api?f=json&collection=b_europe").get_json()
    shown = definition["components"]["parameters"]
    assert shown["rasterCollectionId"]["example"] == "b_europe"
    assert shown["tileMatrixSetId"]["example"] == "PM"
    assert len(shown["bbox-map"]["example"]) == 4
    assert yaml.safe_load(rich.get("/ogcapi/api?f=yaml&collection=b_europe").data) == definition


def test_unknown_collection_is_an_error(rich: Client) -> None:
    response = rich.get("/ogcapi/api?collection=<b>")
    assert response.status_code == 400
    assert response.get_json()["detail"].startswith("there is no collection")


def test_another_collection_does_not_stay(rich: Client) -> None:
    before = requests(page(rich))
    assert requests(page(rich, "?collection=d_lambert")) != before
    assert requests(page(rich)) == before


def test_example_is_a_stored_tile_beside_the_middle(tmp_path: Path, open_client: Any) -> None:
    plan = LevelPlan("4", 2, 9, 4, 11)
    descriptor = write_pyramid(
        tmp_path / "pyramids",
        "P",
        tile_matrix_set=web_mercator(),
        format="TIFF_PNG_UINT8",
        levels=[plan],
        tile=lambda level, row, col: (
            tiny_integer_tile(3)(level, row, col) if (row, col) == (8, 5) else None
        ),
    )
    client = open_client(
        write_installation(tmp_path, layers={"P": layer_document(descriptor)}, services=["ogcapi"])
    )
    (tile,) = [
        item
        for item in requests(page(client))
        if "/collections/P/map/tiles/PM/" in item and "?" in item and item.count("/") == 9
    ]
    # Slabs have 2 × 2 tiles.
    assert "/PM/4/8/4?" in tile
    assert client.get(tile).status_code == 200


def test_page_without_collections(tmp_path: Path, open_client: Any) -> None:
    client = open_client(write_installation(tmp_path, layers={}, services=["ogcapi"]))
    for address in requests(page(client)):
        assert client.get(address).status_code == 200, address


def test_language_follows_the_browser(rich: Client) -> None:
    response = rich.get("/ogcapi/api?f=html", headers={"Accept-Language": "fr-FR, en;q=0.5"})
    assert "Accept-Language" in response.headers["Vary"]
    tree = html.fromstring(response.data.decode())
    assert tree.get("lang") == "fr"
    assert tree.findtext(".//h1") == "Opérations"
    assert "Essayer" in tree.text_content()
    assert page(rich, lang="de").get("lang") == "en"


def test_every_text_of_the_definition_is_translated(rich: Client) -> None:
    known = json.loads(files("mastaba_ogcapi").joinpath("texts", "fr.json").read_text("utf-8"))
    source = yaml.safe_load(files("mastaba_ogcapi").joinpath("openapi.yaml").read_text("utf-8"))
    texts = {
        *source["tags"].values(),
        *(item["summary"] for item in source["operations"].values()),
        *(item["description"] for item in source["parameters"].values()),
    }
    assert texts - set(known) == set()
    template = files("mastaba_ogcapi").joinpath("templates", "api.html").read_text("utf-8")
    assert set(re.findall(r'\bt\("(.*?)"\)', template)) - set(known) == set()


def test_policy_of_the_page_allows_its_own_script_only(rich: Client) -> None:
    policy = rich.get("/ogcapi/api?f=html").headers["Content-Security-Policy"]
    assert "script-src 'self';" in policy
    assert "connect-src 'self';" in policy
    assert "unsafe" not in policy
    response = rich.get("/ogcapi/static/api.js")
    assert response.content_type == "text/javascript; charset=utf-8"
    assert len(response.data) < 8000


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory,
    serving: Serving,
    rich_path: Callable[[str], Path],
) -> Iterator[str]:
    with serving(rich_path) as url:
        yield url


@pytest.fixture(params=[DESKTOP, PHONE], ids=["desktop", "phone"])
def opened(request: pytest.FixtureRequest, browser: Any, site: str) -> Iterator[Page]:
    made = Page(browser, site, request.param, permissions=["clipboard-read", "clipboard-write"])
    made.page.goto(f"{site}/ogcapi/api?f=html")
    yield made
    made.close()


def operation(page: Page, name: str) -> Any:
    """Open an operation with the keyboard; return its element."""
    found = page.page.locator(f"#ogcapi-{name}")
    found.locator("summary").first.focus()
    page.page.keyboard.press("Enter")
    return found


@pytest.mark.live
def test_image_is_shown(opened: Page) -> None:
    found = operation(opened, "collection-map-getTile")
    found.get_by_role("button", name="Try it").click()
    image = found.locator(".answer img")
    image.wait_for()
    opened.wait_for("() => document.querySelector('.answer img').naturalWidth === 256")
    assert "200" in found.locator(".status").inner_text()
    found.get_by_text("Headers").click()
    assert "content-type: image/" in found.locator(".headers").inner_text()
    assert opened.overflow() <= 0


@pytest.mark.live
def test_changed_parameter_is_sent(opened: Page) -> None:
    found = operation(opened, "collection-getMap")
    width = found.get_by_label("width", exact=True)
    width.fill("300")
    assert "width=300" in found.locator(".address").inner_text()
    width.press("Enter")
    opened.wait_for("() => document.querySelector('.answer img')?.naturalWidth === 300")
    with opened.page.expect_download() as download:
        found.get_by_role("link", name="Save").click()
    with Image.open(io.BytesIO(Path(download.value.path()).read_bytes())) as image:
        assert image.width == 300


@pytest.mark.live
def test_document_and_error_are_shown_as_texts(browser: Any, site: str) -> None:
    # The browser reports the wrong request, which is what is tried here.
    page = browser.new_page()
    page.goto(f"{site}/ogcapi/api?f=html#ogcapi-getCollection")
    found = page.locator("#ogcapi-getCollection")
    found.get_by_role("button", name="Try it").click()
    text = found.locator(".answer .text")
    text.wait_for()
    assert json.loads(text.inner_text())["id"] == "a_world"
    tile = page.locator("#ogcapi-collection-map-getTile")
    tile.locator("summary").first.click()
    tile.get_by_label("tileMatrix *").fill(HOSTILE)
    tile.get_by_role("button", name="Try it").click()
    tile.locator(".failed").wait_for()
    assert "404" in tile.locator(".status").inner_text()
    assert "onerror" in tile.locator(".text").inner_text()
    assert page.title() == "Operations"
    page.close()


@pytest.mark.live
def test_curl_command_gets_the_same(opened: Page) -> None:
    found = operation(opened, "collection-map-getTile")
    found.get_by_role("button", name="Copy for curl").click()
    found.get_by_role("button", name="Copied").wait_for()
    command = opened.page.evaluate("navigator.clipboard.readText()")
    assert command == f"curl -sSOJ '{found.locator('.address').inner_text()}'"


@pytest.mark.live
def test_another_collection_is_filled_in(opened: Page) -> None:
    field = opened.page.get_by_label("Collection of the examples")
    field.fill("h_vector")
    field.press("Enter")
    opened.page.wait_for_url("**collection=h_vector**")
    found = operation(opened, "getCollection")
    assert "/collections/h_vector?" in urlsplit(found.locator(".address").inner_text()).path + "?"
