"""Archives of independent writers: tiles byte for byte, and maps as an independent computation."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyproj
import pytest
from PIL import Image
from rasterio.io import MemoryFile
from tests.container_cog.files import Pixels
from tests.container_cog.served import add_layer, addresses
from tests.containers.independent import ARCHIVES, NODATA, Archive
from tests.containers.reference import MOVED, SHARP, reference_map
from tests.sizes import sized
from tests.tiny import tiny_installation
from werkzeug.test import Client

from mastaba.api.tools import create_application

Map = tuple[int, list[float], tuple[int, int]]
"""Code of the CRS, box, and size."""

KERNELS = ("linear", "bicubic", "lanczos_2", "lanczos_3")
CRSS = {3857: (4326, 2154), 2154: (3857, 4326)}
"""Further CRSs of the maps of a layer, by its own CRS."""
SEEDS = range(sized(1, 4))
TILES, MAPS = sized(30, 1000), sized(12, 1000)


@pytest.fixture(params=[(name, seed) for name in ARCHIVES for seed in SEEDS], ids=str)
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Archive, Client, int]]:
    """An archive, served as a layer for each kernel."""
    name, seed = request.param
    made = ARCHIVES[name](tmp_path, seed=100 + seed)
    server = tiny_installation(tmp_path / "site")
    entry = {"path": str(tmp_path / made.name), "options": made.options}
    further = [f"EPSG:{code}" for code in CRSS[made.crs]]
    for kernel in KERNELS:
        add_layer(tmp_path / "site", kernel, entry, resampling=kernel, extra_crs=further)
    application = create_application(str(server))
    yield made, Client(application), seed
    application.site.catalogue.storages.close()


def decoded(answer: bytes, channels: int) -> Pixels:
    """Return the pixels of a tile that is sent decoded."""
    if len(answer) == 256 * 256 * 4:
        return np.frombuffer(answer, "<f4").reshape(256, 256, 1)
    with Image.open(io.BytesIO(answer)) as picture:
        return np.asarray(picture).reshape(256, 256, channels)


@pytest.mark.thorough
def test_tiles_are_those_that_were_written(served: tuple[Archive, Client, int]) -> None:
    made, client, seed = served
    chance = random.Random(seed)
    pyramid = client.application.site.catalogue.layers["linear"].pyramid
    places = [
        (int(name), row, col)
        for name, level in pyramid.levels.items()
        for row in range(level.limits.min_row, level.limits.max_row + 1)
        for col in range(level.limits.min_col, level.limits.max_col + 1)
    ]
    assert set(made.tiles) <= set(places)
    for _ in range(TILES):
        zoom, row, col = chance.choice(places)
        known = addresses(
            "linear", str(zoom), row, col, made.media, made.extension, pyramid.tile_matrix_set.id
        )
        protocol = chance.choice(sorted(known))
        answer = client.get(known[protocol])
        if made.tiles:
            wanted = made.tiles.get((zoom, row, col))
            absent = 204 if protocol == "OGC" else 404
            assert answer.status_code == (200 if wanted else absent), known[protocol]
            assert wanted in (None, answer.data), known[protocol]
            continue
        assert answer.status_code == 200, (known[protocol], answer.data)
        level = made.levels[str(zoom)]
        first = pyramid.tile_matrix_set.matrices[str(zoom)]
        top = row * 256 - round((first.origin_y - level.y) / level.cell)
        left = col * 256 - round((level.x - first.origin_x) / level.cell)
        stored = level.pixels[top : top + 256, left : left + 256]
        expected = np.full((256, 256, len(made.nodata)), made.nodata, level.pixels.dtype)
        expected[: stored.shape[0], : stored.shape[1]] = stored
        np.testing.assert_array_equal(decoded(answer.data, len(made.nodata)), expected)


def boxes(
    made: Archive, chance: random.Random
) -> Iterator[tuple[int, list[float], tuple[int, int]]]:
    """Yield random maps: CRS, box and size."""
    finest = min(made.levels.values(), key=lambda one: one.cell)
    rows, columns = finest.valid.shape
    while True:
        code = chance.choice((made.crs, *CRSS[made.crs]))
        x = finest.x + chance.uniform(-0.03, 1.03) * columns * finest.cell
        y = finest.y - chance.uniform(-0.03, 1.03) * rows * finest.cell
        width, height = chance.randint(20, 120), chance.randint(20, 120)
        step = finest.cell * 2 ** chance.uniform(-1.5, 2.7)
        steps = [step, step * chance.uniform(0.9, 1.1)]
        if code != made.crs:
            move = pyproj.Transformer.from_crs(made.crs, code, always_xy=True).transform
            moved, (east, _), (_, north) = move(x, y), move(x + 1, y), move(x, y + 1)
            steps = [steps[0] * (east - moved[0]), steps[1] * (north - moved[1])]
            x, y = moved
        elif chance.random() < 0.2:
            # The pixels of a level.
            steps = [finest.cell, finest.cell]
            x = finest.x + finest.cell * round((x - finest.x) / finest.cell)
            y = finest.y + finest.cell * round((y - finest.y) / finest.cell)
        yield code, [x, y, x + width * steps[0], y + height * steps[1]], (width, height)


def address(made: Archive, layer: str, code: int, box: list[float], size: Any, by: str) -> str:
    xmin, ymin, xmax, ymax = box
    ordered = (ymin, xmin, ymax, xmax) if code == 4326 else (xmin, ymin, xmax, ymax)
    text = ",".join(map(repr, map(float, ordered)))
    is_float = made.extension == "bil"
    if by == "WMS":
        media = made.media if is_float else "image/png"
        return (
            f"/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&STYLES=&FORMAT={media}"
            f"&TRANSPARENT=TRUE&LAYERS={layer}&CRS=EPSG:{code}&BBOX={text}"
            f"&WIDTH={size[0]}&HEIGHT={size[1]}"
        )
    uri = f"http://www.opengis.net/def/crs/EPSG/0/{code}"
    return (
        f"/ogcapi/collections/{layer}/map?f={'tiff' if is_float else 'png'}&crs={uri}"
        f"&bbox-crs={uri}&bbox={text}&width={size[0]}&height={size[1]}&transparent=true"
    )


def pixels_of(answer: bytes, by: str, made: Archive, size: tuple[int, int]) -> tuple[Any, Any]:
    """Return pixels, and where there is data."""
    if made.extension == "bil":
        if by == "WMS":
            values = np.frombuffer(answer, "<f4").reshape(size[1], size[0], 1)
        else:
            with MemoryFile(answer) as file, file.open() as source:
                values = np.moveaxis(source.read(), 0, 2)
        return values, values[:, :, 0] != NODATA
    with Image.open(io.BytesIO(answer)) as picture:
        pixels = np.asarray(picture.convert("RGBA"))
    if len(made.nodata) == 4:
        # Alpha is that of the pixels too.
        return pixels, None
    return pixels[:, :, : len(made.nodata)], pixels[:, :, 3] == 255


@pytest.mark.thorough
def test_maps_are_those_of_the_formula(served: tuple[Archive, Client, int]) -> None:
    made, client, seed = served
    chance, shown = random.Random(seed), 0
    found = boxes(made, chance)
    for number in range(MAPS):
        code, box, size = next(found)
        kernel, by = chance.choice(KERNELS), chance.choice(("WMS", "OGC"))
        url = address(made, kernel, code, box, size, by)
        answer = client.get(url)
        assert answer.status_code == 200, (url, answer.data[:500])
        pixels, known = pixels_of(answer.data, by, made, size)
        move = None
        if code != made.crs:
            move = pyproj.Transformer.from_crs(code, made.crs, always_xy=True).transform
        even = {code, made.crs} == {3857, 4326}
        levels = list(made.levels.values())
        wanted, share = reference_map(levels, made.nodata, kernel, box, size, move, even=even)
        sure, covered = np.abs(share - 0.5) > (SHARP if move is None else MOVED), share > 0.5
        if known is None:
            known, wanted[~covered] = sure, made.nodata
            covered = sure
        np.testing.assert_array_equal(known[sure], covered[sure], f"{number}: {url}")
        both = known & covered
        if made.extension != "bil":
            wanted = np.floor(np.clip(wanted, 0, 255) + 0.5)
        difference = np.abs(pixels.astype(float) - wanted)[both]
        assert difference.max(initial=0) <= made.tolerance, (number, url)
        shown += both.sum()
    assert shown > 1000 * MAPS // 2
