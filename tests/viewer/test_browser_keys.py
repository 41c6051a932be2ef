"""The viewer with a key: everything works, and the page does not show the key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.access.identification.conftest import Credentials
from tests.live.processes import Mastaba, changed, free_port
from tests.tiny import tiny_installation
from tests.viewer.browser import Page, live_in_chromium

pytestmark = live_in_chromium

RULES = {
    "default": "deny",
    "rules": [
        {"name": "open", "what": {"layers": ["RGB_JPG"]}, "allow": {}},
        {"name": "partners", "who": ["group:partners"], "allow": {}},
    ],
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A server with access rules and usage; yields its address and a key."""
    folder = tmp_path_factory.mktemp("keys")
    credentials, port = Credentials(folder), free_port()
    key = credentials.key(groups=["partners"], label="Town of Colmar")
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
    plugins = {"access": access, "usage": {"directory": str(folder / "usage")}}
    file = changed(installation, folder / "server.json", plugins=plugins)
    with Mastaba(file, folder, http=port):
        yield url, key


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
