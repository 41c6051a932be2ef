"""Processor time of tiles and maps of a COG, beside a slab pyramid, rio-tiler and TiTiler.

``python -m benchmarks.cogs`` writes an orthophoto of 4096 pixels a side as a COG in JPEG and one in
DEFLATE, aligned to the grid of web maps, and publishes them, in turns with:

- a slab pyramid with the same JPEG tiles, and a mosaic of four COGs with them (a stored tile),
- rio-tiler, which TiTiler uses, if ``--rio-tiler PYTHON`` names an interpreter that has it (a
  decoded tile as PNG, and a map of 800 by 600 pixels as PNG). It reads the same files,
- TiTiler itself, if ``--titiler PYTHON`` names an interpreter that has titiler.application and
  uvicorn. It and Mastaba are servers of one process each, and get the same requests over HTTP.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from rasterio.io import MemoryFile
from rasterio.shutil import copy
from rasterio.transform import from_origin

from benchmarks.containers import request_of, seconds
from benchmarks.titiler import compared
from mastaba.api.tools import create_application
from mastaba_conformance.tiny_installation import tiny_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

LEVEL, ROW, COL, SIDE = 12, 1408, 2064, 16
HALF = 20037508.3427892
CELL = 2 * HALF / 256 / 2**LEVEL
BOX = (COL * 256 * CELL - HALF, HALF - (ROW + SIDE) * 256 * CELL)

PEER = """
import json, sys, time
from rio_tiler.io import Reader
path, kind, count, column, row, zoom, west, south, east, north = sys.argv[1:]
def once():
    with Reader(path) as source:
        if kind == "tile":
            found = source.tile(int(column), int(row), int(zoom))
        else:
            box = tuple(map(float, (west, south, east, north)))
            found = source.part(box, bounds_crs="epsg:3857", dst_crs="epsg:3857",
                                width=800, height=600)
        return len(found.render(img_format="PNG", add_mask=False))
once()
begun = time.process_time()
for _ in range(int(count)):
    once()
print((time.process_time() - begun) / int(count))
"""


def ground() -> Any:
    """Return an image like a photograph: smooth shades, edges and noise."""
    size = 256 * SIDE
    chance = np.random.default_rng(3)
    rows, columns = np.mgrid[:size, :size].astype(np.float32)
    shade = 90 + 40 * np.sin(rows / 97) + 40 * np.cos(columns / 61)
    fields = chance.integers(-30, 30, (size // 64, size // 64)).repeat(64, 0).repeat(64, 1)
    bands = [shade + fields * factor for factor in (0.5, 1.0, 0.3)]
    noise = chance.normal(0, 4, (3, size, size))
    return np.clip(np.stack(bands) + noise, 0, 255).astype(np.uint8)


def write_cog(
    path: Path, pixels: Any, compression: str, corner: tuple[int, int] = (0, 0)
) -> tuple[float, float, float, float]:
    """Write pixels as a COG; return its box.

    Args:
        corner: row and column of the first pixel in the image.
    """
    size = pixels.shape[1]
    west, north = BOX[0] + corner[1] * CELL, BOX[1] + (SIDE * 256 - corner[0]) * CELL
    place = from_origin(west, north, CELL, CELL)
    profile = {"driver": "GTiff", "width": size, "height": size, "count": 3, "dtype": "uint8"}
    with MemoryFile() as memory:
        with memory.open(**profile, crs="EPSG:3857", transform=place) as source:
            source.write(pixels)
        with memory.open() as source:
            copy(source, path, driver="COG", BLOCKSIZE=256, COMPRESS=compression)
    return west, north - size * CELL, west + size * CELL, north


def write_sheets(folder: Path, pixels: Any) -> Path:
    """Write four COGs in JPEG, and return their table."""
    folder.mkdir()
    half = pixels.shape[1] // 2
    features = []
    for row in (0, half):
        for col in (0, half):
            path = folder / f"{row}-{col}.tif"
            part = pixels[:, row : row + half, col : col + half]
            west, south, east, north = write_cog(path, part, "JPEG", (row, col))
            ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
            geometry = {"type": "Polygon", "coordinates": [ring]}
            features.append(
                {"type": "Feature", "properties": {"path": path.name}, "geometry": geometry}
            )
    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::3857"}}
    table = folder / "table.json"
    table.write_text(json.dumps({"type": "FeatureCollection", "crs": crs, "features": features}))
    return table


def installation(directory: Path) -> Any:
    pixels = ground()
    for name in ("JPEG", "DEFLATE"):
        write_cog(directory / f"{name}.tif", pixels, name)
    server = tiny_installation(directory / "site", services=["tms", "wms"])
    tiles = {}
    entries: dict[str, dict[str, str]] = {
        name: {"path": str(directory / f"{name}.tif")} for name in ("JPEG", "DEFLATE")
    }
    table = write_sheets(directory / "sheets", pixels)
    entries["MOSAIC"] = {"path": str(table), "container": "mosaic"}
    layers = directory / "site/layers"
    listed = (directory / "site/layers.txt").open("a")
    for name, entry in entries.items():
        document = {"title": name, "abstract": "", "pyramids": [entry]}
        (layers / f"{name}.json").write_text(json.dumps(document))
        listed.write(f"{layers}/{name}.json\n")
    listed.close()
    application = create_application(str(server))
    # The same bytes in slabs.
    reader = application.site.catalogue.readers["JPEG"][str(LEVEL)]
    limits = reader.level.limits
    for row in range(limits.min_row, limits.max_row + 1):
        for col in range(limits.min_col, limits.max_col + 1):
            tile = reader.locate(row, col)
            assert tile is not None
            tiles[row, col] = tile.read()
    write_pyramid(
        directory / "slabs",
        "SLABS",
        tile_matrix_set=web_mercator(),
        format="TIFF_JPG_UINT8",
        channels=3,
        nodata=[0, 0, 0],
        levels=[
            LevelPlan(str(LEVEL), limits.min_row, limits.max_row, limits.min_col, limits.max_col)
        ],
        tile=lambda _, row, col: tiles[row, col],
    )
    document = {
        "title": "SLABS",
        "abstract": "",
        "pyramids": [
            {
                "path": str(directory / "slabs/SLABS.json"),
                "bottom_level": str(LEVEL),
                "top_level": str(LEVEL),
            }
        ],
    }
    (layers / "SLABS.json").write_text(json.dumps(document))
    with (directory / "site/layers.txt").open("a") as listed:
        listed.write(f"{layers}/SLABS.json\n")
    return create_application(str(server))


def peer(python: str, path: Path, kind: str, count: int, box: tuple[float, ...]) -> float:
    words = [str(COL + 5), str(ROW + 6), str(LEVEL), *map(str, box)]
    ended = subprocess.run(
        [python, "-c", PEER, str(path), kind, str(count), *words],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(ended.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--rio-tiler", metavar="PYTHON")
    parser.add_argument("--titiler", metavar="PYTHON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mastaba-cogs-") as temporary:
        directory = Path(temporary)
        application = installation(directory)
        place = f"{LEVEL}/{COL + 5}/{ROW + 6}"
        slab = request_of(application, f"/tms/1.0.0/SLABS/{place}.jpeg")
        stored = request_of(application, f"/tms/1.0.0/JPEG/{place}.jpeg")
        mosaic = request_of(application, f"/tms/1.0.0/MOSAIC/{place}.jpeg")
        requests = slab, stored, mosaic
        for request in requests:
            seconds(request, 50)
        rounds = [
            [seconds(request, options.requests) for request in requests]
            for _ in range(options.rounds)
        ]
        ratio = statistics.median(other / one for one, other, _ in rounds)
        of_mosaic = statistics.median(other / one for _, one, other in rounds)
        times = [1e6 * statistics.median(column) for column in zip(*rounds, strict=True)]
        print(f"stored: slab {times[0]:.1f} us, COG {times[1]:.1f} us, ratio {ratio:.3f}")
        print(f"stored: mosaic {times[2]:.1f} us, ratio to the COG {of_mosaic:.3f}")
        if options.titiler:
            places = [
                (LEVEL, ROW + row, COL + col) for row in range(1, 15, 3) for col in range(1, 15, 3)
            ]
            files = {name: directory / f"{name}.tif" for name in ("DEFLATE", "JPEG")}
            server = directory / "site/server.json"
            for line in compared(server, options.titiler, files, places, options.rounds):
                print(line)
        # A map whose pixels have other places than those of the level.
        west, south = BOX[0] + 700.3 * CELL, BOX[1] + 900.7 * CELL
        box = west, south, west + 800 * CELL * 1.1, south + 600 * CELL * 1.1
        query = (
            "SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&STYLES=&CRS=EPSG:3857&WIDTH=800&HEIGHT=600"
            f"&FORMAT=image/png&BBOX={','.join(map(str, box))}&LAYERS="
        )
        for name in ("DEFLATE", "JPEG"):
            extension = "png" if name == "DEFLATE" else "jpeg"
            kinds = {
                "tile": request_of(application, f"/tms/1.0.0/{name}/{place}.{extension}"),
                "map": request_of(application, "/wms", query + name),
            }
            for kind, request in kinds.items():
                request()
                ours = statistics.median(seconds(request, 20) for _ in range(5))
                line = f"{name} {kind}: {1e3 * ours:.2f} ms"
                if options.rio_tiler:
                    path = directory / f"{name}.tif"
                    theirs = statistics.median(
                        peer(options.rio_tiler, path, kind, 20, box) for _ in range(3)
                    )
                    line += f", rio-tiler {1e3 * theirs:.2f} ms, ratio {ours / theirs:.3f}"
                print(line)


if __name__ == "__main__":
    main()
