"""Web pages in Chromium, with the map libraries of npm."""

from __future__ import annotations

import base64
import filecmp
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.live.processes import REPOSITORY

MAPLIBRE = (
    "maplibre-gl.css",
    "maplibre-gl.mjs",
    "maplibre-gl-shared.mjs",
    "maplibre-gl-worker.mjs",
)

CHROMIUM = Path("/usr/bin/chromium-headless-shell")
"""Chromium without windows: the same engine, at half the processor time of the browser."""

Pixels = npt.NDArray[np.uint8]

ENCODED = """
    const encoded = (array) => {
        let text = "";
        for (const byte of new Uint8Array(array.buffer)) text += String.fromCharCode(byte);
        return btoa(text);
    };
"""
"""A function in scripts. Playwright takes most of a second for the numbers of an image."""


def launched(chromium: Any, *arguments: str) -> Any:
    """Start Chromium with a software renderer for WebGL; return Playwright's browser."""
    return chromium.launch(
        executable_path=str(CHROMIUM),
        args=[
            "--no-sandbox",
            "--use-angle=swiftshader",
            "--enable-unsafe-swiftshader",
            "--disable-background-networking",
            *arguments,
        ],
    )


def web_clients(name: str = "web_clients") -> Path:
    """The libraries of npm, installed once for each state of the lock file.

    Skips the test when that is not possible.

    Args:
        name: of the folder with the list of the libraries.
    """
    source, target = Path(__file__).parent / name, REPOSITORY / ".run" / name
    lock, stamp = source / "package-lock.json", target / "node_modules" / "installed.json"
    if not (stamp.exists() and filecmp.cmp(lock, stamp, shallow=False)):
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("npm is not installed (Debian package npm)")
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
        done = subprocess.run(
            [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
            cwd=target,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            pytest.skip(f"npm cannot install the map libraries: {done.stderr.strip()[-300:]}")
        shutil.copy(lock, stamp)
    return target / "node_modules"


def drawn(browser: Any, url: str, files: dict[str, Path], script: str, *arguments: Any) -> Pixels:
    """Return the 256 by 256 pixels of the canvas that a script returns; see `evaluated`."""
    return pixels_of(evaluated(browser, url, files, script, *arguments))


def pixels_of(encoded: str) -> Pixels:
    """Return the colours of the 256 by 256 pixels that `pixels` in a script has encoded."""
    data = np.frombuffer(base64.b64decode(encoded), np.uint8)
    return data.reshape(256, 256, 4)[:, :, :3]


def evaluated(browser: Any, url: str, files: dict[str, Path], script: str, *arguments: Any) -> Any:
    """Return what a script returns in a page of the server.

    Args:
        files: the scripts and the style sheet of the library, by the names that the page calls
            them. Modules (``.mjs``) are imported by the script.
        script: body of an asynchronous function of ``url`` and of the arguments ``a``.
    """
    page = browser.new_page(viewport={"width": 300, "height": 300})
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda line: line.type == "error" and faults.append(line.text))
    tags = "".join(
        f"<script src='{name}'></script>"
        if name.endswith(".js")
        else f"<link rel='stylesheet' href='{name}'>"
        for name in files
        if not name.endswith(".mjs")
    )
    html = (
        f"<!doctype html><html><head>{tags}</head><body style='margin:0'>"
        "<div id='map' style='width:256px;height:256px'></div></body></html>"
    )
    page.route(f"{url}/client/", lambda route: route.fulfill(body=html, content_type="text/html"))
    for name, path in files.items():
        # Workers are loaded with a query.
        page.route(f"{url}/client/{name}*", partial(_send, path))
    page.goto(f"{url}/client/")
    try:
        data = page.evaluate(
            f"""async ([url, a]) => {{
                {ENCODED}
                const pixels = (canvas) => {{
                    const copy = document.createElement("canvas");
                    copy.width = copy.height = 256;
                    const context = copy.getContext("2d");
                    context.drawImage(canvas, 0, 0);
                    return encoded(context.getImageData(0, 0, 256, 256).data);
                }};
                {script}
            }}""",
            [url, list(arguments)],
        )
    finally:
        page.close()
    assert not faults, faults
    return data


def _send(path: Path, route: Any) -> None:
    route.fulfill(path=path)
