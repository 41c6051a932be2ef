"""What the configuration adds to capabilities: themes, scale sets, metadata of the service."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from werkzeug.test import Client

from mastaba.errors import ConfigurationError
from mastaba.wsgi import create_application
from mastaba_conformance.tiny_installation import tiny_integer_tile
from mastaba_writer.installation import layer_document, write_installation
from mastaba_writer.pyramids import LevelPlan, write_pyramid
from mastaba_writer.tile_matrix_sets import web_mercator

OpenClient = Callable[[Path], Client]

NS = {"wmts": "http://www.opengis.net/wmts/1.0", "ows": "http://www.opengis.net/ows/1.1"}
HREF = "{http://www.w3.org/1999/xlink}href"
GET = "/wmts?SERVICE=WMTS&REQUEST=GetCapabilities"
SCALES = "urn:ogc:def:wkss:OGC:1.0:GoogleMapsCompatible"
RECORD = {"format": "text/xml", "url": "http://meta.example/wmts.xml", "type": "simple"}
THEMES = [
    {
        "identifier": "earth",
        "title": "Earth",
        "abstract": "All of it",
        "keywords": ["world"],
        "layers": ["WHOLE", "absent"],
        "themes": [
            {"identifier": "places", "title": "Places", "layers": ["PART"]},
            {"identifier": "nothing", "title": "Nothing", "layers": ["absent"]},
        ],
    },
    {"identifier": "empty", "title": "Empty"},
]


def described_installation(directory: Path, themes: Any = THEMES) -> Path:
    sets = {"PM": {**web_mercator(6), "wellKnownScaleSet": SCALES}}
    layers = {}
    plans_of = {
        "WHOLE": [LevelPlan(str(z), 0, 2**z - 1, 0, 2**z - 1) for z in range(3)],
        "PART": [LevelPlan(str(z), 1, 2, 1, 2) for z in (3, 4)],
    }
    for name, plans in plans_of.items():
        pyramid = write_pyramid(
            directory / "pyramids",
            name,
            tile_matrix_set=sets["PM"],
            format="TIFF_PNG_UINT8",
            levels=plans,
            tile=tiny_integer_tile(3),
        )
        more = {"keywords": ["k"], "metadata": [RECORD]} if name == "WHOLE" else {}
        layers[name] = layer_document(pyramid, tile_matrix_sets=sets, **more)
    return write_installation(
        directory,
        layers=layers,
        tile_matrix_sets=sets,
        services=["wmts", "wms", "ogcapi"],
        services_overrides={
            "wmts": {"themes": themes, "metadata": RECORD},
            "wms": {"metadata": {**RECORD, "type": "ISO19115:2003"}},
        },
    )


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, open_client: OpenClient) -> Client:
    return open_client(described_installation(tmp_path_factory.mktemp("described")))


def document(client: Client, more: str = "") -> etree._Element:
    return etree.fromstring(client.get(GET + more).data)


def test_themes_refer_to_the_layers(client: Client) -> None:
    root = document(client)
    assert [etree.QName(child).localname for child in root][-3:] == [
        "Contents",
        "Themes",
        "ServiceMetadataURL",
    ]
    (earth,) = root.xpath("wmts:Themes/wmts:Theme", namespaces=NS)
    assert earth.xpath("ows:Title/text() | ows:Abstract/text()", namespaces=NS) == [
        "Earth",
        "All of it",
    ]
    assert earth.xpath("ows:Identifier/text()", namespaces=NS) == ["earth"]
    assert earth.xpath("wmts:LayerRef/text()", namespaces=NS) == ["WHOLE"]
    (places,) = earth.xpath("wmts:Theme", namespaces=NS)
    assert places.xpath("ows:Identifier/text()", namespaces=NS) == ["places"]
    assert places.xpath("wmts:LayerRef/text()", namespaces=NS) == ["PART"]


def test_section_of_themes(client: Client) -> None:
    assert [etree.QName(child).localname for child in document(client, "&SECTIONS=Themes")] == [
        "Themes"
    ]


def test_inspire_lists_themes_of_its_layers_only(client: Client) -> None:
    references = document(client, "&INSPIRE=1").xpath("//wmts:LayerRef/text()", namespaces=NS)
    assert references == ["WHOLE"]


def test_scale_set_is_announced_where_it_begins(client: Client) -> None:
    root = document(client)
    found = {
        item.findtext("ows:Identifier", namespaces=NS): item.findtext(
            "wmts:WellKnownScaleSet", namespaces=NS
        )
        for item in root.xpath("wmts:Contents/wmts:TileMatrixSet", namespaces=NS)
    }
    assert found == {"PM": SCALES, "PM_0_2": SCALES, "PM_3_4": None}
    definition = client.get("/ogcapi/tileMatrixSets/PM?f=json").get_json()
    assert definition["wellKnownScaleSet"] == SCALES


def test_metadata_of_the_service(client: Client) -> None:
    root = document(client)
    operations = root.xpath("//ows:Operation[ows:Metadata]", namespaces=NS)
    assert [item.get("name") for item in operations] == ["GetCapabilities"]
    assert operations[0].find("ows:Metadata", NS).get(HREF) == RECORD["url"]
    wms = etree.fromstring(client.get("/wms?SERVICE=WMS&REQUEST=GetCapabilities").data)
    (link,) = wms.findall("{*}Capability/{*}Layer/{*}MetadataURL")
    assert link.get("type") == "ISO19115:2003"
    assert link.find("{*}OnlineResource").get(HREF) == RECORD["url"]


def test_without_themes_there_is_no_section(tmp_path: Path, open_client: OpenClient) -> None:
    client = open_client(described_installation(tmp_path, []))
    assert document(client).find("wmts:Themes", NS) is None


@pytest.mark.sampled(one_in=3)
@pytest.mark.parametrize("themes", [{}, [{"title": "T"}], [{"identifier": "a", "title": 1}]])
def test_invalid_themes_are_reported(tmp_path: Path, themes: Any) -> None:
    with pytest.raises(ConfigurationError, match="themes"):
        create_application(str(described_installation(tmp_path, themes)))
