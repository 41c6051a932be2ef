"""The slider of times, the player, and the comparison of two values, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from tests.series import colour_of, series_installation
from tests.viewer.browser import PHONE, Page, live_in_chromium
from tests.viewer.conftest import Serving

pytestmark = live_in_chromium

YEARS = [{"time": year} for year in ("1950", "1975-06", "2023")]


@pytest.fixture(scope="module")
def years(tmp_path_factory: pytest.TempPathFactory, serving: Serving) -> Iterator[str]:
    write = partial(series_installation, tmp_path_factory.mktemp("years"), YEARS)
    with serving(lambda url: installation(write, url)) as url:
        yield url


def installation(write: Any, url: str) -> Path:
    services = ("tms", "viewer")
    addresses = {name: {"endpoint_uri": f"{url}/{name}"} for name in services}
    path: Path = write(services=services, services_overrides=addresses)
    return path


@pytest.fixture
def page(browser: Any, years: str) -> Iterator[Page]:
    opened = Page(browser, years)
    yield opened
    opened.close()


def shown(page: Page, x: float = 0.5) -> tuple[int, ...]:
    return page.screen_pixel(x, 0.5)


def test_the_slider_shows_another_value(page: Page) -> None:
    page.open("ORTHO")
    assert page.page.locator("#time-value").inner_text() == "2023"
    assert shown(page) == colour_of(2)
    for position, label in ((0, "1950"), (1, "June 1975")):
        page.page.locator("#time").fill(str(position))
        page.wait_for(
            f"document.getElementById('title').textContent.includes('{YEARS[position]['time']}')"
        )
        assert page.page.locator("#time-value").inner_text() == label
        assert shown(page) == colour_of(position)
    # The address shows it again, with its snippets.
    address = page.page.url
    assert f"/viewer/ORTHO%3Btime%3D{YEARS[1]['time']}#at=" in address
    assert "/ORTHO;time=1975-06/" in unquote(page.page.locator("#snippet").inner_text())
    page.page.goto("about:blank")
    page.page.goto(address)
    assert shown(page) == colour_of(1)
    assert page.page.locator("#time").input_value() == "1"


def test_play_shows_all_values(page: Page) -> None:
    page.open("ORTHO")
    page.page.locator("#play").click()
    for position in (0, 1):
        page.wait_for(f"document.getElementById('time').value === '{position}'")
        assert shown(page) == colour_of(position)
    page.page.locator("#play").click()
    assert page.page.locator("#play").get_attribute("aria-pressed") == "false"


def test_play_stops_at_an_error(page: Page) -> None:
    page.open("ORTHO")
    page.page.route("**/data/layers/*1975-06.json", lambda route: route.abort())
    page.page.locator("#play").click()
    page.wait_for("document.getElementById('notice').textContent.includes('June 1975')")
    page.wait_for("document.getElementById('play').getAttribute('aria-pressed') === 'false'")
    assert shown(page) == colour_of(0)
    # The browser reports the request that the test has refused.
    page.faults = [one for one in page.faults if "ERR_FAILED" not in one]


def test_two_values_are_compared(page: Page) -> None:
    page.page.goto(f"{page.site}/viewer/compare/ORTHO;time=1950/ORTHO;time=2023")
    page.settle()
    assert shown(page, 0.45) == colour_of(0)
    assert shown(page, 0.55) == colour_of(2)


def test_targets_on_a_phone_are_as_large_as_fingers(browser: Any, years: str) -> None:
    page = Page(browser, years, PHONE)
    page.open("ORTHO")
    page.page.locator("#sheet").click()
    assert page.page.locator("#play").is_visible()
    assert page.targets_too_small() == []
    page.close()
