"""The container image: built by buildah, started, and asked for a tile.

Neither root inside nor a daemon is needed: buildah builds and runs with the isolation ``chroot``.
`MASTABA_TEST_PYTHON_IMAGE` names another image of Python. Where none can be fetched, one is made of
Debian packages.
"""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts.dist import copied
from tests.deploy.python_image import buildah, python_image
from tests.live.processes import accepts, free_port, public_folder, wait_until

from mastaba_conformance.tiny_installation import tiny_installation

pytestmark = [pytest.mark.live, pytest.mark.timeout(1800)]

IMAGE = "localhost/mastaba:test"
TILE = (
    "/wmts?SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetTile&LAYER=RGB_PNG&STYLE=normal&FORMAT=image/png"
    "&TILEMATRIXSET=PM&TILEMATRIX=3&TILEROW=2&TILECOL=4"
)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Build the image, as the comment in the Containerfile says."""
    python = python_image(tmp_path_factory.mktemp("python"))
    context = tmp_path_factory.mktemp("context")
    copied(context)
    file = Path(__file__).parents[2] / "deploy/container/Containerfile"
    isolation = ("--isolation", "chroot", "--network", "host")
    base = ("--build-arg", f"PYTHON={python}")
    buildah("build", *isolation, *base, "-f", file, "-t", IMAGE, context)
    return IMAGE


@pytest.fixture
def container(image: str) -> Iterator[str]:
    name = buildah("from", image)
    yield name
    buildah("rm", name)


def test_the_image_serves_a_tile_and_stops(container: str) -> None:
    config = json.loads(buildah("inspect", "--type", "image", IMAGE))["OCIv1"]["config"]
    entry, (http, address) = config["Entrypoint"], config["Cmd"]
    assert config["User"] == "10001"
    assert config["StopSignal"] == "SIGQUIT"
    with public_folder() as folder:
        tiny_installation(folder, services=["wmts"])
        port = free_port()
        # The chroot has the network of the machine, so the port must be a free one.
        command = [*entry, http, address.replace("8080", str(port))]
        run = ("buildah", "run", "--isolation", "chroot", "--user", config["User"])
        mounts = ("-v", f"{folder}:/etc/mastaba:ro", "-v", f"{folder}:{folder}:ro")
        with subprocess.Popen([*run, *mounts, container, "--", *command]) as process:
            try:
                wait_until(lambda: process.poll() is not None or accepts(f"127.0.0.1:{port}"))
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{TILE}") as answer:
                    assert answer.read().startswith(b"\x89PNG")
            finally:
                process.send_signal(signal.SIGTERM)
            process.wait(60)
    assert not accepts(f"127.0.0.1:{port}")
