"""Styles from files and from tables: sources, addresses, and what is left out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.container_sqlite.ground import picture, write_geopackage
from tests.styles.conftest import PUBLIC_URL, STYLE, OpenClient
from werkzeug.test import Client

STYLESHEET = "application/vnd.mapbox.style+json"


def style(client: Client, path: str) -> dict[str, Any]:
    answer = client.get(path)
    assert (answer.status_code, answer.content_type) == (200, STYLESHEET)
    found: dict[str, Any] = json.loads(answer.data)
    return found


def addresses(content: Any) -> list[str]:
    if isinstance(content, dict):
        return [one for value in content.values() for one in addresses(value)]
    if isinstance(content, list):
        return [one for value in content for one in addresses(value)]
    return [content] if isinstance(content, str) and "://" in content else []


def test_sources_and_addresses_are_those_of_this_server(client: Client) -> None:
    found = style(client, "/styles/VECTOR.json")
    assert set(found["sources"]) == {"anything", "RGB_PNG"}
    source = found["sources"]["anything"]
    assert source["tiles"] == [f"{PUBLIC_URL}/tms/1.0.0/VECTOR/{{z}}/{{x}}/{{y}}.pbf"]
    assert (source["minzoom"], source["maxzoom"]) == (2, 4)
    assert "url" not in source
    assert found["sources"]["RGB_PNG"]["tileSize"] == 256
    assert found["glyphs"] == f"{PUBLIC_URL}/styles/glyphs/{{fontstack}}/{{range}}.pbf"
    assert found["sprite"] == f"{PUBLIC_URL}/styles/sprites/icons"
    assert all(one.startswith(PUBLIC_URL) for one in addresses(found))


def test_layers_of_sources_elsewhere_are_left_out(client: Client) -> None:
    found = style(client, "/styles/VECTOR.json")
    assert [one["id"] for one in found["layers"]] == ["picture", "areas", "names"]


def test_labels_get_a_font_that_is_there(client: Client) -> None:
    names = style(client, "/styles/VECTOR.json")["layers"][-1]
    assert names["layout"]["text-font"][0].endswith("Regular")


def test_further_styles_have_the_names_of_their_files(client: Client) -> None:
    assert style(client, "/styles/VECTOR/night.json")["name"] == "Night"
    assert style(client, "/styles/VECTOR/streets.json")["name"] == "Streets"
    assert client.get("/styles/VECTOR/none.json").status_code == 404


def test_tiles_are_those_of_ogc_api_without_tms(
    installation: Callable[..., Path], open_client: OpenClient
) -> None:
    client = open_client(installation(services=("ogcapi",)))
    (template,) = style(client, "/styles/VECTOR.json")["sources"]["anything"]["tiles"]
    path = template.removeprefix(PUBLIC_URL).format(z=3, y=2, x=4)
    assert client.get(path).content_type == "application/vnd.mapbox-vector-tile"


def test_without_tiles_there_is_no_style(
    installation: Callable[..., Path], open_client: OpenClient
) -> None:
    client = open_client(installation(services=("wmts",)))
    refused = client.get("/styles/VECTOR.json")
    assert refused.status_code == 404
    assert "enable tms or ogcapi" in refused.get_json()["error"]["message"]
    assert client.get("/styles").get_json()["styles"] == []


def test_layers_that_clients_cannot_draw_say_why(
    installation: Callable[..., Path], open_client: OpenClient, tmp_path: Path
) -> None:
    server = installation(services=("tms", "ogcapi"))
    path = write_geopackage(tmp_path / "a.gpkg", {(1, 0, 0): picture(1)})
    layer = tmp_path / "lambert.json"
    entry = {"title": "L", "abstract": "", "pyramids": [{"path": str(path)}]}
    layer.write_text(json.dumps(entry))
    with next(tmp_path.rglob("layers.txt")).open("a") as file:
        file.write(f"{layer}\n")
    client = open_client(server)
    listed = [one["id"] for one in client.get("/styles").get_json()["styles"]]
    assert "VECTOR" in listed
    for name, reason in {
        "lambert": "its tile matrix set is EPSG2154_a",
        "FLOAT32_RAW": "not pictures or vector tiles",
        "NONE": "there is no style NONE",
    }.items():
        refused = client.get(f"/styles/{name}.json")
        assert refused.status_code == 404
        assert reason in refused.get_json()["error"]["message"]
        assert name not in listed
    listed = client.get("/ogcapi/collections/lambert/styles?f=json").text
    assert "vnd.mapbox.style" not in listed


def test_layers_without_files_get_a_style_of_their_tables(
    installation: Callable[..., Path], open_client: OpenClient, tmp_path: Path
) -> None:
    server_json = installation()
    layer = next(tmp_path.rglob("layers/VECTOR.json"))
    content = json.loads(layer.read_text())
    del content["style"]
    layer.write_text(json.dumps(content))
    found = style(open_client(server_json), "/styles/VECTOR.json")
    kinds = [(one["type"], one.get("source-layer")) for one in found["layers"]]
    assert kinds == [
        ("background", None),
        ("fill", "tiles"),
        ("circle", "centres"),
        ("symbol", "centres"),
    ]
    assert found["layers"][-1]["layout"]["text-field"] == "{name}"


def test_pictures_have_a_style_too(client: Client) -> None:
    found = style(client, "/styles/RGB_PNG.json")
    assert [one["type"] for one in found["layers"]] == ["raster"]
    assert client.get("/styles/FLOAT32_ZIP.json").status_code == 404


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        json.dumps(STYLE | {"metadata": [0] * 400_000}),
        json.dumps(STYLE | {"version": 7}),
        json.dumps(STYLE | {"layers": [*STYLE["layers"], STYLE["layers"][0]]}),
        json.dumps(STYLE | {"sources": {}}),
        json.dumps(STYLE | {"sources": {"anything": []}}),
        '{"version": 8, "sources": {}, "layers": [NaN]}',
        "",
    ],
    ids=["nested", "values", "version", "twice", "no source", "list", "NaN", "empty"],
)
def test_styles_that_cannot_be_used_are_left_out(
    installation: Callable[..., Path], open_client: OpenClient, text: str
) -> None:
    client = open_client(installation(text))
    assert style(client, "/styles/VECTOR.json")["name"] == "Night"
    assert client.get("/styles/VECTOR/streets.json").status_code == 404
    (service,) = (client.application.site.services["stylesheets"],)
    reasons = [fault.file for fault in service.findings() if "streets" in fault.file]
    assert reasons


def test_check_reports_what_a_style_names_and_is_missing(
    installation: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    from mastaba.commands.main import main

    broken = json.loads(json.dumps(STYLE))
    broken["sprite"] = "sprites/gone"
    broken["layers"][2]["source-layer"] = "streets"
    broken["layers"][3]["layout"]["text-font"] = ["step", ["zoom"], ["literal", ["Gone"]]]
    assert main(["check", "-f", str(installation(broken)), "--format", "json"]) == 1
    faults = json.loads(capsys.readouterr().out)["faults"]
    mine = {one["path"]: one for one in faults if one["file"].endswith("streets.json")}
    assert set(mine) == {
        "$.sources.foreign",
        "$.layers[2].source-layer",
        "$.layers[3].layout.text-font",
        "$.sprite",
    }
    assert all(one["severity"] == "error" and one["remedy"] for one in mine.values())


def test_ogc_api_links_to_styles(
    installation: Callable[..., Path], open_client: OpenClient
) -> None:
    client = open_client(installation(services=("tms", "ogcapi")))
    listed = client.get("/ogcapi/styles?f=json").get_json()
    of_vector = client.get("/ogcapi/collections/VECTOR/styles?f=json").get_json()
    assert (of_vector["default"], len(of_vector["styles"])) == ("VECTOR", 2)
    for one in of_vector["styles"]:
        assert one in listed["styles"]
        link = next(link for link in one["links"] if link["rel"] == "stylesheet")
        assert link["type"] == STYLESHEET
        given = style(client, link["href"].removeprefix(PUBLIC_URL))
        assert style(client, f"/ogcapi/styles/{one['id']}") == given
        about = client.get(f"/ogcapi/styles/{one['id']}/metadata").get_json()
        assert about["stylesheets"][0]["link"] == link
        for link in about["links"]:
            assert client.get(link["href"].removeprefix(PUBLIC_URL)).status_code == 200
    classes = client.get("/ogcapi/conformance?f=json").get_json()["conformsTo"]
    assert "http://www.opengis.net/spec/ogcapi-styles-1/1.0/conf/mapbox-styles" in classes
    assert client.get("/ogcapi/styles/none").status_code == 404
    assert client.get("/ogcapi/styles?f=html").status_code == 200


def test_a_value_of_a_layer_has_no_styles(
    installation: Callable[..., Path], open_client: OpenClient
) -> None:
    """The sources of styles are the tiles of the layer itself."""
    server_json = installation(services=("tms", "ogcapi"))
    path = server_json.parent / "layers" / "VECTOR.json"
    document = json.loads(path.read_text())
    document["dimensions"] = [{"name": "time"}]
    document["variants"] = [{"at": {"time": "2023"}, "pyramids": document["pyramids"]}]
    path.write_text(json.dumps(document))
    client = open_client(server_json)
    for name, status in (("VECTOR", 200), ("VECTOR;time=2023", 400)):
        links = client.get(f"/ogcapi/collections/{name}?f=json").get_json()["links"]
        assert any(one["rel"].endswith("/styles") for one in links) is (status == 200)
        assert client.get(f"/ogcapi/collections/{name}/styles?f=json").status_code == status
