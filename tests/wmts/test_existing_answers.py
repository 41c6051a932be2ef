"""Answers equal those of an existing server on the same pyramids (shared data)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from werkzeug.test import Client

pytestmark = pytest.mark.shared_data

GET = "/wmts?SERVICE=WMTS&REQUEST=GetCapabilities"


def answers(shared_data: Path, group: str) -> list[dict[str, Any]]:
    folder = shared_data / "alps-answers"
    index = json.loads((folder / "index.json").read_text())
    chosen = [entry["id"] for entry in index if entry["group"] == group]
    return [
        json.loads((folder / f"{number}.json").read_text())
        | {"body": (folder / f"{number}.body").read_bytes()}
        for number in chosen
    ]


def test_tiles_are_equal_byte_for_byte(alps: Client, shared_data: Path) -> None:
    expected = answers(shared_data, "wmts.gettile")
    assert len(expected) > 80
    for answer in expected:
        path = answer["request"]["path"]
        response = alps.get(path)
        assert response.status_code == answer["response"]["status"], path
        for name in ("Content-Type", "Content-Encoding"):
            assert response.headers.get(name) == answer["response"]["headers"].get(name), path
        assert response.data == answer["body"], path


def test_tiles_over_restful_paths_are_equal(alps: Client, shared_data: Path) -> None:
    extensions = {"image/jpeg": "jpeg", "image/png": "png", "image/tiff": "tif"}
    for answer in answers(shared_data, "wmts.gettile"):
        query = dict(item.split("=", 1) for item in answer["request"]["path"].split("&")[3:])
        media_type = query["FORMAT"].replace("%3D", "=")
        extension = extensions.get(media_type, "bil")
        if answer["response"]["headers"].get("Content-Encoding"):
            extension = "zbil"
        names = ("LAYER", "STYLE", "TILEMATRIXSET", "TILEMATRIX", "TILEROW", "TILECOL")
        path = "/".join(query[name] for name in names)
        response = alps.get(f"/wmts/1.0.0/{path}.{extension}")
        assert (response.status_code, response.data) == (200, answer["body"]), path


@pytest.fixture
def documents(alps: Client, shared_data: Path) -> tuple[etree._Element, etree._Element]:
    """Return our capabilities and theirs."""
    (theirs,) = (answer for answer in answers(shared_data, "caps") if answer["name"] == "wmts")
    return etree.fromstring(alps.get(GET).data), etree.fromstring(theirs["body"])


def test_service_states_the_same_facts(documents: tuple[etree._Element, etree._Element]) -> None:
    for path in ("{*}ServiceIdentification", "{*}ServiceProvider"):
        ours, theirs = (texts(document.find(path)) for document in documents)
        assert ours == theirs


def test_layers_state_the_same_facts(documents: tuple[etree._Element, etree._Element]) -> None:
    ours, theirs = (by_identifier(document, ".//{*}Layer") for document in documents)
    assert list(ours) == list(theirs)
    for name, layer in ours.items():
        for tag in ("Title", "Abstract", "Keywords", "Format", "TileMatrixSetLink"):
            assert texts(layer.find(f"{{*}}{tag}")) == texts(theirs[name].find(f"{{*}}{tag}"))
        styles, their_styles = (
            [texts(style) for style in each.findall("{*}Style")] for each in (layer, theirs[name])
        )
        assert styles == their_styles
        box, their_box = (
            numbers(texts(each.find("{*}WGS84BoundingBox"))) for each in (layer, theirs[name])
        )
        assert box == pytest.approx(their_box, rel=1e-5)  # they print six digits


def test_tile_matrix_sets_state_the_same_facts(
    documents: tuple[etree._Element, etree._Element],
) -> None:
    path = "{*}Contents/{*}TileMatrixSet"
    ours, theirs = (by_identifier(document, path) for document in documents)
    # Theirs are more by the sets into which tiles are reprojected.
    assert ours.keys() <= theirs.keys()
    for name, tile_matrix_set in ours.items():
        crs, their_crs = (
            each.findtext("{*}SupportedCRS") for each in (tile_matrix_set, theirs[name])
        )
        assert crs == their_crs
        matrices, their_matrices = (
            [texts(matrix) for matrix in each.findall("{*}TileMatrix")]
            for each in (tile_matrix_set, theirs[name])
        )
        assert [matrix[0] for matrix in matrices] == [matrix[0] for matrix in their_matrices]
        for matrix, their_matrix in zip(matrices, their_matrices, strict=True):
            assert numbers(matrix) == pytest.approx(numbers(their_matrix), rel=1e-12)


def by_identifier(document: etree._Element, path: str) -> dict[str, etree._Element]:
    return {found.findtext("{*}Identifier"): found for found in document.iterfind(path)}


def texts(element: etree._Element) -> list[str]:
    return [text for text in element.itertext() if text.strip()]


def numbers(found: list[str]) -> list[float]:
    return [float(number) for text in found for number in text.split()]
