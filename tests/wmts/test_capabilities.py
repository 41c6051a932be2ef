"""GetCapabilities: forms of the request, and what the document says (wmts.md section 2)."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.tiny import tiny_installation
from werkzeug.test import Client, TestResponse

Fault = Callable[[TestResponse], tuple[int, str, list[str | None]]]
Find = Callable[..., list[Any]]
OpenClient = Callable[[Path], Client]

GET = "/wmts?SERVICE=WMTS&REQUEST=GetCapabilities"
SECTIONS = ["ServiceIdentification", "ServiceProvider", "OperationsMetadata", "Contents"]
LAYER = "//wmts:Layer[ows:Identifier='{}']"


def layer(name: str, path: str) -> str:
    return f"//wmts:Layer[ows:Identifier={name!r}]/{path}"


def matrix_set(name: str, path: str) -> str:
    return f"/*/wmts:Contents/wmts:TileMatrixSet[ows:Identifier={name!r}]/{path}"


def sections_of(find: Find, response: TestResponse) -> list[str]:
    return [element.tag.rpartition("}")[2] for element in find(response, "/*/*")]


# ---------------------------------------------------------------- the request


def test_document_is_xml_of_version_100(tiny: Client, find: Find) -> None:
    # M-1, M-4
    response = tiny.get(GET)
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "text/xml"
    assert response.data.startswith(b'<?xml version="1.0" encoding="UTF-8"?>\n<Capabilities ')
    assert find(response, "string(/wmts:Capabilities/@version)") == ["1.0.0"]
    location = find(response, "string(/*/@*[local-name()='schemaLocation'])")[0].split()
    assert location == [
        "http://www.opengis.net/wmts/1.0",
        "http://schemas.opengis.net/wmts/1.0/wmtsGetCapabilities_response.xsd",
    ]


@pytest.mark.parametrize("versions", ["1.0.0", "2.0.0,1.0.0", "0.9, 1.0.0 ,3", ""])
def test_accepted_version_gives_the_document(tiny: Client, versions: str) -> None:
    # M-4
    assert tiny.get(f"{GET}&ACCEPTVERSIONS={versions}").data == tiny.get(GET).data


@pytest.mark.parametrize("versions", ["2.0.0", "1.0", "1.0.0.0,9", "bogus"])
def test_unsupported_versions_fail_without_locator(
    tiny: Client, fault: Fault, versions: str
) -> None:
    # M-4
    response = tiny.get(f"{GET}&AcceptVersions={versions}")
    assert fault(response) == (400, "VersionNegotiationFailed", [None])


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        ("All", [*SECTIONS, "ServiceMetadataURL"]),
        ("Contents,All", [*SECTIONS, "ServiceMetadataURL"]),
        *((name, [name]) for name in SECTIONS),
        ("Themes", []),
        ("Contents,ServiceProvider", ["ServiceProvider", "Contents"]),
        (" Contents , Contents,", ["Contents"]),
        ("all", [*SECTIONS, "ServiceMetadataURL"]),
        ("contents,SERVICEPROVIDER", ["ServiceProvider", "Contents"]),
    ],
)
def test_only_requested_sections_are_written(
    tiny: Client, find: Find, sections: str, expected: list[str]
) -> None:
    """M-6; OGC 06-121r3 clause 7.3.3, in any letter case."""
    response = tiny.get(f"{GET}&SECTIONS={sections}")
    assert response.status_code == 200
    assert sections_of(find, response) == expected


@pytest.mark.parametrize(
    ("sections", "code"),
    [
        ("Bogus", "InvalidParameterValue"),
        ("Contents,Bogus", "InvalidParameterValue"),
        ("", "MissingParameterValue"),
        (",%20,", "MissingParameterValue"),
    ],
)
def test_wrong_sections_are_reported(tiny: Client, fault: Fault, sections: str, code: str) -> None:
    # M-6
    assert fault(tiny.get(f"{GET}&SECTIONS={sections}")) == (400, code, ["sections"])


@pytest.mark.parametrize(
    ("formats", "media_type"),
    [
        ("application/xml", "application/xml"),
        ("image/png,APPLICATION/XML,text/xml", "application/xml"),
        ("text/xml,application/xml", "text/xml"),
        ("image/png", "text/xml"),
        ("", "text/xml"),
    ],
)
def test_first_accepted_xml_type_is_the_content_type(
    tiny: Client, formats: str, media_type: str
) -> None:
    response = tiny.get(f"{GET}&ACCEPTFORMATS={formats}")
    assert response.headers["Content-Type"] == media_type
    assert response.data == tiny.get(GET).data


def test_known_document_is_not_sent_again(tiny: Client) -> None:
    etag = tiny.get(GET).headers["ETag"]
    response = tiny.get(GET, headers={"If-None-Match": etag})
    assert (response.status_code, response.data) == (304, b"")


def test_document_is_compressed_for_clients_that_take_gzip(tiny: Client) -> None:
    response = tiny.get(GET, headers={"Accept-Encoding": "gzip"})
    assert response.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(response.data) == tiny.get(GET).data


# ---------------------------------------------------------------- the service


def test_identification_and_provider(rich: Client, find: Find) -> None:
    response = rich.get(GET)
    service = "string(//ows:ServiceIdentification/ows:{})"
    provider = "string(//ows:ServiceProvider/{})"
    for path, value in {
        service.format("Title"): "Tiles & more",
        service.format("Abstract"): "About",
        service.format("ServiceType"): "OGC WMTS",
        service.format("ServiceTypeVersion"): "1.0.0",
        service.format("Fees"): "none",
        service.format("AccessConstraints"): "none",
        provider.format("ows:ProviderName"): "P & Q",
        provider.format("ows:ProviderSite/@xlink:href"): "http://p.example/",
        provider.format("ows:ServiceContact/ows:IndividualName"): "N",
        provider.format("/ows:Address/ows:City"): "C",
        provider.format("/ows:Address/ows:ElectronicMailAddress"): "e@p.example",
    }.items():
        assert find(response, path) == [value], path
    assert find(response, "//ows:ServiceIdentification/ows:Keywords/*/text()") == ["one", "two"]
    # Values that are not configured do not become empty elements.
    assert find(response, "//ows:Phone | //ows:PositionName | //ows:Country") == []


def test_operations_are_those_that_work(rich: Client, find: Find) -> None:
    response = rich.get(GET)
    names = find(response, "//ows:Operation/@name")
    assert names == ["GetCapabilities", "GetTile"]
    assert find(response, "//wmts:InfoFormat") == []
    assert find(response, "//*[local-name()='Themes'] | //@updateSequence") == []


def test_operation_addresses_are_prefixes_of_queries(rich: Client, find: Find) -> None:
    # M-8
    response = rich.get(GET)
    addresses = find(response, "//ows:HTTP/*/@xlink:href")
    assert set(addresses) == {"http://maps.example/wmts?"}
    values = "//ows:Constraint[@name='{}']/ows:AllowedValues/ows:Value/text()"
    assert find(response, values.format("GetEncoding")) == ["KVP", "RESTful"] * 2
    assert find(response, values.format("PostEncoding")) == ["KVP", "XML"] * 2


def test_restful_paths_are_announced_unless_turned_off(
    tmp_path: Path, open_client: OpenClient, find: Find
) -> None:
    client = open_client(
        tiny_installation(
            tmp_path, services=["wmts"], services_overrides={"wmts": {"restful": False}}
        )
    )
    response = client.get(GET)
    assert find(response, "//wmts:ResourceURL | //wmts:ServiceMetadataURL") == []
    assert find(response, "//ows:Constraint[@name='GetEncoding']//ows:Value/text()") == ["KVP"] * 2
    assert client.get("/wmts/1.0.0/WMTSCapabilities.xml").data == response.data
    assert client.get("/wmts/1.0.0/RGB_JPG/normal/PM/4/5/9.jpeg").status_code == 200


# ---------------------------------------------------------------- layers


def test_layers_of_the_service_are_sorted(rich: Client, find: Find) -> None:
    identifiers = find(rich.get(GET), "//wmts:Layer/ows:Identifier/text()")
    assert identifiers == ["a & b's {é}", "gap", "geo", "heights", "inspired", "tints", "world"]


def test_vector_layers_are_not_in_wmts(tiny: Client, find: Find) -> None:
    identifiers = find(tiny.get(GET), "//wmts:Layer/ows:Identifier/text()")
    assert len(identifiers) == 8
    assert "VECTOR" not in identifiers


def test_texts_of_a_layer_are_escaped(rich: Client, find: Find) -> None:
    name = "starts-with(ows:Identifier, 'a &')"
    path = f"//wmts:Layer[{name}]/{{}}"
    response = rich.get(GET)
    assert find(response, path.format("ows:Title/text()")) == ["<T & \ufffd>"]
    assert find(response, path.format("ows:Abstract/text()")) == ['A "quoted" text']
    assert find(response, path.format("ows:Keywords/*/text()")) == ["k<1>", "k&2"]


def test_geographic_box_is_west_south_east_north(tiny: Client, find: Find) -> None:
    response = tiny.get(GET)
    lower = find(response, layer("RGB_JPG", "ows:WGS84BoundingBox/ows:LowerCorner/text()"))
    upper = find(response, layer("RGB_JPG", "ows:WGS84BoundingBox/ows:UpperCorner/text()"))
    west, south, east, north = map(float, f"{lower[0]} {upper[0]}".split())
    # Level 4, rows 5 and 6, columns 9 and 10: the cell of 22.5 degrees east of the meridian.
    assert (west, east) == (pytest.approx(22.5), pytest.approx(67.5))
    assert south == pytest.approx(21.943, abs=1e-3)
    assert north == pytest.approx(55.776, abs=1e-3)
    assert all(len(re.sub(r"\D", "", number).lstrip("0")) <= 15 for number in lower[0].split())


def test_metadata_links_are_listed(rich: Client, find: Find) -> None:
    path = layer("inspired", "ows:Metadata/@xlink:href")
    assert find(rich.get(GET), path) == ["http://r.example/?a&b"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tints", [("ember", "true"), ("normal", "false")]),
        ("world", [("normal", "true")]),
        ("heights", [("ember", "true")]),
    ],
)
def test_styles_are_those_that_stored_tiles_can_show(
    rich: Client, find: Find, name: str, expected: list[tuple[str, str]]
) -> None:
    styles = find(rich.get(GET), layer(name, "wmts:Style"))
    listed = [(style.findtext("{*}Identifier"), style.get("isDefault")) for style in styles]
    assert listed == expected


def test_legend_has_only_scales_of_a_linked_matrix(rich: Client, find: Find) -> None:
    # M-10
    response = rich.get(GET)
    (legend,) = find(response, layer("gap", "wmts:Style/wmts:LegendURL"))
    href = "{http://www.w3.org/1999/xlink}href"
    attributes = dict(legend.attrib)
    maximum = attributes.pop("maxScaleDenominator")
    assert attributes == {
        "format": "image/png",
        href: "http://maps.example/l.png?a&b",
        "width": "20",
    }
    path = matrix_set("PM_2_4", "wmts:TileMatrix/wmts:ScaleDenominator/text()")
    assert maximum in find(response, path)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("RGB_JPG", ["image/jpeg", "image/png", "image/webp"]),
        ("RGBA_PNG", ["image/png", "image/jpeg", "image/webp"]),
        ("RGB_RAW", ["image/png", "image/jpeg", "image/webp", "image/tiff"]),
        ("FLOAT32_RAW", ["image/png", "image/jpeg", "image/webp", "image/x-bil;bits=32"]),
        ("FLOAT32_ZIP", ["image/png", "image/jpeg", "image/webp", "image/x-bil;bits=32"]),
    ],
)
def test_pictures_precede_what_clients_cannot_show(
    tiny: Client, find: Find, name: str, expected: list[str]
) -> None:
    """GDAL and OpenLayers take the first format and the first RESTful path."""
    response = tiny.get(GET)
    assert find(response, layer(name, "wmts:Format/text()")) == expected
    path = "wmts:ResourceURL[@resourceType='tile']/@format"
    assert find(response, layer(name, path)) == expected


def test_limits_are_those_of_the_levels(rich: Client, find: Find) -> None:
    limits = find(rich.get(GET), layer("gap", "wmts:TileMatrixSetLink//wmts:TileMatrixLimits"))
    assert [[child.text for child in entry] for entry in limits] == [
        ["2", "1", "1", "2", "2"],
        ["4", "5", "7", "9", "10"],
    ]


def test_limits_of_the_whole_matrix_are_left_out(rich: Client, find: Find) -> None:
    link = layer("world", "wmts:TileMatrixSetLink")
    assert find(rich.get(GET), f"{link}/wmts:TileMatrixSet/text()") == ["PM_0_1"]
    assert find(rich.get(GET), f"{link}/wmts:TileMatrixSetLimits") == []


def test_resource_template_is_a_path_with_the_layer_in_it(rich: Client, find: Find) -> None:
    path = "//wmts:Layer[starts-with(ows:Identifier, 'a &')]/wmts:ResourceURL"
    resource, *others = find(rich.get(GET), path)
    assert dict(resource.attrib) == {
        "format": "image/png",
        "resourceType": "tile",
        "template": "http://maps.example/wmts/1.0.0/a%20%26%20b's%20%7B%C3%A9%7D"
        "/{style}/{TileMatrixSet}/{TileMatrix}/{TileRow}/{TileCol}.png",
    }
    extensions = [other.get("template").rpartition(".")[2] for other in others]
    assert extensions == ["jpg", "webp"]


# ---------------------------------------------------------------- tile matrix sets


def test_sets_are_the_published_and_the_complete_ones_sorted(rich: Client, find: Find) -> None:
    path = "/*/wmts:Contents/wmts:TileMatrixSet/ows:Identifier/text()"
    expected = ["4326", "4326_3_3", "PM", "PM_0_1", "PM_2_3", "PM_2_4"]
    assert find(rich.get(GET), path) == expected


def test_identifiers_are_unique_and_links_lead_to_sets(rich: Client, find: Find) -> None:
    # M-9
    response = rich.get(GET)
    for path in (
        "//wmts:Layer/ows:Identifier",
        "//wmts:Contents/wmts:TileMatrixSet/ows:Identifier",
    ):
        identifiers = find(response, f"{path}/text()")
        assert len(identifiers) == len(set(identifiers))
    sets = find(response, "/*/wmts:Contents/wmts:TileMatrixSet/ows:Identifier/text()")
    assert set(find(response, "//wmts:TileMatrixSetLink/wmts:TileMatrixSet/text()")) <= set(sets)
    for tile_matrix_set in find(response, "/*/wmts:Contents/wmts:TileMatrixSet"):
        for name in ("Identifier", "ScaleDenominator"):
            values = tile_matrix_set.xpath(
                f"./*[local-name()='TileMatrix']/*[local-name()='{name}']"
            )
            texts = [value.text for value in values]
            assert len(texts) == len(set(texts))


def test_published_set_has_the_matrices_from_top_to_bottom(rich: Client, find: Find) -> None:
    response = rich.get(GET)
    path = "wmts:TileMatrix/ows:Identifier/text()"
    assert find(response, matrix_set("PM_2_4", path)) == ["2", "3", "4"]
    assert find(response, matrix_set("PM", path)) == [str(level) for level in range(22)]


def test_matrix_of_a_projected_set(rich: Client, find: Find) -> None:
    response = rich.get(GET)
    assert find(response, matrix_set("PM", "ows:SupportedCRS/text()")) == [
        "urn:ogc:def:crs:EPSG::3857"
    ]
    matrix = find(response, matrix_set("PM", "wmts:TileMatrix[ows:Identifier='1']"))[0]
    texts = {child.tag.rpartition("}")[2]: child.text for child in matrix}
    assert float(texts.pop("ScaleDenominator")) == pytest.approx(279541132.0143589)
    x, y = map(float, texts.pop("TopLeftCorner").split())
    assert (x, y) == (pytest.approx(-20037508.3427892), pytest.approx(20037508.3427892))
    assert texts == {
        "Identifier": "1",
        "TileWidth": "256",
        "TileHeight": "256",
        "MatrixWidth": "2",
        "MatrixHeight": "2",
    }


def test_corner_is_in_the_axis_order_of_the_crs(rich: Client, find: Find) -> None:
    path = matrix_set("4326", "wmts:TileMatrix/wmts:TopLeftCorner/text()")
    assert set(find(rich.get(GET), path)) == {"90 -180"}


def test_scale_of_a_geographic_set_counts_metres_per_degree(rich: Client, find: Find) -> None:
    path = matrix_set("4326", "wmts:TileMatrix[1]/wmts:ScaleDenominator/text()")
    assert float(find(rich.get(GET), path)[0]) == pytest.approx(279541132.0143589)


def test_numbers_have_no_exponent(rich: Client, find: Find) -> None:
    paths = "//wmts:ScaleDenominator | //wmts:TopLeftCorner | //ows:LowerCorner | //ows:UpperCorner"
    for entry in find(rich.get(GET), paths):
        assert re.fullmatch(r"-?\d+(\.\d+)?( -?\d+(\.\d+)?)?", entry.text)


# ---------------------------------------------------------------- INSPIRE


@pytest.mark.parametrize("value", ["1", "true", "TRUE"])
def test_inspire_form_lists_members_only(rich: Client, find: Find, value: str) -> None:
    response = rich.get(f"{GET}&inspire={value}")
    assert find(response, "//wmts:Layer/ows:Identifier/text()") == ["inspired"]
    assert set(find(response, "//ows:Get/@xlink:href")) == {
        "http://maps.example/wmts?INSPIRE=1&SERVICE=WMTS&"
    }
    assert find(response, "string(/*/wmts:ServiceMetadataURL/@xlink:href)") == [
        "http://maps.example/wmts/1.0.0/WMTSCapabilities.xml?INSPIRE=1"
    ]
    extended = find(response, "//ows:OperationsMetadata/*[local-name()='ExtendedCapabilities']")
    assert len(extended) == 1
    assert [text for text in extended[0].itertext() if text.strip()] == [
        "http://r.example/",
        "text/xml",
        "fre",
        "fre",
    ]


@pytest.mark.parametrize("value", ["0", "false", "maybe", ""])
def test_plain_form_is_the_default(rich: Client, value: str) -> None:
    assert rich.get(f"{GET}&inspire={value}").data == rich.get(GET).data


def test_inspire_as_the_default_can_be_overridden(
    tmp_path: Path, open_client: OpenClient, find: Find
) -> None:
    overrides = {"global": {"inspire": True}}
    path = tiny_installation(tmp_path, services=["wmts"], services_overrides=overrides)
    client = open_client(path)
    assert find(client.get(GET), "//wmts:Layer") == []
    assert len(find(client.get(f"{GET}&INSPIRE=0"), "//wmts:Layer")) == 8
    assert b"inspire" not in client.get(f"{GET}&INSPIRE=0&SECTIONS=Contents").data


def test_many_variants_do_not_fill_the_memory(tiny: Client) -> None:
    for number in range(2 ** len(SECTIONS)):
        chosen = [name for bit, name in enumerate(SECTIONS) if number & 1 << bit] or ["Themes"]
        for inspire in (0, 1):
            query = f"{GET}&SECTIONS={','.join(chosen)}&INSPIRE={inspire}"
            assert tiny.get(query).status_code == 200
    service = tiny.application.site.services["wmts"]
    assert service._get_capabilities._extract.cache_info().currsize <= 4
    assert service._get_capabilities._complete.cache_info().currsize <= 2
