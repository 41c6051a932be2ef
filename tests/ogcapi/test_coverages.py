"""Stored values for download (OGC API – Coverages)."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.coverage.ground import LEVELS, ORIGIN, TILE, Ground
from werkzeug.test import Client, TestResponse

from mastaba.model.style import Palette, PaletteEntry, Style
from mastaba.wsgi import create_application
from mastaba_ogcapi.coverages.documents import schema_document
from mastaba_server.log.access_lines import AccessLines
from mastaba_server.log.entries import EntryLines
from mastaba_writer.pyramids import LevelPlan

rasterio = pytest.importorskip("rasterio")

ROOT = "http://maps.example/ogcapi"
COLLECTION = "/ogcapi/collections/ground"
COVERAGE = f"{COLLECTION}/coverage"
NATIVE = "http://www.opengis.net/def/crs/EPSG/0/2154"
LIMITS = (ORIGIN[0] + 3 * TILE, ORIGIN[1] - 26 * TILE, ORIGIN[0] + 20 * TILE, ORIGIN[1] - 5 * TILE)
"""West, south, east and north of the layer."""


def section(coverages: Any = True) -> dict[str, Any]:
    return {"ogcapi": {"coverages": coverages}}


@pytest.fixture(scope="module", params=["area", "post"])
def ground(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    opened = Ground(
        tmp_path_factory.mktemp("ground"),
        services=section(),
        registration=request.param,
        coverages=True,
    )
    yield opened
    opened.close()


class Reader(Client):
    """A client that reads each answer to its end."""

    def open(self, *args: Any, **options: Any) -> TestResponse:
        return super().open(*args, buffered=options.pop("buffered", True), **options)


@pytest.fixture
def client(ground: Ground) -> Client:
    return Reader(ground.application)


def pixels(response: TestResponse) -> Any:
    with rasterio.MemoryFile(response.data) as file, file.open() as source:
        return source.read(1), source.transform


def subset(west: float, east: float, south: float, north: float) -> str:
    return f"{COVERAGE}?subset=E({west}:{east}),N({south}:{north})&subset-crs=[EPSG:2154]"


def test_collection_links_its_coverage_and_describes_its_grid(
    ground: Ground, client: Client
) -> None:
    document = client.get(f"{COLLECTION}?f=json").json
    links = {link["rel"]: link for link in document["links"]}
    link = links["http://www.opengis.net/def/rel/ogc/1.0/coverage"]
    # GDAL compares this text.
    assert link["type"] == "image/tiff; application=geotiff"
    spatial = document["extent"]["spatial"]
    half = 0.5 if ground.layer.registration == "area" else 0.0
    east, north = spatial["grid"]
    assert (east["axis"], east["cellsCount"], east["resolution"]) == ("E", 17 * TILE, 1)
    assert (north["axis"], north["cellsCount"]) == ("N", 21 * TILE)
    assert east["firstCoordinate"] == LIMITS[0] + 0.5
    assert north["firstCoordinate"] == LIMITS[1] + 0.5
    assert east["relativeBounds"] == [-half, half]
    assert east["availableResolutions"] == [1, 2, 4, 8]
    inset = 0.5 - half
    assert spatial["storageCrsBbox"] == [
        [LIMITS[0] + inset, LIMITS[1] + inset, LIMITS[2] - inset, LIMITS[3] - inset]
    ]
    for link in document["links"]:
        if "coverage" in link["rel"] or "schema" in link["rel"]:
            assert client.get(link["href"].removeprefix("http://maps.example")).status_code == 200


def test_schema_describes_the_fields(client: Client) -> None:
    response = client.get(f"{COLLECTION}/schema")
    assert response.content_type == "application/schema+json"
    assert response.json["properties"]["value"] == {
        "title": "Value",
        "type": "number",
        "x-ogc-propertySeq": 1,
        "x-ogc-variableType": "continuous",
        "x-ogc-nullValues": [-99999],
    }


def test_service_metadata_has_the_limits(tmp_path: Path) -> None:
    limits = {"stream_bytes": 4_000_003, "pixels": 5000}
    ground = Ground(tmp_path, services=section({"limits": limits}), coverages=True)
    client = Reader(ground.application)
    links = client.get("/ogcapi?f=json").json["links"]
    (href,) = [link["href"] for link in links if link["rel"] == "service-meta"]
    document = client.get(href.removeprefix("http://maps.example")).json
    found = document["info"]["x-OGC-limits"]["coverage"]
    assert found == {"maxCells": 1_000_000, "maxResampledCells": 5000}
    ground.close()


def test_conformance_names_what_is_offered(client: Client) -> None:
    classes = client.get("/ogcapi/conformance?f=json").json["conformsTo"]
    found = {name.rpartition("/")[2] for name in classes if "ogcapi-coverages-1/" in name}
    assert found == {
        *("core", "subsetting-spatial", "scaling-spatial", "field-selection", "crs"),
        *("position-query", "geotiff", "cog", "api-operations", "html"),
    }


def test_definition_of_the_api_contains_downloads(client: Client) -> None:
    paths = client.get("/ogcapi/api?f=json").json["paths"]
    operation = paths["/collections/{collectionId}/coverage"]["get"]
    assert set(operation["responses"]["200"]["content"]) == {
        "image/tiff; application=geotiff",
        "image/tiff; application=geotiff; profile=cloud-optimized",
        "application/json",
        "text/html",
    }
    assert "/collections/{collectionId}/schema" in paths


def test_whole_coverage_is_a_cog(ground: Ground, client: Client) -> None:
    response = client.get(COVERAGE)
    assert response.status_code == 200
    assert response.content_type == "image/tiff; application=geotiff; profile=cloud-optimized"
    answer = ground.extract(ground.whole())
    assert response.data == b"".join(answer.pieces(0, answer.size))
    assert response.headers["Accept-Ranges"] == "bytes"
    assert response.headers["Content-Crs"] == NATIVE
    disposition = response.headers["Content-Disposition"]
    assert disposition.startswith('attachment; filename="ground_3_60')
    assert disposition.endswith('.tif"')


def test_windows_are_exactly_the_cells_of_the_rule(ground: Ground, client: Client) -> None:
    source = random.Random(11)
    is_post = ground.layer.registration == "post"
    for _ in range(12):
        west = LIMITS[0] + round(source.uniform(-20, 900), 2)
        south = LIMITS[1] + round(source.uniform(-20, 1200), 2)
        east, north = west + source.uniform(1.5, 250), south + source.uniform(1.5, 250)
        # An oracle of one line for each axis: centres in the interval, or squares that meet it.
        reach = 0.01 if is_post else 0.49
        lefts = np.arange(17 * TILE) + LIMITS[0] + 0.5
        tops = LIMITS[3] - 0.5 - np.arange(21 * TILE)
        columns = np.flatnonzero((lefts >= west - reach) & (lefts <= east + reach))
        rows = np.flatnonzero((tops >= south - reach) & (tops <= north + reach))
        response = client.get(subset(west, east, south, north))
        assert response.status_code == 200, response.text
        values, transform = pixels(response)
        top, left = 5 * TILE + rows[0], 3 * TILE + columns[0]
        expected = ground.values("3", top, top + len(rows), left, left + len(columns))[:, :, 0]
        assert values.tobytes() == np.ascontiguousarray(expected).tobytes()
        assert (transform.c, transform.f) == (ORIGIN[0] + left, ORIGIN[1] - top)
        inset = 0.5 if is_post else 0.0
        assert [float(x) for x in response.headers["Content-Bbox"].split(",")] == [
            ORIGIN[0] + left + inset,
            ORIGIN[1] - top - len(rows) + inset,
            ORIGIN[0] + left + len(columns) - inset,
            ORIGIN[1] - top - inset,
        ]


def test_box_in_degrees_gives_the_cells_around_it(ground: Ground, client: Client) -> None:
    west, south, east, north = ground.layer.geographic_bbox.corners(northing_first=False)
    middle = (west + east) / 2, (south + north) / 2
    box = f"{middle[0] - 0.001},{middle[1] - 0.001},{middle[0] + 0.001},{middle[1] + 0.001}"
    response = client.get(f"{COVERAGE}?bbox={box}")
    assert response.status_code == 200
    values, _ = pixels(response)
    assert 60 < values.shape[1] < 200
    assert 100 < values.shape[0] < 260
    same = client.get(f"{COVERAGE}?bbox={box}&bbox-crs=CRS:84")
    assert same.headers["ETag"] == response.headers["ETag"]


def test_level_is_sent_as_stored(ground: Ground, client: Client) -> None:
    response = client.get(f"{COVERAGE}?level=1")
    values, transform = pixels(response)
    assert transform.a == 4
    assert response.content_type == "image/tiff; application=geotiff"
    assert values.shape[1] in (5 * TILE, 17 * TILE // 4)


def test_coarser_levels_may_cover_more(tmp_path: Path) -> None:
    class Partly(Ground):
        def write(self, **changes: Any) -> None:
            super().write(levels=[LevelPlan("3", 5, 8, 3, 6), *LEVELS[1:]], **changes)

    ground = Partly(
        tmp_path, services=section() | {"wcs": {}}, coverages=True, wcs={"enabled": True}
    )
    client = Reader(ground.application)
    # Columns and rows of the level 2, whose cells have 2 m, east of the finest level.
    west, north = ORIGIN[0] + 2 * 450, ORIGIN[1] - 2 * 500
    east, south = west + 10, north - 10
    wanted = ground.values("2", 500, 505, 450, 455)[:, :, 0]
    part = f"subset=E({west}:{east}),N({south}:{north})&subset-crs=[EPSG:2154]"
    assert client.get(f"{COVERAGE}?{part}").status_code == 404
    fixed = f"CRS=EPSG:2154&BBOX={west},{south},{east},{north}&WIDTH=5&HEIGHT=5&FORMAT=GeoTIFF"
    for path in (
        f"{COVERAGE}?level=2&{part}",
        f"/wcs?SERVICE=WCS&VERSION=1.0.0&REQUEST=GetCoverage&COVERAGE=ground&{fixed}",
    ):
        values, transform = pixels(client.get(path))
        assert (transform.c, transform.f, transform.a) == (west, north, 2)
        np.testing.assert_array_equal(values, wanted)
    ground.close()


def test_pages_learn_the_addresses_of_downloads(ground: Ground, client: Client) -> None:
    cog, tif = ground.application.site.services["ogcapi"].downloads(ground.layer)
    edges = ground.coverage.finest.edges(ground.coverage.finest.window)
    middle = (edges.xmin + edges.xmax) / 2
    box = {"xmin": edges.xmin, "ymin": edges.ymin, "xmax": middle, "ymax": edges.ymax}
    assert (cog.format, tif.format, tif.takes) == ("cog", "tif", ("level",))
    for download, level in ((cog, ""), (tif, "1")):
        address = download.template.format(**box, level=level).removeprefix("http://maps.example")
        whole = client.get(address)
        values, transform = pixels(whole)
        assert transform.a == (4 if level else 1)
        assert values.shape[1] < ground.coverage.finest.window.columns
        # Any part can be requested on its own.
        part = client.get(address, headers={"Range": "bytes=10-19"})
        assert (part.status_code, part.data) == (206, whole.data[10:20])


def test_range_resumes_a_download(client: Client) -> None:
    whole = client.get(COVERAGE)
    etag = whole.headers["ETag"]
    assert not etag.startswith("W/")
    part = client.get(COVERAGE, headers={"Range": "bytes=1000-1999", "If-Range": etag})
    assert (part.status_code, part.data) == (206, whole.data[1000:2000])
    assert part.headers["Content-Range"] == f"bytes 1000-1999/{len(whole.data)}"
    assert client.get(COVERAGE, headers={"If-None-Match": etag}).status_code == 304
    # A coding would move its bytes.
    packed = client.get(COVERAGE, headers={"Accept-Encoding": "gzip"})
    assert "Content-Encoding" not in packed.headers
    assert packed.data == whole.data
    head = client.head(COVERAGE)
    assert head.headers["Content-Length"] == str(len(whole.data))
    beyond = client.get(COVERAGE, headers={"Range": f"bytes={len(whole.data)}-"})
    assert (beyond.status_code, beyond.content_type) == (416, "application/problem+json")
    assert beyond.headers["Content-Range"] == f"bytes */{len(whole.data)}"
    changed = client.get(COVERAGE, headers={"If-Match": '"other"'})
    assert (changed.status_code, changed.content_type) == (412, "application/problem+json")


@pytest.mark.parametrize("name", ["geotiff", "tiff", "image/tiff;application=geotiff"])
def test_geotiff_has_exactly_the_cells(name: str, ground: Ground, client: Client) -> None:
    response = client.get(COVERAGE, query_string={"f": name})
    values, _ = pixels(response)
    assert response.content_type == "image/tiff; application=geotiff"
    assert values.shape == (21 * TILE, 17 * TILE)


@pytest.mark.parametrize(
    ("headers", "profile"),
    [
        ({"Accept": "image/tiff; application=geotiff"}, False),
        ({"Accept": "image/tiff; application=geotiff; profile=cloud-optimized"}, True),
        (
            {
                "Accept-Profile": "<http://www.opengis.net/def/profile/geotiff/cloud-optimized>",
            },
            True,
        ),
        ({"Accept": "text/html,*/*;q=0.8"}, False),
    ],
)
def test_accept_chooses_the_format_of_a_part(
    headers: dict[str, str], profile: bool, client: Client
) -> None:
    address = subset(LIMITS[0], LIMITS[0] + 50, LIMITS[1], LIMITS[1] + 50)
    response = client.get(address, headers=headers)
    assert response.status_code == 200
    assert response.content_type.endswith("profile=cloud-optimized") is profile
    assert "Accept" in response.headers["Vary"]


ERRORS = [
    ("f=netcdf", 400, "there is no format netcdf"),
    ("width=0", 400, "width must be"),
    ("width=10&resolution=2", 400, "exclude each other"),
    ("width=10&level=1", 400, "as it is stored"),
    ("width=60000&height=60000", 413, "at most 100000000"),
    ("width=9000&bbox=3,46,3.000001,46.000001", 404, "outside"),
    ("resolution=E(0.2),N(0.2)", 400, "a quarter"),
    ("resolution=E(2)", 400, "both axes"),
    ("scale-size=Z(3)", 400, "axis z"),
    ("scale-size=3", 400, "of the form"),
    ("scale-factor=x", 400, "not a number"),
    ("scale-factor=-1", 400, "greater than 0"),
    ("crs=EPSG:99999", 400, "CRS"),
    ("bbox=1,2,3", 400, "bbox must be"),
    ("bbox=1,2,3,x", 400, "bbox is not a number"),
    ("bbox=-1e308,-1e308,1e308,1e308&bbox-crs=[EPSG:2154]", 400, "too large"),
    ("bbox=1,2,3,1", 400, "minimum above"),
    ("bbox=0,0,1,1&subset=Lat(0:1)", 400, "exclude each other"),
    ("subset=E(1:2)", 400, "no axis"),
    ("subset=Lat(45)", 400, "give an interval"),
    ("subset=Lat(0:1)", 404, "outside"),
    ("bbox=100,10,101,11", 404, "outside"),
    ("bbox=599990,6700000,600001,6701000&bbox-crs=[EPSG:2154]&level=3", 404, "outside"),
    ("properties=red", 400, "there is no field red"),
    ("exclude-properties=value", 400, "leaves no field"),
    ("properties=value&exclude-properties=value", 400, "exclude each other"),
    ("level=9", 400, "there is no level 9"),
    ("level=1&f=cog", 400, "a COG begins with the finest level"),
    ("compression=huffman", 400, "compression huffman is not offered"),
    ("compression=jpeg", 400, "8 bits"),
    ("predictor=horizontal&compression=deflate", 400, "floating-point"),
    ("predictor=horizontal&compression=packbits", 400, "has no predictor"),
    ("interleave=band", 400, "interleave band is not offered"),
    ("tile-width=100", 400, "multiple of 16"),
    ("f=png", 400, "there is no format png"),
    ("f=json", 400, "one position"),
]


@pytest.mark.parametrize(("query", "status", "text"), ERRORS)
def test_errors_are_problems_that_say_what_is_wrong(
    query: str, status: int, text: str, client: Client
) -> None:
    response = client.get(f"{COVERAGE}?{query}")
    assert (response.status_code, response.content_type) == (status, "application/problem+json")
    assert response.json["status"] == status
    assert text in response.json["detail"]


def test_format_that_is_not_accepted_is_406(client: Client) -> None:
    response = client.get(COVERAGE, headers={"Accept": "image/png"})
    assert (response.status_code, response.content_type) == (406, "application/problem+json")


def test_unknown_parameters_are_ignored(client: Client) -> None:
    assert client.head(f"{COVERAGE}?datetime=2020&limit=3").status_code == 200


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS"])
def test_other_methods(method: str, client: Client) -> None:
    response = client.open(COVERAGE, method=method)
    assert response.status_code == (200 if method == "HEAD" else 204)
    assert response.data == b""


def test_older_clients_find_the_grid_in_degrees(client: Client) -> None:
    grid = client.get(f"{COVERAGE}/domainset").json["generalGrid"]
    assert grid["axisLabels"] == ["Lon", "Lat"]
    assert grid["axis"][0]["resolution"] > 0
    assert client.get(f"{COVERAGE}/rangetype").json["field"][0]["definition"] == "FLOAT32"


@pytest.mark.parametrize(
    ("coverages", "switch"), [(None, True), (False, True), (True, False), (True, None)]
)
def test_nothing_is_offered_unless_both_switches_are_on(
    coverages: Any, switch: Any, tmp_path: Path
) -> None:
    fields = {} if switch is None else {"coverages": switch}
    services = {"ogcapi": {}} if coverages is None else section(coverages)
    ground = Ground(tmp_path, services=services, **fields)
    client = Reader(ground.application)
    for path in ("/coverage", "/schema", "/coverage/domainset", "/coverage/rangetype"):
        assert client.get(COLLECTION + path).status_code == 404
    document = client.get(f"{COLLECTION}?f=json").text
    assert "coverage" not in document
    assert "coverages-1" not in client.get("/ogcapi/conformance?f=json").text
    assert "/coverage" not in client.get("/ogcapi/api?f=json").text
    assert not ground.application.site.services["ogcapi"].downloads(ground.layer)
    ground.close()


@pytest.mark.parametrize(
    ("limits", "unit"), [({"stream_bytes": 5000}, "bytes"), ({"tiles": 10}, "tiles")]
)
def test_answer_beyond_a_limit_is_413_with_size_and_limit(
    limits: dict[str, int], unit: str, tmp_path: Path
) -> None:
    ground = Ground(tmp_path, services=section({"limits": limits}), coverages=True)
    response = Reader(ground.application).get(COVERAGE)
    assert (response.status_code, response.content_type) == (413, "application/problem+json")
    assert response.json["limit"] == next(iter(limits.values())) < response.json[unit]
    assert "smaller area" in response.json["detail"]
    ground.close()


def test_answer_beyond_a_limit_names_the_job_if_it_takes_the_layer(tmp_path: Path) -> None:
    pytest.importorskip("mastaba_export")
    export = {"endpoint_uri": "http://localhost/export", "directory": str(tmp_path / "jobs")}
    for is_offered in (True, False):
        ground = Ground(
            tmp_path / str(is_offered),
            services=section({"limits": {"tiles": 10}}) | {"export": export},
            coverages=True,
            **({"export": {"enabled": True}} if is_offered else {}),
        )
        response = Reader(ground.application).get(COVERAGE)
        assert response.status_code == 413
        process = "http://localhost/export/processes/export-coverage"
        assert (process in response.text) == is_offered
        ground.close()


def test_long_downloads_are_limited(tmp_path: Path) -> None:
    ground = Ground(tmp_path, services=section({"limits": {"streams": 1}}), coverages=True)
    application = create_application(str(ground.server_json))
    client = Reader(application)
    # What is not read is not closed either.
    running = client.get(COVERAGE, buffered=False)
    refused = client.get(COVERAGE)
    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "30")
    assert client.get(COVERAGE, headers={"Range": "bytes=0-99"}).status_code == 206
    running.close()
    assert client.get(COVERAGE).status_code == 200
    ground.close()


@pytest.mark.parametrize("style", ["text", "json"])
def test_truncated_downloads_are_logged_and_counted(
    style: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    services = section() | {"metrics": {}}
    ground = Ground(tmp_path, services=services, coverages=True)
    application: Any = create_application(str(ground.server_json))
    client = Reader(AccessLines(EntryLines(style, steps=False)).around(application))
    with caplog.at_level(logging.INFO, "mastaba.access"):
        client.get(COVERAGE)
        client.head(COVERAGE)
        cut = client.get(COVERAGE, buffered=False)
        pieces = iter(cut.response)
        sent = len(next(pieces))
        next(pieces)
        cut.close()
    lines = [line.message for line in caplog.records if line.name == "mastaba.access"]
    assert ["truncated" in line for line in lines] == [False, False, True]
    assert str(sent) in lines[2]
    labels = '{operation="getcoverage",service="ogcapi"}'
    samples = client.get("/metrics").text.splitlines()
    assert f"mastaba_streams_total{labels} 2.0" in samples
    assert f"mastaba_truncated_total{labels} 1.0" in samples
    ground.close()


def selected(ground: Ground, west: float, south: float, east: float, north: float) -> Any:
    """Return the rows and columns whose geometry a closed box meets: an independent rule."""
    reach = 0.01 if ground.layer.registration == "post" else 0.49
    x = np.arange(17 * TILE) + LIMITS[0] + 0.5
    y = LIMITS[3] - 0.5 - np.arange(21 * TILE)
    columns = np.flatnonzero((x >= west - reach) & (x <= east + reach))
    rows = np.flatnonzero((y >= south - reach) & (y <= north + reach))
    return rows, columns


@pytest.mark.thorough
@pytest.mark.parametrize("degrees", [False, True])
def test_random_boxes_have_the_cells_of_the_rule(
    degrees: bool, ground: Ground, client: Client
) -> None:
    pyproj = pytest.importorskip("pyproj")
    back = pyproj.Transformer.from_crs(2154, "OGC:CRS84", always_xy=True)
    there = pyproj.Transformer.from_crs("OGC:CRS84", 2154, always_xy=True)
    source = random.Random(21)
    inset = 0.5 if ground.layer.registration == "post" else 0.0
    for _ in range(200):
        west = LIMITS[0] + source.uniform(-30, 1080)
        south = LIMITS[1] + source.uniform(-30, 1330)
        box = [west, south, west + source.uniform(0.2, 200), south + source.uniform(0.2, 200)]
        if degrees:
            (low, left), (high, right) = sorted(
                back.transform(*corner)[::-1] for corner in (box[:2], box[2:])
            )
            left, right = sorted((left, right))
            query = f"bbox={left!r},{low!r},{right!r},{high!r}"
            steps = np.linspace(0, 1, 256)
            xs = np.concatenate([left + steps * (right - left)] * 2 + [steps * 0 + left])
            ys = np.concatenate([steps * 0 + low, steps * 0 + high, low + steps * (high - low)])
            xs = np.concatenate([xs, steps * 0 + right])
            ys = np.concatenate([ys, low + steps * (high - low)])
            tx, ty = there.transform(xs, ys)
            box = [tx.min(), ty.min(), tx.max(), ty.max()]
        else:
            query = f"bbox={','.join(map(repr, box))}&bbox-crs=[EPSG:2154]"
        rows, columns = selected(ground, *box)
        response = client.head(f"{COVERAGE}?{query}&compression=none")
        if not (len(rows) and len(columns)):
            assert response.status_code == 404, query
            continue
        assert response.status_code == 200, query
        assert [float(x) for x in response.headers["Content-Bbox"].split(",")] == [
            LIMITS[0] + columns[0] + inset,
            LIMITS[3] - rows[-1] - 1 + inset,
            LIMITS[0] + columns[-1] + 1 - inset,
            LIMITS[3] - rows[0] - inset,
        ], query


@pytest.mark.parametrize("resampling", ["nn", "linear"])
def test_fields_of_classes_are_categories(resampling: str, tmp_path: Path) -> None:
    ground = Ground(tmp_path, "TIFF_PNG_UINT8", services=section(), coverages=True)
    dataset: Any = ground.application.site.services["ogcapi"]
    collection = dataset._dataset.collection("ground")
    palette = Palette((PaletteEntry(0, 10, 20, 30, 255),))
    style = Style("classes", "classes", "Classes", palette=palette)
    collection.layer = replace(collection.layer, resampling=resampling, styles=(style,))
    found = schema_document(dataset._dataset, collection)
    kind = found["properties"]["gray"]["x-ogc-variableType"]
    assert kind == ("categoricalNominal" if resampling == "nn" else "continuous")
    ground.close()


@pytest.mark.parametrize("form", ["subset", "bbox"])
def test_an_interval_without_extent_selects_the_cells_that_contain_it(
    ground: Ground, client: Client, form: str
) -> None:
    """The interval is closed; a single value is a position instead."""
    x, y = LIMITS[0] + 100.5, LIMITS[1] + 200.5

    def get(*box: float) -> TestResponse:
        west, south, east, north = box
        if form == "subset":
            return client.get(subset(west, east, south, north))
        return client.get(f"{COVERAGE}?bbox={west},{south},{east},{north}&bbox-crs=[EPSG:2154]")

    values, transform = pixels(get(x, y, x, y))
    assert values.shape == (1, 1)
    assert (transform.c, transform.f) == (x - 0.5, y + 0.5)
    values, _ = pixels(get(x, y - 3, x, y))
    assert values.shape == (4, 1)
    # Nothing of a square is on its edge, and no post.
    assert get(x + 0.5, y, x + 0.5, y).status_code == 404
    assert get(x, y, x, y - 1).status_code == 400
    single = client.get(f"{COVERAGE}?subset=E({x}),N({y}:{y})&subset-crs=[EPSG:2154]")
    assert (single.status_code, "give an interval" in single.text) == (400, True)
