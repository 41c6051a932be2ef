"""Profiles, statistics and contours where only coarser levels have tiles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mapbox_vector_tile  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt
import pytest
from pyproj import Geod, Transformer
from shapely import Polygon
from werkzeug.test import Client

from mastaba_elevation.queries import footprints, polygons
from mastaba_elevation.queries.queries import Limits
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

OUTSIDE = [[-80, 30], [-79.9, 30], [-79.9, 30.1], [-80, 30.1], [-80, 30]]
CELLS_OF_2 = 40075016.68557849 / 256 / 2**2
CELL = CELLS_OF_2 * np.cos(np.radians(30))
"""Metres, of level 2 at the latitude of the area."""
CRS84 = Transformer.from_crs("OGC:CRS84", "EPSG:3857", always_xy=True)


def tile(level: str, row: int, col: int) -> npt.NDArray[np.float32]:
    return np.full((256, 256, 1), 100 * int(level), np.float32)


def slope(level: str, row: int, col: int) -> npt.NDArray[np.float32]:
    """Return heights that rise by 100 m in each row of level 9, and nowhere else."""
    heights = np.full((256, 256, 1), 50, np.float32)
    if level == "9":
        heights += 100 * np.arange(256, dtype=np.float32)[:, np.newaxis, np.newaxis]
    return heights


@pytest.fixture
def client(tmp_path: Path, open_client: Callable[[Path], Client]) -> Client:
    """Return a client of layers whose finest level is some levels finer in one place."""
    layers = {
        name: layer_document(
            write_pyramid(
                tmp_path,
                name,
                tile_matrix_set=web_mercator(),
                format="TIFF_ZIP_FLOAT32",
                channels=1,
                levels=levels,
                tile=heights,
            )
        )
        for name, heights, levels in (
            ("P", tile, [LevelPlan("2", 0, 3, 0, 3), LevelPlan("8", 100, 101, 130, 131)]),
            (
                "SLOPE",
                slope,
                [LevelPlan("9", 200, 201, 260, 261), LevelPlan("12", 1600, 1601, 2080, 2081)],
            ),
        )
    }
    services = ["elevation", "terrain"]
    return open_client(write_installation(tmp_path, layers=layers, services=services))


def ask(client: Client, route: str, geometry: dict[str, Any]) -> dict[str, Any]:
    body = {"dataset": "P", "geometry": geometry, "resolution": CELL}
    response = client.post(f"/elevation/{route}", json=body)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json
    return found


def test_statistics_come_from_the_level_that_has_tiles(client: Client) -> None:
    found = ask(client, "statistics", {"type": "Polygon", "coordinates": [OUTSIDE]})["statistics"]
    assert (found["level"], found["mean"]) == ("2", pytest.approx(200))


def box(west: float, south: float, east: float, north: float) -> list[list[float]]:
    return [[west, south], [east, south], [east, north], [west, north], [west, south]]


ACROSS = box(2, 35, 5, 36)
"""Level 8 has tiles from 2.81 to 5.62 degrees east, and from 34.3 to 36.6 degrees north."""
WITHIN = box(3, 35, 5, 36)


@pytest.mark.parametrize(("ring", "level"), [(ACROSS, "2"), (WITHIN, "8")])
def test_statistics_come_from_the_finest_level_that_covers_the_area(
    client: Client, ring: list[list[float]], level: str
) -> None:
    body = {"dataset": "P", "geometry": {"type": "Polygon", "coordinates": [ring]}}
    found = client.post("/elevation/statistics", json=body).json["statistics"]
    assert (found["level"], found["mean"]) == (level, pytest.approx(100 * int(level)))
    assert found["valid"] == pytest.approx(1)
    ground = Geod(ellps="WGS84").geometry_area_perimeter(Polygon(ring))[0]
    assert found["area"] == pytest.approx(ground, rel=0.01)
    fine = client.post("/elevation/statistics", json={**body, "resolution": 500}).json["statistics"]
    assert (fine["level"], fine["count"]) == (level, found["count"])


BOTTOM, TOP = np.degrees(np.arctan(np.sinh(np.pi * np.array([26, 28]) / 128))).tolist()
"""Latitudes of the limits of level 8, which are from 2.8125 to 5.625 degrees east."""


def level_of(client: Client, ring: list[list[float]], crs: int, **asked: Any) -> str:
    """Return the level of statistics in a CRS, of a ring in degrees."""
    if crs == 3857:
        ring = [list(CRS84.transform(x, y)) for x, y in ring]
    geometry = {"type": "Polygon", "coordinates": [ring]}
    body = {"dataset": "P", "geometry": geometry, "crs": f"EPSG:{crs}", **asked}
    response = client.post("/elevation/statistics", json=body)
    assert response.status_code == 200, response.text
    return str(response.json["statistics"]["level"])


@pytest.mark.parametrize("crs", [4326, 3857])
@pytest.mark.parametrize("digits", [15, 6])
@pytest.mark.parametrize("beyond", [0, 1e-9, -1e-9])
@pytest.mark.parametrize("south", [35, BOTTOM])
def test_rounding_errors_at_the_limits_do_not_change_the_level(
    client: Client, crs: int, digits: int, beyond: float, south: float
) -> None:
    sides = (2.8125 - beyond, south - beyond, 5.625 + beyond, TOP + beyond)
    ring = box(*(round(side, digits) for side in sides))
    assert level_of(client, ring, crs) == "8"
    assert level_of(client, ring, crs, resolution=500) == "8"


@pytest.mark.parametrize("crs", [4326, 3857])
@pytest.mark.parametrize("beyond", [0, 1e-9, -1e-9])
@pytest.mark.parametrize(
    ("across", "down", "level"), [(-1, 1, "2"), (1, 1, "2"), (1, -1, "8"), (0.01, -0.01, "8")]
)
def test_a_square_at_the_corner_of_the_limits(
    client: Client, crs: int, beyond: float, across: float, down: float, level: str
) -> None:
    """It touches the upper left corner from outside, from above, or from inside."""
    x, y = 2.8125 + beyond, TOP + beyond
    ring = box(min(x, x + across), min(y, y + down), max(x, x + across), max(y, y + down))
    assert level_of(client, ring, crs) == level


@pytest.mark.parametrize("crs", [4326, 3857])
def test_a_plot_that_is_smaller_than_a_pixel_is_not_cut(client: Client, crs: int) -> None:
    """A third of it is beyond the limits, which is less than half a pixel."""
    pixel = 360 / 256 / 256
    plot = box(2.8125 - pixel / 10, 35, 2.8125 + pixel / 5, 35.001)
    assert level_of(client, plot, crs) == "2"


@pytest.mark.parametrize(
    ("west", "east", "level"),
    [
        *((363, 365, "8"), (362, 365, "2"), (363, 366, "2"), (362.8125, 365.625, "8")),
        *((-357.1875, -354.375, "8"), (-358, -355, "2")),
    ],
)
def test_limits_are_there_again_after_a_full_turn(
    client: Client, west: float, east: float, level: str
) -> None:
    assert level_of(client, box(west, 35, east, 36), 4326) == level


def test_a_part_does_not_answer_because_the_whole_is_too_large() -> None:
    fine, coarse, other = (
        SimpleNamespace(number=number, is_whole=is_whole)
        for number, is_whole in ((0, True), (0, False), (1, False))
    )
    levels: Any = [fine, coarse, other]
    assert list(footprints.covering(levels)) == [fine, other]
    assert list(footprints.covering(levels, lambda one: one is not fine)) == [other]
    assert list(footprints.covering(levels[1:])) == [coarse, other]


def test_an_area_that_is_too_large_is_refused_before_its_edges_are_looked_at(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []

    def counted(edges: polygons.Edges, *part: float) -> bool:
        looked.append(len(edges))
        return polygons.meets(edges, *part)

    monkeypatch.setattr(footprints, "meets", counted)
    around = np.linspace(0, 2 * np.pi, 2000)
    ring = np.column_stack([4 + 3 * np.cos(around), 35 + 3 * np.sin(around)])
    ring[-1] = ring[0]
    service: Any = client.application.site.services["elevation"]  # type: ignore[union-attr]
    monkeypatch.setattr(service._native.context.queries, "limits", Limits(pixels=0))
    geometry = {"type": "Polygon", "coordinates": [ring.tolist()]}
    asked: dict[str, int]
    for asked in ({}, {"resolution": 500}):
        body = {"dataset": "P", "geometry": geometry, **asked}
        assert client.post("/elevation/statistics", json=body).status_code == 413
    assert not looked


@pytest.mark.parametrize(
    ("ring", "level"),
    [
        # Level 12 has the upper left corner of level 9, as far as 2.988 degrees east.
        ([[2.9, 36.5], [2.95, 36.5], [4, 40], [2.9, 36.5]], "12"),
        ([[2.9, 36.5], [3.5, 36.5], [2.9, 36.55], [2.9, 36.5]], "9"),
        (box(2, 30, 6, 40), "9"),
    ],
)
def test_an_area_beyond_the_layer_needs_only_what_the_layer_has(
    client: Client, ring: list[list[float]], level: str
) -> None:
    """The triangle leaves level 12 where level 9 ends too, though the box around it does not."""
    body = {"dataset": "SLOPE", "geometry": {"type": "Polygon", "coordinates": [ring]}}
    found = client.post("/elevation/statistics", json=body).json["statistics"]
    assert found["level"] == level


@pytest.mark.parametrize(
    ("west", "level", "cell"), [(2, "2", CELLS_OF_2), (3, "8", CELLS_OF_2 / 64)]
)
@pytest.mark.parametrize("query", ["area", "cube"])
def test_grids_have_the_cells_of_the_level_that_covers_the_area(
    client: Client, query: str, west: float, level: str, cell: float
) -> None:
    x, y = CRS84.transform([west, 5], [35, 36])
    corners = f"{x[0]},{y[0]},{x[1]},{y[1]}"
    ring = ",".join(f"{east} {north}" for east, north in box(x[0], y[0], x[1], y[1]))
    asked = {"area": {"coords": f"POLYGON(({ring}))"}, "cube": {"bbox": corners}}[query]
    response = client.get(
        f"/elevation/edr/collections/P/{query}", query_string={**asked, "crs": "EPSG:3857"}
    )
    assert response.status_code == 200, response.text
    axis = response.json["domain"]["axes"]["x"]
    step = (axis["stop"] - axis["start"]) / (axis["num"] - 1)
    assert step == pytest.approx(cell)
    assert abs(axis["start"] - x[0]) <= step
    assert set(response.json["ranges"]["elevation"]["values"]) == {100 * int(level)}


def test_grids_in_another_crs_take_each_height_from_the_finest_level(client: Client) -> None:
    response = client.get("/elevation/edr/collections/P/cube", query_string={"bbox": "2.7,35,5,36"})
    assert response.status_code == 200, response.text
    assert response.json["domain"]["axes"]["x"]["num"] == 515
    assert set(response.json["ranges"]["elevation"]["values"]) == {200, 800}


def test_profiles_come_from_the_level_that_has_tiles(client: Client) -> None:
    found = ask(client, "profile", {"type": "LineString", "coordinates": OUTSIDE[:2]})["results"]
    assert {(point["level"], point["elevation"]) for point in found} == {("2", 200)}


def test_contours_are_those_of_the_level_that_has_tiles(client: Client) -> None:
    """A client draws the tile of the coarser zoom where the finer one is not there."""

    def heights(z: int, x: int, y: int) -> set[float] | None:
        response = client.get(f"/terrain/SLOPE/contours/{z}/{x}/{y}.pbf")
        if response.status_code == 404:
            return None
        decoded = mapbox_vector_tile.decode(response.data)
        return {line["properties"]["ele"] for line in decoded["contour"]["features"]}

    document = client.get("/terrain/SLOPE/contours.json").json
    assert (document["minzoom"], document["maxzoom"]) == (9, 12)
    for place in ((12, 2082, 1600), (12, 2080, 1602)):
        assert heights(*place) is None
    found = heights(9, 260, 200)
    assert found is not None
    assert found <= {*range(500, 25_501, 500)}
    assert len(found) > 10
