"""Coverages of version 2.0.1 and 1.0.0."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator
from email import message_from_bytes
from email.policy import HTTP
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lxml import etree
from tests.coverage.ground import ORIGIN, TILE, Ground
from tests.wcs.reader import Reader
from werkzeug.test import Client, TestResponse

rasterio = pytest.importorskip("rasterio")

Fault = Callable[[TestResponse], tuple[int, str | None, str | None]]

WEST, NORTH = ORIGIN[0] + 3 * TILE, ORIGIN[1] - 5 * TILE
EAST, SOUTH = WEST + 17 * TILE, NORTH - 21 * TILE
COVERAGE = "/wcs?service=WCS&version=2.0.1&request=GetCoverage&coverageId=ground"
PART = f"&subset=E({WEST + 100},{WEST + 140})&subset=N({NORTH - 330},{NORTH - 300})"
OLD = "/wcs?service=WCS&version=1.0.0&request=GetCoverage&coverage=ground&format=GeoTIFF"
FORMER = "http://www.opengis.net/def/interpolation/OGC/1/"
OGC = "/ogcapi/collections/ground/coverage?subset-crs=[EPSG:2154]"


def opened(response: TestResponse) -> Any:
    assert response.status_code == 200, response.text
    assert response.content_type == "image/tiff"
    return rasterio.open(io.BytesIO(response.data))


def size(response: TestResponse) -> tuple[int, int]:
    with opened(response) as file:
        return file.width, file.height


def test_subset_has_the_stored_values(ground: Ground, client: Client) -> None:
    response = client.get(COVERAGE + PART)
    with opened(response) as file:
        values = file.read(1)
        # Closed intervals on whole numbers: the posts are at halves.
        assert (file.width, file.height) == (40, 30)
        assert (file.bounds.left, file.bounds.top) == (WEST + 100, NORTH - 300)
        assert file.tags()["AREA_OR_POINT"] == "Point"
    top, left = 5 * TILE + 300, 3 * TILE + 100
    expected = ground.values("3", top, top + 30, left, left + 40)[:, :, 0]
    assert values.tobytes() == np.ascontiguousarray(expected).tobytes()
    assert 'filename="ground_3_' in response.headers["Content-Disposition"]


def test_cells_are_those_of_ogc_api(client: Client) -> None:
    """The same cells are the same file, with the same ETag; the rule of cells is the same too."""
    source = random.Random(7)
    for _ in range(8):
        west = WEST + round(source.uniform(-20, 900), 2)
        south = SOUTH + round(source.uniform(-20, 1200), 2)
        east, north = round(west + source.uniform(1.5, 40), 2), south + round(source.uniform(2, 40))
        ours = client.get(f"{COVERAGE}&subset=E({west},{east})&subset=N({south},{north})")
        other = client.get(f"{OGC}&subset=E({west}:{east}),N({south}:{north})&f=geotiff")
        assert (ours.status_code, other.status_code) == (200, 200)
        assert ours.data == other.data
        assert ours.headers["ETag"] == other.headers["ETag"]


@pytest.mark.thorough
@pytest.mark.parametrize("registration", ["area", "post"])
def test_cells_of_many_boxes(tmp_path: Path, registration: str) -> None:
    """An oracle of one line for each axis: centres in the interval, or squares that meet it."""
    installed = Ground(
        tmp_path,
        services={"wcs": {}, "ogcapi": {"coverages": True}},
        registration=registration,
        wcs={"enabled": True},
        coverages=True,
    )
    client = Reader(installed.application)
    source = random.Random(8)
    reach = 0.01 if registration == "post" else 0.49
    lefts = np.arange(17 * TILE) + WEST + 0.5
    tops = NORTH - 0.5 - np.arange(21 * TILE)
    for _ in range(200):
        # Not at the limit of what counts as on an edge.
        west = WEST + round(source.uniform(-20, 1080), 2) + 0.005
        south = SOUTH + round(source.uniform(-20, 1340), 2) + 0.005
        east = west + round(source.uniform(0.05, 40), 2)
        north = south + round(source.uniform(0.05, 40), 2)
        columns = np.flatnonzero((lefts >= west - reach) & (lefts <= east + reach))
        rows = np.flatnonzero((tops >= south - reach) & (tops <= north + reach))
        ours = client.get(f"{COVERAGE}&subset=E({west!r},{east!r})&subset=N({south!r},{north!r})")
        other = client.get(f"{OGC}&subset=E({west!r}:{east!r}),N({south!r}:{north!r})&f=geotiff")
        assert ours.status_code == other.status_code
        if not (len(columns) and len(rows)):
            assert ours.status_code == 404
            continue
        assert ours.data == other.data
        with opened(ours) as file:
            assert (file.width, file.height) == (len(columns), len(rows))
            assert (file.bounds.left, file.bounds.top) == (WEST + columns[0], NORTH - rows[0])
    installed.close()


@pytest.mark.parametrize(
    ("ours", "other"),
    [
        ("&format=image/tiff;application=geotiff;profile=cloud-optimized", "&f=cog"),
        ("&geotiff:compression=None", "&f=geotiff&compression=none"),
        ("&scaleSize=i(100),j(50)", "&f=geotiff&width=100&height=50"),
        (
            "&outputCrs=EPSG:3857&scaleSize=i(20),j(10)",
            "&f=geotiff&width=20&height=10&crs=[EPSG:3857]",
        ),
    ],
)
def test_other_forms_are_those_of_ogc_api_too(client: Client, ours: str, other: str) -> None:
    expected = client.get(f"{OGC}{other}")
    assert expected.status_code == 200, expected.text
    found = client.get(COVERAGE + ours)
    assert found.status_code == 200, found.text
    assert found.headers["ETag"] == expected.headers["ETag"]
    assert found.data == expected.data


def test_file_without_compression_has_ranges(client: Client) -> None:
    address = f"{COVERAGE}&geotiff:compression=None{PART}"
    whole = client.get(address)
    assert whole.headers["Accept-Ranges"] == "bytes"
    etag = whole.headers["ETag"]
    part = client.get(address, headers={"Range": "bytes=100-199", "If-Range": etag})
    assert (part.status_code, part.data) == (206, whole.data[100:200])
    assert client.get(address, headers={"If-None-Match": etag}).status_code == 304
    beyond = client.get(address, headers={"Range": f"bytes={len(whole.data)}-"})
    assert (beyond.status_code, beyond.content_type) == (416, "text/xml")
    assert beyond.headers["Content-Range"] == f"bytes */{len(whole.data)}"
    changed = client.get(address, headers={"If-Match": '"other"'})
    assert (changed.status_code, changed.content_type) == (412, "text/xml")


@pytest.mark.parametrize(
    ("subset", "expected"),
    [
        (f"&subset=E({WEST},*)&subset=N(*,{SOUTH + 7})", (17 * TILE, 7)),
        (f"&subset=x({WEST},{WEST + 3})&SUBSET=Northing({SOUTH},{SOUTH + 7})", (3, 7)),
        (f"&subset0=E({WEST},{WEST + 3})&subset1=N({SOUTH},{SOUTH + 7})", (3, 7)),
        (
            f"&subset=E,http://www.opengis.net/def/crs/EPSG/0/2154({WEST},{WEST + 3})"
            f"&subset=N,EPSG:2154({SOUTH},{SOUTH + 7})",
            (3, 7),
        ),
        (f"&subset=E({WEST + 12.3})&subset=N({SOUTH},{SOUTH + 7})", (1, 7)),
        (f"&subset=E({WEST})&subset=N({SOUTH})", (1, 1)),
        (f"&subset=E({EAST})&subset=N({NORTH})", (1, 1)),
        (f"&subset=E({WEST + 5},{WEST + 5})&subset=N({SOUTH},{SOUTH + 7})", (1, 7)),
        (f"&subset=E({WEST - 1000},{WEST + 3})&subset=N({SOUTH},{SOUTH + 7})", (3, 7)),
    ],
)
def test_subsets(client: Client, subset: str, expected: tuple[int, int]) -> None:
    assert size(client.get(COVERAGE + subset)) == expected


@pytest.mark.parametrize(
    ("scaling", "expected"),
    [
        ("&scaleFactor=0.5", (20, 15)),
        ("&scal:scaleFactor=2", (80, 60)),
        ("&scaleAxes=i(0.5),j(2)", (20, 60)),
        ("&scaleAxes=N(0.5)", (40, 15)),
        ("&scaleSize=i(13),j(9)", (13, 9)),
        ("&scaleSize=E(13.0)", (13, 30)),
        ("&scaleExtent=i(10:19),j(100:104)", (10, 5)),
        ("&size=E(13)&size=N(9)", (13, 9)),
        ("&width=20&height=9", (20, 9)),
        ("&resolution=E(2)&resolution=N(5)", (20, 6)),
    ],
)
def test_scaling(client: Client, scaling: str, expected: tuple[int, int]) -> None:
    response = client.get(COVERAGE + PART + scaling)
    assert size(response) == expected
    with opened(response) as file:
        assert tuple(file.bounds) == (WEST + 100, NORTH - 330, WEST + 140, NORTH - 300)


def test_interpolation_changes_values(client: Client) -> None:
    address = f"{COVERAGE}{PART}&scaleSize=i(33),j(22)"
    found = {
        method: client.get(f"{address}&interpolation={FORMER}{method}")
        for method in ("nearest-neighbor", "linear", "cubic")
    }
    assert len({size(response) for response in found.values()}) == 1
    assert len({response.data for response in found.values()}) == 3


def test_answer_is_in_the_crs_of_the_subsets(client: Client) -> None:
    box = "&subset=Lat(48.284,48.285)&subset=Long(1.66,1.661)&subsettingCrs=EPSG:4326"
    with opened(client.get(COVERAGE + box)) as file:
        assert file.crs.to_epsg() == 4326
        assert file.bounds.left == pytest.approx(1.66, abs=2e-5)
        assert file.bounds.top == pytest.approx(48.285, abs=2e-5)
    native = "&outputCrs=http://www.opengis.net/def/crs/EPSG/0/2154"
    with opened(client.get(COVERAGE + box + native)) as file:
        assert file.crs.to_epsg() == 2154


def test_multipart_is_a_description_and_the_file(client: Client) -> None:
    plain = client.get(COVERAGE + PART)
    response = client.get(f"{COVERAGE}{PART}&mediaType=multipart/related")
    assert response.status_code == 200
    head = f"Content-Type: {response.content_type}\r\n\r\n".encode()
    first, second = message_from_bytes(head + response.data, policy=HTTP).iter_parts()
    root = etree.fromstring(first.get_payload(decode=True))
    gml = "{http://www.opengis.net/gml/3.2}"
    assert root.tag == "{http://www.opengis.net/gmlcov/1.0}RectifiedGridCoverage"
    assert root.findtext(f".//{gml}high") == "39 29"
    reference = root.findtext(f".//{gml}fileReference")
    assert reference == "cid:" + second["Content-ID"].strip("<>")
    assert second.get_content_type() == "image/tiff"
    assert second.get_payload(decode=True) == plain.data
    assert response.headers["Content-Length"] == str(len(response.data))


def test_multipart_takes_one_of_the_places_of_long_answers(tmp_path: Path, fault: Fault) -> None:
    limits = {"streams": 1, "spool": 2000}
    installed = Ground(tmp_path, services={"wcs": {"limits": limits}}, wcs={"enabled": True})
    client = Client(installed.application)
    whole = f"{COVERAGE}&format=image/tiff&geotiff:compression=None"
    related = f"{whole}&mediaType=multipart/related"
    assert Reader(installed.application).get(whole).content_length > 1024**2
    first = client.get(related, buffered=False)
    assert first.status_code == 200
    for address in (whole, related):
        refused = client.get(address, buffered=True)
        assert fault(refused)[0] == 503
        assert refused.headers["Retry-After"] == "30"
    # Conditions and ranges are about the whole answer, not about the file in it.
    conditions = {"Range": "bytes=0-9", "If-Match": '"x"', "If-None-Match": "*"}
    first.close()
    response = client.get(related, headers=conditions, buffered=True)
    assert (response.status_code, "ETag" in response.headers) == (200, False)
    assert len(response.data) == response.content_length
    assert client.get(whole, buffered=True).status_code == 200
    installed.close()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("blue", [2]),
        ("blue,red", [2, 0]),
        ("red:blue", [0, 1, 2]),
        ("alpha,green:blue", [3, 1, 2]),
    ],
)
def test_fields(colours: Ground, fields: str, expected: list[int]) -> None:
    client = Reader(colours.application)
    with opened(client.get(f"{COVERAGE}{PART}&rangeSubset={fields}")) as file:
        found = file.read()
    top, left = 5 * TILE + 300, 3 * TILE + 100
    stored = colours.values("3", top, top + 30, left, left + 40)
    assert (
        found.tobytes() == np.ascontiguousarray(stored[:, :, expected].transpose(2, 0, 1)).tobytes()
    )


def test_fields_that_do_not_exist(colours: Ground, fault: Fault) -> None:
    client = Reader(colours.application)
    unknown = client.get(f"{COVERAGE}&rangeSubset=red,infrared")
    assert fault(unknown) == (404, "NoSuchField", "infrared")
    backward = client.get(f"{COVERAGE}&rangeSubset=blue:red")
    assert fault(backward) == (400, "IllegalFieldSequence", "red")


@pytest.fixture(scope="module")
def colours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    folder = tmp_path_factory.mktemp("colours")
    opened = Ground(folder, "TIFF_ZIP_UINT8", 4, services={"wcs": {}}, wcs={"enabled": True})
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("&subset=Q(1,2)", (404, "InvalidAxisLabel", "Q")),
        ("&subset=i(1,2)", (404, "InvalidAxisLabel", "i")),
        ("&subset=Lat(1,2)", (404, "InvalidAxisLabel", "Lat")),
        (f"&subset=E({WEST},{EAST})&subset=E({WEST},{EAST})", (404, "InvalidAxisLabel", "E")),
        (f"&subset=E({EAST},{WEST})", (404, "InvalidSubsetting", "E")),
        (f"&subset=E({EAST + 1},{EAST + 2})", (404, "InvalidSubsetting", "subset")),
        (f"&subset=E({WEST - 1})", (404, "InvalidSubsetting", "E")),
        ("&subset=E(a,b)", (404, "InvalidSubsetting", "E")),
        ("&subset=E(*)", (404, "InvalidSubsetting", "E")),
        ("&subset=E", (400, "InvalidParameterValue", "subset")),
        ("&subset=E(1,2,3)", (400, "InvalidParameterValue", "subset")),
        ("&subset=E(1e999,2)", (404, "InvalidSubsetting", "E")),
        ("&subset=E(1,2)" * 17, (400, "InvalidParameterValue", "SUBSET")),
        ("&subsettingCrs=bogus", (404, "SubsettingCrs-NotSupported", "subsettingCrs")),
        ("&outputCrs=EPSG:27572", (404, "OutputCrs-NotSupported", "outputCrs")),
        ("&outputCrs=EPSG:3857&outputCrs=EPSG:3857", (400, "InvalidParameterValue", "OUTPUTCRS")),
        ("&scaleFactor=0", (404, "InvalidScaleFactor", "0")),
        ("&scaleFactor=-1", (404, "InvalidScaleFactor", "-1")),
        ("&scaleFactor=1e30", (413, "NoApplicableCode", "subset")),
        (f"{PART}&scaleFactor=9", (404, "InvalidScaleFactor", "scaleFactor")),
        ("&scaleSize=i(0)", (404, "InvalidScaleFactor", "SCALESIZE")),
        ("&scaleSize=i(10),i(10)", (404, "InvalidScaleFactor", "SCALESIZE")),
        ("&scaleSize=q(10)", (404, "ScaleAxisUndefined", "q")),
        ("&scaleExtent=i(20:10)", (404, "InvalidExtent", "SCALEEXTENT")),
        ("&scaleExtent=q(10:20)", (404, "ScaleAxisUndefined", "q")),
        ("&scaleFactor=2&scaleAxes=i(2)", (400, "InvalidParameterValue", "SCALEAXES")),
        ("&rangeSubset=red", (404, "NoSuchField", "red")),
        ("&rangeSubset=value,value", (400, "InvalidParameterValue", "rangeSubset")),
        (
            "&interpolation=sinc",
            (404, "InterpolationMethodNotSupported", "interpolation"),
        ),
        ("&format=image/png2", (400, "InvalidParameterValue", "format")),
        ("&mediaType=text/plain", (400, "InvalidParameterValue", "mediaType")),
        ("&geotiff:compression=Huffman", (400, "InvalidParameterValue", "geotiff:compression")),
        ("&geotiff:tilewidth=7", (400, "InvalidParameterValue", "geotiff:tilewidth")),
    ],
)
def test_errors(client: Client, fault: Fault, query: str, expected: tuple[int, str, str]) -> None:
    assert fault(client.get(COVERAGE + query)) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?service=WCS&request=GetCoverage", (400, "MissingParameterValue", "VERSION")),
        (
            "?service=WCS&version=1.1.1&request=GetCoverage",
            (400, "InvalidParameterValue", "VERSION"),
        ),
        ("?service=WCS&version=2.0.1&request=GetMap", (400, "InvalidParameterValue", "REQUEST")),
        (
            "?service=WCS&version=2.0.1&request=ProcessCoverages",
            (501, "OperationNotSupported", "ProcessCoverages"),
        ),
        (
            "?service=WMS&version=2.0.1&request=GetCoverage",
            (400, "InvalidParameterValue", "SERVICE"),
        ),
        ("?request=GetCapabilities", (400, "MissingParameterValue", "SERVICE")),
        ("?service=WCS", (400, "MissingParameterValue", "REQUEST")),
        (
            "?service=WCS&version=2.0.1&request=GetCoverage",
            (400, "MissingParameterValue", "coverageId"),
        ),
        (
            "?service=WCS&version=2.0.1&request=GetCoverage&coverageId=bogus",
            (404, "NoSuchCoverage", "bogus"),
        ),
        # A request of version 1.0.0 gets its report even if the version is missing.
        (
            "?service=WCS&request=GetCoverage&coverage=ground",
            (400, "MissingParameterValue", "VERSION"),
        ),
        ("/below", (404, "NoApplicableCode", None)),
    ],
)
def test_errors_of_dispatch(
    client: Client, fault: Fault, query: str, expected: tuple[int, str, str | None]
) -> None:
    response = client.get("/wcs" + query)
    assert fault(response) == expected
    is_old = "coverage=" in query or "version=1." in query
    assert (response.content_type == "application/vnd.ogc.se_xml") == is_old


def test_answers_beyond_a_limit_say_what_works(tmp_path: Path, fault: Fault) -> None:
    limits = {"spool": 2000, "pixels": 100}
    installed = Ground(tmp_path, services={"wcs": {"limits": limits}}, wcs={"enabled": True})
    client = Reader(installed.application)
    response = client.get(COVERAGE + PART)
    assert fault(response) == (413, "NoApplicableCode", "subset")
    assert "geotiff:compression=None" in response.text
    assert client.get(f"{COVERAGE}{PART}&geotiff:compression=None").status_code == 200
    assert fault(client.get(f"{COVERAGE}{PART}&scaleSize=i(33),j(22)"))[0] == 413
    related = f"{COVERAGE}{PART}&mediaType=multipart/related"
    assert client.get(f"{related}&geotiff:compression=None").status_code == 200
    assert fault(client.get(related)) == (413, "NoApplicableCode", "mediaType")
    large = old(client, *BOX)
    assert fault(large) == (413, None, "BBOX")
    assert "version 2.0.1" in large.text
    installed.close()


def test_answers_beyond_a_limit_name_the_job(tmp_path: Path) -> None:
    pytest.importorskip("mastaba_export")
    process = "http://localhost/export/processes/export-coverage"
    section = {"endpoint_uri": "http://localhost/export", "directory": str(tmp_path / "jobs")}
    for is_offered in (True, False):
        installed = Ground(
            tmp_path / str(is_offered),
            services={"wcs": {"limits": {"spool": 2000}}, "export": section},
            wcs={"enabled": True},
            export={"enabled": is_offered},
        )
        client = Reader(installed.application)
        for response in (client.get(COVERAGE + PART), old(client, *BOX)):
            assert response.status_code == 413
            assert (process in response.text) == is_offered
        installed.close()


@pytest.mark.parametrize("offers", [True, False])
def test_answers_beyond_a_limit_name_the_parts(tmp_path: Path, *, offers: bool) -> None:
    pytest.importorskip("mastaba_ogcapi")
    limits = {"spool": 2000, "stream_bytes": 1_000_000}
    installed = Ground(
        tmp_path,
        services={"wcs": {"limits": limits}, "ogcapi": {"coverages": True}},
        wcs={"enabled": True},
        coverages=offers,
    )
    client = Reader(installed.application)
    parts = "http://maps.example/ogcapi/collections/ground/coverage/parts"
    for response in (client.get(COVERAGE + PART), client.get(COVERAGE), old(client, *BOX)):
        assert response.status_code == 413
        assert (parts in response.text) == offers
    assert client.get("/ogcapi/collections/ground/coverage/parts").status_code == (
        200 if offers else 404
    )
    installed.close()


def old(client: Client, *box: float, **changes: Any) -> TestResponse:
    given = {"crs": "EPSG:2154", "width": 40, "height": 30} | changes
    query = "".join(f"&{name}={value}" for name, value in given.items() if value is not None)
    return client.get(f"{OLD}&bbox={','.join(map(repr, box))}{query}")


BOX = (WEST + 100, NORTH - 330, WEST + 140, NORTH - 300)


def test_box_of_cells_has_the_stored_values(ground: Ground, client: Client) -> None:
    top, left = 5 * TILE + 300, 3 * TILE + 100
    expected = np.ascontiguousarray(ground.values("3", top, top + 30, left, left + 40)[:, :, 0])
    for response in (old(client, *BOX), old(client, *BOX, width=None, height=None, resx=1, resy=1)):
        with opened(response) as file:
            assert tuple(file.bounds) == BOX
            assert file.read(1).tobytes() == expected.tobytes()


def test_box_is_exactly_that_of_the_request(client: Client) -> None:
    box = (WEST + 100.123456789, NORTH - 330.7, WEST + 141.3, NORTH - 300.987654321)
    with opened(old(client, *box, width=77, height=31)) as file:
        assert (file.width, file.height) == (77, 31)
        assert tuple(file.bounds) == pytest.approx(box, rel=1e-12)
    degrees = (1.66, 48.284, 1.661, 48.285)
    with opened(old(client, *degrees, crs="EPSG:4326")) as file:
        assert file.crs.to_epsg() == 4326
        assert tuple(file.bounds) == pytest.approx(degrees, rel=1e-12)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"crs": None}, (400, "MissingParameterValue", "CRS")),
        ({"crs": "EPSG:1"}, (400, "InvalidParameterValue", "CRS")),
        ({"response_crs": "EPSG:1"}, (400, "InvalidParameterValue", "RESPONSE_CRS")),
        ({"width": None}, (400, "MissingParameterValue", "WIDTH")),
        ({"width": 513}, (400, "InvalidParameterValue", "WIDTH")),
        ({"resx": 1}, (400, "InvalidParameterValue", "RESX")),
        ({"width": None, "resx": 1e-9}, (400, "InvalidParameterValue", "RESX")),
        ({"width": None, "resx": -1}, (400, "InvalidParameterValue", "RESX")),
        ({"interpolation": "sinc"}, (400, "InvalidParameterValue", "INTERPOLATION")),
        ({"coverage": "x"}, None),
    ],
)
def test_errors_of_version_100(
    client: Client, fault: Fault, changes: dict[str, Any], expected: Any
) -> None:
    response = old(client, *BOX, **changes)
    if expected is None:
        # The first of repeated names counts in version 1.0.0 as everywhere, or is refused.
        assert fault(response)[0] == 400
    else:
        assert fault(response) == expected


def test_boxes_without_end_are_refused(client: Client, fault: Fault) -> None:
    for box in ("-1.8e+308,-1.8e+308,1.8e+308,1.8e+308", "1,2,3", "2,0,1,1", "a,b,c,d"):
        response = client.get(f"{OLD}&bbox={box}&crs=EPSG:2154&width=1&height=1")
        assert fault(response) == (400, "InvalidParameterValue", "BBOX")
    outside = client.get(f"{OLD}&bbox=0,0,10,10&crs=EPSG:2154&width=1&height=1")
    assert fault(outside) == (400, "InvalidParameterValue", "BBOX")
    png = old(client, *BOX).request.full_path.replace("format=GeoTIFF", "format=PNG")
    assert fault(client.get(png)) == (400, "InvalidFormat", "FORMAT")
