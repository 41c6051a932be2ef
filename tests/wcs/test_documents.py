"""Capabilities and descriptions of both versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.coverage.ground import ORIGIN, TILE
from werkzeug.test import Client, TestResponse

from mastaba_wcs.identifiers import coverage_id

Find = Callable[[TestResponse, str], list[Any]]
Fault = Callable[[TestResponse], tuple[int, str | None, str | None]]

WEST, NORTH = ORIGIN[0] + 3 * TILE, ORIGIN[1] - 5 * TILE
EAST, SOUTH = WEST + 17 * TILE, NORTH - 21 * TILE
CAPABILITIES = "/wcs?service=WCS&request=GetCapabilities"
DESCRIBE = "/wcs?service=WCS&version=2.0.1&request=DescribeCoverage&coverageId="
DESCRIBE_100 = "/wcs?service=WCS&version=1.0.0&request=DescribeCoverage"


def test_profiles_are_those_that_the_suite_looks_for(client: Client, find: Find) -> None:
    profiles = find(client.get(CAPABILITIES), "//ows:Profile/text()")
    spec = "http://www.opengis.net/spec/"
    assert {
        f"{spec}WCS_protocol-binding_get-kvp/1.0/conf/get-kvp",
        f"{spec}WCS_protocol-binding_post-xml/1.0/conf/post-xml",
        f"{spec}WCS_service-extension_crs/1.0/conf/crs",
        f"{spec}WCS_service-extension_scaling/1.0/conf/scaling",
        f"{spec}WCS_service-extension_range-subsetting/1.0/conf/record-subsetting",
        f"{spec}WCS_service-extension_interpolation/1.0/conf/interpolation",
    } <= set(profiles)
    # With this one, the suite requests whole coverages as GML.
    assert f"{spec}GMLCOV/1.0/conf/gml" not in profiles


def test_capabilities_name_formats_crss_and_methods(client: Client, find: Find) -> None:
    response = client.get(CAPABILITIES)
    metadata = "/wcs:Capabilities/wcs:ServiceMetadata"
    assert find(response, f"{metadata}/wcs:formatSupported/text()")[0] == "image/tiff"
    extension = f"{metadata}/wcs:Extension"
    systems = find(response, f"{extension}/crs:CrsMetadata/crs:crsSupported/text()")
    assert systems[0] == "http://www.opengis.net/def/crs/EPSG/0/2154"
    assert "http://www.opengis.net/def/crs/EPSG/0/4326" in systems
    assert len(set(systems)) == len(systems)
    assert all(urlsplit(system).scheme == "http" for system in systems)
    methods = f"{extension}/int:InterpolationMetadata/int:InterpolationSupported"
    assert len(find(response, methods)) == 3


def test_capabilities_say_that_post_takes_xml(client: Client, find: Find) -> None:
    response = client.get(CAPABILITIES)
    assert find(response, "//ows:Operation/@name") == [
        *("GetCapabilities", "DescribeCoverage", "GetCoverage")
    ]
    assert set(find(response, "//ows:Post/@xlink:href")) == {"http://maps.example/wcs?"}
    constraint = "/*/ows:OperationsMetadata/ows:Constraint[@name='PostEncoding']//ows:Value/text()"
    assert find(response, constraint) == ["XML"]


def test_capabilities_describe_provider_and_coverage(client: Client, find: Find) -> None:
    response = client.get(CAPABILITIES)
    assert find(response, "//ows:ServiceIdentification/ows:Title/text()") == ["Our <coverages>"]
    assert find(response, "//ows:ProviderName/text()") == ["P & Q"]
    assert find(response, "//ows:ElectronicMailAddress/text()") == ["e@p.example"]
    summary = "//wcs:CoverageSummary"
    assert find(response, f"{summary}/wcs:CoverageId/text()") == ["ground"]
    assert find(response, f"{summary}/ows:Title/text()") == ["Ground & <water>"]
    assert find(response, f"{summary}/ows:BoundingBox/@dimensions") == ["2"]
    corner = find(response, f"{summary}/ows:BoundingBox/ows:LowerCorner/text()")
    assert corner == [f"{WEST:g} {SOUTH:.0f}"]
    assert find(response, f"{summary}/ows:Metadata/@xlink:href") == ["http://r.example/?a&b"]


def test_sections_are_parts_of_the_document(client: Client, find: Find, fault: Fault) -> None:
    response = client.get(f"{CAPABILITIES}&sections=contents,ServiceMetadata")
    names = [element.tag.partition("}")[2] for element in find(response, "/wcs:Capabilities/*")]
    assert names == ["ServiceMetadata", "Contents"]
    whole = client.get(f"{CAPABILITIES}&sections=All,Contents")
    assert whole.data == client.get(CAPABILITIES).data
    wrong = client.get(f"{CAPABILITIES}&sections=Content")
    assert fault(wrong) == (400, "InvalidParameterValue", "sections")


@pytest.mark.parametrize(
    ("query", "version"),
    [
        ("", "2.0.1"),
        ("&version=2.0.1", "2.0.1"),
        ("&version=1.0.0", "1.0.0"),
        ("&version=1.1.2", "1.0.0"),
        ("&version=nonsense", "2.0.1"),
        ("&acceptVersions=2.0.1,1.0.0", "2.0.1"),
        ("&acceptVersions=1.1.0,1.0.0,2.0.1", "1.0.0"),
        ("&acceptVersions=2.0.0&version=1.0.0", "2.0.1"),
    ],
)
def test_version_is_negotiated(client: Client, find: Find, query: str, version: str) -> None:
    assert find(client.get(CAPABILITIES + query), "/*/@version") == [version]


def test_version_that_nobody_has_is_reported(client: Client, fault: Fault) -> None:
    response = client.get(f"{CAPABILITIES}&acceptVersions=3.0.0")
    assert fault(response) == (400, "VersionNegotiationFailed", "AcceptVersions")


def test_extended_capabilities_of_inspire(client: Client, find: Find) -> None:
    extended = "//ows:ExtendedCapabilities/dls:ExtendedCapabilities"
    response = client.get(f"{CAPABILITIES}&INSPIRE=1")
    data_set = f"{extended}/dls:SpatialDataSetIdentifier"
    assert find(response, f"{data_set}/common:Code/text()") == ["ground"]
    assert find(response, f"{data_set}/@metadataURL") == ["http://r.example/?a&b"]
    assert find(client.get(CAPABILITIES), extended) == []


def test_description_has_edges_and_centres(client: Client, find: Find) -> None:
    response = client.get(f"{DESCRIBE}ground")
    envelope = "//gml:boundedBy/gml:Envelope"
    name = "http://www.opengis.net/def/crs/EPSG/0/2154"
    assert find(response, f"{envelope}/@srsName") == [name]
    assert find(response, f"{envelope}/@axisLabels") == ["E N"]
    assert find(response, f"{envelope}/gml:lowerCorner/text()") == [f"{WEST:.0f} {SOUTH:.0f}"]
    assert find(response, f"{envelope}/gml:upperCorner/text()") == [f"{EAST:.0f} {NORTH:.0f}"]
    grid = "//gml:domainSet/gml:RectifiedGrid"
    assert set(find(response, f"{grid}//@srsName")) == {name}
    assert find(response, f"{grid}//gml:high/text()") == [f"{17 * TILE - 1} {21 * TILE - 1}"]
    assert find(response, f"{grid}//gml:pos/text()") == [f"{WEST + 0.5:.1f} {NORTH - 0.5:.1f}"]
    assert find(response, f"{grid}/gml:offsetVector/text()") == ["1 0", "0 -1"]
    assert find(response, "//gml:sequenceRule[@axisOrder='+1 +2']/text()") == ["Linear"]
    # The boxes are edges all the same.
    assert find(response, "//gmlcov:metadata//ows:Metadata/@about") == ["registration"]


def test_description_of_the_fields(client: Client, find: Find) -> None:
    response = client.get(f"{DESCRIBE}ground")
    assert find(response, "//swe:field/@name") == ["value"]
    assert find(response, "//swe:nilValues/swe:NilValues/swe:nilValue/text()") == ["-99999"]
    assert find(response, "//wcs:nativeFormat/text()") == ["image/tiff"]


def test_description_of_unknown_coverages_is_an_error(client: Client, fault: Fault) -> None:
    unknown = client.get(f"{DESCRIBE}ground,bogus")
    assert fault(unknown) == (404, "NoSuchCoverage", "bogus")
    empty = client.get(DESCRIBE)
    assert fault(empty) == (404, "emptyCoverageIdList", "coverageId")
    missing = client.get(DESCRIBE.removesuffix("&coverageId="))
    assert fault(missing) == (400, "MissingParameterValue", "coverageId")
    # The name of the parameter in version 1.0.0.
    assert fault(client.get(DESCRIBE.replace("coverageId", "coverage")))[0] == 400


def test_capabilities_of_version_100(client: Client, find: Find) -> None:
    response = client.get(f"{CAPABILITIES}&version=1.0.0")
    # OWSLib fails without them.
    assert find(response, "//old:Service/old:fees/text()") == ["NONE"]
    assert find(response, "//old:Service/old:accessConstraints/text()") == ["NONE"]
    assert len(find(response, "//old:Capability/old:Request/*//old:OnlineResource")) == 3
    assert find(response, "//old:organisationName/text()") == ["P & Q"]
    brief = "//old:ContentMetadata/old:CoverageOfferingBrief"
    assert find(response, f"{brief}/old:name/text()") == ["ground"]
    assert len(find(response, f"{brief}/old:lonLatEnvelope/oldgml:pos")) == 2


def test_description_of_version_100(client: Client, find: Find, fault: Fault) -> None:
    response = client.get(f"{DESCRIBE_100}&coverage=ground")
    domain = "//old:domainSet/old:spatialDomain"
    assert find(response, f"{domain}/oldgml:Envelope[@srsName='EPSG:2154']/oldgml:pos/text()") == [
        *(f"{WEST:.0f} {SOUTH:.0f}", f"{EAST:.0f} {NORTH:.0f}")
    ]
    grid = f"{domain}/oldgml:RectifiedGrid"
    assert find(response, f"{grid}//oldgml:high/text()") == [f"{17 * TILE - 1} {21 * TILE - 1}"]
    assert find(response, f"{grid}/oldgml:offsetVector/text()") == ["1 0", "0 -1"]
    assert find(response, "//old:nullValues/old:singleValue/text()") == ["-99999"]
    assert "EPSG:4326" in find(response, "//old:requestResponseCRSs/text()")
    assert find(response, "//old:nativeCRSs/text()") == ["EPSG:2154"]
    assert find(response, "//old:formats/text()") == ["GeoTIFF"]
    # Without names, all coverages are described.
    assert client.get(DESCRIBE_100).data == response.data
    unknown = client.get(f"{DESCRIBE_100}&coverage=bogus")
    assert fault(unknown) == (404, "CoverageNotDefined", "bogus")


def test_documents_are_sent_once(client: Client) -> None:
    for address in (CAPABILITIES, f"{DESCRIBE}ground"):
        etag = client.get(address).headers["ETag"]
        assert client.get(address, headers={"If-None-Match": etag}).status_code == 304


def test_bare_address_is_a_page_for_browsers(client: Client, fault: Fault) -> None:
    page = client.get("/wcs", headers={"Accept": "text/html,*/*;q=0.1"})
    assert (page.status_code, page.content_type) == (200, "text/html; charset=utf-8")
    assert "Our &lt;coverages&gt;" in page.text
    assert fault(client.get("/wcs")) == (400, "MissingParameterValue", "SERVICE")


def test_identifiers_are_names_and_differ() -> None:
    assert coverage_id("HR_ortho-2.0") == "HR_ortho-2.0"
    assert coverage_id("1 é:_x20_") == "_x31__x20__xE9__x3A__x5F_x20_"
    names = ["a b", "a_x20_b", "a_x5F_x20_b", "_xa", "é", "-a", "_x2D_a", ":"]
    assert len({coverage_id(name) for name in names}) == len(names)
