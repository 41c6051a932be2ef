"""Raster terrain tiles, TileJSON and the MapLibre style (elevation.md 4)."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from tests.elevation.conftest import PUBLIC_URL, TERRAIN_STACK, Open, read
from tests.elevation.world import ALPS, MERC, NODATA, TILE, Ground
from werkzeug.test import Client

from mastaba_elevation.terrain.encodings import ENCODINGS

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]

STEPS = {"mapbox": 0.1, "terrarium": 1 / 256}


def pixels(client: Client, path: str, **query: Any) -> Bytes:
    """Return a tile, shape (rows, columns, 3)."""
    response = client.get(f"/terrain/{path}", query_string=query)
    assert response.status_code == 200, response.data[:300]
    image = Image.open(io.BytesIO(response.data))
    assert image.mode == "RGB"
    assert response.content_type == f"image/{image.format.lower()}"  # type: ignore[union-attr]
    return np.asarray(image)


def decoded(encoding: str, colours: Bytes) -> Floats:
    """Return the heights that clients read from colours."""
    red, green, blue = (colours[:, :, channel].astype(np.float64) for channel in range(3))
    if encoding == "mapbox":
        return -10000 + (red * 65536 + green * 256 + blue) * 0.1
    return red * 256 + green + blue / 256 - 32768


def heights(client: Client, path: str, **query: Any) -> Floats:
    encoding = next(name for name in STEPS if f"/{name}/" in path)
    return decoded(encoding, pixels(client, path, **query))


def ground(place: Ground, level: str, row: int, column: int, size: int = 256) -> Floats:
    """Return the pixels of a tile of Web Mercator from a ground on its grid; NaN for holes."""
    found = np.full((size, size), np.nan)
    for down in range(0, size, TILE):
        for across in range(0, size, TILE):
            tile = place.stored(
                level, (row * size + down) // TILE, (column * size + across) // TILE
            )
            if tile is not None:
                found[down : down + TILE, across : across + TILE] = tile
    found[found == NODATA] = np.nan
    return found


@pytest.mark.parametrize("encoding", STEPS)
@pytest.mark.parametrize("cell", [0.5, 5.0, 108.0, 400.0, 5000.0])
def test_a_million_heights(encoding: str, cell: float) -> None:
    """No height is further from the original than half a step."""
    dice = np.random.default_rng(3)
    given = dice.uniform(-9000, 9000, (1000, 200)).astype(np.float32).astype(np.float64)
    coder = ENCODINGS[encoding]
    full = np.abs(decoded(encoding, coder.colours(given.copy())) - given)
    assert full.max() <= STEPS[encoding] / 2 + 1e-9
    auto = np.abs(decoded(encoding, coder.colours(given.copy(), coder.shift(cell))) - given)
    assert auto.max() <= max(STEPS[encoding] / 2, 0.005 * cell) + 1e-9


def test_published_colours() -> None:
    given = np.array([[157.2, -32.5]])
    assert ENCODINGS["mapbox"].colours(given)[0].tolist() == [[1, 140, 196], [1, 133, 91]]
    assert ENCODINGS["terrarium"].colours(given)[0].tolist() == [[128, 157, 51], [127, 223, 128]]


def test_bits_that_the_precision_drops() -> None:
    cells = [5000, 1500, 400, 200, 108, 10, 1]
    assert [ENCODINGS["mapbox"].shift(cell) for cell in cells] == [8, 7, 5, 4, 3, 0, 0]


@pytest.mark.parametrize("encoding", STEPS)
def test_heights_beyond_the_range_take_the_last_colour(encoding: str) -> None:
    colours = ENCODINGS[encoding].colours(np.array([[-1e6, 1e9]]), 4)
    assert colours[0, 0].tolist() == [0, 0, 0]
    assert colours[0, 1].tolist() == [255, 255, 240]


@pytest.mark.parametrize("encoding", STEPS)
@pytest.mark.parametrize("extension", ["png", "webp"])
def test_stored_pixels_are_not_resampled(tiles: Client, encoding: str, extension: str) -> None:
    for column in (1, 2):
        found = heights(tiles, f"merc/{encoding}/2/{column}/1.{extension}")
        wanted = ground(MERC, "6", 1, column)
        assert 0 < np.isnan(wanted).sum() < wanted.size
        wanted[np.isnan(wanted)] = 0.0
        assert np.abs(found - wanted).max() <= STEPS[encoding] / 2 + 1e-9


@pytest.mark.sampled
@pytest.mark.parametrize("fill", ["none", "edge"])
@pytest.mark.parametrize(
    ("dataset", "z", "column", "row"),
    [("merc", 1, 0, 0), ("alps", 12, 2111, 1449), ("stack", 1, 1, 0)],
)
def test_a_large_tile_is_four_small_ones(
    tiles: Client, dataset: str, z: int, column: int, row: int, fill: str
) -> None:
    path = f"{dataset}/terrarium"
    large = pixels(tiles, f"{path}/{z}/{column}/{row}@2x.png", fill=fill)
    assert large.shape == (512, 512, 3)
    found = 0
    for down in (0, 1):
        for across in (0, 1):
            place = f"{path}/{z + 1}/{2 * column + across}/{2 * row + down}.png"
            response = tiles.get(f"/terrain/{place}", query_string={"fill": fill})
            part = large[down * 256 :, across * 256 :][:256, :256]
            if response.status_code == 200:
                found += 1
                assert np.array_equal(pixels(tiles, place, fill=fill), part)
            elif fill == "none":
                assert response.status_code == 404
                assert len(np.unique(part)) <= 3
    assert found


def test_holes_take_the_nearest_height(tiles: Client) -> None:
    wanted = ground(MERC, "6", 1, 1)
    found = heights(tiles, "merc/terrarium/2/1/1.png", fill="edge")
    rows, columns = np.nonzero(~np.isnan(wanted))
    holes = np.argwhere(np.isnan(wanted))
    dice = np.random.default_rng(5)
    filled = 0
    # The rows 64 to 191 hold data: their nearest pixels are in this tile or in the next one.
    inner = holes[holes[:, 1] < 256 - 65]
    for row, column in inner[dice.choice(len(inner), 300, replace=False)]:
        squared = (rows - row) ** 2 + (columns - column) ** 2
        if squared.min() > 64**2:
            assert found[row, column] == 0.0
            continue
        nearest = wanted[rows, columns][squared == squared.min()]
        assert np.abs(nearest - found[row, column]).min() <= 0.002
        filled += 1
    assert filled > 50


def test_stacks_use_the_next_layer_in_holes(tiles: Client) -> None:
    found = heights(tiles, "stack/terrarium/2/1/1.png")
    wanted = ground(MERC, "6", 1, 1)
    known = ~np.isnan(wanted)
    assert np.abs(found - wanted)[known].max() <= 0.002
    below = heights(tiles, "world/terrarium/2/1/1.png")
    world = below != 0.0
    # Where neither has a height, that of the stack.
    assert np.abs(found - below)[~known & world].max() <= 0.004
    assert set(found[~known & ~world]) <= {-32.5}


def test_drawn_layers_agree_with_queries(tiles: Client, queries: Any, datasets: Any) -> None:
    """The map engine and the sampler of queries are bilinear in the same way."""
    from mastaba.api.catalogue import CRS
    from mastaba_elevation.queries.sampling import SamplingOptions

    column, row, cell = 8447, 5798, 2 * math.pi * 6378137 / 256 / 2**14
    found = heights(tiles, f"alps/terrarium/14/{column}/{row}.png")
    dice = np.random.default_rng(9)
    down, across = dice.integers(0, 256, (2, 300))
    x = -math.pi * 6378137 + (column * 256 + across + 0.5) * cell
    y = math.pi * 6378137 - (row * 256 + down + 0.5) * cell
    options = SamplingOptions("bilinear")
    samples = queries.points(datasets["alps"], x, y, CRS.from_code("EPSG:3857"), options)
    # Queries also use coarser levels.
    known = (samples.levels == 0) & ~np.isnan(samples.heights) & (found[down, across] != 0.0)
    assert known.sum() > 50
    assert np.abs(found[down, across] - samples.heights)[known].max() < 0.5


def test_tiles_beyond_the_finest_level(tiles: Client) -> None:
    fine = heights(tiles, "merc/terrarium/3/3/3.png")
    coarse = ground(MERC, "6", 1, 1)[128:, 128:]
    # The centres of odd pixels are a quarter of a cell from those of coarse ones.
    wanted = (
        9 * coarse[:-1, :-1] + 3 * coarse[:-1, 1:] + 3 * coarse[1:, :-1] + coarse[1:, 1:]
    ) / 16
    found = fine[1:-1:2, 1:-1:2]
    known = ~np.isnan(wanted)
    assert known.sum() > 1000
    assert np.abs(found - wanted)[known].max() <= 0.003
    assert tiles.get("/terrain/merc/terrarium/5/12/12.png").status_code == 404


def test_tiles_of_another_set(tiles: Client) -> None:
    tile = pixels(tiles, "alps/terrarium/L16/2/0/0.png")
    assert tile.shape == (TILE, TILE, 3)
    stored = ALPS.stored("2", 0, 0)
    assert stored is not None
    wanted = np.where(stored == NODATA, 0.0, stored)
    assert np.abs(decoded("terrarium", tile) - wanted).max() <= 0.002
    assert pixels(tiles, "alps/mapbox/L16/1/0/0@2x.png").shape == (2 * TILE, 2 * TILE, 3)
    assert tiles.get("/terrain/alps/mapbox/L16/2/0/0@2x.png").status_code == 404
    assert tiles.get("/terrain/alps/mapbox/M16/2/0/0.png").status_code == 404


def test_tiles_without_heights(tiles: Client) -> None:
    # Rows of level 5 begin at 10, so the tile of zoom 1 is half empty; that of zoom 2 is outside.
    assert tiles.get("/terrain/merc/mapbox/2/0/0.png").status_code == 404
    path = "/terrain/world/mapbox/6/0/0.png"
    response = tiles.get(path)
    if response.status_code == 200:
        assert tiles.get(path, query_string={"missing": 404}).status_code == 404


def test_conditional_requests(tiles: Client) -> None:
    paths = [
        "/terrain/merc/mapbox/2/1/1.png",
        "/terrain/merc/mapbox/2/1/1.webp",
        "/terrain/merc/terrarium/2/1/1.png",
        "/terrain/merc/mapbox/2/1/1.png?precision=auto",
        "/terrain/merc/mapbox/2/1/1.png?fill=edge",
        "/terrain/merc/mapbox/1/0/0.png",
        "/terrain/merc/mapbox/1/0/0@2x.png",
        "/terrain/alps/mapbox/12/2111/1449.png",
        "/terrain/stack/mapbox/2/1/1.png",
    ]
    etags = set()
    for path in paths:
        first = tiles.get(path)
        etags.add(first.headers["ETag"])
        again = tiles.get(path, headers={"If-None-Match": first.headers["ETag"]})
        assert (again.status_code, again.data) == (304, b"")
        assert tiles.head(path).headers["ETag"] == first.headers["ETag"]
    assert len(etags) == len(paths)


def test_cache_control_of_layers(terrain: Callable[..., Client]) -> None:
    layers = {"merc": {"cache_control": "max-age=60"}}
    client = terrain({"terrain": {"datasets": [TERRAIN_STACK]}}, **layers)
    assert client.get("/terrain/merc/mapbox/2/1/1.png").headers["Cache-Control"] == "max-age=60"
    assert client.get("/terrain/stack/mapbox/2/1/1.png").headers["Cache-Control"] == "no-cache"
    assert "Cache-Control" not in client.get("/terrain/alps/mapbox/12/2111/1449.png").headers


def test_tilejson(tiles: Client) -> None:
    document = read(tiles.get("/terrain/stack/mapbox.json"))
    assert document["tiles"] == [f"{PUBLIC_URL}/terrain/stack/mapbox/{{z}}/{{x}}/{{y}}.png"]
    assert (document["encoding"], document["tileSize"]) == ("mapbox", 256)
    assert (document["scheme"], document["nodataHeight"]) == ("xyz", -32.5)
    west, south, east, north = document["bounds"]
    assert -180 <= west < east <= 180
    assert -90 <= south < north <= 90
    large = read(tiles.get("/terrain/stack/terrarium.json?size=512&format=webp&fill=edge"))
    assert large["tiles"][0].endswith("/stack/terrarium/{z}/{x}/{y}@2x.webp?fill=edge")
    assert large["tileSize"] == 512
    assert large["maxzoom"] == document["maxzoom"] - 1


@pytest.mark.parametrize("size", [256, 512])
@pytest.mark.parametrize("dataset", ["merc", "alps", "world", "stack"])
def test_zooms_of_the_tilejson_exist(tiles: Client, dataset: str, size: int) -> None:
    document = read(tiles.get(f"/terrain/{dataset}/mapbox.json?size={size}"))
    west, south, east, north = document["bounds"]
    longitude, latitude = (west + east) / 2, math.radians((south + north) / 2)
    for z in (document["minzoom"], document["maxzoom"]):
        column = int((longitude + 180) / 360 * 2**z)
        row = int((1 - math.asinh(math.tan(latitude)) / math.pi) / 2 * 2**z)
        path = document["tiles"][0].removeprefix(PUBLIC_URL)
        path = path.replace("{z}", str(z)).replace("{x}", str(column)).replace("{y}", str(row))
        assert tiles.get(path).status_code == 200


def test_style(tiles: Client) -> None:
    document = read(tiles.get("/terrain/merc/style.json?encoding=mapbox&size=512&fill=edge"))
    url = f"{PUBLIC_URL}/terrain/merc/mapbox.json?fill=edge&missing=404&size=512"
    assert document["sources"]["dem"] == {"type": "raster-dem", "url": url}
    assert document["terrain"]["source"] == "dem"
    assert "hillshade" in [layer["type"] for layer in document["layers"]]
    assert {layer["source"] for layer in document["layers"]} <= set(document["sources"])


def test_style_shows_coarser_tiles_where_fine_ones_are_missing(tiles: Client) -> None:
    """MapLibre takes the coarser tile for one of status 404, not for a constant one."""
    document = read(tiles.get("/terrain/merc/style.json"))
    address = document["sources"]["dem"]["url"].removeprefix(PUBLIC_URL)
    (template,) = read(tiles.get(address))["tiles"]
    assert "missing=404" in template
    constant = read(tiles.get("/terrain/merc/style.json?missing=200"))
    assert "missing" not in constant["sources"]["dem"]["url"]


def test_datasets_are_those_of_queries(terrain: Callable[..., Client]) -> None:
    services = {"elevation": {"datasets": [TERRAIN_STACK], "valid_range": [0, 600]}}
    hidden = {"world": {"terrain": {"enabled": False}}}
    client = terrain(services, ("elevation", "terrain"), **hidden)
    listed = read(client.get("/terrain"))["datasets"]
    assert [item["id"] for item in listed] == ["stack", "alps", "merc"]
    assert listed[0]["layers"] == ["alps", "merc"]
    found = heights(client, "merc/terrarium/2/1/1.png")
    assert found.max() <= 600.01


def test_own_datasets_are_checked(terrain: Callable[..., Client]) -> None:
    from mastaba.errors import ConfigurationError

    with pytest.raises(ConfigurationError, match="publishes no layer 'none'") as caught:
        terrain({"terrain": {"datasets": [{"id": "s", "layers": ["none"]}]}})
    assert [fault.path for fault in caught.value.faults] == ["$.terrain.datasets[0].layers[0]"]


def test_limits_of_stored_tiles(terrain: Callable[..., Client]) -> None:
    enough = terrain({"terrain": {"limits": {"tiles": 40}}})
    assert enough.get("/terrain/merc/mapbox/2/1/1.png").status_code == 200
    refused = terrain({"terrain": {"limits": {"tiles": 16}}}).get("/terrain/merc/mapbox/2/1/1.png")
    assert read(refused, 413)["error"]["status"] == 413


def test_pages_of_every_origin_may_read(terrain: Callable[..., Client], tiles: Client) -> None:
    for path in ("merc/mapbox/2/1/1.png", "merc/mapbox.json", "none"):
        assert tiles.get(f"/terrain/{path}").headers["Access-Control-Allow-Origin"] == "*"
    closed = terrain({"terrain": {"cors": False}})
    assert "Access-Control-Allow-Origin" not in closed.get("/terrain/merc/mapbox.json").headers


@pytest.mark.parametrize("encoding", STEPS)
def test_the_style_terrainrgb_has_the_same_encodings(encoding: str) -> None:
    from mastaba_render.styles import apply_terrain_rgb

    heights = np.random.default_rng(4).uniform(-9000, 9000, (50, 50)).astype(np.float32)
    heights[0, :3] = 157.2, -32.5, -1e6
    found = apply_terrain_rgb({"encoding": encoding}, heights[:, :, np.newaxis])
    assert np.array_equal(found, ENCODINGS[encoding].colours(heights.astype(np.float64)))


def test_preflight_is_answered_for_every_origin(tiles: Client) -> None:
    asked = {
        "Origin": "http://other.example",
        "Access-Control-Request-Method": "GET",
        "Access-Control-Request-Headers": "x-own",
    }
    for path in ("", "/stack/mapbox/1/0/0.png", "/stack/mesh/layer.json"):
        response = tiles.options(f"/terrain{path}", headers=asked)
        assert response.status_code == 204
        assert response.headers["Allow"] == "HEAD, OPTIONS, GET"
        assert response.headers["Access-Control-Allow-Origin"] == "*"
        assert response.headers["Access-Control-Allow-Methods"] == "HEAD, OPTIONS, GET"
        assert response.headers["Access-Control-Allow-Headers"] == "*"


def test_preflight_without_cors(terrain: Open) -> None:
    client = terrain({"terrain": {"cors": False}})
    asked = {"Origin": "http://other.example", "Access-Control-Request-Method": "GET"}
    response = client.options("/terrain", headers=asked)
    assert response.status_code == 204
    assert not any(name.startswith("Access-Control") for name, _ in response.headers)
