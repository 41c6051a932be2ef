"""The POST bindings (wms.md section 6)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from werkzeug.test import Client, TestResponse

Fault = Callable[[TestResponse], tuple[int, str, str | None]]
MapQuery = Callable[..., dict[str, str]]
GET_MAP = """<?xml version="1.0" encoding="UTF-8"?>
<sld:GetMap xmlns:sld="http://www.opengis.net/sld" xmlns:ows="http://www.opengis.net/ows"
            version="1.3.0" service="WMS">
  <StyledLayerDescriptor version="1.1.0" xmlns="http://www.opengis.net/sld">
    <NamedLayer><Name>ground</Name></NamedLayer>
    <NamedLayer><Name>grey</Name><NamedStyle><Name>ember</Name></NamedStyle></NamedLayer>
  </StyledLayerDescriptor>
  <CRS>EPSG:4326</CRS>
  <BoundingBox crs="epsg:4326">
    <ows:LowerCorner> 10  20 </ows:LowerCorner>
    <ows:UpperCorner>40 70</ows:UpperCorner>
  </BoundingBox>
  <Output>
    <Size><Width>80</Width><Height>60</Height></Size>
    <wms:Format xmlns:wms="http://www.opengis.net/wms">image/png</wms:Format>
    <Transparent>true</Transparent>
    <BGcolor>0xFF0000</BGcolor>
    <VendorOption name="quality">30</VendorOption>
  </Output>
  <Exceptions>XML</Exceptions>
  <Time>2000</Time>
</sld:GetMap>"""


@pytest.fixture
def post(client: Client) -> Callable[..., TestResponse]:
    def send(body: str | bytes, media_type: str = "text/xml", url: str = "/wms") -> TestResponse:
        return client.post(url, data=body, headers={"Content-Type": media_type})

    return send


Post = Callable[..., TestResponse]


def test_form_is_read_as_a_query(client: Client, map_query: MapQuery) -> None:
    query = map_query(LAYERS="a & b's {é}")
    expected = client.get("/wms", query_string=query)
    assert expected.status_code == 200
    assert client.post("/wms", data=query).data == expected.data


def test_body_comes_before_the_query(client: Client, map_query: MapQuery) -> None:
    query = map_query()
    response = client.post("/wms?LAYERS=nowhere&WIDTH=5", data=query)
    assert response.data == client.get("/wms", query_string=query).data
    del query["LAYERS"]
    response = client.post("/wms?LAYERS=grey", data=query)
    assert response.data == client.get("/wms", query_string=map_query(LAYERS="grey")).data


def test_body_may_be_empty(client: Client, map_query: MapQuery) -> None:
    expected = client.get("/wms", query_string=map_query())
    for headers in ({}, {"Content-Type": "application/json"}):
        response = client.post("/wms", query_string=map_query(), headers=headers)
        assert response.data == expected.data


@pytest.mark.parametrize(
    "media_type", ["text/xml", "application/xml; charset=utf-8", "a/b+xml", ""]
)
def test_map_in_xml_is_that_of_the_query(
    client: Client, post: Post, map_query: MapQuery, media_type: str
) -> None:
    query = map_query(
        LAYERS="ground,grey",
        STYLES=",ember",
        CRS="EPSG:4326",
        BBOX="10,20,40,70",
        TRANSPARENT="TRUE",
    )
    expected = client.get("/wms", query_string=query)
    assert expected.status_code == 200
    assert post(GET_MAP, media_type).data == expected.data


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<CRS>EPSG:4326</CRS>", ""),
        ("<BGcolor>0xFF0000</BGcolor>", "<BGColor>0xFF0000</BGColor>"),
        ('service="WMS"', ""),
        ("<Exceptions>XML</Exceptions>", ""),
        ("<Transparent>true</Transparent>", "<Transparent>1</Transparent>"),
        (
            "<ows:LowerCorner> 10  20 </ows:LowerCorner>",
            "<ows:UpperCorner>99 99</ows:UpperCorner><ows:LowerCorner>10 20</ows:LowerCorner>",
        ),
        ('xmlns:sld="http://www.opengis.net/sld"', 'xmlns:sld="http://www.opengis.net/ows"'),
    ],
)
def test_forms_of_the_same_map(post: Post, old: str, new: str) -> None:
    assert old in GET_MAP
    changed = GET_MAP.replace(old, new)
    if "99 99" in new:
        changed = changed.replace("<ows:UpperCorner>99 99</ows:UpperCorner>", "")
    assert post(changed).data == post(GET_MAP).data


def test_box_may_be_attributes(post: Post) -> None:
    start, end = GET_MAP.index("<BoundingBox"), GET_MAP.index("</BoundingBox>")
    box = '<BoundingBox crs="EPSG:4326" minx="10" miny="20" maxx="40" maxy="70"/>'
    changed = GET_MAP[:start] + box + GET_MAP[end + len("</BoundingBox>") :]
    assert post(changed).data == post(GET_MAP).data


def test_options_in_xml(post: Post) -> None:
    jpeg = GET_MAP.replace("image/png", "image/jpeg")
    better = jpeg.replace(">30<", ">95<")
    assert len(post(jpeg).data) < len(post(better).data)


@pytest.mark.parametrize(
    ("old", "new", "code", "locator"),
    [
        ('crs="epsg:4326"', 'crs="CRS:84"', "InvalidParameterValue", "BBOX"),
        ('version="1.3.0" s', "s", "MissingParameterValue", "VERSION"),
        ('version="1.3.0" s', 'version="2" s', "InvalidParameterValue", "VERSION"),
        ('service="WMS"', 'service="WFS"', "InvalidParameterValue", "SERVICE"),
        ("<Name>ground</Name>", "", "LayerNotDefined", "LAYERS"),
        ("<Name>ember</Name>", "<Name>no</Name>", "StyleNotDefined", "STYLES"),
        ("NamedStyle>", "UserStyle>", "OperationNotSupported", "SLD"),
        ("<Transparent>true", "<Transparent>maybe", "InvalidParameterValue", "TRANSPARENT"),
        ("UpperCorner", "Corner", "InvalidParameterValue", "BBOX"),
        ("10  20", "10 20 30", "InvalidParameterValue", "BBOX"),
        ("sld:GetMap", "sld:GetFeatureInfo", "OperationNotSupported", "REQUEST"),
        ("sld:GetMap", "sld:Transaction", "OperationNotSupported", "REQUEST"),
    ],
)
def test_errors_in_xml_are_reported(
    post: Post, fault: Fault, old: str, new: str, code: str, locator: str
) -> None:
    assert old in GET_MAP
    assert fault(post(GET_MAP.replace(old, new))) == (400, code, locator)


@pytest.mark.parametrize(
    "namespace",
    ["http://www.opengis.net/wms", "http://www.opengis.net/ows", "http://www.opengis.net/ows/1.1"],
)
def test_capabilities_in_xml(client: Client, post: Post, namespace: str) -> None:
    expected = client.get("/wms?SERVICE=WMS&REQUEST=GetCapabilities").data
    attributes = f'xmlns="{namespace}" service="WMS" updateSequence="x"'
    assert post(f"<GetCapabilities {attributes}/>").data == expected
    assert post(f'<GetCapabilities {attributes} version="9"/>').data == expected


def test_capabilities_in_xml_need_the_service(post: Post, fault: Fault) -> None:
    assert fault(post("<GetCapabilities/>")) == (400, "MissingParameterValue", "SERVICE")


@pytest.mark.parametrize(
    "body",
    [
        b"not xml",
        b"<GetMap>",
        b"<GetMap/><GetMap/>",
        b"\xff\xfe\x00",
        b'<?xml version="1.0" encoding="bogus"?><GetMap/>',
        b"<!DOCTYPE GetMap><GetMap/>",
        b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><GetMap>&x;</GetMap>',
        b"<GetMap>&undefined;</GetMap>",
        b"<a>" * 5000 + b"</a>" * 5000,
        b"<a>" + b"<b/>" * 100_000 + b"</a>",
    ],
    ids=lambda body: body[:20].decode("latin-1"),
)
def test_broken_or_dangerous_xml_is_refused(post: Post, fault: Fault, body: bytes) -> None:
    assert fault(post(body)) == (400, "InvalidParameterValue", None)


@pytest.mark.parametrize("media_type", ["application/json", "multipart/form-data", "image/png"])
def test_other_bodies_are_refused(post: Post, fault: Fault, media_type: str) -> None:
    assert fault(post(b"{}", media_type)) == (415, "NoApplicableCode", None)


def test_large_bodies_are_refused(post: Post, fault: Fault) -> None:
    assert fault(post(b"x" * (1024 * 1024 + 1))) == (413, "NoApplicableCode", None)
