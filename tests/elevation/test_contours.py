"""Contour lines: the row of their acceptance checks (elevation.md 6)."""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable
from typing import Any

import mapbox_vector_tile  # type: ignore[import-untyped]
import numpy as np
import pytest
from tests.elevation.conftest import PUBLIC_URL, read
from tests.elevation.ridge import GAPS, NODATA, TILE, ground
from tests.elevation.ridge import tile as stored_tile
from werkzeug.test import Client

from mastaba_elevation.terrain.contours.intervals import DEFAULT, Intervals
from mastaba_elevation.terrain.contours.lines import (
    Lines,
    simplified,
    traced,
    without_repeats,
    without_small_rings,
)
from mastaba_elevation.terrain.contours.source import smoothed

Floats = np.ndarray[Any, np.dtype[np.float64]]
Line = tuple[float, list[tuple[int, int]]]

EXTENT = 4096
TABLE = {"intervals": {"10": [20, 100]}}


@pytest.fixture(scope="module")
def client(open_ridge: Callable[..., Client]) -> Client:
    return open_ridge({"contours": TABLE, "overzoom": 2})


def fetch(client: Client, z: int, x: int, y: int, layer: str = "contour") -> list[Line]:
    """Return the lines of a tile with their heights, from an independent reader."""
    response = client.get(f"/terrain/ridge/contours/{z}/{x}/{y}.pbf")
    assert response.status_code == 200, response.data[:300]
    if not response.data:
        return []
    decoded = mapbox_vector_tile.decode(response.data, default_options={"y_coord_down": True})
    assert list(decoded) == [layer]
    assert decoded[layer]["extent"] == EXTENT
    lines = []
    for feature in decoded[layer]["features"]:
        geometry = feature["geometry"]
        parts = geometry["coordinates"]
        if geometry["type"] == "LineString":
            parts = [parts]
        assert geometry["type"] in ("LineString", "MultiLineString")
        height = feature["properties"]["ele"]
        lines += [(height, [tuple(point) for point in part]) for part in parts]
    return lines


def pixels(z: int, x: int, y: int, border: int) -> Floats:
    """Return the pixels around a tile, NaN where there is no height."""
    size = TILE + 2 * border
    found = np.full((size, size), np.nan)
    for row in range(y - 1, y + 2):
        for column in range(x - 1, x + 2):
            inside = {11: (736, 737, 1061, 1062), 12: (1472, 1474, 2122, 2124)}[z]
            if not (inside[0] <= row <= inside[1] and inside[2] <= column <= inside[3]):
                continue
            data = stored_tile(str(z), row, column)
            if data is None:
                continue
            for j in range(max(row * TILE, y * TILE - border),
                           min((row + 1) * TILE, (y + 1) * TILE + border)):  # fmt: skip
                left = max(column * TILE, x * TILE - border)
                right = min((column + 1) * TILE, (x + 1) * TILE + border)
                found[
                    j - y * TILE + border, left - x * TILE + border : right - x * TILE + border
                ] = data[j - row * TILE, left - column * TILE : right - column * TILE]
    found[found == NODATA] = np.nan
    return found


def corners(z: int, x: int, y: int, border: int = 4) -> Floats:
    """Return the means of the pixels around the corners of a tile; NaN for fewer than two."""
    around = pixels(z, x, y, border + 1)
    parts = np.stack([around[:-1, :-1], around[:-1, 1:], around[1:, :-1], around[1:, 1:]])
    count = (~np.isnan(parts)).sum(axis=0)
    total = np.nansum(parts, axis=0)
    return np.where(count >= 2, total / np.maximum(count, 1), np.nan)


def bilinear(grid: Floats, x: Floats, y: Floats) -> Floats:
    column = np.minimum(np.floor(x).astype(int), grid.shape[1] - 2)
    row = np.minimum(np.floor(y).astype(int), grid.shape[0] - 2)
    f, g = x - column, y - row
    top = grid[row, column] * (1 - f) + grid[row, column + 1] * f
    below = grid[row + 1, column] * (1 - f) + grid[row + 1, column + 1] * f
    return top * (1 - g) + below * g


def crossings(lines: list[Line], axis: int, at: int) -> set[tuple[float, int]]:
    """Return heights and places of the points of lines on a side of the tile."""
    return {
        (height, point[1 - axis])
        for height, points in lines
        for point in points
        if point[axis] == at and 0 <= point[1 - axis] <= EXTENT
    }


@pytest.fixture(scope="module")
def finest(client: Client) -> dict[tuple[int, int, int], list[Line]]:
    """Return the tiles of the finest level."""
    places = [(12, x, y) for y in range(1472, 1475) for x in range(2122, 2125)]
    return {place: fetch(client, *place) for place in places}


@pytest.fixture(scope="module")
def tiles(
    client: Client, finest: dict[tuple[int, int, int], list[Line]]
) -> dict[tuple[int, int, int], list[Line]]:
    """Return the tiles of all zooms, those beyond the finest level only in part."""
    places = [(11, x, y) for y in (736, 737) for x in (1061, 1062)]
    places += [(13, x, y) for y in range(2944, 2946) for x in range(4244, 4248)]
    places += [(14, x, y) for y in range(5888, 5890) for x in range(8488, 8490)]
    return finest | {place: fetch(client, *place) for place in places}


@pytest.mark.thorough
def test_lines_continue_in_the_next_tile(tiles: dict[tuple[int, int, int], list[Line]]) -> None:
    points = 0
    for (z, x, y), lines in tiles.items():
        for other, axis in (((z, x + 1, y), 0), ((z, x, y + 1), 1)):
            if other in tiles:
                here, there = crossings(lines, axis, EXTENT), crossings(tiles[other], axis, 0)
                assert here == there
                points += len(here)
    assert points > 500


def test_points_are_at_their_height(finest: dict[tuple[int, int, int], list[Line]]) -> None:
    """No point is further than a unit from where the height is exact."""
    checked = 0
    for y in range(1472, 1475):
        for x in range(2122, 2125):
            if (y, x) == (1473, 2123):
                continue
            grid = corners(12, x, y)
            for height, line in finest[12, x, y]:
                points = np.array(line, float)
                at = points / 16 + 4
                values = np.array(
                    [
                        bilinear(grid, *np.clip(at + np.array([dx, dy]) / 16, 0, 264).T)
                        for dx in (-1, 0, 1)
                        for dy in (-1, 0, 1)
                    ]
                )
                # Beside holes the ground is not interpolated, but cut at a corner.
                known = ~np.isnan(values).any(axis=0)
                low, high = values[:, known].min(axis=0), values[:, known].max(axis=0)
                level = height + 2**-10
                assert ((low <= level + 1e-6) & (level - 1e-6 <= high)).all()
                checked += int(known.sum())
    assert checked > 10_000


@pytest.mark.thorough
def test_lines_of_different_heights_do_not_cross(
    tiles: dict[tuple[int, int, int], list[Line]],
) -> None:
    for place in ((12, 2124, 1473), (11, 1062, 737)):
        starts, ends, heights = [], [], []
        for height, line in tiles[place]:
            starts += line[:-1]
            ends += line[1:]
            heights += [height] * (len(line) - 1)
        a, b, height = np.array(starts, float), np.array(ends, float), np.array(heights)
        assert len(a) > 300
        left, right = np.minimum(a, b), np.maximum(a, b)
        # Pairs of segments whose boxes touch, a strip of the tile at a time.
        for strip in range(-64, EXTENT + 64, 16):
            near = np.flatnonzero((left[:, 0] < strip + 16) & (right[:, 0] >= strip))
            one, two = np.triu_indices(len(near), 1)
            one, two = near[one], near[two]
            touch = (left[one] <= right[two]).all(axis=1) & (left[two] <= right[one]).all(axis=1)
            touch &= height[one] != height[two]
            one, two = one[touch], two[touch]
            first = _side(a[one], b[one], a[two]) * _side(a[one], b[one], b[two])
            second = _side(a[two], b[two], a[one]) * _side(a[two], b[two], b[one])
            assert not ((first < 0) & (second < 0)).any(), place


def _side(start: Floats, end: Floats, point: Floats) -> Floats:
    line, there = end - start, point - start
    return line[..., 0] * there[..., 1] - line[..., 1] * there[..., 0]


def test_higher_ground_is_on_the_right(tiles: dict[tuple[int, int, int], list[Line]]) -> None:
    grid, right_sides = corners(12, 2122, 1472), []
    for _, line in tiles[12, 2122, 1472]:
        points = np.array(line, float)
        step = np.diff(points, axis=0)
        middle = (points[1:] + points[:-1]) / 2
        # With y downward, right of (1, 0) is (0, 1).
        right = np.stack([-step[:, 1], step[:, 0]], axis=1)
        right /= np.linalg.norm(right, axis=1)[:, np.newaxis]
        sides = []
        for sign in (1, -1):
            at = np.clip((middle + sign * 2 * right) / 16 + 4, 0, 264)
            sides.append(bilinear(grid, at[:, 0], at[:, 1]))
        known = ~np.isnan(sides[0] + sides[1])
        right_sides.append((sides[0] > sides[1])[known])
    assert len(np.concatenate(right_sides)) > 1000
    assert np.concatenate(right_sides).mean() > 0.98


def test_a_lake_has_one_shore(tiles: dict[tuple[int, int, int], list[Line]]) -> None:
    """Flat ground of exactly the height of a line is not full of lines."""
    middle = np.array([130 * 16, 90 * 16])
    inside = [
        point
        for height, line in tiles[12, 2122, 1472]
        if height == 1600
        for point in line
        if np.linalg.norm(np.array(point) - middle) < 27 * 16
    ]
    assert inside == []


def test_attributes_and_geometry_of_the_format(client: Client) -> None:
    response = client.get("/terrain/ridge/contours/12/2122/1472.pbf")
    assert response.content_type == "application/vnd.mapbox-vector-tile"
    decoded = mapbox_vector_tile.decode(response.data, default_options={"y_coord_down": True})
    features = decoded["contour"]["features"]
    heights = [feature["properties"]["ele"] for feature in features]
    assert heights == sorted(set(heights))
    for feature in features:
        height = feature["properties"]["ele"]
        assert isinstance(height, int)
        strong = height % 100 == 0
        assert height % 20 == 0
        assert feature["properties"] == {"ele": height, "level": int(strong), "index": strong}
        parts = feature["geometry"]["coordinates"]
        for part in [parts] if feature["geometry"]["type"] == "LineString" else parts:
            points = np.array(part)
            assert len(points) >= 2
            assert points.min() >= -64
            assert points.max() <= EXTENT + 64
            assert (np.diff(points, axis=0) != 0).any(axis=1).all()
    assert {100 * math.ceil(min(heights) / 100)} <= set(heights)


def test_compression_and_conditional_requests(client: Client) -> None:
    path = "/terrain/ridge/contours/12/2122/1472.pbf"
    plain = client.get(path)
    packed = client.get(path, headers={"Accept-Encoding": "gzip"})
    assert gzip.decompress(packed.data) == plain.data
    assert packed.headers["Content-Encoding"] == "gzip"
    assert packed.headers["Vary"] == plain.headers["Vary"] == "Accept-Encoding"
    assert packed.headers["ETag"] != plain.headers["ETag"]
    again = client.get(path, headers={"If-None-Match": plain.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")


def test_empty_tiles_and_tiles_outside(open_ridge: Callable[..., Client]) -> None:
    client = open_ridge({"contours": {"intervals": {"12": [5000]}}})
    for path in ("11/1061/736", "12/2122/1472"):
        response = client.get(
            f"/terrain/ridge/contours/{path}.pbf", headers={"Accept-Encoding": "gzip"}
        )
        assert (response.status_code, response.data) == (200, b"")
        assert "Content-Encoding" not in response.headers
    for path in ("12/2121/1472", "12/2122/1475", "13/4244/2944", "10/530/368", "11/0/0"):
        assert client.get(f"/terrain/ridge/contours/{path}.pbf").status_code == 404


def test_a_gap_has_no_lines(tiles: dict[tuple[int, int, int], list[Line]]) -> None:
    """In a tile that is not stored, heights come from the next coarser level."""
    assert {("12", 1473, 2123)} == GAPS
    lines = tiles[12, 2123, 1473]
    assert lines
    for height, line in lines:
        points = np.array(line, float)
        inner = points[((points > 64) & (points < EXTENT - 64)).all(axis=1)]
        columns, rows = 2123 * TILE + inner[:, 0] / 16 - 0.5, 1473 * TILE + inner[:, 1] / 16 - 0.5
        assert np.abs(ground(columns, rows) - height).max(initial=0) < 25


def test_tilejson_and_style(client: Client) -> None:
    document = read(client.get("/terrain/ridge/contours.json"))
    assert document["tiles"] == [f"{PUBLIC_URL}/terrain/ridge/contours/{{z}}/{{x}}/{{y}}.pbf"]
    assert (document["minzoom"], document["maxzoom"]) == (11, 14)
    (layer,) = document["vector_layers"]
    assert layer["id"] == "contour"
    assert layer["fields"] == {"ele": "Number", "level": "Number", "index": "Boolean"}
    style = read(client.get("/terrain/ridge/style.json"))
    assert style["sources"]["contours"] == {
        "type": "vector",
        "url": f"{PUBLIC_URL}/terrain/ridge/contours.json",
    }
    assert [item["source-layer"] for item in style["layers"] if item["id"] == "contours"] == [
        "contour"
    ]


def test_names_units_and_accuracy(open_ridge: Callable[..., Client]) -> None:
    contours = {"layer": "lines", "ele": "height", "index": "strong", "unit": "ft", "smooth": 1.5}
    client = open_ridge({"contours": contours}, vertical={"accuracy": 30})
    document = read(client.get("/terrain/ridge/contours.json"))
    assert document["vector_layers"][0]["id"] == "lines"
    assert document["unit"] == "ft"
    response = client.get("/terrain/ridge/contours/12/2122/1472.pbf")
    decoded = mapbox_vector_tile.decode(response.data, default_options={"y_coord_down": True})
    heights = [feature["properties"]["height"] for feature in decoded["lines"]["features"]]
    assert set(decoded["lines"]["features"][0]["properties"]) == {"height", "level", "strong"}
    # 100 ft would be closer than twice the accuracy: 60 m are 197 ft.
    assert set(np.diff(heights).tolist()) == {200}
    assert min(heights) > 1300 * 3.28


@pytest.mark.thorough
def test_smoothed_tiles_meet(open_ridge: Callable[..., Client]) -> None:
    client = open_ridge({"contours": {**TABLE, "smooth": 1.2}})
    for z, x, y in ((11, 1061, 736), (12, 2122, 1473)):
        one, two = fetch(client, z, x, y), fetch(client, z, x + 1, y)
        here = crossings(one, 0, EXTENT)
        assert here
        assert here == crossings(two, 0, 0)


def test_contours_of_a_layer_in_another_crs(terrain: Callable[..., Client]) -> None:
    client = terrain({"terrain": {"contours": {"intervals": {"9": [50]}}, "overzoom": 2}})
    document = read(client.get("/terrain/alps/contours.json"))
    west, south, east, north = document["bounds"]
    z = document["maxzoom"]
    x = int(((west + east) / 2 + 180) / 360 * 2**z)
    y = int((1 - math.asinh(math.tan(math.radians((south + north) / 2))) / math.pi) / 2 * 2**z)
    found = []
    for row in (y, y + 1):
        response = client.get(f"/terrain/alps/contours/{z}/{x}/{row}.pbf")
        assert response.status_code == 200
        decoded = mapbox_vector_tile.decode(response.data, default_options={"y_coord_down": True})
        found.append(
            {
                (feature["properties"]["ele"], point[0])
                for feature in decoded.get("contour", {}).get("features", [])
                for part in (
                    [feature["geometry"]["coordinates"]]
                    if feature["geometry"]["type"] == "LineString"
                    else feature["geometry"]["coordinates"]
                )
                for point in part
                if point[1] == (EXTENT if row == y else 0) and 0 <= point[0] <= EXTENT
            }
        )
    assert found[0]
    assert found[0] == found[1]


def test_smoothing() -> None:
    dice = np.random.default_rng(1)
    grid = dice.normal(size=(40, 50))
    grid[20, 20:25] = np.nan
    found = smoothed(grid, 1.0, 3)
    assert found.shape == (34, 44)
    assert np.isnan(found).sum() == 5
    assert np.nanstd(found) < 0.5 * np.nanstd(grid)
    part = smoothed(grid[5:30, 7:40], 1.0, 3)
    assert np.array_equal(part, found[5:24, 7:34], equal_nan=True)
    assert np.allclose(smoothed(np.full((20, 20), 7.0), 1.5, 5), 7.0)


def lines_of(*lines: list[tuple[int, int]]) -> Lines:
    counts = [len(line) for line in lines]
    return Lines(
        np.array([point for line in lines for point in line], np.int64).reshape(-1, 2),
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        np.arange(len(lines)),
    )


def parts(lines: Lines) -> list[list[tuple[int, int]]]:
    return [
        [(int(x), int(y)) for x, y in part] for height in range(9) for part in lines.parts(height)
    ]


def plain_simplified(line: list[tuple[int, int]], tolerance: float) -> list[tuple[int, int]]:
    """Simplify one line, point by point (Douglas and Peucker)."""
    if len(line) < 3:
        return line
    start, end = np.array(line[0], float), np.array(line[-1], float)
    along = end - start
    length = along @ along
    best, at = -1.0, 0
    for number, point in enumerate(line[1:-1], 1):
        there = np.array(point, float) - start
        share = min(max(there @ along / length, 0.0), 1.0) if length else 0.0
        away = there - share * along
        if away @ away > best:
            best, at = away @ away, number
    if best <= tolerance**2:
        return [line[0], line[-1]]
    return plain_simplified(line[: at + 1], tolerance)[:-1] + plain_simplified(line[at:], tolerance)


@pytest.mark.thorough
def test_simplification_is_that_of_single_lines() -> None:
    dice = np.random.default_rng(4)
    for tolerance in (0.5, 3.0, 20.0):
        given = []
        for _ in range(8):
            steps = dice.integers(-9, 10, (200, 2))
            walk = 1000 + np.cumsum(steps, axis=0)
            walk = walk[np.concatenate([[True], (steps[1:] != 0).any(axis=1)])]
            given.append([(int(x), int(y)) for x, y in walk])
        found = parts(simplified(lines_of(*given), tolerance))
        for line, result in zip(given, found, strict=True):
            wanted = plain_simplified(line, tolerance)
            # Of points at the same distance, more than one may stay.
            assert set(wanted) <= set(line)
            assert abs(len(result) - len(wanted)) <= max(2, len(wanted) // 20)
            assert result[0] == line[0]
            assert result[-1] == line[-1]


def test_points_on_the_sides_stay() -> None:
    line = [(-20, 5), (0, 5), (10, 5), (4096, 5), (4100, 5)]
    assert parts(simplified(lines_of(line), 4.0)) == [[(-20, 5), (0, 5), (4096, 5), (4100, 5)]]


def test_rings_and_repeats() -> None:
    small = [(1, 1), (9, 1), (9, 9), (1, 1)]
    large = [(1, 1), (30, 1), (9, 9), (1, 1)]
    is_open = [(1, 1), (2, 2)]
    lines = lines_of(small, large, is_open)
    assert parts(without_small_rings(lines, 16)) == [large, is_open]
    assert parts(without_repeats(lines_of([(1, 1), (1, 1)], [(1, 1), (2, 2), (2, 2)]))) == [
        [(1, 1), (2, 2)]
    ]
    empty = lines_of()
    for function in (without_repeats, lambda found: without_small_rings(found, 16)):
        assert parts(function(empty)) == []
    assert parts(simplified(empty, 1.0)) == []


def test_holes_have_no_lines() -> None:
    grid = np.full((9, 9), np.nan)
    assert parts(traced(grid, [1.0], 0, 8)) == []
    grid[:, :4] = np.arange(9)[:, np.newaxis]
    (line,) = parts(traced(grid, [3.5], 0, 8))
    assert max(x for x, _ in line) <= 3 * 512
    assert {y for _, y in line} <= {int(3.5 * 512), int(3.5 * 512) + 1}


def test_intervals_of_the_table() -> None:
    default = Intervals()
    assert default.first == 9
    assert default.heights(8, 0, 9000) == []
    for zoom, steps in ((9, 500), (10, 200), (11, 200), (12, 100), (15, 10), (16, 5), (22, 5)):
        heights = [item.value for item in default.heights(zoom, 101, 900)]
        assert heights == list(range(math.ceil(101 / steps) * steps, 901, steps))
    index = {item.value: (item.level, item.index) for item in default.heights(13, -250, 250)}
    assert index[200] == index[-200] == index[0] == (1, True)
    assert index[-250] == index[50] == (0, False)


def test_intervals_that_do_not_fit() -> None:
    assert len(Intervals().heights(16, 0, 1000)) == 201
    assert [item.value for item in Intervals().heights(16, 0, 1001)][:3] == [0, 10, 20]
    assert [item.value for item in Intervals(accuracy=30).heights(16, 0, 250)] == [0, 100, 200]
    assert [item.value for item in Intervals(DEFAULT, accuracy=900).heights(16, 1, 2500)] == [2000]
    half = Intervals([(0, (0.5, 2.5, 5))]).heights(0, 0, 5)
    assert [(item.value, item.level, item.index) for item in half if item.level] == [
        (0, 2, True),
        (2.5, 1, False),
        (5, 2, True),
    ]
    assert half[1].value == 0.5
    assert isinstance(half[2].value, int)


def test_rough_ground_has_fewer_lines() -> None:
    """Noise would have a line through almost every cell at every height."""
    noise = np.random.default_rng(2).uniform(0, 900, (265, 265))
    climb = float(sum(np.abs(np.diff(noise, axis=axis)).sum() for axis in (0, 1)))
    heights = Intervals().heights(16, 0, 900, climb)
    assert [item.value for item in heights] == [0, 500]
    lines = traced(noise, [item.value for item in heights], 4, 256)
    assert 10_000 < len(lines.points) <= 100_000
    assert len(Intervals().heights(16, 0, 900)) == 181


HOSTILE = (
    "contours/12/2122/1472",
    "contours/12/2122/1472.mvt",
    "contours/12/2122/-1.pbf",
    "contours/-1/0/0.pbf",
    "contours/999999999999999999999/0/0.pbf",
    "contours/25/0/0.pbf",
    "contours/12/x/1472.pbf",
    "contours/12/2122/.pbf",
    "contours",
    "contours/",
    "contours.json/x",
    "contours/12/2122/99999999999999999999999999.pbf",
)


@pytest.mark.parametrize("path", HOSTILE)
def test_invalid_paths(client: Client, path: str) -> None:
    response = client.get(f"/terrain/ridge/{path}")
    assert response.status_code in (400, 404)
    assert read(response, response.status_code)["error"]["message"]
