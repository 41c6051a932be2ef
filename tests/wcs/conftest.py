"""An installation that the tests of WCS ask for documents and coverages, and readers of answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from lxml import etree
from tests.coverage.ground import Ground
from tests.wcs.reader import Reader
from werkzeug.test import Client, TestResponse

NAMESPACES = {
    "wcs": "http://www.opengis.net/wcs/2.0",
    "ows": "http://www.opengis.net/ows/2.0",
    "gml": "http://www.opengis.net/gml/3.2",
    "gmlcov": "http://www.opengis.net/gmlcov/1.0",
    "swe": "http://www.opengis.net/swe/2.0",
    "crs": "http://www.opengis.net/wcs/crs/1.0",
    "int": "http://www.opengis.net/wcs/interpolation/1.0",
    "old": "http://www.opengis.net/wcs",
    "oldgml": "http://www.opengis.net/gml",
    "ogc": "http://www.opengis.net/ogc",
    "xlink": "http://www.w3.org/1999/xlink",
    "dls": "http://inspire.ec.europa.eu/schemas/inspire_dls/1.0",
    "common": "http://inspire.ec.europa.eu/schemas/common/1.0",
}

Find = Callable[[TestResponse, str], list[Any]]
Fault = Callable[[TestResponse], tuple[int, str | None, str | None]]


@pytest.fixture(scope="session")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Return an installation with one layer of posts, which OGC API offers too."""
    opened = Ground(
        tmp_path_factory.mktemp("wcs"),
        services={
            "wcs": {"title": "Our <coverages>", "abstract": "About", "keywords": ["heights"]},
            "ogcapi": {"coverages": True},
            "global": {
                "provider": "P & Q",
                "site": "http://p.example/",
                "contact": {"name": "N", "city": "C", "email": "e@p.example"},
                "map": {"crs": ["EPSG:3857"], "limits": {"width": 512, "height": 512}},
            },
        },
        registration="post",
        wcs={"enabled": True},
        coverages=True,
        metadata=[{"format": "text/xml", "type": "ISO19115:2003", "url": "http://r.example/?a&b"}],
    )
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def client(ground: Ground) -> Client:
    return Reader(ground.application)


@pytest.fixture(scope="session")
def find() -> Find:
    """Return a function that evaluates XPath on an answer."""

    def evaluate(response: TestResponse, path: str) -> list[Any]:
        found: list[Any] = etree.fromstring(response.data).xpath(path, namespaces=NAMESPACES)
        return found

    return evaluate


@pytest.fixture(scope="session")
def fault(find: Find) -> Fault:
    """Return a function that reads status, code and locator from an exception report."""

    def read(response: TestResponse) -> tuple[int, str | None, str | None]:
        if response.content_type == "application/vnd.ogc.se_xml":
            (report,) = find(response, "/ogc:ServiceExceptionReport/ogc:ServiceException")
            return response.status_code, report.get("code"), report.get("locator")
        assert response.content_type == "text/xml"
        (report,) = find(response, "/ows:ExceptionReport/ows:Exception")
        return response.status_code, report.get("exceptionCode"), report.get("locator")

    return read
