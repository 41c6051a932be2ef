"""SERVICE, REQUEST and VERSION, and how parameters are read (wms.md section 1)."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

import pytest
from lxml import etree
from werkzeug.test import Client, TestResponse

Fault = Callable[[TestResponse], tuple[int, str, str | None]]
MapQuery = Callable[..., dict[str, str]]

FAULTS = [
    ("", "MissingParameterValue", "SERVICE"),
    ("REQUEST=GetCapabilities", "MissingParameterValue", "SERVICE"),
    ("SERVICE=&REQUEST=GetCapabilities", "MissingParameterValue", "SERVICE"),
    ("SERVICE=WMTS&REQUEST=GetCapabilities", "InvalidParameterValue", "SERVICE"),
    ("SERVICE=WMTS", "InvalidParameterValue", "SERVICE"),
    ("SERVICE=bogus&REQUEST=GetMap", "InvalidParameterValue", "SERVICE"),
    ("SERVICE=WMS", "MissingParameterValue", "REQUEST"),
    ("SERVICE=WMS&REQUEST=", "MissingParameterValue", "REQUEST"),
    ("SERVICE=WMS&REQUEST=GetBogus", "OperationNotSupported", "REQUEST"),
    ("REQUEST=GetBogus", "OperationNotSupported", "REQUEST"),
    ("SERVICE=WMS&REQUEST=GetMap", "MissingParameterValue", "VERSION"),
    ("REQUEST=GetMap&VERSION=", "MissingParameterValue", "VERSION"),
    ("REQUEST=GetMap&VERSION=1.4.0", "InvalidParameterValue", "VERSION"),
    ("REQUEST=GetFeatureInfo", "MissingParameterValue", "VERSION"),
    ("REQUEST=GetFeatureInfo&VERSION=1.5.0", "InvalidParameterValue", "VERSION"),
]


@pytest.mark.parametrize(("query", "code", "locator"), FAULTS)
def test_wrong_service_request_or_version_is_reported(
    client: Client, fault: Fault, query: str, code: str, locator: str
) -> None:
    assert fault(client.get(f"/wms?{query}")) == (400, code, locator)


@pytest.mark.parametrize(
    "version",
    [None, "", "1.3.0", "1.3", "100.0.0", "1.4", "1.10", "bogus", "1..1", "1.1.1.1", "9" * 5000],
)
def test_capabilities_are_1_3_0_for_higher_versions_and_for_none(
    client: Client, version: str | None
) -> None:
    """W-1; OGC 06-042 clause 6.2.4."""
    query = {"SERVICE": "WMS", "REQUEST": "GetCapabilities"}
    if version is not None:
        query["VERSION"] = version
    response = client.get("/wms", query_string=query)
    assert response.status_code == 200
    root = etree.fromstring(response.data)
    assert root.tag.endswith("}WMS_Capabilities")
    assert root.get("version") == "1.3.0"


@pytest.mark.parametrize(
    "query",
    [
        "ReQuEsT=GetCapabilities&SeRvIcE=WMS",
        "service=wms&request=getcapabilities",
        "SERVICE=WMS&REQUEST=%47%65%74Capabilities",
        "SERVICE=WMS&REQUEST=GetCapabilities&BoGuS=ignored",
        "&&SERVICE=WMS&noise&REQUEST=GetCapabilities&SERVICE=WMTS&",
        "SERVICE=WMS&REQUEST=GetCapabilities&UPDATESEQUENCE=zzz",
        "SERVICE=WMS&REQUEST=GetCapabilities&FORMAT=bogus",
        "SERVICE=WMS&REQUEST=GetCapabilities&FORMAT=text/xml",
    ],
)
def test_capabilities_do_not_depend_on_the_form_of_the_request(client: Client, query: str) -> None:
    # W-2, W-3, W-10, W-11
    expected = client.get("/wms?SERVICE=WMS&REQUEST=GetCapabilities")
    response = client.get(f"/wms?{query}")
    assert (response.status_code, response.content_type) == (200, "text/xml")
    assert response.data == expected.data


def test_unknown_parameters_change_no_map_and_no_feature_info(
    client: Client, map_query: MapQuery, info_query: MapQuery
) -> None:
    # W-2
    for query in (map_query(), info_query()):
        plain = client.get("/wms", query_string=query)
        more = client.get("/wms", query_string=query | {"BoGuS": "ignored", "TIME": "now"})
        assert plain.status_code == 200
        assert more.data == plain.data


def test_names_of_parameters_are_read_in_any_case(client: Client, map_query: MapQuery) -> None:
    query = map_query()
    expected = client.get("/wms", query_string=query).data
    mixed = {name.title().swapcase(): value for name, value in query.items()}
    assert client.get("/wms", query_string=mixed).data == expected


def test_encoded_values_are_decoded(client: Client, map_query: MapQuery) -> None:
    # W-3
    query = map_query(LAYERS="a & b's {é}")
    assert client.get("/wms?" + urlencode(query)).status_code == 200
    every_byte = "".join(f"%{byte:02X}" for byte in b"ground")
    url = "/wms?" + urlencode(map_query(LAYERS="X")).replace("LAYERS=X", f"LAYERS={every_byte}")
    assert client.get(url).status_code == 200


def test_service_may_be_absent_in_maps(client: Client, map_query: MapQuery) -> None:
    assert client.get("/wms", query_string=map_query(SERVICE=None)).status_code == 200


def test_map_without_version_is_reported(client: Client, fault: Fault, map_query: MapQuery) -> None:
    # W-4
    response = client.get("/wms", query_string=map_query(VERSION=None))
    assert fault(response) == (400, "MissingParameterValue", "VERSION")


def test_paths_below_the_service_are_unknown(client: Client, fault: Fault) -> None:
    response = client.get("/wms/below?SERVICE=WMS&REQUEST=GetCapabilities")
    assert fault(response) == (404, "NoApplicableCode", None)
    assert client.get("/wms/?SERVICE=WMS&REQUEST=GetCapabilities").status_code == 200


def test_methods_are_get_and_post(client: Client) -> None:
    assert client.put("/wms").status_code == 405
    assert client.options("/wms").headers["Allow"] == "HEAD, OPTIONS, GET, POST"


def test_head_has_the_headers_of_get(client: Client, map_query: MapQuery) -> None:
    for query in ({"SERVICE": "WMS", "REQUEST": "GetCapabilities"}, map_query()):
        head, get = client.head("/wms", query_string=query), client.get("/wms", query_string=query)
        assert head.data == b""
        assert head.headers == get.headers


def test_echoed_text_is_cut_and_harmless(client: Client, fault: Fault) -> None:
    response = client.get("/wms?SERVICE=" + "%3Ca%00%22%EF%BF%BE%26" * 1000)
    assert fault(response) == (400, "InvalidParameterValue", "SERVICE")
    assert len(response.data) < 2000


def test_list_of_services_leads_to_the_capabilities(client: Client) -> None:
    response = client.get("/")
    assert (
        '<WebMapService title="Maps &amp; more" version="1.3.0" href="http://maps.example/wms'
        '?SERVICE=WMS&amp;VERSION=1.3.0&amp;REQUEST=GetCapabilities"' in response.text
    )
