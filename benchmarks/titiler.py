"""TiTiler beside Mastaba: processor time of tiles and maps of the same COG, over HTTP, in turns."""

from __future__ import annotations

import http.client
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from unittest import mock
from urllib.parse import urlencode, urlsplit

import numpy as np

from benchmarks.processes import cpu_seconds
from benchmarks.servers import (
    Target,
    free_port,
    is_answering,
    plain_http,
    start_process,
    wait_for,
)

# What the documentation of TiTiler recommends for COGs.
_GDAL = {
    "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR",
    "GDAL_CACHEMAX": "200",
    "GDAL_BAND_BLOCK_CACHE": "HASHSET",
    "VSI_CACHE": "TRUE",
    "VSI_CACHE_SIZE": "5000000",
}
_REQUESTS = 20
_FASTER = 10
"""How many requests we get for each one of TiTiler."""
Place = tuple[int, int, int]
Box = tuple[float, float, float, float]


def titiler(python: str, folder: Path) -> Target:
    """Start TiTiler with one process.

    Args:
        python: interpreter that has titiler.application and uvicorn.
    """
    port = free_port()
    target = Target("TiTiler", f"http://127.0.0.1:{port}")
    application = "titiler.application.main:app"
    command = [python, "-m", "uvicorn", application, "--port", str(port), "--log-level", "warning"]
    log = folder / "titiler.log"
    with mock.patch.dict(os.environ, _GDAL):
        server = start_process(target, command, log)
    target.pid = server.pid
    wait_for(lambda: is_answering(target.address), server, log)
    return target


def compared(
    server_json: Path, python: str, files: Mapping[str, Path], places: Sequence[Place], rounds: int
) -> list[str]:
    """Return lines with milliseconds of processor time a request, and ratios.

    Both answer the same requests, in turns: tiles at places of the grid, and maps of 800 by 600
    pixels at places by chance, as PNG.

    Args:
        files: the COG of each layer.
        places: level, row and column of tiles.
    """
    folder = server_json.parent
    ours = plain_http(server_json, folder, workers=1, threads=4)
    try:
        theirs = titiler(python, folder)
        try:
            return [
                _line(f"{name} {kind}", (ours, theirs), paths, rounds)
                for name, path in files.items()
                for kind, paths in (
                    ("tile", [_tiles(name, path, place) for place in places]),
                    ("map", [_maps(name, path, box) for box in _boxes(places)]),
                )
            ]
        finally:
            theirs.stop()
    finally:
        ours.stop()


def _tiles(name: str, path: Path, place: Place) -> tuple[str, str]:
    level, row, col = place
    extension = "png" if name == "DEFLATE" else "jpeg"
    return (
        f"/tms/1.0.0/{name}/{level}/{col}/{row}.{extension}",
        f"/cog/tiles/WebMercatorQuad/{level}/{col}/{row}.{extension}?{urlencode({'url': path})}",
    )


def _maps(name: str, path: Path, box: Box) -> tuple[str, str]:
    text = ",".join(map(str, box))
    query = urlencode({"url": path, "coord_crs": "EPSG:3857", "dst_crs": "EPSG:3857"})
    return (
        "/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&STYLES=&CRS=EPSG:3857&WIDTH=800&HEIGHT=600"
        f"&FORMAT=image/png&BBOX={text}&LAYERS={name}",
        f"/cog/bbox/{text}/800x600.png?{query}",
    )


def _boxes(places: Sequence[Place]) -> list[Box]:
    """Return boxes of 880 by 660 pixels near tiles, inside of all of them."""
    half = 20037508.3427892
    chance = np.random.default_rng(7)
    level = places[0][0]
    cell = 2 * half / 256 / 2**level
    rows, cols = [row for _, row, _ in places], [col for *_, col in places]
    west, north = min(cols) * 256 * cell - half, half - min(rows) * 256 * cell
    width = (max(cols) + 1 - min(cols)) * 256 - 880
    height = (max(rows) + 1 - min(rows)) * 256 - 660
    found = []
    for right, down in chance.random((len(places), 2)):
        x, y = west + right * width * cell, north - down * height * cell
        found.append((x, y - 660 * cell, x + 880 * cell, y))
    return found


def _line(
    label: str, servers: tuple[Target, Target], paths: list[tuple[str, str]], rounds: int
) -> str:
    asks = [_client(server) for server in servers]
    turns = [paths[at::rounds] or paths for at in range(rounds)]
    for number, ask in enumerate(asks):
        ask([path[number] for path in paths])
    times: list[list[float]] = [[], []]
    for turn in turns:
        for number, server in enumerate(servers):
            wanted = [path[number] for path in turn]
            # Processor time of processes is counted in hundredths of a second.
            wanted *= -(-_REQUESTS * (1 if number else _FASTER) // len(wanted))
            assert server.pid is not None
            begun = cpu_seconds(server.pid)
            asks[number](wanted)
            times[number].append((cpu_seconds(server.pid) - begun) / len(wanted))
    own, other = (1e3 * statistics.median(column) for column in times)
    ratio = statistics.median(one / two for one, two in zip(*times, strict=True))
    return f"{label}: {own:.2f} ms, TiTiler {other:.2f} ms, ratio {ratio:.3f}"


def _client(server: Target) -> Callable[[list[str]], None]:
    parts = urlsplit(server.address)

    def ask(paths: list[str]) -> None:
        # Servers close connections that wait for their turn.
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        for path in paths:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200:
                raise SystemExit(f"{server.name} answers {answer.status} to {path}: {body[:200]!r}")
        connection.close()

    return ask
