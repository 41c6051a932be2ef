"""Installs examples, writes installations for them, and serves them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import urllib3
from tests.live.environments import Environment
from tests.live.processes import Process, answers, free_port

from mastaba_conformance.tiny_installation import tiny_installation, tiny_vector_tile

HTTP = urllib3.PoolManager(retries=False)


@contextmanager
def installed(environment: Environment, folder: Path, name: str) -> Iterator[None]:
    environment.install("-e", folder)
    try:
        environment.run("mastaba", "plugins", "--check")
        yield
    finally:
        environment.uninstall(name)


@contextmanager
def served(
    environment: Environment, server_json: Path, folder: Path, **variables: str
) -> Iterator[str]:
    """Serve an installation with two workers; yields the URL."""
    address = f"127.0.0.1:{free_port()}"
    _change(server_json, lambda document: document.update(workers=2, threads=4))
    command = ["env", *(f"{name}={text}" for name, text in variables.items())]
    command += [str(environment.folder / "bin/mastaba"), "-f", str(server_json), "--http", address]
    with Process("mastaba", command, folder) as server:
        server.wait_for(lambda: answers(f"http://{address}/"))
        yield f"http://{address}"


def _change(file: Path, change: Any) -> None:
    document = json.loads(file.read_text("utf-8"))
    change(document)
    file.write_text(json.dumps(document), "utf-8")


def get(url: str, **headers: str) -> urllib3.BaseHTTPResponse:
    return HTTP.request("GET", url, headers=headers)


def vector_pyramid_in(
    folder: Path, storage: dict[str, str], prefix: str
) -> tuple[Path, dict[str, bytes], bytes]:
    """Write an installation whose layer VECTOR is in another storage.

    Returns its server.json, the slabs by key, and the descriptor, which is not stored anywhere.
    """
    server_json = tiny_installation(folder, services=["tms"])
    layer = folder / "layers/VECTOR.json"
    document = json.loads(layer.read_text("utf-8"))
    descriptor = Path(document["pyramids"][0]["path"])
    pyramid = json.loads(descriptor.read_text("utf-8"))
    slabs = {}
    for level in pyramid["levels"]:
        place = f"DATA_{level['id']}"
        root = (descriptor.parent / level["storage"]["image_directory"]).resolve()
        for slab in root.rglob("*.tif"):
            digits = "".join(slab.relative_to(root).with_suffix("").parts)
            # Columns and rows alternate in the digits of a path.
            column, row = int(digits[0::2], 36), int(digits[1::2], 36)
            slabs[f"{prefix}{place}_{column}_{row}"] = slab.read_bytes()
        level["storage"] = {**storage, "image_prefix": f"{prefix}{place}"}
    document["pyramids"][0]["path"] = f"{storage['type'].lower()}://maps/{prefix}vector.json"
    layer.write_text(json.dumps(document), "utf-8")
    (folder / "layers.txt").write_text(f"{layer}\n", "utf-8")
    return server_json, slabs, json.dumps(pyramid).encode()


def check_tiles(url: str) -> None:
    for row, col in ((2, 4), (3, 5), (2, 5)):
        response = get(f"{url}/tms/1.0.0/VECTOR/3/{col}/{row}.pbf")
        assert response.status == 200, response.data
        assert response.data == tiny_vector_tile("3", row=row, col=col)
