"""Coverages that are scaled, in other CRSs and formats, and values at positions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.coverage.ground import ORIGIN, TILE, Ground
from tests.ogcapi.test_coverages import COVERAGE, Reader, section, subset
from tests.sizes import sized
from tests.support.memory import peak_of
from werkzeug.test import Client

from mastaba.api.catalogue import WGS84, BoundingBox
from mastaba.wsgi import create_application
from mastaba_ogcapi.coverages import parts
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import synthetic

rasterio = pytest.importorskip("rasterio")
# A picture has no place.
pytestmark = pytest.mark.filterwarnings("ignore:Dataset has no geotransform")

WEST, NORTH = ORIGIN
MOST_MEMORY = 8
"""Memory of a list of parts, in lengths of its text."""
DEGREES = "http://www.opengis.net/def/crs/OGC/1.3/CRS84"


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    directory = tmp_path_factory.mktemp("ground")
    opened = Ground(directory, services=section(), coverages=True)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    directory = tmp_path_factory.mktemp("pictures")
    opened = Ground(directory, "TIFF_PNG_UINT8", 4, services=section(), coverages=True)
    yield opened
    opened.close()


@pytest.fixture
def client(ground: Ground) -> Client:
    return Reader(ground.application)


def read(data: bytes) -> tuple[Any, Any]:
    with rasterio.MemoryFile(data) as file, file.open() as source:
        return np.moveaxis(source.read(), 0, -1), source.profile


PART = subset(WEST + 300, WEST + 700, NORTH - 900, NORTH - 500)


@pytest.mark.parametrize(
    ("query", "shape"),
    [
        ("width=90", (90, 90)),
        ("height=50", (50, 50)),
        ("width=100&height=30", (30, 100)),
        ("resolution=E(8),N(4)", (100, 50)),
        ("resolution=5", (80, 80)),
        ("scale-factor=2.5", (160, 160)),
        ("scale-axes=E(4),N(5)", (80, 100)),
        ("scale-size=E(33),N(44)", (44, 33)),
        ("scaleSize=E(33)", (33, 33)),
    ],
)
def test_scaling_gives_the_size(query: str, shape: tuple[int, int], client: Client) -> None:
    response = client.get(f"{PART}&{query}")
    assert response.status_code == 200, response.text
    values, profile = read(response.data)
    assert values.shape == (*shape, 1)
    assert (profile["transform"].c, profile["transform"].f) == (WEST + 300, NORTH - 500)
    assert response.headers["Content-Interpolation"]
    assert "Accept-Ranges" not in response.headers
    again = client.get(f"{PART}&{query}", headers={"If-None-Match": response.headers["ETag"]})
    assert again.status_code == 304


@pytest.mark.parametrize(
    "query", ["resolution=", "resolution=E(),N()", "resolution=1", "width=400"]
)
def test_stored_cells_are_sent_for_the_stored_resolution(query: str, client: Client) -> None:
    response = client.get(f"{PART}&{query}")
    plain = client.get(PART)
    assert response.headers["ETag"] == plain.headers["ETag"]
    assert response.data == plain.data
    assert "Content-Interpolation" not in response.headers


def test_scaled_coverage_is_the_map_of_the_same_box_and_size(client: Client) -> None:
    box = f"{WEST + 300},{NORTH - 900},{WEST + 700},{NORTH - 500}"
    address = COVERAGE.removesuffix("coverage")
    place = f"bbox={box}&bbox-crs=[EPSG:2154]&crs=[EPSG:2154]&width=123&height=77"
    drawn = client.get(f"{address}map?{place}&f=tiff")
    values = client.get(f"{address}coverage?{place}")
    assert (drawn.status_code, values.status_code) == (200, 200)
    assert read(drawn.data)[0].tobytes() == read(values.data)[0].tobytes()


def test_sizes_in_degrees_make_the_answer_one_in_degrees(ground: Ground, client: Client) -> None:
    """What GDAL sends for a block of its driver OGCAPI."""
    box = ground.layer.geographic_bbox
    x, y = (box.xmin + box.xmax) / 2, (box.ymin + box.ymax) / 2
    part = f"subset=Lon({x}:{x + 0.002}),Lat({y}:{y + 0.002})"
    response = client.get(
        f"{COVERAGE}?{part}&scaleSize=Lon(256),Lat(256)",
        headers={"Accept": "image/tiff;application=geotiff"},
    )
    assert response.status_code == 200, response.text
    values, profile = read(response.data)
    assert (values.shape, profile["crs"].to_epsg()) == ((256, 256, 1), 4326)
    assert profile["transform"].c == pytest.approx(x, abs=1e-12)
    assert response.headers["Content-Crs"] == DEGREES


def test_other_crs(client: Client) -> None:
    response = client.get(f"{PART}&crs=EPSG:4326")
    values, profile = read(response.data)
    assert profile["crs"].to_epsg() == 4326
    # As many cells as are stored there, more or less.
    assert 0.8 < values.size / 160_000 < 1.3
    edges = [float(text) for text in response.headers["Content-Bbox"].split(",")]
    # Latitude comes first.
    assert 48 < edges[0] < edges[2] < 49
    assert client.get(f"{PART}&crs=EPSG:32631").status_code == 400


def test_preference_chooses_the_kernel(client: Client) -> None:
    answers = {}
    for name in ("nearest-neighbor", "linear"):
        preference = f"interpolation=[ogc-interpolation:{name}]"
        response = client.get(f"{PART}&width=77", headers={"Prefer": preference})
        assert response.headers["Preference-Applied"] == preference
        assert response.headers["Content-Interpolation"] == name
        answers[name] = response.data
    assert answers["linear"] != answers["nearest-neighbor"]
    preference = "interpolation=[ogc-interpolation:mean]"
    query = f"{PART}&width=40&height=30"
    response = client.get(query, headers={"Prefer": preference})
    assert response.headers["Content-Interpolation"] == "mean"
    assert response.data != client.get(query).data
    response = client.get(PART, headers={"Prefer": "handling=strict, interpolation=linear"})
    assert "Preference-Applied" not in response.headers


def position(x: float, y: float) -> str:
    return f"{COVERAGE}?subset=E({x}),N({y})&subset-crs=[EPSG:2154]"


def test_values_at_positions_are_those_of_the_cells(ground: Ground, client: Client) -> None:
    source = random.Random(5)
    for _ in range(20):
        row, col = source.randrange(5 * TILE, 26 * TILE), source.randrange(3 * TILE, 20 * TILE)
        x, y = WEST + col + source.random(), NORTH - row - source.random()
        response = client.get(position(x, y))
        assert response.content_type == "application/json"
        stored = ground.values("3", row, row + 1, col, col + 1)[0, 0, 0].item()
        wanted = stored if np.isfinite(stored) and stored != -99999 else None
        assert response.json == wanted
    assert client.get(position(WEST, NORTH)).status_code == 404
    assert client.get(f"{position(WEST, NORTH)}&f=geotiff").status_code == 400
    refused = client.get(position(WEST, NORTH), headers={"Accept": "image/tiff"})
    assert refused.status_code == 406


def test_page_describes_the_coverage(client: Client) -> None:
    response = client.get(f"{COVERAGE}?f=html")
    assert response.content_type == "text/html; charset=utf-8"
    assert "The whole coverage" in response.text
    same = client.get(COVERAGE, headers={"Accept": "text/html"})
    assert same.data == response.data


@pytest.mark.parametrize("name", ["png", "jpeg", "webp"])
def test_pictures_of_colours(name: str, pictures: Ground) -> None:
    client = Reader(pictures.application)
    fields = "&properties=red,green,blue" if name == "jpeg" else ""
    response = client.get(f"{PART}&f={name}{fields}")
    assert response.status_code == 200, response.text
    assert response.content_type == f"image/{name}"
    assert response.headers["Content-Disposition"].endswith(
        '.jpg"' if name == "jpeg" else f'.{name}"'
    )
    if name == "png":
        values, _ = read(response.data)
        assert values.tobytes() == pictures.values("3", 500, 900, 300, 700).tobytes()
        preferred = client.get(PART, headers={"Accept": "image/png"})
        assert preferred.data == response.data
    alpha = client.get(f"{PART}&f=jpeg")
    assert (alpha.status_code, "cannot hold" in alpha.text) == (400, True)


@pytest.mark.parametrize("more", ["", "&fit=exact", "&width=1000&height=1200"])
def test_cog_has_as_many_overviews_as_requested(client: Client, more: str) -> None:
    found = []
    for count in ("", "&overview-count=0", "&overview-count=1", "&overview-count=64"):
        response = client.get(f"{COVERAGE}?f=cog{more}{count}")
        assert response.status_code == 200, response.text
        with rasterio.MemoryFile(response.data) as file, file.open() as source:
            found.append(source.overviews(1))
    everything, *few = found
    assert len(everything) > 1
    assert few == [[], everything[:1], everything]


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("f=cog&overview-count=-1", "from 0 to 64"),
        ("f=cog&overview-count=65", "from 0 to 64"),
        ("f=geotiff&overview-count=2", "only a COG"),
    ],
)
def test_numbers_of_overviews_that_are_not_possible(
    client: Client, query: str, detail: str
) -> None:
    response = client.get(f"{COVERAGE}?{query}")
    assert (response.status_code, detail in response.json["detail"]) == (400, True)
    assert client.get(f"{PART}&f=geotiff&overview-count=0").status_code == 200


def test_picture_larger_than_a_map_is_413(pictures: Ground) -> None:
    response = Reader(pictures.application).get(f"{COVERAGE}?f=png&width=4000&height=5300")
    assert response.status_code == 413


def test_whole_layer_of_png_is_an_uncompressed_file_with_ranges(pictures: Ground) -> None:
    client = Reader(pictures.application)
    whole = client.get(COVERAGE)
    assert whole.headers["Accept-Ranges"] == "bytes"
    assert read(whole.data)[1].get("compress") is None
    part = client.get(COVERAGE, headers={"Range": "bytes=5000-5999"})
    assert part.data == whole.data[5000:6000]


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("TIFF_ZIP_FLOAT32", {"tiles": 300}),
        ("TIFF_LZW_FLOAT32", {"stream_bytes": 4_000_000}),
        ("TIFF_PNG_UINT8", {"stream_bytes": 1_000_000}),
        ("TIFF_ZIP_FLOAT32", {"indices": 12}),
    ],
)
def test_parts_together_are_the_whole(tmp_path: Any, name: str, limits: dict[str, int]) -> None:
    ground = Ground(tmp_path, name, services=section({"limits": limits}), coverages=True)
    client = Reader(ground.application)
    refused = client.get(COVERAGE)
    assert refused.status_code == 413
    listed = client.get(refused.json["parts"].removeprefix("http://maps.example"))
    assert listed.content_type == "application/geo+json"
    addresses = [item["properties"]["href"] for item in listed.json["features"]]
    assert client.get(f"{COVERAGE}/parts?f=txt").text.split() == addresses
    expected = ground.values("3", 5 * TILE, 26 * TILE, 3 * TILE, 20 * TILE)[:, :, 0]
    found = np.zeros_like(expected)
    for item in listed.json["features"]:
        properties = item["properties"]
        response = client.get(properties["href"].removeprefix("http://maps.example"))
        assert response.status_code == 200
        assert response.headers["Accept-Ranges"] == "bytes"
        values, profile = read(response.data)
        assert properties["location"] == f"/vsicurl/{properties['href']}"
        top = round(NORTH - profile["transform"].f) - 5 * TILE
        left = round(profile["transform"].c - WEST) - 3 * TILE
        rows, columns, _ = values.shape
        west, south, east, north = properties["storageCrsBbox"]
        box = BoundingBox(west, south, east, north)
        wanted = ground.coverage.crs.transform_bbox(box, WGS84)
        ring = item["geometry"]["coordinates"][0]
        assert ring[0] == pytest.approx((wanted.xmin, wanted.ymin), abs=1e-7)
        assert ring[2] == pytest.approx((wanted.xmax, wanted.ymax), abs=1e-7)
        # The first tiles may be padding.
        up, aside = max(0, -top), max(0, -left)
        found[top + up : top + rows, left + aside : left + columns] = values[up:, aside:, 0]
    assert found.tobytes() == np.ascontiguousarray(expected).tobytes()
    ground.close()


def test_no_parts_are_listed_where_one_tile_may_be_too_large(tmp_path: Path) -> None:
    limits = {"stream_bytes": 10_000}
    ground = Ground(tmp_path, services=section({"limits": limits}), coverages=True)
    client = Reader(ground.application)
    refused = client.get(COVERAGE)
    assert (refused.status_code, "parts" in refused.json) == (413, False)
    assert client.get(f"{COVERAGE}/parts").status_code == 404
    ground.close()


@pytest.mark.parametrize(
    ("code", "half", "south"), [("EPSG:3408", 9036842.76, 0), ("EPSG:3571", 1e7, -10)]
)
def test_parts_around_a_pole_whose_corners_are_outside_the_globe(
    tmp_path: Path, code: str, half: float, south: float
) -> None:
    sets = {
        "HALF": synthetic(
            "HALF",
            crs=code,
            origin=(-half, half),
            cell_sizes=[2 * half / 64],
            matrix_sizes=[(1, 1)],
            tile_size=(64, 64),
        )
    }
    descriptor = write_pyramid(
        tmp_path / "pyramids",
        "ground",
        tile_matrix_set=sets["HALF"],
        format="TIFF_RAW_FLOAT32",
        channels=1,
        levels=[LevelPlan("0", 0, 0, 0, 0)],
        tile=lambda level, row, col: np.zeros((64, 64, 1), np.float32),
    )
    box = {"west": -180, "south": south, "east": 180, "north": 90}
    layer = layer_document(descriptor, tile_matrix_sets=sets, coverages=True, bbox=box)
    server_json = write_installation(
        tmp_path,
        layers={"ground": layer},
        tile_matrix_sets=sets,
        services=["ogcapi"],
        services_overrides=section({}),
    )
    listed = Reader(create_application(str(server_json))).get(f"{COVERAGE}/parts?f=json")
    assert listed.status_code == 200
    (part,) = listed.json["features"]
    assert part["geometry"]["coordinates"][0][2][1] == pytest.approx(90)


@pytest.mark.thorough
@pytest.mark.parametrize(("rows", "status"), [(200, 200), (201, 404)])
def test_list_of_the_most_parts_takes_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, status: int
) -> None:
    """40,000 parts of one tile each; of more, there is no list."""
    tile_matrix_set = synthetic(
        "WIDE", crs="EPSG:2154", origin=ORIGIN, cell_sizes=[1.0], matrix_sizes=[(200, 201)]
    )
    descriptor = write_pyramid(
        tmp_path / "pyramids",
        "ground",
        tile_matrix_set=tile_matrix_set,
        format="TIFF_RAW_FLOAT32",
        channels=1,
        levels=[LevelPlan("0", 0, rows - 1, 0, 199)],
        tile=lambda level, row, col: None,
    )
    sets = {"WIDE": tile_matrix_set}
    server_json = write_installation(
        tmp_path,
        layers={"ground": layer_document(descriptor, tile_matrix_sets=sets, coverages=True)},
        tile_matrix_sets=sets,
        services=["ogcapi"],
        services_overrides=section({"limits": {"tiles": 1}}),
    )
    application = create_application(str(server_json))
    client = Reader(application)
    assert client.get(f"{COVERAGE}/parts?f=txt").status_code == status
    points = []
    transform = parts.transform_points

    def noted(*given: Any) -> Any:
        points.append(given[2].size)
        return transform(*given)

    monkeypatch.setattr(parts, "transform_points", noted)
    response, peak = peak_of(lambda: client.get(f"{COVERAGE}/parts?f=json"))
    assert response.status_code == status
    if status == 200:
        assert len(response.json["features"]) == 40_000
        # A thousand points of each part once took six seconds.
        assert 0 < sum(points) <= 40 * 40_000
        assert peak < MOST_MEMORY * len(response.data)
    application.site.close_services()


def test_made_answer_beyond_the_spool_says_what_works(tmp_path: Any) -> None:
    ground = Ground(tmp_path, services=section({"limits": {"spool": 50_000}}), coverages=True)
    client = Reader(ground.application)
    response = client.get(PART)
    assert (response.status_code, response.json["limit"]) == (413, 400_000)
    assert "compression=none" in response.json["detail"]
    assert client.get(f"{PART}&compression=none").status_code == 200
    ground.close()


VALUES = [
    *("", "0", "-1", "1", "1e308", "-1e308", "nan", "inf", "9" * 400, "*", "é", "\0", "a,b"),
    *("E(1:2)", "Lat(1:2),Lon(3:4)", "E(1),N(2)", "E()", "E(1e308:1e309)", "E(2:1),N(2:1)"),
    *("Lon(179:-179),Lat(48:49)", "Lat(48.2:48.3),Lon(1.6:1.7)", "E(600300:600400)", "((((", ":"),
    *("1,2,3,4", "600300,6799000,600400,6799100", "1.6,48.2,1.7,48.3", "180,-90,-180,90"),
    *(
        "[EPSG:2154]",
        "EPSG:4326",
        "EPSG:3857",
        "http://",
        "deflate",
        "none",
        "jpeg",
        "lerc",
        "true",
    ),
    *(
        "true",
        "false",
        "128",
        "1024",
        "130",
        "exact",
        "tiles",
        "cog",
        "png",
        "json",
        "value",
        "red",
        "3",
    ),
]
NAMES = [
    *("bbox", "bbox-crs", "subset", "subset-crs", "width", "height", "resolution", "crs"),
    *("scale-factor", "scale-axes", "scale-size", "scaleSize", "properties", "level", "f"),
    *("exclude-properties", "compression", "predictor", "tiling", "tile-width", "tile-height"),
    *("interleave", "fit", "pad", "datetime"),
]


@pytest.mark.thorough
@pytest.mark.parametrize("more", ["", "&f=png"])
def test_one_cell_larger_than_a_number_of_cells(client: Client, more: str) -> None:
    response = client.get(f"{COVERAGE}?resolution=1e308{more}")
    assert response.status_code in (200, 400), response.text


def test_hostile_parameters_are_client_errors(ground: Ground, pictures: Ground) -> None:
    source = random.Random(4)
    statuses = set()
    for number in range(sized(2000, 5000)):
        client = Reader((ground if number % 2 else pictures).application)
        chosen = source.sample(NAMES, source.randrange(1, 5))
        query = [(name, source.choice(VALUES)) for name in chosen]
        response = client.get(COVERAGE, query_string=query)
        assert response.status_code in (200, 400, 404, 406, 413), (query, response.text)
        if response.status_code >= 400:
            assert response.content_type == "application/problem+json"
            assert "Traceback" not in response.text
        statuses.add(response.status_code)
    assert statuses >= {200, 400, 404}
