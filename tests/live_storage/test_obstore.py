"""The example storage-obstore with a real S3 gateway and a real web server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.live.environments import Environment, create
from tests.live.examples import check_tiles, installed, served, vector_pyramid_in
from tests.live.fronts import nginx_with
from tests.live.processes import REPOSITORY, free_port, public_folder
from tests.live_storage.conftest import Store, s3_writer

LEVEL = {"type": "OBSTORE", "store_name": "maps"}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    environment = create(tmp_path_factory.mktemp("obstore") / "venv")
    environment.install(environment.wheel("mastaba"), environment.wheel("mastaba-tms"))
    folder = REPOSITORY / "examples/storage-obstore"
    with installed(environment, folder, "mastaba-storage-obstore"):
        yield environment


def installation(
    folder: Path, put: Callable[[str, bytes], object], url: str, options: dict[str, Any]
) -> Path:
    """Write an installation whose slabs and descriptor are in one store."""
    server_json, slabs, descriptor = vector_pyramid_in(folder, LEVEL, "vector/")
    for key, data in {**slabs, "vector/vector.json": descriptor}.items():
        put(key, data)
    document = json.loads(server_json.read_text("utf-8"))
    store = {"url": url, "options": options}
    document["plugins"] = {"storage_obstore": {"stores": {"maps": store}}}
    server_json.write_text(json.dumps(document), "utf-8")
    return server_json


def test_tiles_come_from_s3(environment: Environment, rgw: Store, tmp_path: Path) -> None:
    options = {"endpoint": rgw.variables["MASTABA_S3_URL"], "region": "us-east-1"}
    put = s3_writer(rgw, "obstore").put
    server_json = installation(tmp_path / "site", put, "s3://obstore", options)
    credentials = {
        "AWS_ACCESS_KEY_ID": rgw.variables["MASTABA_S3_KEY"],
        "AWS_SECRET_ACCESS_KEY": rgw.variables["MASTABA_S3_SECRETKEY"],
    }
    with served(environment, server_json, tmp_path, **credentials) as url:
        check_tiles(url)


def test_tiles_come_from_a_web_server(environment: Environment, tmp_path: Path) -> None:
    with public_folder() as root:

        def put(key: str, data: bytes) -> None:
            (root / "pub" / key).parent.mkdir(parents=True, exist_ok=True)
            (root / "pub" / key).write_bytes(data)

        port = free_port()
        content = f"server {{ listen 127.0.0.1:{port}; root {root}/pub; }}"
        address = f"http://127.0.0.1:{port}"
        server_json = installation(tmp_path / "site", put, address, {})
        with (
            nginx_with(root, content, [port]),
            served(environment, server_json, tmp_path) as url,
        ):
            check_tiles(url)
