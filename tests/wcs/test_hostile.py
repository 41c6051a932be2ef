"""Generated requests: each is answered, refused for a reason, and bounded."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest
from tests.coverage.ground import ORIGIN, Ground
from tests.wcs.reader import Reader

pytestmark = pytest.mark.thorough

WEST, NORTH = ORIGIN[0] + 200.0, ORIGIN[1] - 400.0
SPOOL = 3_000_000
LIMITS = {"stream_bytes": 2_000_000, "spool": SPOOL, "pixels": 200_000, "tiles": 200}
NUMBERS = [
    *("", "0", "-1", "1", "2", "13", "1e308", "-1e308", "1.8e308", "nan", "inf", "9" * 400, "*"),
    *("é", "\0", "0x10", "1_000", " 5 ", "1,5", "--", f"{WEST}", f"{WEST + 50}", f"{NORTH}"),
]
TEXTS = [
    *("", "ground", "none", "E", "N", "i", "j", "x", "Lat", "Long", "value", "a:b", "value:value"),
    *("http://www.opengis.net/def/crs/EPSG/0/2154", "EPSG:4326", "urn:ogc:def:crs:EPSG::3857"),
    *("http://www.opengis.net/def/interpolation/OGC/1/linear", "bilinear", "image/tiff"),
    *("multipart/related", "GeoTIFF", "application/gml+xml", "Deflate", "JPEG", "true", "256"),
    *("<a/>", "'", '"', "%00", "../../etc/passwd", "&", "]]>", "A" * 5000, "2.0.1", "1.0.0", "3"),
]
NAMES = [
    *("subset", "subset", "subset0", "subsettingCrs", "outputCrs", "scaleFactor", "scaleAxes"),
    *("scaleSize", "scaleExtent", "rangeSubset", "interpolation", "format", "mediaType"),
    *("geotiff:compression", "geotiff:predictor", "geotiff:tiling", "geotiff:tilewidth"),
    *("bbox", "crs", "response_crs", "width", "height", "resx", "resy", "coverage", "coverageId"),
    *("version", "service", "request", "sections", "acceptVersions", "exceptions"),
]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    services = {"wcs": {"limits": LIMITS}, "ogcapi": {"coverages": {"limits": LIMITS}}}
    opened = Ground(
        tmp_path_factory.mktemp("small"), services=services, wcs={"enabled": True}, coverages=True
    )
    yield opened
    opened.close()


def value_of(source: random.Random, name: str) -> str:
    """Return a value: of the right form in most cases, with invalid parts in many."""
    kind = source.random()
    if kind < 0.2:
        return source.choice(TEXTS + NUMBERS)
    number = lambda: source.choice(NUMBERS)  # noqa: E731
    if name.startswith("subset") and name != "subsettingCrs":
        low = source.choice([f"{WEST + source.randrange(900)}", number()])
        high = source.choice([f"{WEST + source.randrange(900)}", number()])
        inside = source.choice([f"{low},{high}", low, f'"{low}"', f"{low},{high},{low}"])
        crs = source.choice(["", "", ",EPSG:4326", ",x"])
        return f"{source.choice(['E', 'N', 'Lat', 'Long', 'h', 'i'])}{crs}({inside})"
    if name.startswith("scale") and name != "scaleFactor":
        return f"{source.choice(['i', 'E', 'x'])}({number()}),{source.choice('jN')}({number()})"
    if name == "bbox":
        corner = WEST + source.randrange(500), NORTH - source.randrange(500)
        box = f"{corner[0]},{corner[1]},{corner[0] + 100},{corner[1] + 100}"
        return source.choice([box, ",".join(number() for _ in range(4)), box[::-1]])
    if name in ("width", "height", "resx", "resy", "scaleFactor"):
        return source.choice([number(), str(source.randrange(1, 2000))])
    return source.choice(TEXTS)


def document_of(source: random.Random) -> str:
    """Return an XML document that is perhaps a request."""
    element = source.choice(["wcs:GetCoverage", "wcs:DescribeCoverage", "wcs:GetCapabilities", "x"])
    body = "".join(
        source.choice(
            [
                "<wcs:CoverageId>ground</wcs:CoverageId>",
                f"<wcs:CoverageId>{source.choice(['', 'none', 'a b'])}</wcs:CoverageId>",
                "<wcs:DimensionTrim><wcs:Dimension>E</wcs:Dimension><wcs:TrimLow>"
                f"{source.choice(NUMBERS[:12])}</wcs:TrimLow></wcs:DimensionTrim>",
                "<wcs:DimensionSlice><wcs:Dimension>N</wcs:Dimension></wcs:DimensionSlice>",
                "<wcs:Extension><y/></wcs:Extension>",
                "<wcs:format>image/tiff</wcs:format>",
                "<a>" * source.randrange(1, 200),
                "&x;",
            ]
        )
        for _ in range(source.randrange(4))
    )
    head = source.choice(["", '<!DOCTYPE x [<!ENTITY x "y">]>', "<?xml version='1.0'?>"])
    version = source.choice(["2.0.1", "1.0.0", "", "x"])
    space = 'xmlns:wcs="http://www.opengis.net/wcs/2.0"'
    return f'{head}<{element} {space} service="WCS" version="{version}">{body}</{element}>'


def test_generated_requests_are_answered_or_refused(small: Ground) -> None:
    client = Reader(small.application)
    source = random.Random(17)
    statuses: Counter[int] = Counter()
    for number in range(9000):
        if number % 10 == 0:
            body = document_of(source)
            request = body
            response = client.post("/wcs", data=body.encode(), content_type="text/xml")
        else:
            is_new = number % 3 != 0
            query = {
                "service": "WCS",
                "request": "GetCoverage",
                "version": "2.0.1" if is_new else "1.0.0",
                "coverageId" if is_new else "coverage": "ground",
            }
            if not is_new:
                box = f"{WEST},{NORTH - 100},{WEST + 100},{NORTH}"
                query |= {"crs": "EPSG:2154", "bbox": box, "width": "40", "height": "40"}
                query["format"] = "GeoTIFF"
            for name in source.sample(NAMES, source.randrange(1, 4)):
                query[name] = value_of(source, name)
            request = str(query)
            response = client.get("/wcs", query_string=query)
        assert response.status_code in (200, 400, 404, 413, 415, 501), (request, response.text)
        if response.status_code == 200:
            assert len(response.data) <= SPOOL + 10_000, request
        else:
            assert response.content_type in ("text/xml", "application/vnd.ogc.se_xml"), request
            assert "Traceback" not in response.text
            assert str(small.directory) not in response.text
        statuses[response.status_code] += 1
    assert min(statuses[status] for status in (200, 400, 404, 413)) > 20, statuses
