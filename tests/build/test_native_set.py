"""Tile matrix sets made for the grid of the sources (coverages.md section 6)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from tests.build.conftest import Build
from tests.build.ground import grid, read_tiles, write_raster
from tests.forked import run

from mastaba_build.errors import PlanError
from mastaba_build.plan.plan import Plan

SIZE = 300


def raster(
    path: Path, x: float, y: float, cell: float, crs: str, point: bool = False, seed: int = 1
) -> np.ndarray:
    """Write random heights with holes; return them."""
    values = np.random.default_rng(seed).normal(500, 99, (1, SIZE, SIZE)).astype(np.float32)
    values[0, 40:50, 60:90] = -99999
    write_raster(path, values, grid(x, y, cell), crs, nodata=-99999)
    if point:
        with rasterio.open(path, "r+") as dataset:
            dataset.update_tags(AREA_OR_POINT="Point")
    return values[0]


GRIDS = [
    ("EPSG2154_0.5m_post", 885999.75, 6534000.25, 0.5, "EPSG:2154", True),
    ("EPSG4326_1s_post", 6 - 0.5 / 3600, 46 + 0.5 / 3600, 1 / 3600, "EPSG:4326", True),
    ("EPSG2154_0.2m", 886000.2, 6534000.4, 0.2, "EPSG:2154", False),
    ("EPSG2154_2.5m_0.7_-0.3", 886000.7, 6533999.7, 2.5, "EPSG:2154", False),
]


@pytest.mark.parametrize(("name", "x", "y", "cell", "crs", "point"), GRIDS)
def test_the_finest_level_holds_the_pixels_of_the_source(
    tmp_path: Path,
    build_of: Build,
    name: str,
    x: float,
    y: float,
    cell: float,
    crs: str,
    point: bool,
) -> None:
    values = raster(tmp_path / "a.tif", x, y, cell, crs, point)
    descriptor = build_of(tmp_path / "a.tif", tile_matrix_set="native", server=str(tmp_path / "s"))
    document = json.loads(descriptor.read_text())
    assert document["tile_matrix_set"] == name
    registration = document["raster_specifications"].get("registration", "area")
    assert registration == ("post" if point else "area")
    path = descriptor.parent / "tilematrixsets" / f"{name}.json"
    matrix = json.loads(path.read_text())["tileMatrices"][-1]
    assert matrix["cellSize"] == pytest.approx(cell, rel=1e-12)
    left = (x - matrix["pointOfOrigin"][0]) / matrix["cellSize"]
    top = (matrix["pointOfOrigin"][1] - y) / matrix["cellSize"]
    assert left == pytest.approx(round(left), abs=1e-4)
    assert top == pytest.approx(round(top), abs=1e-4)
    column, row = round(left), round(top)
    stored = np.full((SIZE, SIZE), -99999, np.float32)
    for (level, tile_row, tile_column), tile in read_tiles(descriptor).items():
        if level != matrix["id"]:
            continue
        for i in range(256):
            here = tile_row * 256 + i - row
            if 0 <= here < SIZE:
                first = tile_column * 256 - column
                a, b = max(0, first), min(SIZE, first + 256)
                stored[here, a:b] = tile[i, a - first : b - first].reshape(-1)
    assert stored.tobytes() == values.tobytes()


def test_products_on_one_grid_share_the_set(tmp_path: Path, plan_of: Callable[..., Plan]) -> None:
    places = [(885999.75, 6534000.25), (200000.25, 7100000.75), (1200000.25, 6100000.25)]
    plans = []
    for number, (x, y) in enumerate(places):
        raster(tmp_path / f"{number}.tif", x, y, 0.5, "EPSG:2154", point=True)
        plans.append(plan_of(tmp_path / f"{number}.tif", tile_matrix_set="native"))
    assert plans[0].set_document == plans[1].set_document == plans[2].set_document
    matrices = plans[0].set_document["tileMatrices"]
    assert [one["id"] for one in matrices] == list(map(str, range(len(matrices))))
    assert max(matrices[0]["matrixWidth"], matrices[0]["matrixHeight"]) in (3, 4, 5)
    assert matrices[-1]["cellSize"] == 0.5
    # The phase is that of the posts.
    assert all((one["pointOfOrigin"][0] + 0.25) % 0.5 == 0 for one in matrices)


def test_equal_set_of_the_directory_is_used(tmp_path: Path, plan_of: Callable[..., Plan]) -> None:
    raster(tmp_path / "a.tif", 886000, 6534000, 1, "EPSG:2154")
    document = plan_of(tmp_path / "a.tif", tile_matrix_set="native").set_document
    sets = tmp_path / "sets"
    sets.mkdir()
    (sets / "FRANCE_1M.json").write_text(json.dumps({**document, "title": "France"}))
    options = {"tile_matrix_set": "native", "tile_matrix_sets": str(sets)}
    plan = plan_of(tmp_path / "a.tif", **options)
    assert plan.configuration.tile_matrix_set == "FRANCE_1M"
    assert plan.set_document["title"] == "France"
    document["tileMatrices"][0]["cellSize"] *= 1.5
    (sets / "EPSG2154_1m.json").write_text(json.dumps(document))
    (sets / "FRANCE_1M.json").unlink()
    with pytest.raises(PlanError, match=r"EPSG2154_1m\.json is another tile matrix set"):
        plan_of(tmp_path / "a.tif", **options)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ((886300.25, 6534000, 0.5, "EPSG:2154"), r"by 0\.25 in x, half a pixel: the values of one"),
        ((886300, 6534000.1, 0.5, "EPSG:2154"), r"a\.tif and .*b\.tif are shifted by 0\.1 in y$"),
        ((886300, 6534000, 1, "EPSG:2154"), "different pixel sizes, 0.5 and 1"),
        ((886300, 6534000, 0.5, "EPSG:9794"), "have different CRSs"),
    ],
)
def test_sources_without_a_common_grid(
    tmp_path: Path, plan_of: Callable[..., Plan], other: Any, message: str
) -> None:
    raster(tmp_path / "a.tif", 886000, 6534000, 0.5, "EPSG:2154")
    raster(tmp_path / "b.tif", *other)
    with pytest.raises(PlanError, match=message):
        plan_of(tmp_path / "a.tif", tmp_path / "b.tif", tile_matrix_set="native")


def test_other_products_on_the_grid_of_a_file(tmp_path: Path, plan_of: Callable[..., Plan]) -> None:
    raster(tmp_path / "a.tif", 885999.75, 6534000.25, 0.5, "EPSG:2154", point=True)
    raster(tmp_path / "b.tif", 886000.1, 6534000.3, 0.7, "EPSG:2154")
    native = plan_of(tmp_path / "a.tif", tile_matrix_set="native")
    like = str(tmp_path / "a.tif")
    plan = plan_of(tmp_path / "b.tif", tile_matrix_set="grid", like=like)
    assert plan.set_document == native.set_document
    assert plan.configuration.tile_matrix_set == "EPSG2154_0.5m_post"
    assert plan.registration == "area"
    for options in ({"tile_matrix_set": "grid"}, {"like": like}):
        with pytest.raises(PlanError, match="go together"):
            plan_of(tmp_path / "b.tif", **options)


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (rasterio.Affine(1, 0.2, 886000, -0.2, -1, 6534000), "is rotated"),
        (rasterio.Affine(1, 0, 886000, 0, 1, 6533000), "upside down"),
        (rasterio.Affine(1, 0, 886000, 0, -2, 6534000), r"not square \(1 x 2\)"),
    ],
)
def test_sources_without_square_pixels(
    tmp_path: Path, plan_of: Callable[..., Plan], transform: Any, message: str
) -> None:
    values = np.ones((1, SIZE, SIZE), np.float32)
    write_raster(tmp_path / "a.tif", values, transform, "EPSG:2154")
    with pytest.raises(PlanError, match=message):
        plan_of(tmp_path / "a.tif", tile_matrix_set="native")


def made(*words: str) -> dict[str, Any]:
    done = run("tms", "make", *words)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_a_national_set_by_rule() -> None:
    document = made(
        *("--crs", "EPSG:2154", "--cell", "0.5", "--origin=-0.25,12000000.25", "--levels", "19"),
        *("--name", "2154_50cm_MNT"),
    )
    assert document["id"] == "2154_50cm_MNT"
    assert {tuple(one["pointOfOrigin"]) for one in document["tileMatrices"]} == {
        (-0.25, 12000000.25)
    }
    assert [one["cellSize"] for one in document["tileMatrices"]] == [
        0.5 * 2**level for level in reversed(range(19))
    ]


def test_levels_with_an_origin_each() -> None:
    document = made(
        *("--crs", "EPSG:2975", "--cells", "1000,500,250,100,75,50,25,5,1", "--posts"),
        *("--origin=0,12000000",),
    )
    found = [(one["cellSize"], one["pointOfOrigin"]) for one in document["tileMatrices"]]
    cells = (1000, 500, 250, 100, 75, 50, 25, 5, 1)
    assert found == [(cell, [-cell / 2, 12000000 + cell / 2]) for cell in cells]


def test_the_grid_of_a_file(tmp_path: Path) -> None:
    raster(tmp_path / "a.tif", 885999.75, 6534000.25, 0.5, "EPSG:2154", point=True)
    document = made("--like", str(tmp_path / "a.tif"))
    assert document == made("--crs", "EPSG:2154", "--cell", "0.5", "--posts")
    assert document["id"] == "EPSG2154_0.5m_post"
    done = run("tms", "make", "--like", str(tmp_path / "a.tif"), "--output", str(tmp_path / "sets"))
    assert done.stdout == f"{tmp_path}/sets/EPSG2154_0.5m_post.json\n"
    assert json.loads((tmp_path / "sets/EPSG2154_0.5m_post.json").read_text()) == document


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--crs", "EPSG:2154"), "state --crs, and --cell or --cells"),
        (("--crs", "EPSG:99", "--cell", "1"), "EPSG:99"),
        (("--crs", "EPSG:2154", "--cell", "1", "--levels", "3"), "state --origin"),
        (("--crs", "EPSG:2154", "--cells", "1,1", "--origin=0,9e6"), "must become smaller"),
        (("--crs", "EPSG:2154", "--cell", "1", "--levels", "3", "--origin=9e6,0"), "outside"),
        (("--crs", "EPSG:2154", "--cell", "-1"), "not a size"),
        (("--crs", "EPSG:2154", "--cell", "x"), "not a number"),
        (("--crs", "EPSG:2154", "--cell", "1", "--origin", "7"), "not X,Y"),
        (("--like", "absent.tif"), "absent.tif"),
        (("--like", "a.tif", "--crs", "EPSG:2154"), "leave out the other options"),
    ],
)
def test_options_that_do_not_fit(words: tuple[str, ...], message: str) -> None:
    done = run("tms", "make", *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("name", "level", "cell", "origin", "size"),
    [
        ("WebMercatorQuad", "0", 156543.033928041, (-20037508.3427892, 20037508.3427892), 1),
        ("EuropeanETRS89_LAEAQuad", "15", 0.536441803, (2000000, 5500000), 1 << 15),
        ("UTM31WGS84Quad", "1", 78140.3572602559, (-9501965.72931276, 20003931.4586255), 1),
        ("CanadianNAD83_LCC", "25", 0.0661459656252645, (-34655800, 39310000), 2468768),
        ("UPSAntarcticWGS84Quad", "0", 128443.4324, (-14440759.350252, 18440759.350252), 1),
        ("WorldCRS84Quad", "0", 0.703125, (-180, 90), 2),
    ],
)
def test_registered_sets(
    name: str, level: str, cell: float, origin: tuple[float, float], size: int
) -> None:
    done = run("tms", "show", name)
    assert done.returncode == 0, done.stderr
    (matrix,) = [one for one in json.loads(done.stdout)["tileMatrices"] if one["id"] == level]
    assert matrix["cellSize"] == pytest.approx(cell, rel=3e-8)
    assert matrix["pointOfOrigin"] == pytest.approx(origin)
    assert matrix["matrixWidth"] == size


def test_unknown_set() -> None:
    done = run("tms", "show", "MARS")
    assert done.returncode == 2
    assert "UTM01WGS84Quad to UTM60WGS84Quad" in done.stderr


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("2154_1M_MNT", ("EPSG:2154", "--cell=1", "--levels=18", "--origin=-0.5,12000000.5")),
        (
            "LAMB93_1M_MNT",
            ("IGNF:LAMB93", "--cells=1000,500,250,100,75,50,25,5,1", "--posts", "--origin=0,12e6"),
        ),
    ],
)
def test_sets_of_an_agency(shared_data: Path, name: str, words: tuple[str, ...]) -> None:
    published = json.loads(
        (shared_data / "alps/tilematrixsets" / f"{name}.json").read_text("utf-8")
    )
    document = made("--name", name, "--crs", *words)
    for key in ("id", "cellSize", "pointOfOrigin", "tileWidth", "tileHeight"):
        assert [one[key] for one in document["tileMatrices"]] == [
            one[key] for one in published["tileMatrices"]
        ]
    assert document["crs"] == published["crs"]


@pytest.mark.parametrize(
    ("crs", "cell", "x", "y"),
    [
        ("EPSG:3857", 75, -13092300, 4012200),
        ("EPSG:3857", 75, 13092300, 4012200),
        ("EPSG:4326", 0.01, -170, 46),
        ("EPSG:4326", 0.01, 170, 46),
    ],
)
def test_the_world_is_there_once(
    tmp_path: Path, plan_of: Callable[..., Plan], crs: str, cell: float, x: float, y: float
) -> None:
    raster(tmp_path / "a.tif", x, y, cell, crs)
    finest = plan_of(tmp_path / "a.tif", tile_matrix_set="native").levels[0]
    assert finest.matrix.cell_size == pytest.approx(cell)
    assert finest.limits.max_col - finest.limits.min_col < 3
    turn = {"EPSG:3857": 40075016.7, "EPSG:4326": 360}[crs]
    assert finest.matrix.matrix_width * 256 * cell < turn + 257 * cell


def test_each_line_of_a_reason_is_reported(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with rasterio.open(
            tmp_path / "two.gpkg",
            "w",
            driver="GPKG",
            width=4,
            height=4,
            count=1,
            dtype="uint8",
            crs="EPSG:2154",
            transform=grid(900000, 6500000, 10),
            RASTER_TABLE=name,
            APPEND_SUBDATASET="YES",
        ) as dataset:
            dataset.write(np.ones((1, 4, 4), np.uint8))
    found = run("tms", "make", "--like", str(tmp_path / "two.gpkg"))
    assert found.returncode == 2
    first, *lines = found.stderr.splitlines()
    assert first.endswith("two.gpkg: contains several images; name one of them:")
    assert [line.rpartition(":")[2] for line in lines] == ["a", "b"]
    assert all(line.startswith("mastaba tms: ") for line in (first, *lines))
