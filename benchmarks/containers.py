"""Processor time of a stored tile from an archive and from a slab, in turns.

``python -m benchmarks.containers`` exports a layer of the small installation as PMTiles, MBTiles
and GeoPackage, and publishes them beside the layer. It requests a tile of each, with warm indices,
from files.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from mastaba.api.tools import Application, create_application
from mastaba_conformance.tiny_installation import tiny_installation

LAYER = "RGB_PNG"
ARCHIVES = {"PMTiles": "pmtiles", "MBTiles": "mbtiles", "GeoPackage": "gpkg"}


def archived(directory: Path) -> Application:
    """Return an application with a layer, and a layer from each archive of it."""
    server = tiny_installation(directory)
    # The exporter is a program of its own.
    from mastaba.commands.main import main

    for name, suffix in ARCHIVES.items():
        archive = directory / f"archive.{suffix}"
        if main(["export", "-f", str(server), LAYER, str(archive)]):
            raise SystemExit("the export has failed")
        document = json.loads((directory / "layers" / f"{LAYER}.json").read_text())
        document["pyramids"] = [{"path": str(archive)}]
        (directory / "layers" / f"{name}.json").write_text(json.dumps(document))
        with (directory / "layers.txt").open("a") as file:
            file.write(f"{directory}/layers/{name}.json\n")
    return create_application(str(server))


def request_of(application: Application, path: str, query: str = "") -> Callable[[], None]:
    """Return a function that sends a request."""
    environ = {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(),
    }

    def start(status: str, headers: object, exc_info: object = None) -> None:
        assert status.startswith("200"), status

    def request() -> None:
        for _ in application(dict(environ), start):
            pass

    return request


def seconds(request: Callable[[], None], count: int) -> float:
    """Return the processor time of one of many requests."""
    begun = time.process_time()
    for _ in range(count):
        request()
    return (time.process_time() - begun) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--requests", type=int, default=500)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mastaba-containers-") as temporary:
        application = archived(Path(temporary))
        reader = application.site.catalogue.readers[LAYER]["4"]
        limits = reader.level.limits
        place = next(
            f"4/{column}/{row}"
            for row in range(limits.min_row, limits.max_row + 1)
            for column in range(limits.min_col, limits.max_col + 1)
            if reader.locate(row, column)
        )
        requests = [
            request_of(application, f"/tms/1.0.0/{name}/{place}.png") for name in (LAYER, *ARCHIVES)
        ]
        for request in requests:
            seconds(request, 100)
        rounds = [
            [seconds(request, options.requests) for request in requests]
            for _ in range(options.rounds)
        ]
    # Whatever else runs can only add to the time.
    of_slab, *others = (1e6 * min(column) for column in zip(*rounds, strict=True))
    print(f"slab {of_slab:.1f} us of processor time a tile (least of {options.rounds} rounds)")
    for number, (name, taken) in enumerate(zip(ARCHIVES, others, strict=True), 1):
        median = statistics.median(times[number] / times[0] for times in rounds)
        print(f"{name} {taken:.1f} us, ratio {taken / of_slab:.3f} (median of rounds {median:.3f})")


if __name__ == "__main__":
    main()
