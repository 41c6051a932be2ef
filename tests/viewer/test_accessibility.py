"""axe-core finds no fault on any page, in Chromium."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.sizes import sized
from tests.viewer.browser import DESKTOP, PHONE, live_in_chromium

from mastaba_conformance.tiny_installation import tiny_installation

pytestmark = live_in_chromium

AXE = "axe-core@4.10.3"
PAGES = [
    "/",
    "/viewer",
    "/viewer/RGB_PNG",
    "/viewer/FLOAT32_ZIP",
    "/viewer/GREYA_ZIP",
    "/viewer/VECTOR",
    "/viewer/compare/RGB_PNG/RGB_JPG",
    "/ogcapi",
    "/ogcapi/api?f=html",
    "/ogcapi/conformance",
    "/ogcapi/collections",
    "/ogcapi/collections/RGB_PNG",
    "/ogcapi/collections/VECTOR",
    "/ogcapi/collections/RGB_PNG/styles",
    "/ogcapi/collections/RGB_PNG/map/tiles",
    "/ogcapi/collections/RGB_PNG/map/tiles/PM",
    "/ogcapi/collections/VECTOR/tiles/PM",
    "/ogcapi/tileMatrixSets",
    "/ogcapi/tileMatrixSets/PM",
]


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the script, from the npm registry."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("axe")
    command = ["npm", "pack", "--silent", AXE]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (package,) = folder.glob("*.tgz")
    with tarfile.open(package) as archive:
        script = archive.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


@pytest.fixture(scope="module")
def site(
    tmp_path_factory: pytest.TempPathFactory,
    serving: Callable[[Callable[[str], Path]], AbstractContextManager[str]],
) -> Iterator[str]:
    def install(url: str) -> Path:
        services = ["tms", "wmts", "wms", "ogcapi", "viewer"]
        return tiny_installation(
            tmp_path_factory.mktemp("pages"), services=services, public_url=url
        )

    with serving(install) as url:
        yield url


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_axe_finds_nothing(
    axe: str, site: str, browser: Any, size: tuple[int, int], scheme: str
) -> None:
    viewport = {"width": size[0], "height": size[1]}
    page = browser.new_page(viewport=viewport, color_scheme=scheme)
    found = {}
    # All pages in the usual scheme of a desktop, some of them in the others.
    every = 1 if (size, scheme) == (DESKTOP, "light") else sized(3, 1)
    for path in PAGES[::every]:
        answer = page.goto(site + path)
        assert answer.status == 200, path
        assert answer.headers["content-type"].startswith("text/html"), path
        page.wait_for_load_state("networkidle")
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        page.evaluate(axe)
        violations = page.evaluate("axe.run().then((result) => result.violations)")
        faults = [(item["id"], node["html"]) for item in violations for node in item["nodes"]]
        if faults:
            found[path] = faults
    page.close()
    assert found == {}
