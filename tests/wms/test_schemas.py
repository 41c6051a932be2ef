"""Documents against the schemas of the standards (W-12, W-39, W-43)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from werkzeug.test import Client

pytestmark = pytest.mark.shared_data

MapQuery = Callable[..., dict[str, str]]
INSPIRE_VS = "http://inspire.ec.europa.eu/schemas/inspire_vs/1.0"
CAPABILITIES = {"SERVICE": "WMS", "REQUEST": "GetCapabilities"}

# Where the schemas refer to one another by their public addresses.
PLACES = {
    "http://schemas.opengis.net/": "",
    "https://schemas.opengis.net/": "",
    "http://inspire.ec.europa.eu/schemas/": "inspire/",
    "https://inspire.ec.europa.eu/schemas/": "inspire/",
    "http://www.w3.org/1999/xlink.xsd": "xlink/1.0.0/xlinks.xsd",
    "http://www.w3.org/2001/xml.xsd": "xml.xsd",
    "http://www.w3.org/2001/03/xml.xsd": "xml.xsd",
}


class Local(etree.Resolver):
    """Finds public schemas in a folder, and nothing anywhere else."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def resolve(self, url: str, public_id: str | None, context: Any) -> Any:
        for start, place in PLACES.items():
            if url.startswith(start):
                rest = "" if place.endswith(".xsd") else url.removeprefix(start)
                return self.resolve_filename(str(self._folder / (place + rest)), context)
        if url.startswith("http"):
            raise AssertionError(f"{url} is not among the local schemas")
        return None


@pytest.fixture(scope="module")
def parse(shared_data: Path) -> Callable[[bytes], etree._ElementTree]:
    parser = etree.XMLParser(no_network=True)
    parser.resolvers.add(Local(shared_data / "schemas"))
    return lambda text: etree.ElementTree(etree.fromstring(text, parser))


def schema(parse: Callable[[bytes], Any], *imports: tuple[str, str]) -> etree.XMLSchema:
    """Return a schema that imports others: namespace and place of each."""
    lines = "".join(f'<import namespace="{ns}" schemaLocation="{url}"/>' for ns, url in imports)
    text = f'<schema xmlns="http://www.w3.org/2001/XMLSchema">{lines}</schema>'
    return etree.XMLSchema(parse(text.encode()))


WMS_130 = (
    "http://www.opengis.net/wms",
    "http://schemas.opengis.net/wms/1.3.0/capabilities_1_3_0.xsd",
)


def test_capabilities_are_valid(client: Client, parse: Callable[[bytes], Any]) -> None:
    response = client.get("/wms", query_string=CAPABILITIES)
    schema(parse, WMS_130).assertValid(etree.ElementTree(etree.fromstring(response.data)))


def test_inspire_capabilities_are_valid(client: Client, parse: Callable[[bytes], Any]) -> None:
    response = client.get("/wms", query_string=CAPABILITIES | {"INSPIRE": "1"})
    both = schema(parse, WMS_130, (INSPIRE_VS, f"{INSPIRE_VS}/inspire_vs.xsd"))
    tree = etree.ElementTree(etree.fromstring(response.data))
    both.assertValid(tree)
    # The extended capabilities are checked as well, and not passed over.
    node = tree.find(f".//{{{INSPIRE_VS}}}ExtendedCapabilities")
    assert node is not None
    node.clear()
    assert not both.validate(tree)


@pytest.mark.parametrize(
    "changes",
    [{"CRS": "UndefinedCRS"}, {"LAYERS": "x<y&"}, {"REQUEST": "GetFeatureInfo"}, {"VERSION": None}],
)
def test_exception_reports_are_valid(
    client: Client,
    map_query: MapQuery,
    parse: Callable[[bytes], Any],
    changes: dict[str, str | None],
) -> None:
    response = client.get("/wms", query_string=map_query(**changes))
    assert (response.status_code, response.content_type) == (400, "text/xml")
    reports = schema(
        parse,
        (
            "http://www.opengis.net/ogc",
            "http://schemas.opengis.net/wms/1.3.0/exceptions_1_3_0.xsd",
        ),
    )
    reports.assertValid(etree.ElementTree(etree.fromstring(response.data)))


@pytest.mark.parametrize(
    ("query", "dtd"),
    [
        (CAPABILITIES | {"VERSION": "1.1.1"}, "WMS_MS_Capabilities.dtd"),
        ({"REQUEST": "GetMap", "VERSION": "1.1.1"}, "WMS_exception_1_1_1.dtd"),
    ],
)
def test_documents_of_1_1_1_are_valid(
    client: Client, shared_data: Path, query: dict[str, str], dtd: str
) -> None:
    response = client.get("/wms", query_string=query)
    document_type = etree.DTD(str(shared_data / "schemas" / "wms" / "1.1.1" / dtd))
    document_type.assertValid(etree.fromstring(response.data))
