"""The number of each pixel is that of the source that gave it."""

from __future__ import annotations

import json
import subprocess
import warnings
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace as changed
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pyproj
import pytest
import rasterio
from jsonschema_rs import Draft202012Validator
from rasterio.errors import NotGeoreferencedWarning
from tests.build.conftest import built, plan_in
from tests.build.ground import MASTABA, read_payloads, read_tiles, slab_index
from tests.build.mosaic import (
    CELL,
    FIRST,
    LEVEL,
    Oracle,
    Sheet,
    centre,
    make_sheets,
    name_around,
    touch,
)
from tests.sizes import sized
from werkzeug.test import Client

from mastaba.wsgi import create_application
from mastaba_build.config.access import Access
from mastaba_build.config.configuration import Configuration, configuration_of
from mastaba_build.output.destination import Destination
from mastaba_build.pyramid.history import rollback
from mastaba_build.pyramid.provenance_adding import add_provenance
from mastaba_build.pyramid.provenance_checking import check_provenance
from mastaba_build.pyramid.pruning import prune
from mastaba_build.pyramid.verification import verify
from mastaba_build.work.build import build
from mastaba_build.work.derived import join
from mastaba_build.work.reports import Reports
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_encoder import encode_tile
from mastaba_writer.tile_matrix_sets import web_mercator

DOCS = Path(__file__).parents[2] / "docs"
Ring = list[tuple[float, float]]
OPTIONS: dict[str, Any] = {
    "bottom": str(LEVEL),
    "top": str(LEVEL - 1),
    "interpolation": "nn",
    "provenance": True,
}


_FORMATS: dict[bool, dict[str, Any]] = {
    False: {"format": "zip"},
    True: {"format": "png", "channels": 2},
}


def samples_of(path: Path) -> np.ndarray:
    """Return the samples of an image, as GDAL reads them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        with rasterio.open(path) as dataset:
            samples: np.ndarray = dataset.read(1)
            return samples


class Mosaic:
    """The numbers of a pyramid, as a client reads them."""

    def __init__(self, folder: Path, name: str) -> None:
        self.table = json.loads((folder / f"{name}.sources.json").read_text())
        self.names = {row["number"]: row["id"] for row in self.table["sources"]} | {0: ""}
        tiles = read_tiles(folder / f"{name}_sources.json")
        self.tiles = {key[1:]: tile[:, :, 0].astype(int) for key, tile in tiles.items()}

    def number(self, row: int, column: int) -> int:
        """Return the number of a pixel."""
        tile = self.tiles.get((row // 256, column // 256))
        return 0 if tile is None else int(tile[row % 256, column % 256])


def points(mosaic: Mosaic, tiles: int, count: int, seed: int) -> list[tuple[int, int]]:
    """Return random pixels, and a quarter as many within two pixels of a seam."""
    generator = np.random.default_rng(seed)
    top, left = FIRST[1] * 256, FIRST[0] * 256
    chosen = generator.integers(0, tiles * 256, (count, 2)) + np.array([top, left])
    near: list[tuple[int, int]] = []
    for (row, column), tile in mosaic.tiles.items():
        seams = np.argwhere(tile[:-1, :-1] != tile[1:, 1:])
        if len(seams):
            some = seams[generator.integers(0, len(seams), count // 4)]
            some = some + generator.integers(-2, 3, some.shape)
            some = some + np.array([row * 256, column * 256])
            near += [(int(i), int(j)) for i, j in some]
    some = [near[i] for i in generator.integers(0, len(near), count // 4)]
    return [(int(i), int(j)) for i, j in chosen] + some


def compare(mosaic: Mosaic, oracle: Oracle, chosen: Sequence[tuple[int, int]]) -> None:
    """Compare the numbers of pixels with the oracle, which must be sure of most."""
    unsure = 0
    for row, column in chosen:
        answers = oracle.answers(*centre(row, column))
        found = mosaic.names[mosaic.number(row, column)]
        assert found in answers, (row, column, found, answers)
        unsure += len(answers) > 1
    assert unsure < len(chosen) / 8, unsure


def update(folder: Path, sheets: Sequence[Sheet], **options: Any) -> Path:
    """Publish a further version."""
    plan = plan_in(folder, *[sheet.entry() for sheet in sheets], **OPTIONS, **options)
    errors = StringIO()
    assert build(plan, Reports(StringIO(), errors), update="new"), errors.getvalue()
    return folder / "out/map.json"


def joined(folder: Path, *names: str) -> None:
    """Join pyramids."""
    values = {"name": "joined", "output": str(folder / "out"), "sources": ["-"], "workers": 1}
    configuration = configuration_of(values, "test")
    with closing(configuration.output.open()) as store:
        errors = StringIO()
        paths = [str(folder / f"out/{name}.json") for name in names]
        reports = Reports(StringIO(), errors)
        assert join(configuration, store, reports, paths), errors.getvalue()


@pytest.mark.parametrize("has_alpha", [False, True])
def test_pixels_have_the_number_of_their_source(tmp_path: Path, has_alpha: bool) -> None:
    sheets = make_sheets(tmp_path, 9, 1, 11 + has_alpha)
    for sheet in sheets:
        sheet.write(has_alpha=has_alpha)
    options = {**OPTIONS, **_FORMATS[has_alpha], "top": str(LEVEL)}
    path = built(plan_in(tmp_path, *[sheet.entry() for sheet in sheets], **options))
    mosaic = Mosaic(path.parent, "map")
    compare(mosaic, Oracle(sheets, has_alpha=has_alpha), points(mosaic, 1, 150, 1))
    assert json.loads(path.read_text())["provenance"] == "map_1.sources.json"


@pytest.mark.thorough
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("has_alpha", [False, True])
@pytest.mark.parametrize(
    ("count", "tiles", "size"), [(14, 2, 300), sized((50, 3, 1000), (500, 8, 10_000))]
)
def test_numbers_stay_right_in_updates_and_joins(
    tmp_path: Path, has_alpha: bool, count: int, tiles: int, size: int
) -> None:
    sheets = make_sheets(tmp_path, count, tiles, 3 + has_alpha)
    for sheet in sheets:
        sheet.write(has_alpha=has_alpha)
        touch(sheet.path, 10**9)
    options = _FORMATS[has_alpha]

    def check(of: Sequence[Sheet], name: str = "map") -> Mosaic:
        mosaic = Mosaic(tmp_path / "out", name)
        chosen = points(mosaic, tiles, size, count)
        compare(mosaic, Oracle(of, has_alpha=has_alpha), chosen)
        return mosaic

    first = [sheet for sheet in sheets if sheet.value % 7]
    entries = [sheet.entry() for sheet in first]
    path = built(plan_in(tmp_path, *entries, **OPTIONS, **options))
    versions = [check(first)]
    off = {**OPTIONS, **options, "provenance": False, "name": "without"}
    assert read_payloads(path) == read_payloads(built(plan_in(tmp_path, *entries, **off)))
    # Added and replaced ones, then removed ones.
    replaced = [sheet for sheet in sheets if sheet.value % 5 == 0]
    for sheet in replaced:
        sheet.alpha = np.roll(sheet.alpha, 17, 0)
        sheet.write(has_alpha=has_alpha)
        touch(sheet.path, 10**9 + 1)
    update(tmp_path, sheets, **options)
    versions.append(check(sheets))
    last = [sheet for sheet in sheets if sheet.value % 3]
    update(tmp_path, last, **options)
    versions.append(check(last))
    check_numbers(versions, {sheet.path.name for sheet in replaced})
    output = Destination.parse(str(tmp_path / "out"))
    verify(output, "map", full=True)
    # The upper one of two joined pyramids is drawn over the lower one.
    upper = [changed(sheet, grid=sheet.grid + count) for sheet in sheets[::2]]
    built(plan_in(tmp_path, *[one.entry() for one in upper], **OPTIONS, **options, name="upper"))
    joined(tmp_path, "map", "upper")
    if has_alpha:
        # The oracle knows groups of sheets, and each pyramid is one image here.
        assert Mosaic(tmp_path / "out", "joined").tiles
    else:
        check([*last, *upper], "joined")
    verify(output, "joined", full=True)
    with closing(output.open()) as store:
        assert rollback(store, "map", 1) == 1
        assert Mosaic(tmp_path / "out", "map").table == versions[0].table
        rollback(store, "map", 3)
        prune(store, "map", 1)
    verify(output, "map", full=True)
    assert Mosaic(tmp_path / "out", "map").table == versions[2].table


def check_numbers(versions: Sequence[Mosaic], replaced: set[str]) -> None:
    """Check that known sources keep their numbers, and that none is used for another one."""
    owners: dict[int, str] = {}
    for mosaic in versions:
        for number, name in mosaic.names.items():
            assert owners.setdefault(number, name) == name
        pixels = np.concatenate([tile.ravel() for tile in mosaic.tiles.values()])
        counts = dict(zip(*np.unique(pixels, return_counts=True), strict=True))
        assert {one["number"]: one["pixels"] for one in mosaic.table["sources"]} == {
            int(number): int(count) for number, count in counts.items() if number
        }
    first, second = ({name: n for n, name in one.names.items() if n} for one in versions[:2])
    for name in first.keys() & second.keys():
        assert (first[name] != second[name]) == (name.partition("#")[0] in replaced), name


@pytest.mark.thorough
@pytest.mark.parametrize("interpolation", ["nn", "bicubic"])
def test_the_number_is_the_stored_value_of_constant_sources(
    tmp_path: Path, interpolation: str
) -> None:
    sheets = [one for one in make_sheets(tmp_path, 24, 2, 5) if one.footprints is None]
    grids = [sheet.grid for sheet in sheets]
    sheets = [sheet for sheet in sheets if grids.count(sheet.grid) == 1]
    for sheet in sheets:
        sheet.write(has_alpha=False)
    options = {**OPTIONS, "interpolation": interpolation, "format": "zip"}
    path = built(plan_in(tmp_path, *[sheet.entry() for sheet in sheets], **options))
    mosaic = Mosaic(path.parent, "map")
    values = np.zeros(max(mosaic.names) + 1)
    for number, name in mosaic.names.items():
        values[number] = int(name.partition(".")[0]) if number else -99999
    stored = {key[1:]: one for key, one in read_tiles(path).items() if key[0] == str(LEVEL)}
    assert stored.keys() == mosaic.tiles.keys()
    for key, numbers in mosaic.tiles.items():
        np.testing.assert_allclose(values[numbers], stored[key][:, :, 0], rtol=1e-5)


@pytest.fixture
def sheets(tmp_path: Path) -> list[Sheet]:
    """Sheets in one tile, one of which contains polygons."""
    sheets = make_sheets(tmp_path, 9, 1, 11)
    for sheet in sheets:
        sheet.write(has_alpha=False)
    return sheets


def mastaba(*words: str | Path) -> str:
    """Run ``mastaba pyramid provenance`` and return its output."""
    done = subprocess.run(
        [*MASTABA, "pyramid", "provenance", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_facts_are_in_the_table_and_paths_are_not(tmp_path: Path, sheets: list[Sheet]) -> None:
    entries = [{"path": sheet.entry()["path"]} for sheet in sheets]
    entries[1] |= {"date": "2019-04/2019-09", "accuracy": "0.5", "attribution": "IGN"}
    entries[2] |= {"date_from": "name:0(\\d{3})", "group": "a", "licence": "ODbL-1.0"}
    entries[3] |= {"date_from": "name:^(0004)"}
    with rasterio.open(sheets[4].path, "r+") as dataset:
        dataset.update_tags(TIFFTAG_DATETIME="2020:02:03 04:05:06")
    options = {**OPTIONS, "format": "zip", "top": str(LEVEL)}
    path = built(plan_in(tmp_path, *entries, **options))
    text = (path.parent / "map.sources.json").read_text()
    rows = {row["id"]: row for row in json.loads(text)["sources"]}
    page = (DOCS / "source-table.md").read_text("utf-8")
    schema = json.loads(page.partition("```json")[2].partition("```")[0])
    assert not list(Draft202012Validator(schema).iter_errors(json.loads(text)))
    assert str(tmp_path) not in text
    second, third, fourth, fifth = (rows.get(f"{n:04}.tif", {}) for n in (2, 3, 4, 5))
    assert (second["start"], second["end"], second["accuracy"]) == ("2019-04", "2019-09", 0.5)
    assert second["attribution"] == {"title": "IGN"}
    assert "date" not in third  # 003 is not a year
    assert (third["group"], third["licence"]) == ("a", "ODbL-1.0")
    assert fourth["date"] == "0004"
    assert fifth.get("date", "2020-02-03T04:05:06") == "2020-02-03T04:05:06"
    for row in rows.values():
        west, south, east, north = row["box"]
        assert -180 <= west < east <= 180
        assert -90 <= south < north <= 90
        assert row["gsd"] > 1
        assert row["pixels"] > 0
        assert len(row["footprint"]["coordinates"][0]) <= 200


def test_the_default_is_several_sources_or_a_date(tmp_path: Path, sheets: list[Sheet]) -> None:
    first, second = ({"path": str(sheet.path)} for sheet in sheets[1:3])
    options = {**OPTIONS, "format": "zip", "top": str(LEVEL)}
    for name, entries, wanted, is_on in (
        ("one", [first], None, False),
        ("two", [first, second], None, True),
        ("off", [first, second], False, False),
        ("dated", [{**first, "date": "2020"}], None, True),
    ):
        built(plan_in(tmp_path, *entries, **{**options, "provenance": wanted, "name": name}))
        descriptor = json.loads((tmp_path / f"out/{name}.json").read_text())
        assert ("provenance" in descriptor) == is_on, name
        assert (tmp_path / f"out/{name}_sources.json").exists() == is_on


def test_polygons_become_the_sources_of_a_foreign_pyramid(
    tmp_path: Path, sheets: list[Sheet]
) -> None:
    entries = [{"path": str(sheet.path)} for sheet in sheets]
    options = {**OPTIONS, "format": "zip", "top": str(LEVEL), "provenance": False}
    path = built(plan_in(tmp_path, *entries, **options))
    before = {one: one.read_bytes() for one in path.parent.rglob("*") if one.is_file()}
    footprints = next(sheet for sheet in sheets if sheet.rings)
    assert footprints.footprints is not None
    configuration = Configuration("-", Destination.parse(str(path.parent)), (), access=Access())
    given = {"path": str(footprints.footprints), "date": "d"}
    with closing(configuration.output.open()) as store:
        assert add_provenance(configuration, store, str(path), given) <= 3
    assert {one: one.read_bytes() for one in before} == before
    mosaic = Mosaic(path.parent, "map")
    stored = read_tiles(path)
    degrees = pyproj.Transformer.from_crs("EPSG:3857", "OGC:CRS84", always_xy=True)
    for row, column in points(mosaic, 1, 200, 5):
        tile = stored.get((str(LEVEL), row // 256, column // 256))
        has_data = tile is not None and tile[row % 256, column % 256, 0] != -99999
        name = name_around(footprints.rings, degrees.transform(*centre(row, column)))
        assert mosaic.names[mosaic.number(row, column)] == (name if has_data else "")
    assert {row["date"] for row in mosaic.table["sources"]} <= {"2017", "2018", "2019"}
    with closing(configuration.output.open()) as store:
        assert check_provenance(configuration, store, "map", given, count=500) == 500


def polygons_over(side: int, generator: np.random.Generator) -> dict[str, Ring]:
    """Return irregular polygons in CRS84 over tiles, which share sides, and some over them."""
    degrees = pyproj.Transformer.from_crs("EPSG:3857", "OGC:CRS84", always_xy=True)
    size, count = side * 256 / 6, 6
    places = np.stack(np.mgrid[0 : count + 1, 0 : count + 1], -1) * size
    places = places + generator.uniform(-size / 3, size / 3, places.shape)

    def ring(*corners: Any) -> Ring:
        pixels = [(FIRST[1] * 256 + row, FIRST[0] * 256 + column) for row, column in corners]
        found = [degrees.transform(*centre(*pixel)) for pixel in pixels]
        return [*found, found[0]]

    rings = {
        f"part {i} {j}": ring(
            places[i, j], places[i, j + 1], places[i + 1, j + 1], places[i + 1, j]
        )
        for i, j in np.ndindex(count, count)
        if generator.random() < 0.9
    }
    for number in range(count):
        middle = generator.uniform(0, side * 256, 2)
        angles = np.sort(generator.uniform(0, 2 * np.pi, 5))
        star = middle + np.stack([np.sin(angles), np.cos(angles)], 1) * size / 2
        rings[f"over {number}"] = ring(*star)
    return rings


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_each_pixel_of_a_large_foreign_pyramid_is_in_its_polygon(tmp_path: Path) -> None:
    side, count = sized((12, 2000), (100, 10_000))
    generator = np.random.default_rng(6)
    whole = np.ones((256, 256), np.float32)
    with_hole = whole.copy()
    with_hole[40:200, 90:] = -99999
    encoded = [encode_tile("TIFF_ZIP_FLOAT32", one) for one in (whole, with_hole)]

    def kind(row: int, column: int) -> int:
        """Return which tile is stored: none, a whole one, or one with a hole."""
        return (0, 1, 1, 2, 1)[(row * 7 + column * 3) % 5]

    last = FIRST[1] + side - 1, FIRST[0] + side - 1
    path = write_pyramid(
        tmp_path,
        "map",
        tile_matrix_set=web_mercator(),
        format="TIFF_ZIP_FLOAT32",
        channels=1,
        levels=[LevelPlan(str(LEVEL), FIRST[1], last[0], FIRST[0], last[1])],
        tile=lambda _, row, column: (None, *encoded)[kind(row, column)],
        tiles_per_width=16,
        tiles_per_height=16,
    )
    rings = polygons_over(side, generator)
    features = [
        {
            "type": "Feature",
            "properties": {"name": name},
            "geometry": {"type": "Polygon", "coordinates": [ring]},
        }
        for name, ring in rings.items()
    ]
    footprints = tmp_path / "seams.geojson"
    footprints.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    configuration = Configuration("-", Destination.parse(str(tmp_path)), (), access=Access())
    given = {"path": str(footprints), "title": "name"}
    with closing(configuration.output.open()) as store:
        add_provenance(configuration, store, str(path), given)
    document = {**layer_document(path), "provenance": str(path.with_name("map.sources.json"))}
    server = write_installation(
        tmp_path / "server", layers={"MAP": document}, services=["provenance"]
    )
    client = Client(create_application(str(server)))
    corner = np.array([FIRST[1], FIRST[0]]) * 256
    pixels = (generator.integers(0, side * 256, (count, 2)) + corner).tolist()
    degrees = pyproj.Transformer.from_crs("EPSG:3857", "OGC:CRS84", always_xy=True)
    unsure = 0
    for start in range(0, count, 2000):
        some = pixels[start : start + 2000]
        places = [centre(*one) for one in some]
        body = json.dumps({"type": "MultiPoint", "coordinates": places, "crs": "EPSG:3857"})
        answer = client.post("/provenance/MAP/at", data=body, content_type="application/json")
        assert answer.status_code == 200, answer.text
        titles = {row["number"]: row["title"] for row in answer.json["sources"]}
        for (row, column), place, found in zip(some, places, answer.json["points"], strict=True):
            stored = kind(row // 256, column // 256)
            is_hole = 40 <= row % 256 < 200 and column % 256 >= 90
            has_data = stored == 1 or (stored == 2 and not is_hole)
            around = [(place[0] + i, place[1] + j) for i in (-3, 0, 3) for j in (-3, 0, 3)]
            names = {name_around(rings, degrees.transform(*one)) for one in around}
            unsure += len(names) > 1
            assert titles.get(found["number"], "") in (names if has_data else {""}), place
    assert unsure < count / 100


@pytest.mark.thorough
def test_facts_are_set_without_a_new_slab(tmp_path: Path, sheets: list[Sheet]) -> None:
    entries = [sheet.entry() for sheet in sheets]
    options = {**OPTIONS, "format": "zip"}
    path = built(plan_in(tmp_path, *entries, **options))
    slabs = {one: one.stat().st_mtime_ns for one in path.parent.rglob("*.tif")}
    table = tmp_path / "facts.csv"
    table.write_text("id,date,attribution,mission\n0002.tif,1999-02,IGN,M1\n", "utf-8")
    out = ("--output", path.parent)
    assert "version 2" in mastaba("set", "map", "--from", table, *out)
    assert {one: one.stat().st_mtime_ns for one in path.parent.rglob("*.tif")} == slabs

    def row() -> dict[str, Any]:
        rows = json.loads((path.parent / "map.sources.json").read_text())["sources"]
        return next(row for row in rows if row["id"] == "0002.tif")

    assert (row()["date"], row()["fields"]) == ("1999-02", {"mission": "M1"})
    assert "10000 pixels agree" in mastaba("check", "map", *out)
    # An update keeps what was set.
    touch(sheets[3].path, 10**9)
    update(tmp_path, sheets, format="zip")
    assert row()["date"] == "1999-02"
    output = Destination.parse(str(path.parent))
    with closing(output.open()) as store:
        prune(store, "map", 1)
    verify(output, "map", full=True)
    colours = json.loads(mastaba("style", "map", "--by", "year", *out))["palette"]["colours"]
    numbers = [one["number"] for one in Mosaic(path.parent, "map").table["sources"]]
    assert [one["value"] for one in colours] == [0, *numbers]


def test_the_pyramid_of_numbers_is_an_ordinary_one(tmp_path: Path, sheets: list[Sheet]) -> None:
    pytest.importorskip("mastaba_wms")
    options = {**OPTIONS, "format": "zip", "top": str(LEVEL)}
    path = built(plan_in(tmp_path, *[sheet.entry() for sheet in sheets], **options))
    mosaic = Mosaic(path.parent, "map")
    # GDAL reads slabs whose tiles share their bytes.
    descriptor = json.loads((path.parent / "map_sources.json").read_text())
    folder = path.parent / descriptor["levels"][0]["storage"]["image_directory"]
    slab = next(folder.rglob("*.tif"))
    column, row = slab_index(slab.relative_to(folder))
    pixels = samples_of(slab)
    for (tile_row, tile_column), tile in mosaic.tiles.items():
        down, across = 256 * (tile_row - 2 * row), 256 * (tile_column - 2 * column)
        if 0 <= down < 512 and 0 <= across < 512:
            assert np.array_equal(pixels[down : down + 256, across : across + 256], tile)
    layer = layer_document(path.parent / "map_sources.json", title="sources", resampling="nn")
    server = write_installation(tmp_path / "server", layers={"sources": layer}, services=["wms"])
    client = Client(create_application(str(server)))
    x, y = centre(FIRST[1] * 256 + 40, FIRST[0] * 256 + 20)
    bbox = f"{x - CELL / 2},{y - 200.5 * CELL},{x + 199.5 * CELL},{y + CELL / 2}"
    answer = client.get(
        "/wms?SERVICE=WMS&REQUEST=GetMap&VERSION=1.3.0&LAYERS=sources&STYLES=&CRS=EPSG:3857"
        f"&BBOX={bbox}&WIDTH=200&HEIGHT=201&FORMAT=image/tiff"
    )
    assert answer.status_code == 200, answer.data
    (tmp_path / "map.tif").write_bytes(answer.data)
    drawn = samples_of(tmp_path / "map.tif")
    top, left = FIRST[1] * 256 + 40, FIRST[0] * 256 + 20
    wanted = [[mosaic.number(top + i, left + j) for j in range(200)] for i in range(201)]
    assert np.array_equal(drawn, wanted)
