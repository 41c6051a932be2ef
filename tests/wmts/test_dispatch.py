"""SERVICE, REQUEST and VERSION, and how parameters are read (wmts.md section 1)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from werkzeug.test import Client, TestResponse

Fault = Callable[[TestResponse], tuple[int, str, list[str | None]]]

FAULTS = [
    ("", "MissingParameterValue", ["service"]),
    ("REQUEST=GetCapabilities", "MissingParameterValue", ["service"]),
    ("SERVICE=&REQUEST=GetCapabilities", "MissingParameterValue", ["service"]),
    ("SERVICE=BOGUS&REQUEST=GetCapabilities", "InvalidParameterValue", ["service"]),
    ("SERVICE=WMS&REQUEST=GetBOGUS", "InvalidParameterValue", ["service"]),
    ("SERVICE=WMTS", "MissingParameterValue", ["request"]),
    ("SERVICE=WMTS&REQUEST=", "MissingParameterValue", ["request"]),
    ("service=WMTS&request~GetCapabilities!version~1.0.0", "MissingParameterValue", ["request"]),
    ("SERVICE=WMTS&REQUEST=GetBOGUS", "InvalidParameterValue", ["request"]),
    ("SERVICE=WMTS&REQUEST=GetMap", "InvalidParameterValue", ["request"]),
    ("SERVICE=WMTS&REQUEST=GetTile&VERSION=1.1.0", "InvalidParameterValue", ["version"]),
    ("SERVICE=WMTS&REQUEST=GetFeatureInfo&VERSION=2", "InvalidParameterValue", ["version"]),
    ("SERVICE=WMTS&REQUEST=GetCapabilities&VERSION=2", "VersionNegotiationFailed", [None]),
]


@pytest.mark.parametrize(("query", "code", "locators"), FAULTS)
def test_wrong_service_request_or_version_is_reported(
    tiny: Client, fault: Fault, query: str, code: str, locators: list[str | None]
) -> None:
    # M-2, M-3
    assert fault(tiny.get(f"/wmts?{query}")) == (400, code, locators)


@pytest.mark.parametrize(
    "query",
    [
        "SERVICE=WMTS&VERSION=1.0.0&REQUEST=GetCapabilities",
        "ReQuEsT=GetCapabilities&SeRvIcE=WMTS",
        "request=getcapabilities&service=wmts&version=1.0.0",
        "service=WMTS&service=WMS&request=GetCapabilities&REQUEST=GetTile",
        "service=%57MTS&request=%47%65%74Capabilities",
        "&&service=WMTS&noise&request=GetCapabilities&BoGuS=ignored&",
        "service=WMTS&request=GetCapabilities&updatesequence=0",
    ],
)
def test_names_in_any_case_and_order_give_the_same_document(tiny: Client, query: str) -> None:
    # M-5
    expected = tiny.get("/wmts?SERVICE=WMTS&REQUEST=GetCapabilities")
    response = tiny.get(f"/wmts?{query}")
    assert (response.status_code, response.data) == (200, expected.data)


def test_final_slash_of_the_path_makes_no_difference(tiny: Client) -> None:
    assert tiny.get("/wmts/?SERVICE=WMTS&REQUEST=GetCapabilities").status_code == 200


def test_methods_are_get_and_post(tiny: Client) -> None:
    assert tiny.put("/wmts").status_code == 405
    assert tiny.options("/wmts").headers["Allow"] == "HEAD, OPTIONS, GET, POST"


def test_head_has_the_headers_of_get(tiny: Client) -> None:
    query = "/wmts?SERVICE=WMTS&REQUEST=GetCapabilities"
    head, get = tiny.head(query), tiny.get(query)
    assert head.data == b""
    assert head.headers == get.headers


def test_echoed_text_is_cut_and_harmless(tiny: Client, fault: Fault) -> None:
    response = tiny.get("/wmts?SERVICE=" + "%3Ca%00%22%EF%BF%BE%26" * 1000)
    assert fault(response) == (400, "InvalidParameterValue", ["service"])
    assert len(response.data) < 2000
