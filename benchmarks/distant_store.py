"""A real object store behind a distance, with pyramids of the demo: the RADOS gateway."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.servers import Missing, Target, is_answering, start_process, wait_for
from mastaba_storage.environment import Environment
from mastaba_storage_s3.clusters import find_cluster
from mastaba_writer.slab_names import slab_object, slab_path

BUCKET = "maps"
_SERVICES = Path(__file__).resolve().parent.parent / "scripts" / "services"


class Store:
    """A bucket.

    Args:
        variables: environment variables for clients without a distance.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.variables = variables
        _, cluster = find_cluster(Environment(variables), BUCKET)
        self._client: Any = cluster.client.get()
        self._client.create_bucket(Bucket=BUCKET)

    def put(self, key: str, content: bytes | Mapping[str, Any]) -> None:
        """Write an object: bytes, or a JSON document."""
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self._client.put_object(Bucket=BUCKET, Key=key, Body=data)

    def copy_pyramid(self, descriptor: Path, name: str) -> None:
        """Copy a pyramid from files; its descriptor becomes ``<name>.json``."""
        document = json.loads(descriptor.read_text("utf-8"))
        for level in document["levels"]:
            files, limits = level["storage"], level["tile_limits"]
            width, height = level["tiles_per_width"], level["tiles_per_height"]
            prefix = f"{name}/DATA_{level['id']}"
            folder = descriptor.parent / files["image_directory"]
            for row in range(limits["min_row"] // height, limits["max_row"] // height + 1):
                for col in range(limits["min_col"] // width, limits["max_col"] // width + 1):
                    path = folder / slab_path(col, row, files["path_depth"])
                    if path.exists():
                        self.put(slab_object(prefix, col, row), path.read_bytes())
            level["storage"] = {"type": "S3", "bucket_name": BUCKET, "image_prefix": prefix}
        self.put(f"{name}.json", document)


@contextmanager
def distant_store(folder: Path, address: str, milliseconds: float) -> Iterator[tuple[Store, str]]:
    """Start a store and a forwarder to it; yield the store, and its URL across the distance.

    Args:
        address: where the forwarder listens, ``HOST:PORT``.

    Raises:
        Missing: the store cannot be installed or started.
    """
    ceph, rgw = folder / "ceph", folder / "rgw"
    distance = Target("distance", f"http://{address}")
    try:
        _script("ceph", "install")
        _script("rgw", "install")
        _script("ceph", "up", ceph)
        _script("rgw", "up", rgw, CEPH_FOLDER=str(ceph))
        words = [shlex.split(line)[1] for line in _script("rgw", "env", rgw).splitlines()]
        variables = dict(word.split("=", 1) for word in words)
        target = variables["MASTABA_S3_URL"].removeprefix("http://")
        command = [sys.executable, "-m", "benchmarks.distance", address, target, str(milliseconds)]
        log = folder / "distance.log"
        process = start_process(distance, command, log)
        wait_for(lambda: is_answering(distance.address), process, log)
        yield Store(variables), distance.address
    finally:
        distance.stop()
        for name, path in (("rgw", rgw), ("ceph", ceph)):
            if path.exists():
                _script(name, "down", path)
        shutil.rmtree(folder, ignore_errors=True)


def _script(name: str, *words: object, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, str(_SERVICES / name), *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    if done.returncode:
        raise Missing(f"scripts/services/{name} {words[0]}: {done.stderr.strip()}")
    return done.stdout
