"""Quantized mesh: the row of its acceptance checks, with a decoder of our own (elevation.md 5)."""

from __future__ import annotations

import gzip
import math
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyproj
import pytest
from tests.elevation.conftest import OpenClient, read
from tests.elevation.quantized_mesh import (
    GEOCENTRIC,
    Floats,
    Tile,
    box_of,
    check_topology,
    decode,
    edge_of,
    surface,
)
from tests.elevation.test_terrain_hostile import Replaced
from tests.elevation.world import ALPS, WORLD, plain_sample
from werkzeug.test import Client

from mastaba.errors import ConfigurationError
from mastaba_elevation.terrain.mesh.globe import SurfacePoints, horizon_point, oct_encoded
from mastaba_elevation.terrain.mesh.rtin import errors, hierarchy, triangulate

SIZE = 65
DEEPEST = 15
RIDGE_DEEPEST = 14
ACCEPT = (
    "application/vnd.quantized-mesh;extensions=octvertexnormals-metadata,"
    "application/octet-stream;q=0.9,*/*;q=0.01"
)
HIGH = {"id": "high", "layers": ["alps"], "nodata_height": 1900}
STACK = {"id": "stack", "layers": ["alps", "merc", "world"], "nodata_height": -20}
LAMBERT = pyproj.Transformer.from_crs("OGC:CRS84", "EPSG:2154", always_xy=True)


@pytest.fixture(scope="module")
def client(terrain: Callable[..., Client]) -> Client:
    return terrain({"terrain": {"datasets": [HIGH, STACK]}})


def fetch(client: Client, dataset: str, z: int, x: int, y: int, **query: Any) -> Tile:
    response = client.get(
        f"/terrain/{dataset}/mesh/{z}/{x}/{y}.terrain",
        headers={"Accept": ACCEPT},
        query_string=query,
    )
    assert response.status_code == 200, response.data[:300]
    return decode(response.data)


def available(client: Client, dataset: str, z: int) -> tuple[int, int, int, int]:
    (found,) = read(client.get(f"/terrain/{dataset}/mesh/layer.json"))["available"][z]
    return found["startX"], found["endX"], found["startY"], found["endY"]


def error(z: int, factor: float = 0.25) -> float:
    return max(0.05, factor * 77067.34 / 2**z)


def samples(dataset: Any, z: int, x: int, y: int, size: int = SIZE, border: int = 0) -> Floats:
    """Return the samples of a tile from an independent sampler; NaN without a height."""
    return _samples(dataset, z, x, y, size, border).copy()


@cache
def _samples(dataset: Any, z: int, x: int, y: int, size: int, border: int) -> Floats:
    west, south, east, north = box_of(z, x, y)
    steps = np.arange(-border, size + border) / (size - 1)
    longitude, latitude = np.meshgrid(west + (east - west) * steps, south + (north - south) * steps)
    if dataset is ALPS:
        longitude, latitude = LAMBERT.transform(longitude, latitude)
    found = [
        plain_sample(dataset, *place)[0]
        for place in zip(longitude.ravel().tolist(), latitude.ravel().tolist(), strict=True)
    ]
    return np.array([np.nan if item is None else item for item in found]).reshape(longitude.shape)


@pytest.fixture(scope="module")
def ridge(open_ridge: Callable[..., Client]) -> Client:
    return open_ridge({"datasets": [{"id": "filled", "layers": ["ridge"], "nodata_height": 1500}]})


@pytest.fixture(scope="module")
def patch(ridge: Client) -> dict[tuple[int, int], Tile]:
    """Return 16 × 17 tiles of the finest zoom of a layer, with holes among them."""
    west, _, south, _ = available(ridge, "filled", RIDGE_DEEPEST)
    return {
        (column, row): fetch(ridge, "filled", RIDGE_DEEPEST, column, row)
        for column in range(west, west + 16)
        for row in range(south, south + 17)
    }


def same_edges(one: dict[int, tuple[float, bytes]], two: dict[int, tuple[float, bytes]]) -> bool:
    """Return whether two tiles have the same edge, heights within 1e-9 m."""
    heights = np.array([(one[place][0], two[place][0]) for place in one if place in two])
    return (
        one.keys() == two.keys()
        and bool(np.abs(heights[:, 0] - heights[:, 1]).max() <= 1e-9)
        and all(one[place][1] == two[place][1] for place in one)
    )


@pytest.mark.thorough
def test_neighbours_have_the_same_edges(patch: dict[tuple[int, int], Tile]) -> None:
    pairs = 0
    for (x, y), tile in patch.items():
        for other, (ours, theirs) in (
            ((x + 1, y), ("east", "west")),
            ((x, y + 1), ("north", "south")),
        ):
            if other not in patch:
                continue
            assert same_edges(edge_of(tile, ours), edge_of(patch[other], theirs))
            pairs += 1
    assert pairs == 511
    assert len({tile.step for tile in patch.values()}) > 1
    assert any(1500.0 in tile.heights for tile in patch.values())


@pytest.mark.thorough
def test_tiles_have_no_gaps_and_no_overlaps(patch: dict[tuple[int, int], Tile]) -> None:
    for tile in list(patch.values())[::20]:
        check_topology(tile, SIZE)


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("dataset", ["high", "world", "stack"])
def test_the_antimeridian_and_all_zooms(client: Client, dataset: str) -> None:
    """Every zoom has tiles without faults, and the world ends nowhere."""
    last = read(client.get(f"/terrain/{dataset}/mesh/layer.json"))["maxzoom"]
    for z in range(last + 1):
        west, east, south, north = available(client, dataset, z)
        for y in {south, (south + north) // 2, north}:
            one = fetch(client, dataset, z, west, y)
            check_topology(one, len(one.edges["west"]))
            if east - west + 1 == 2 << z:
                two = fetch(client, dataset, z, east, y)
                assert same_edges(edge_of(two, "east"), edge_of(one, "west"))


@pytest.mark.sampled(one_in=4)
@pytest.mark.parametrize("size", [33, 65, 129])
@pytest.mark.parametrize("factor", [0.05, 0.25, 1.0])
def test_samples_are_near_their_triangles(
    terrain: Callable[..., Client], size: int, factor: float
) -> None:
    settings = {"datasets": [HIGH], "mesh": {"size": size, "error_factor": factor}}
    client = terrain({"terrain": settings})
    z = read(client.get("/terrain/high/mesh/layer.json"))["maxzoom"]
    assert z == DEEPEST + {33: 1, 65: 0, 129: -1}[size]
    west, east, south, north = available(client, "high", z)
    x, y = (west + east) // 2, (south + north) // 2
    tile = fetch(client, "high", z, x, y)
    check_topology(tile, size)
    wanted = samples(ALPS, z, x, y, size)
    wanted[np.isnan(wanted)] = 1900
    assert np.abs(surface(tile, size) - wanted).max() <= error(z, factor)
    assert len(tile.triangles) < 2 * (size - 1) ** 2 or factor < 0.25


def test_relief_beyond_the_steps_of_edges(client: Client) -> None:
    """A hole at 0 m beside ground at 2000 m has larger steps, and still small errors."""
    west, east, south, north = available(client, "alps", DEEPEST)
    tiles = [
        (x, fetch(client, "alps", DEEPEST, x, (south + north) // 2)) for x in range(west, east + 1)
    ]
    x, tile = max(tiles, key=lambda item: item[1].step)
    assert tile.step > 2**-4
    wanted = samples(ALPS, DEEPEST, x, (south + north) // 2)
    wanted[np.isnan(wanted)] = 0
    assert np.abs(surface(tile, SIZE) - wanted).max() <= error(DEEPEST)


def test_normals(client: Client) -> None:
    west, _, south, _ = available(client, "high", DEEPEST)
    x, y = west + 1, south + 1
    tile = fetch(client, "high", DEEPEST, x, y)
    wide = samples(ALPS, DEEPEST, x, y, border=1)
    wide[np.isnan(wide)] = 1900
    box = box_of(DEEPEST, x, y)
    steps = np.arange(-1, SIZE + 1) / (SIZE - 1)
    longitude, latitude = np.meshgrid(
        box[0] + (box[2] - box[0]) * steps, box[1] + (box[3] - box[1]) * steps
    )
    points = np.stack(GEOCENTRIC.transform(longitude, latitude, wide), axis=2)
    normals = np.cross(points[1:-1, 2:] - points[1:-1, :-2], points[2:, 1:-1] - points[:-2, 1:-1])
    normals /= np.linalg.norm(normals, axis=2)[:, :, np.newaxis]
    column, row = tile.samples(SIZE).T
    cosine = (tile.normals * normals[row, column]).sum(axis=1)
    assert np.degrees(np.arccos(np.clip(cosine, -1, 1))).max() < 1.0


def test_octahedral_normals_of_the_format() -> None:
    vectors = np.array([[0, 0, 1], [1, 0, 0], [0, 0, -1]], float)
    assert list(oct_encoded(vectors)) == [128, 128, 255, 128, 255, 255]


def test_the_sphere_and_the_horizon(client: Client) -> None:
    dice = np.random.default_rng(5)
    axes = np.array([6378137.0, 6378137.0, 6356752.314245179])
    hidden = 0
    for z in (1, 4, 8, 12, DEEPEST):
        west, _, south, _ = available(client, "high", z)
        tile = fetch(client, "high", z, west, south)
        points = tile.positions(box_of(z, west, south))
        distance = np.linalg.norm(points - tile.sphere, axis=1).max()
        assert distance <= tile.radius * (1 + 1e-9) + 1e-3
        assert tile.radius <= distance * 1.01
        assert np.array_equal(tile.centre, tile.sphere)
        assert abs(np.linalg.norm(tile.sphere)) < 7e6
        # If the horizon hides the point, it hides all vertices.
        cameras = dice.normal(size=(300, 3))
        cameras *= (1 + dice.uniform(0.0001, 1, (300, 1))) / np.linalg.norm(cameras, axis=1)[
            :, None
        ]
        for camera in cameras:
            if _is_hidden(camera, tile.horizon[np.newaxis])[0]:
                hidden += 1
                assert _is_hidden(camera, points / axes).all()
    assert hidden > 500


def _is_hidden(camera: Floats, points: Floats) -> Any:
    """Return which points the unit sphere hides from a camera outside of it."""
    # The straight line from the camera passes the sphere before the point.
    line = points - camera
    length = np.linalg.norm(line, axis=1)
    line = line / length[:, np.newaxis]
    nearest = -(line @ camera)
    off = camera @ camera - nearest**2
    reach = nearest - np.sqrt(np.maximum(0.0, 1.0 - off))
    return (off < 1.0) & (nearest > 0) & (reach < length - 1e-9)


def test_a_horizon_point_is_not_too_far() -> None:
    """The point of a small tile on the ellipsoid is just above its middle."""
    longitude, latitude = np.meshgrid(np.linspace(6, 6.01, 9), np.linspace(45, 45.01, 9))
    points = SurfacePoints(longitude.ravel(), latitude.ravel()).positions(np.zeros(81))
    found = horizon_point(points, points.mean(axis=0))
    assert 1.0 < np.linalg.norm(found) < 1.0 + 1e-6


def test_layer_json(client: Client) -> None:
    document = read(client.get("/terrain/stack/mesh/layer.json"))
    assert document["tilejson"] == "2.1.0"
    assert document["format"] == "quantized-mesh-1.0"
    assert document["scheme"] == "tms"
    assert document["projection"] == "EPSG:4326"
    assert document["extensions"] == ["octvertexnormals"]
    assert document["tiles"] == ["{z}/{x}/{y}.terrain?v={version}"]
    assert document["minzoom"] == 0
    assert document["maxzoom"] == DEEPEST == len(document["available"]) - 1
    assert document["nodataHeight"] == -20
    assert document["bounds"] == [-180, -90, 180, 90]
    assert "as stored" in document["description"]
    assert document["available"][0] == [{"startX": 0, "startY": 0, "endX": 1, "endY": 0}]


def test_available_is_what_exists(client: Client) -> None:
    available_tiles = read(client.get("/terrain/high/mesh/layer.json"))["available"]
    west, south, east, north = read(client.get("/terrain/high/mesh/layer.json"))["bounds"]
    for z, (limits,) in enumerate(available_tiles):
        side = 180 / 2**z
        if z:
            parent = available_tiles[z - 1][0]
            for axis in "XY":
                assert parent[f"start{axis}"] <= limits[f"start{axis}"] // 2
                assert limits[f"end{axis}"] // 2 <= parent[f"end{axis}"]
            assert limits["startX"] == math.floor((west + 180) / side)
            assert limits["endX"] == math.ceil((east + 180) / side) - 1
            assert limits["startY"] == math.floor((south + 90) / side)
            assert limits["endY"] == math.ceil((north + 90) / side) - 1
        for x, y, exists in (
            (limits["startX"], limits["startY"], True),
            (limits["endX"], limits["endY"], True),
            (limits["startX"] - 1, limits["startY"], False),
            (limits["endX"], limits["endY"] + 1, False),
        ):
            response = client.get(f"/terrain/high/mesh/{z}/{x}/{y}.terrain")
            assert response.status_code == (200 if exists else 404)


def test_a_tile_without_data_is_flat_and_small(client: Client) -> None:
    response = client.get("/terrain/alps/mesh/0/0/0.terrain", headers={"Accept-Encoding": "gzip"})
    tile = decode(gzip.decompress(response.data))
    check_topology(tile, 17)
    assert set(tile.heights.tolist()) == {0.0}
    assert len(response.data) <= 1536
    # Its vertices are on the ground, not on straight lines through the Earth.
    assert len(tile.u) == 17 * 17


def test_extensions_are_sent_on_request(client: Client) -> None:
    path = "/terrain/high/mesh/0/1/0.terrain"
    for headers, query, expected in (
        ({}, {}, {}),
        ({"Accept": "*/*"}, {}, {}),
        ({"Accept": "application/vnd.quantized-mesh;extensions=watermask-metadata"}, {}, {}),
        ({"Accept": ACCEPT}, {}, {1}),
        ({"Accept": "application/vnd.quantized-mesh; extensions=octvertexnormals"}, {}, {1}),
        ({}, {"extensions": "octvertexnormals"}, {1}),
        ({}, {"extensions": "watermask-octvertexnormals"}, {1}),
        ({"Accept": ACCEPT}, {"extensions": ""}, {}),
        ({}, {"extensions": "vertexnormals"}, {}),
    ):
        response = client.get(path, headers=headers, query_string=query)
        assert response.status_code == 200
        assert response.content_type == "application/vnd.quantized-mesh"
        assert response.headers["Vary"] == "Accept, Accept-Encoding"
        tile = decode(response.data)
        assert set(tile.extensions) == set(expected), (headers, query)
        for data in tile.extensions.values():
            assert len(data) == 2 * len(tile.u)


def test_compression_and_conditional_requests(client: Client) -> None:
    path = "/terrain/high/mesh/0/1/0.terrain"
    plain = client.get(path)
    packed = client.get(path, headers={"Accept-Encoding": "br, gzip"})
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.data) == plain.data
    assert packed.headers["ETag"] != plain.headers["ETag"]
    again = client.get(path, headers={"If-None-Match": plain.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    assert again.headers["ETag"] == plain.headers["ETag"]
    assert client.head(path).status_code == 200


def test_holes_at_an_edge_take_the_nearest_height(client: Client) -> None:
    west, _, south, north = available(client, "alps", DEEPEST)
    y = (south + north) // 2
    one = fetch(client, "alps", DEEPEST, west, y, fill="edge")
    two = fetch(client, "alps", DEEPEST, west + 1, y, fill="edge")
    check_topology(one, SIZE)
    assert fetch(client, "alps", DEEPEST, west, y).lowest == 0
    assert one.lowest > 1000
    assert same_edges(edge_of(one, "east"), edge_of(two, "west"))
    document = read(client.get("/terrain/alps/mesh/layer.json?fill=edge"))
    assert document["tiles"] == ["{z}/{x}/{y}.terrain?v={version}&fill=edge"]
    assert document["version"] != read(client.get("/terrain/alps/mesh/layer.json"))["version"]


def write_grid(path: Path, value: Callable[[Floats, Floats], Floats]) -> None:
    """Write a grid of PROJ in the format GTX: 4° to 12° east, 42° to 50° north."""
    latitude, longitude = np.mgrid[42:50:33j, 4:12:33j]
    header = struct.pack(">4d2i", 42.0, 4.0, 0.25, 0.25, 33, 33)
    path.write_bytes(header + value(longitude, latitude).astype(">f4").tobytes())


def test_ellipsoidal_heights(
    terrain: Callable[..., Client], tmp_path: Path, client: Client
) -> None:
    write_grid(tmp_path / "fifty.gtx", lambda x, y: np.full(x.shape, 50.0))
    write_grid(tmp_path / "plane.gtx", lambda x, y: 40 + 2 * (x - 6) + 3 * (y - 45))
    west, _, south, _ = available(client, "high", DEEPEST)
    place = DEEPEST, west, south + 1
    before = fetch(client, "high", *place)
    for given in (50, "fifty.gtx"):
        settings = {"datasets": [HIGH], "mesh": {"grids": str(tmp_path)}}
        shifted = terrain({"terrain": settings}, alps={"vertical": {"to_ellipsoid": given}})
        after = fetch(shifted, "high", *place)
        assert np.array_equal(after.u, before.u)
        assert np.abs(after.heights - before.heights - 50).max() <= 0.01
        assert "as stored" not in read(shifted.get("/terrain/high/mesh/layer.json"))["description"]
    tilted = terrain({"terrain": settings}, alps={"vertical": {"to_ellipsoid": "plane.gtx"}})
    tile = fetch(tilted, "high", *place)
    box = box_of(*place)
    wanted = samples(ALPS, *place)
    wanted[np.isnan(wanted)] = 1900
    column, row = tile.samples(SIZE).T
    longitude = box[0] + (box[2] - box[0]) * column / (SIZE - 1)
    latitude = box[1] + (box[3] - box[1]) * row / (SIZE - 1)
    shift = 40 + 2 * (longitude - 6) + 3 * (latitude - 45)
    is_edge = np.isin(column, (0, SIZE - 1)) | np.isin(row, (0, SIZE - 1))
    wrong = np.abs(tile.heights - wanted[row, column] - shift)
    assert wrong[is_edge].max() <= 2**-4 / 2 + 0.01
    assert wrong[~is_edge].max() <= tile.step / 2 + 0.01
    neighbour = fetch(tilted, "high", DEEPEST, west + 1, south + 1)
    assert same_edges(edge_of(tile, "east"), edge_of(neighbour, "west"))
    # Far outside the grid nothing is added.
    assert set(fetch(tilted, "high", 0, 0, 0).heights.tolist()) == {1900.0}


@pytest.mark.parametrize("name", ["no_such_grid.tif", "../fifty.gtx", "a b", "+proj=x"])
def test_a_missing_grid_is_reported_by_name(terrain: Callable[..., Client], name: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        terrain({}, alps={"vertical": {"to_ellipsoid": name}})
    text = str(caught.value)
    assert name in text
    assert "layer alps: $.vertical.to_ellipsoid" in text
    assert "\n" not in text


def test_layers_of_a_stack_have_their_own_zero(terrain: Callable[..., Client]) -> None:
    """Heights of each layer, and holes, are shifted by what belongs to them."""
    stack = {"id": "two", "layers": ["merc", "world"], "nodata_height": 7}
    plain = terrain({"terrain": {"datasets": [stack]}})
    shifted = terrain(
        {"terrain": {"datasets": [stack]}},
        merc={"vertical": {"to_ellipsoid": 30}},
        world={"vertical": {"to_ellipsoid": -5}},
    )
    found = set()
    for z, x, y in ((1, 1, 1), (1, 0, 0), (2, 3, 2)):
        one, two = fetch(plain, "two", z, x, y), fetch(shifted, "two", z, x, y)
        column, row = one.samples(SIZE).T
        column_two, row_two = two.samples(SIZE).T
        heights = dict(zip(zip(column, row, strict=True), one.heights, strict=True))
        for place, height in zip(zip(column_two, row_two, strict=True), two.heights, strict=True):
            if place in heights:
                found.add(round((height - heights[place]) / 5) * 5)
    assert found == {30, -5}


def test_triangles_of_a_hierarchy() -> None:
    """A flat grid needs two triangles besides those of its edges; noise needs all."""
    for size in (3, 9, 65):
        grid = hierarchy(size)
        flat = errors(grid, np.zeros(size * size), (0.0, 0.0))
        inner = flat.copy()
        inner[np.isinf(inner)] = 0.0
        assert len(triangulate(grid, inner, 0.0)) == 2
        noise = np.random.default_rng(1).normal(size=size * size)
        assert len(triangulate(grid, errors(grid, noise, (0.0, 0.0)), 0.0)) == 2 * (size - 1) ** 2
    with pytest.raises(ValueError, match="64 samples"):
        hierarchy(64)


HOSTILE = (
    "0/0/0",
    "0/0/0.png",
    "0/0/.terrain",
    "0/0/0.terrain.terrain",
    "0/0/-1.terrain",
    "0/-0/0.terrain",
    "-1/0/0.terrain",
    "99999999999999999999/0/0.terrain",
    "22/9999999999999999999999999999/0.terrain",
    "0/0/1e3.terrain",
    "0/0/٣.terrain",
    "0/0/0/0.terrain",
    "0/0",
    "",
    "layer.json/x",
    "../layer.json",
    "%00/0/0.terrain",
    "layer.json?fill=x",
    "0/0/0.terrain?fill=%00",
)


@pytest.mark.parametrize("path", HOSTILE)
def test_invalid_paths(client: Client, path: str) -> None:
    response = client.get(f"/terrain/high/mesh/{path}")
    assert response.status_code in (400, 404) or path == "0/-0/0.terrain"
    assert response.content_type.startswith("application/json") or response.status_code == 200


@pytest.mark.parametrize(
    "accept",
    [
        "application/vnd.quantized-mesh;extensions=" + "octvertexnormals-" * 100_000,
        "application/vnd.quantized-mesh" + " " * 100_000 + ";extensions=a",
        "application/vnd.quantized-mesh;extensions=\xff\x00",
        ";;;,,,q=NaN",
    ],
)
def test_hostile_headers(client: Client, accept: str) -> None:
    response = client.get(
        "/terrain/high/mesh/0/0/0.terrain", headers={"Accept": accept.replace("\x00", "")}
    )
    assert response.status_code == 200
    assert set(decode(response.data).extensions) <= {1}


def test_the_world_is_sampled(client: Client) -> None:
    """Tiles of a geographic pyramid contain its heights, also through missing stored tiles."""
    last = read(client.get("/terrain/world/mesh/layer.json"))["maxzoom"]
    assert last == 1
    tile = fetch(client, "world", last, 2, 1)
    wanted = samples(WORLD, last, 2, 1)
    wanted[np.isnan(wanted)] = 0
    assert np.abs(surface(tile, SIZE) - wanted).max() <= error(last)


@pytest.mark.thorough
def test_slabs_replaced_during_requests(tmp_path: Path, open_client: OpenClient) -> None:
    """Every tile is of one generation of the slab, and an ETag is always of the same one."""
    replaced = Replaced(tmp_path, open_client)
    generations: dict[str, set[int]] = {}
    with replaced.again_and_again(forgotten=2) as replace:  # some tiles stay in memory
        for _ in range(60):
            replace()
            response = replaced.client.get("/terrain/level/mesh/5/32/23.terrain")
            assert response.status_code == 200, response.data[:200]
            tile = decode(response.data)
            hundreds = {round(height / 100) for height in tile.heights if height > 50}
            assert len(hundreds) == 1, "tiles of two generations"
            generations.setdefault(response.headers["ETag"], set()).update(hundreds)
    assert {len(heights) for heights in generations.values()} == {1}
    assert len(generations) == 2
