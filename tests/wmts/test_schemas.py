"""Documents are valid against the schemas of the OGC (M-1, M-7) and of INSPIRE."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from lxml import etree
from tests.wmts import ground
from tests.wmts.test_themes import described_installation
from werkzeug.test import Client

pytestmark = pytest.mark.shared_data

Validate = Callable[[bytes], None]
OpenClient = Callable[[Path], Client]

GET = "/wmts?SERVICE=WMTS&REQUEST=GetCapabilities"
SECTIONS = ["ServiceIdentification", "ServiceProvider", "OperationsMetadata", "Contents", "Themes"]
# The schema of INSPIRE for services with OWS Common 1.1 does little more than this.
INSPIRE = """<schema xmlns="http://www.w3.org/2001/XMLSchema"
  xmlns:ows="http://www.opengis.net/ows/1.1"
  xmlns:common="http://inspire.ec.europa.eu/schemas/common/1.0"
  targetNamespace="http://inspire.ec.europa.eu/schemas/inspire_vs_ows11/1.0">
  <import namespace="http://www.opengis.net/ows/1.1" schemaLocation="ows/1.1.0/owsAll.xsd"/>
  <import namespace="http://inspire.ec.europa.eu/schemas/common/1.0"
    schemaLocation="inspire/common/1.0/common.xsd"/>
  <element name="ExtendedCapabilities" type="common:ExtendedCapabilitiesType"
    substitutionGroup="ows:ExtendedCapabilities"/>
</schema>"""
BOTH = """<schema xmlns="http://www.w3.org/2001/XMLSchema">
  <import namespace="http://www.opengis.net/wmts/1.0"
    schemaLocation="wmts/1.0/wmtsGetCapabilities_response.xsd"/>
  <import namespace="http://inspire.ec.europa.eu/schemas/inspire_vs_ows11/1.0"
    schemaLocation="inspire_vs_ows11.xsd"/>
</schema>"""


class _Offline(etree.Resolver):
    """Answers the one address on the web that the schemas import, and the schemas made here."""

    def __init__(self, schemas: Path) -> None:
        self.schemas = schemas

    def resolve(self, url: str, public_id: str, context: object) -> object:
        if url == "http://www.w3.org/2001/xml.xsd":
            return self.resolve_filename(str(self.schemas / "xml.xsd"), context)
        if url.endswith("/inspire_vs_ows11.xsd"):
            return self.resolve_string(INSPIRE, context, base_url=f"{self.schemas}/inspire.xsd")
        return None


@pytest.fixture(scope="module")
def validate(shared_data: Path) -> Validate:
    """Return a function that checks a capabilities document or an exception report."""
    schemas = shared_data / "schemas"
    parser = etree.XMLParser()
    parser.resolvers.add(_Offline(schemas))
    document = etree.fromstring(BOTH, parser, base_url=f"{schemas}/both.xsd")
    schema = etree.XMLSchema(document)

    def check(data: bytes) -> None:
        schema.assertValid(etree.fromstring(data))

    return check


def test_capabilities_are_valid(tiny: Client, rich: Client, validate: Validate) -> None:
    for client in (tiny, rich):
        validate(client.get(GET).data)


@pytest.mark.parametrize("section", SECTIONS)
def test_each_section_alone_is_valid(rich: Client, validate: Validate, section: str) -> None:
    validate(rich.get(f"{GET}&SECTIONS={section}").data)


def test_inspire_form_is_valid(rich: Client, validate: Validate) -> None:
    data = rich.get(f"{GET}&INSPIRE=1").data
    validate(data)
    # The check is one: an unknown language makes it fail.
    with pytest.raises(etree.DocumentInvalid):
        validate(data.replace(b">fre<", b">french<"))


def test_capabilities_of_real_pyramids_are_valid(alps: Client, validate: Validate) -> None:
    validate(alps.get(GET).data)


def test_extra_sets_and_feature_info_are_valid(
    tmp_path: Path, open_client: OpenClient, validate: Validate
) -> None:
    # Not DOUBLE: its limits begin at column 0, which is right but not to the schema.
    sets = {"extra_tilematrixsets": ["LAMBERT", "DEGREES"]}
    client = open_client(ground.write(tmp_path, ["grey", "float_raw"], **sets))
    capabilities = client.get(GET).data
    assert b"<InfoFormat>" in capabilities
    assert b"LAMBERT_2_3" in capabilities
    validate(capabilities)
    for point in ("48/64.txt", "x/1.txt", "1/1.png"):
        response = client.get(f"/wmts/1.0.0/grey/normal/MESH/1/8/6/{point}")
        assert response.status_code == 404
        validate(response.data)


def test_themes_scale_sets_and_metadata_are_valid(
    tmp_path: Path, open_client: OpenClient, validate: Validate
) -> None:
    client = open_client(described_installation(tmp_path))
    for more in ("", "&INSPIRE=1", "&SECTIONS=Themes", "&SECTIONS=Contents,Themes"):
        validate(client.get(GET + more).data)


@pytest.mark.parametrize(
    "request_path",
    [
        "/wmts",
        "/wmts?SERVICE=%3C%26%00%22",
        "/wmts?SERVICE=WMTS&REQUEST=GetCapabilities&ACCEPTVERSIONS=2",
        "/wmts/1.0.0/RGB_JPG/normal/PM/4/4/8.jpeg",
        "/wmts/x",
    ],
)
def test_exception_report_is_valid(tiny: Client, validate: Validate, request_path: str) -> None:
    response = tiny.get(request_path)
    assert response.status_code >= 400
    validate(response.data)
