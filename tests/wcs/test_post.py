"""Requests in the body: forms and XML."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.coverage.ground import ORIGIN, TILE
from werkzeug.test import Client, TestResponse

Fault = Callable[[TestResponse], tuple[int, str | None, str | None]]

WEST, NORTH = ORIGIN[0] + 3 * TILE, ORIGIN[1] - 5 * TILE
PREFIXES = (
    'xmlns:wcs="http://www.opengis.net/wcs/2.0" xmlns:ows="http://www.opengis.net/ows/2.0" '
    'xmlns:crs="http://www.opengis.net/wcs/crs/1.0" '
    'xmlns:scal="http://www.opengis.net/wcs/scaling/1.0" '
    'xmlns:rsub="http://www.opengis.net/wcs/range-subsetting/1.0" '
    'xmlns:int="http://www.opengis.net/wcs/interpolation/1.0" '
    'xmlns:geotiff="http://www.opengis.net/gmlcov/geotiff/1.0" service="WCS"'
)
COVERAGE = "/wcs?service=WCS&version=2.0.1&request=GetCoverage&coverageId=ground"
TRIM = (
    "<wcs:DimensionTrim><wcs:Dimension>E</wcs:Dimension>"
    f"<wcs:TrimLow>{WEST + 100}</wcs:TrimLow><wcs:TrimHigh>{WEST + 140}</wcs:TrimHigh>"
    "</wcs:DimensionTrim>"
)
SUBSET = f"&subset=E({WEST + 100},{WEST + 140})"
SIZES = (
    "<scal:ScaleToSize><scal:TargetAxisSize><scal:axis>i</scal:axis><scal:targetSize>13"
    "</scal:targetSize></scal:TargetAxisSize><scal:TargetAxisSize><scal:axis>j</scal:axis>"
    "<scal:targetSize>9</scal:targetSize></scal:TargetAxisSize></scal:ScaleToSize>"
)


def get_coverage(content: str = "", extension: str = "") -> str:
    if extension:
        extension = f"<wcs:Extension>{extension}</wcs:Extension>"
    return (
        f'<wcs:GetCoverage {PREFIXES} version="2.0.1">{extension}'
        f"<wcs:CoverageId>ground</wcs:CoverageId>{content}</wcs:GetCoverage>"
    )


def post(client: Client, body: str, media_type: str = "text/xml") -> TestResponse:
    return client.post("/wcs", data=body.encode(), content_type=media_type)


def axes(kind: str, one: str, *values: str) -> str:
    """Return a scaling of both axes; values are written as elements."""
    parts = "".join(
        f"<scal:{one}><scal:axis>{axis}</scal:axis>{value}</scal:{one}>"
        for axis, value in zip(("i", "j"), values, strict=True)
    )
    return f"<scal:{kind}>{parts}</scal:{kind}>"


@pytest.mark.parametrize(
    ("content", "extension", "query"),
    [
        (TRIM, "", SUBSET),
        (
            "<wcs:DimensionSlice><wcs:Dimension>N</wcs:Dimension>"
            f"<wcs:SlicePoint>{NORTH - 7}</wcs:SlicePoint></wcs:DimensionSlice>",
            "",
            f"&subset=N({NORTH - 7})",
        ),
        (
            "<wcs:DimensionTrim><wcs:Dimension>E</wcs:Dimension>"
            f"<wcs:TrimHigh>{WEST + 9}</wcs:TrimHigh></wcs:DimensionTrim>",
            "",
            f"&subset=E(*,{WEST + 9})",
        ),
        (
            TRIM,
            "<scal:ScaleByFactor><scal:scaleFactor>0.5</scal:scaleFactor></scal:ScaleByFactor>",
            f"{SUBSET}&scaleFactor=0.5",
        ),
        (
            TRIM,
            axes(
                "ScaleAxesByFactor",
                "ScaleAxis",
                "<scal:scaleFactor>0.5</scal:scaleFactor>",
                "<scal:scaleFactor>0.25</scal:scaleFactor>",
            ),
            f"{SUBSET}&scaleAxes=i(0.5),j(0.25)",
        ),
        (TRIM, SIZES, f"{SUBSET}&scaleSize=i(13),j(9)"),
        (TRIM, f"<scal:Scaling>{SIZES}</scal:Scaling>", f"{SUBSET}&scaleSize=i(13),j(9)"),
        (
            TRIM,
            axes(
                "ScaleToExtent",
                "TargetAxisExtent",
                "<scal:low>10</scal:low><scal:high>19</scal:high>",
                "<scal:low>0</scal:low><scal:high>4</scal:high>",
            ),
            f"{SUBSET}&scaleExtent=i(10:19),j(0:4)",
        ),
        (
            TRIM,
            "<crs:GetCoverageCrs><crs:subsettingCrs>EPSG:2154</crs:subsettingCrs>"
            f"<crs:outputCrs>EPSG:3857</crs:outputCrs></crs:GetCoverageCrs>{SIZES}",
            f"{SUBSET}&outputCrs=EPSG:3857&scaleSize=i(13),j(9)",
        ),
        (
            TRIM,
            "<rsub:RangeSubset><rsub:RangeItem><rsub:RangeInterval><rsub:startComponent>value"
            "</rsub:startComponent><rsub:endComponent>value</rsub:endComponent>"
            "</rsub:RangeInterval></rsub:RangeItem></rsub:RangeSubset>",
            f"{SUBSET}&rangeSubset=value",
        ),
        (
            TRIM,
            f"{SIZES}<int:Interpolation><int:globalInterpolation>"
            "http://www.opengis.net/def/interpolation/OGC/1/nearest-neighbor"
            "</int:globalInterpolation></int:Interpolation>",
            f"{SUBSET}&scaleSize=i(13),j(9)&interpolation=nearest",
        ),
        (
            TRIM,
            "<geotiff:parameters><geotiff:compression>None</geotiff:compression>"
            "<geotiff:tilewidth>128</geotiff:tilewidth></geotiff:parameters>",
            f"{SUBSET}&geotiff:compression=None&geotiff:tilewidth=128",
        ),
        (
            f"{TRIM}<wcs:format>image/tiff</wcs:format>"
            "<wcs:mediaType>multipart/related</wcs:mediaType>",
            "",
            f"{SUBSET}&mediaType=multipart/related",
        ),
    ],
)
def test_document_requests_the_same_as_parameters(
    client: Client, content: str, extension: str, query: str
) -> None:
    expected = client.get(COVERAGE + query)
    assert expected.status_code == 200, expected.text
    found = post(client, get_coverage(content, extension))
    assert found.status_code == 200, found.text
    assert found.content_type == expected.content_type
    assert found.data == expected.data


def test_documents_of_the_other_operations(client: Client) -> None:
    address = "/wcs?service=WCS&request=GetCapabilities"
    body = (
        f"<wcs:GetCapabilities {PREFIXES}><ows:AcceptVersions><ows:Version>2.0.1</ows:Version>"
        "</ows:AcceptVersions><ows:Sections><ows:Section>Contents</ows:Section></ows:Sections>"
        "</wcs:GetCapabilities>"
    )
    assert post(client, body).data == client.get(f"{address}&sections=Contents").data
    body = (
        f'<wcs:DescribeCoverage {PREFIXES} version="2.0.1">'
        "<wcs:CoverageId>ground</wcs:CoverageId></wcs:DescribeCoverage>"
    )
    describe = "/wcs?service=WCS&version=2.0.1&request=DescribeCoverage&coverageId=ground"
    assert post(client, body, "application/xml").data == client.get(describe).data


def test_form_requests_the_same_as_parameters(client: Client) -> None:
    query = f"service=WCS&version=2.0.1&request=GetCoverage&coverageId=ground{SUBSET}"
    query += f"&subset=N({NORTH - 9},{NORTH})"
    found = post(client, query, "application/x-www-form-urlencoded")
    assert found.data == client.get(f"/wcs?{query}").data


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("<wcs:GetCov", (400, "InvalidEncodingSyntax", "body")),
        ('<!DOCTYPE x SYSTEM "file:///etc/passwd"><x/>', (400, "InvalidEncodingSyntax", "body")),
        (f"<wcs:GetMap {PREFIXES}/>", (400, "InvalidEncodingSyntax", "GetMap")),
        (
            f'<wcs:GetCoverage {PREFIXES} version="2.0.1"/>',
            (400, "InvalidEncodingSyntax", "CoverageId"),
        ),
        (
            get_coverage().replace(' version="2.0.1"', ""),
            (400, "MissingParameterValue", "VERSION"),
        ),
        (get_coverage().replace(">ground<", ">bogus<"), (404, "NoSuchCoverage", "bogus")),
        (get_coverage(TRIM + TRIM), (404, "InvalidAxisLabel", "E")),
        (
            get_coverage(
                "",
                f"{SIZES}<scal:ScaleByFactor><scal:scaleFactor>2</scal:scaleFactor>"
                "</scal:ScaleByFactor>",
            ),
            (400, "InvalidParameterValue", "SCALESIZE"),
        ),
        (
            '<soap:Envelope xmlns:soap="http://www.w3.org/2003/05/soap-envelope"/>',
            (501, "OperationNotSupported", "Envelope"),
        ),
        (f"<x>{'<y/>' * 1001}</x>", (400, "InvalidEncodingSyntax", "body")),
    ],
)
def test_errors_in_documents(client: Client, fault: Fault, body: str, expected: Any) -> None:
    assert fault(post(client, body)) == expected


def test_other_bodies_are_refused(client: Client, fault: Fault) -> None:
    assert fault(post(client, "{}", "application/json"))[0] == 415
    large = post(client, "x" * (1024 * 1024 + 1))
    assert fault(large)[0] == 413


def test_version_100_has_no_post(client: Client, fault: Fault) -> None:
    query = "service=WCS&version=1.0.0&request=GetCoverage&coverage=ground"
    response = post(client, query, "application/x-www-form-urlencoded")
    assert fault(response)[0] == 501


def test_answer_to_a_post_has_no_ranges(client: Client) -> None:
    extension = "<geotiff:parameters><geotiff:compression>None</geotiff:compression>"
    body = get_coverage(TRIM, f"{extension}</geotiff:parameters>").encode()
    headers = {"Range": "bytes=0-9"}
    response = client.post("/wcs", data=body, content_type="text/xml", headers=headers)
    assert response.status_code == 200
    assert len(response.data) > 10
