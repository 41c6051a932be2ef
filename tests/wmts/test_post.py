"""POST: forms and XML (wmts.md section 6)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from werkzeug.test import Client, TestResponse

Fault = Callable[[TestResponse], tuple[int, str, list[str | None]]]
TileQuery = Callable[..., dict[str, str]]

WMTS = 'xmlns="http://www.opengis.net/wmts/1.0"'
OWS = 'xmlns:ows="http://www.opengis.net/ows/1.1"'
GET = "/wmts?SERVICE=WMTS&REQUEST=GetCapabilities"
CAPABILITIES = f'<GetCapabilities {WMTS} {OWS} service="WMTS">{{}}</GetCapabilities>'
TILE = f"""<?xml version="1.0" encoding="UTF-8"?>
<!-- a tile --><GetTile {WMTS} service="WMTS" version="1.0.0">
  <Layer>RGB_JPG</Layer> <Style>normal</Style> <Format> image/jpeg
  </Format>
  <DimensionNameValue name="time">2020</DimensionNameValue>
  <TileMatrixSet>PM</TileMatrixSet> <TileMatrix>4</TileMatrix>
  <TileRow>5</TileRow> <TileCol>9</TileCol>{{}}
</GetTile>"""


def post(client: Client, body: str | bytes, media_type: str = "text/xml") -> TestResponse:
    return client.post("/wmts", data=body, content_type=media_type)


# ---------------------------------------------------------------- requests that are answered


def test_form_is_read_as_kvp(tiny: Client, tile_query: TileQuery) -> None:
    response = tiny.post("/wmts", data=tile_query())
    assert response.status_code == 200
    assert response.data == tiny.get("/wmts", query_string=tile_query()).data


def test_form_goes_before_the_query(tiny: Client) -> None:
    form = {"request": "GetCapabilities"}
    response = tiny.post("/wmts?SERVICE=WMTS&REQUEST=GetTile", data=form)
    assert (response.status_code, response.data) == (200, tiny.get(GET).data)


def test_post_without_body_is_read_by_its_query(tiny: Client) -> None:
    assert tiny.post(GET).data == tiny.get(GET).data


@pytest.mark.parametrize("media_type", ["text/xml", "application/xml; charset=UTF-8", ""])
@pytest.mark.parametrize("namespace", ["wmts/1.0", "ows/1.1"])
def test_capabilities_in_xml_are_those_of_kvp(
    tiny: Client, media_type: str, namespace: str
) -> None:
    body = CAPABILITIES.format("").replace("wmts/1.0", namespace)
    response = post(tiny, body, media_type)
    assert (response.status_code, response.data) == (200, tiny.get(GET).data)


def test_capabilities_in_xml_may_choose(tiny: Client) -> None:
    body = CAPABILITIES.format(
        "<ows:AcceptVersions><ows:Version>2.0.0</ows:Version><ows:Version>1.0.0</ows:Version>"
        "</ows:AcceptVersions><ows:Sections><ows:Section>Contents</ows:Section></ows:Sections>"
        "<ows:AcceptFormats><ows:OutputFormat>application/xml</ows:OutputFormat>"
        "</ows:AcceptFormats>"
    )
    response = post(tiny, body)
    assert response.headers["Content-Type"] == "application/xml"
    assert response.data == tiny.get(f"{GET}&SECTIONS=Contents").data


def test_tile_in_xml_is_the_one_of_kvp(tiny: Client, tile_query: TileQuery) -> None:
    expected = tiny.get("/wmts", query_string=tile_query())
    for body in (TILE.format(""), TILE.replace("UTF-8", "UTF-16").format("").encode("UTF-16")):
        response = post(tiny, body)
        assert (response.status_code, response.data) == (200, expected.data)


def test_vendor_option_is_a_parameter(tiny: Client) -> None:
    options = (
        '<VendorOption name="FileName">a &amp; b.jpg</VendorOption>'
        '<VendorOption name="layer">unknown</VendorOption>'
    )
    response = post(tiny, TILE.format(options))
    assert response.status_code == 200
    assert response.headers["Content-Disposition"].startswith("attachment; ")


# ---------------------------------------------------------------- requests that are not


@pytest.mark.parametrize(
    ("body", "status", "code", "locator"),
    [
        (CAPABILITIES.replace("WMTS", "WMS"), 400, "InvalidParameterValue", "service"),
        (
            f"<GetCapabilities {WMTS}/>",
            400,
            "MissingParameterValue",
            "service",
        ),
        (
            CAPABILITIES.format(
                "<ows:AcceptVersions><ows:Version>2</ows:Version></ows:AcceptVersions>"
            ),
            400,
            "VersionNegotiationFailed",
            None,
        ),
        (
            CAPABILITIES.format("<ows:Sections><ows:Section>B</ows:Section></ows:Sections>"),
            400,
            "InvalidParameterValue",
            "sections",
        ),
        (TILE.replace("RGB_JPG", ""), 400, "MissingParameterValue", "Layer"),
        (TILE.replace("<TileRow>5", "<TileRow>99"), 400, "TileOutOfRange", "TileRow"),
        (TILE.replace('"1.0.0"', '"2"'), 400, "InvalidParameterValue", "version"),
        (
            TILE.replace("GetTile", "GetFeatureInfo"),
            501,
            "OperationNotSupported",
            "GetFeatureInfo",
        ),
        ("<GetTile/>", 501, "OperationNotSupported", "GetTile"),
        (
            '<w:GetTile xmlns:w="http://w.example" service="WMTS"/>',
            501,
            "OperationNotSupported",
            "GetTile",
        ),
        ("<a/>", 501, "OperationNotSupported", "a"),
        ('<Envelope xmlns="http://s.example"/>', 501, "OperationNotSupported", "Envelope"),
    ],
)
def test_errors_in_xml_are_reported_as_in_kvp(
    tiny: Client, fault: Fault, body: str, status: int, code: str, locator: str | None
) -> None:
    assert fault(post(tiny, body.replace("{}", ""))) == (status, code, [locator])


ENTITIES = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "x" * 100}">' for n in range(30))
MALFORMED: dict[str, bytes] = {
    "empty": b"",
    "text": b"service=WMTS",
    "json": b'{"service": "WMTS"}',
    "binary": bytes(range(256)),
    "zeros": bytes(1000),
    "cut short": TILE.encode()[:-20],
    "cut in a tag": TILE.encode()[:100],
    "two roots": b"<a/><a/>",
    "doctype": b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>',
    "doctype in UTF-16": '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'.encode("UTF-16"),
    "external entity": b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>',
    "parameter entity": b'<!DOCTYPE a [<!ENTITY % b SYSTEM "http://x.invalid/">%b;]><a/>',
    "entities of entities": f"<!DOCTYPE a [{ENTITIES}]><a b='&e29;'>&e29;</a>".encode(),
    "undeclared entity": b"<a>&b;</a>",
    "many elements": b"<a>" + b"<b/>" * 250_000 + b"</a>",
    "deep": b"<a>" * 300_000,
    "deep and closed": b"<a>" * 100_000 + b"</a>" * 100_000,
    "many attributes twice": b"<a " + b"b='' " * 200_000 + b"/>",
    "wrong encoding": b'<?xml version="1.0" encoding="UTF-16"?><a/>',
    "unknown encoding": b'<?xml version="1.0" encoding="x-none"?><a/>',
    "not in its encoding": b'<?xml version="1.0" encoding="UTF-8"?><a>\xff</a>',
    "character that XML has not": b"<a>&#0;</a>",
}


@pytest.mark.sampled(one_in=4)
@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize("media_type", ["text/xml", "application/json", "multipart/form-data"])
def test_body_that_is_no_request_is_reported(
    tiny: Client, fault: Fault, body: bytes, media_type: str
) -> None:
    assert fault(post(tiny, body, media_type)) == (400, "MissingParameterValue", ["request"])


@pytest.mark.parametrize("media_type", ["text/xml", "application/x-www-form-urlencoded"])
def test_body_above_the_limit_is_too_large(tiny: Client, fault: Fault, media_type: str) -> None:
    response = post(tiny, b" " * (1024 * 1024 + 1), media_type)
    assert fault(response) == (413, "NoApplicableCode", [None])


@pytest.mark.sampled(one_in=4)
@pytest.mark.parametrize(
    ("body", "code", "locator"),
    [
        (b"", "MissingParameterValue", "service"),
        (b"&=&&==&%00=%&" * 50_000, "MissingParameterValue", "service"),
        (b"\xff=\xfe&service=\xff", "InvalidParameterValue", "service"),
        (b"&".join(b"a%d=" % n for n in range(100_000)), "MissingParameterValue", "service"),
        (b"service=WMTS&request=GetTile", "MissingParameterValue", "Layer"),
    ],
    ids=["empty", "separators", "bytes", "names", "no layer"],
)
def test_errors_in_a_form_are_reported_as_in_kvp(
    tiny: Client, fault: Fault, body: bytes, code: str, locator: str
) -> None:
    response = post(tiny, body, "application/x-www-form-urlencoded")
    assert fault(response) == (400, code, [locator])
