"""The viewer with a key: everything works, and the page does not show the key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.access.identification.conftest import Credentials
from tests.live.client import ask
from tests.live.processes import Mastaba, changed, free_port, wait_until
from tests.tiny import tiny_installation
from tests.viewer.browser import Page, live_in_chromium

from mastaba_usage.database import Database
from mastaba_usage.roll_up import roll_up

pytestmark = live_in_chromium

RULES = {
    "default": "deny",
    "rules": [
        {"name": "open", "what": {"layers": ["RGB_JPG"]}, "allow": {}},
        {"name": "usage", "who": ["group:bosses"], "what": {"abilities": ["usage"]}, "allow": {}},
        {"name": "others", "what": {"abilities": ["usage"]}, "deny": {}},
        {"name": "partners", "who": ["group:partners"], "allow": {}},
    ],
}


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, str, Path]]:
    """A server with access rules and usage.

    Yields its address, a key, the key of someone who may see the usage of all, and the folder.
    """
    folder = tmp_path_factory.mktemp("keys")
    credentials, port = Credentials(folder), free_port()
    key = credentials.key(groups=["partners"], label="Town of Colmar")
    boss = credentials.key(groups=["partners", "bosses"])
    (folder / "rules.json").write_text(json.dumps(RULES))
    url = f"http://127.0.0.1:{port}"
    installation = tiny_installation(folder / "installation", public_url=url)
    services = installation.parent / "services.json"
    own = {
        name: {"enabled": True, "endpoint_uri": f"{url}/{name}", "root_path": f"/{name}"}
        for name in ("usage", "viewer")
    }
    services.write_text(json.dumps(json.loads(services.read_text()) | own))
    access = {"rules": str(folder / "rules.json"), **credentials.section()}
    plugins = {"access": access, "usage": {"directory": str(folder / "usage"), "heat": True}}
    file = changed(installation, folder / "server.json", plugins=plugins)
    with Mastaba(file, folder, http=port):
        yield url, key, boss, folder / "usage"


@pytest.fixture(scope="module")
def server(started: tuple[str, str, str, Path]) -> tuple[str, str]:
    """Return the address of the server and a key."""
    return started[:2]


@pytest.fixture
def opened(browser: Any, server: tuple[str, str]) -> Iterator[Page]:
    page = Page(browser, server[0])
    yield page
    page.close()


def test_pages_link_to_the_usage_of_a_key(opened: Page, server: tuple[str, str]) -> None:
    url, key = server
    page = opened.page
    page.goto(f"{url}/viewer")
    assert not page.locator(".services .own").is_visible()
    page.goto(f"{url}/viewer/~{key}")
    link = page.locator(".services .own a")
    assert link.is_visible()
    assert key not in page.locator("body").inner_text()
    link.click()
    page.wait_for_url("**/usage/**")
    assert "Town of Colmar" in page.locator("main").inner_text()
    assert key not in page.locator("body").inner_text()


def test_a_layer_of_the_key_is_shown_with_all_requests_by_the_key(
    opened: Page, server: tuple[str, str]
) -> None:
    url, key = server
    page = opened.page
    page.add_init_script(
        "window.copied = [];"
        "Object.defineProperty(navigator, 'clipboard', "
        "{value: {writeText: async (text) => { window.copied.push(text); }}});"
    )
    page.goto(f"{url}/viewer/~{key}/RGB_PNG")
    page.wait_for_selector("#map[aria-busy=false]")
    own = [one for one in opened.requests if "favicon" not in one]
    assert any("RGB_PNG" in one and ".png" in one.lower() for one in own)
    assert [one for one in own if f"/~{key}" not in one] == []
    assert page.locator("#snippet").inner_text()
    page.wait_for_selector("#requests[aria-busy=false] input")
    inputs = page.locator("input").evaluate_all("all => all.map(one => one.value + one.title)")
    assert any("/~…/" in text or "/~…?" in text for text in inputs)
    for text in (page.locator("body").inner_text(), *inputs):
        assert key not in text
    for button in ("#copy-snippet", "#requests button >> nth=0"):
        page.locator(button).click()
        opened.wait_for("() => window.copied?.length > 0")
        assert f"/~{key}" in page.evaluate("window.copied.pop()")


def test_the_heat_map_is_on_the_map_for_those_who_may_see_usage(
    opened: Page, started: tuple[str, str, str, Path]
) -> None:
    url, key, boss, directory = started
    for _ in range(12):
        assert ask(url, f"/tms/~{key}/1.0.0/RGB_PNG/4/9/6.png").status == 200
    database = Database(directory)
    wait_until(lambda: _rolled_up(directory, database))
    page = opened.page
    page.goto(f"{url}/viewer/~{boss}/RGB_PNG")
    page.wait_for_selector("#map[aria-busy=false]")
    before = page.locator("#map canvas").first.evaluate("one => one.toDataURL()")
    page.locator("#heat").click()
    page.wait_for_selector("#heat[aria-pressed=true]")
    assert "level 4" in page.locator("#notice").inner_text()
    page.wait_for_selector("#map[aria-busy=false]")
    assert page.url.endswith("&heat=..")
    (asked,) = (one for one in opened.requests if "/heat/" in one)
    assert asked == f"{url}/usage/~{boss}/heat/RGB_PNG?f=json"
    drawn = page.locator("#map canvas").first.evaluate("one => one.toDataURL()")
    assert drawn != before
    # In another CRS of the map too, and off again.
    page.locator("#heat").click()
    page.wait_for_selector("#heat[aria-pressed=false]")
    assert "heat=" not in page.url
    # From the page of the heat map to the map.
    page.goto(f"{url}/usage/~{boss}/heat/RGB_PNG?f=html")
    page.get_by_role("link", name="On the map").click()
    page.wait_for_selector("#heat[aria-pressed=true]")
    assert f"/viewer/~{boss}/RGB_PNG#" in page.url
    assert boss not in page.locator("body").inner_text()


def test_others_get_no_heat_map(opened: Page, started: tuple[str, str, str, Path]) -> None:
    url, key, _, _ = started
    page = opened.page
    page.goto(f"{url}/viewer/RGB_JPG")
    page.wait_for_selector("#map[aria-busy=false]")
    assert not page.locator("#heat").is_visible()
    page.goto(f"{url}/viewer/~{key}/RGB_PNG")
    page.locator("#heat").click()
    page.wait_for_selector("#notice:not([hidden])")
    assert "not shown" in page.locator("#notice").inner_text()
    assert page.locator("#heat").get_attribute("aria-pressed") == "false"
    # The refused request, and what the browser says about it.
    assert len(opened.faults) == 2
    assert all("404" in fault for fault in opened.faults)
    opened.faults.clear()


def _rolled_up(directory: Path, database: Database) -> bool:
    roll_up(directory, database)
    return bool(database.blocks("0000-00-00", "9999-99-99", "RGB_PNG", ""))
