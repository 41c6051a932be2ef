"""Answers equal those of an existing server on the same pyramids (shared data)."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lxml import etree
from PIL import Image
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


# Tiles of matrices that the layer is not offered in: 404 there, and TileOutOfRange here, as the
# standard wants it (wmts.md section 3).
NOT_OFFERED = {"DEV_F32_RAW", "DEV_F32_ZIP", "DEV_F32_ZIP_4326", "DEV_RGB_ZIP"}
# Elevation beside nodata: there, both are mixed into meaningless values (resampling.md section 7).
BESIDE_NODATA = {"DEV_F32_LZW", "DEV_F32_PKB"}


def decoded(body: bytes, media_type: str) -> np.ndarray[Any, Any]:
    if media_type.startswith("image/x-bil"):
        return np.frombuffer(body, "<f4")
    with Image.open(io.BytesIO(body)) as image:
        return np.array(image)


def within_three_pixels(mask: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    padded = np.pad(mask, 3)
    height, width = mask.shape
    return np.any(
        [padded[i : i + height, j : j + width] for i in range(7) for j in range(7)], axis=0
    )


def test_tiles_of_extra_sets_are_equal(alps: Client, shared_data: Path) -> None:
    seen: set[str] = set()
    for answer in answers(shared_data, "wmts.reprojected"):
        path, expected = answer["request"]["path"], answer["response"]
        name = answer["name"].split()[0]
        response = alps.get(path)
        if name in NOT_OFFERED:
            assert expected["status"] == 404, path
            assert response.status_code == 400, path
            assert b'"TileOutOfRange" locator="TileMatrix"' in response.data, path
            continue
        assert response.status_code == expected["status"], path
        if response.status_code != 200:
            continue
        media_type = response.headers["Content-Type"]
        assert media_type == expected["headers"]["Content-Type"], path
        ours, theirs = (
            decoded(body, media_type).astype(np.float64) for body in (response.data, answer["body"])
        )
        assert ours.shape == theirs.shape, path
        difference = np.abs(ours - theirs)
        seen.add(media_type)
        if media_type == "image/jpeg":
            # Two encoders of one quality: theirs averages chroma in another way, so that single
            # pixels on sharp edges differ while the picture is the same.
            assert difference.mean() < 1, path
            assert np.quantile(difference, 0.999) <= 6, path
        elif name in BESIDE_NODATA:
            differing = difference > 1e-4 * np.abs(theirs)
            beside = within_three_pixels(ours == -99999)
            assert 0 < differing.mean() < 0.01, path
            assert (differing & ~beside).mean() < 1e-4, path
            # Ours is data or nodata, and never anything between.
            data = ours[ours != -99999]
            assert data.min() >= theirs[~beside].min() - 50, path
            assert data.max() <= theirs[~beside].max() + 50, path
        else:
            assert difference.max() <= 1, path
            assert (difference > 0).mean() < 1e-3, path
    assert seen == {"image/jpeg", "image/png", "image/tiff"}


def test_feature_info_is_equal(alps: Client, shared_data: Path) -> None:
    expected = answers(shared_data, "wmts.getfeatureinfo")
    assert len(expected) == 18
    for answer in expected:
        path = answer["request"]["path"]
        response = alps.get(path)
        assert response.status_code == 200, path
        assert response.headers["Content-Type"] == "application/json", path
        (feature,) = json.loads(response.data)["features"]
        if "DEV_RGB_JPG90" in path:  # missing in the formats that the other server can read
            assert answer["response"]["status"] == 404
            continue
        (theirs,) = json.loads(answer["body"])["features"]
        # The existing server writes numbers as texts.
        values = [float(value) for value in theirs["properties"]["pixel"]]
        assert feature["properties"] == {"pixel": values}, path


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
        for tag in ("Title", "Abstract", "Keywords"):
            assert texts(layer.find(f"{{*}}{tag}")) == texts(theirs[name].find(f"{{*}}{tag}"))
        # Ours adds pictures.
        assert theirs[name].findtext("{*}Format") in [
            item.text for item in layer.findall("{*}Format")
        ]
        for tag in ("InfoFormat", "TileMatrixSetLink"):
            found, expected = (
                [texts(each) for each in document.findall(f"{{*}}{tag}")]
                for document in (layer, theirs[name])
            )
            if tag == "TileMatrixSetLink" and name in ON_AN_EDGE:
                # The extent begins on an edge of tiles. Theirs has one more column, of no area
                # (layer.md section 4).
                pairs = list(zip(flat(found), flat(expected), strict=True))
                at_fault = [(one, other) for one, other in pairs if one != other]
                assert at_fault
                assert all(int(one) == int(other) + 1 for one, other in at_fault)
            else:
                assert found == expected
        styles, their_styles = (
            [texts(style) for style in each.findall("{*}Style")] for each in (layer, theirs[name])
        )
        # Further styles are for further formats, in which tiles are drawn.
        assert styles[: len(their_styles)] == their_styles
        box, their_box = (
            numbers(texts(each.find("{*}WGS84BoundingBox"))) for each in (layer, theirs[name])
        )
        assert box == pytest.approx(their_box, rel=1e-5)  # they print six digits


def test_tile_matrix_sets_state_the_same_facts(
    documents: tuple[etree._Element, etree._Element],
) -> None:
    path = "{*}Contents/{*}TileMatrixSet"
    ours, theirs = (by_identifier(document, path) for document in documents)
    assert ours.keys() == theirs.keys()
    for name, tile_matrix_set in ours.items():
        crs, their_crs = (
            each.findtext("{*}SupportedCRS") for each in (tile_matrix_set, theirs[name])
        )
        # They write the code, which leaves GDAL without the axis order.
        authority, _, code = their_crs.partition(":")
        assert crs == f"urn:ogc:def:crs:{authority}::{code}"
        matrices, their_matrices = (
            [texts(matrix) for matrix in each.findall("{*}TileMatrix")]
            for each in (tile_matrix_set, theirs[name])
        )
        assert [matrix[0] for matrix in matrices] == [matrix[0] for matrix in their_matrices]
        for matrix, their_matrix in zip(matrices, their_matrices, strict=True):
            assert numbers(matrix) == pytest.approx(numbers(their_matrix), rel=1e-12)


ON_AN_EDGE = {"DEV_F32_ZIP_4326", "DEV_RGB_ZIP"}


def flat(lists: list[list[str]]) -> list[str]:
    return [text for each in lists for text in each]


def by_identifier(document: etree._Element, path: str) -> dict[str, etree._Element]:
    return {found.findtext("{*}Identifier"): found for found in document.iterfind(path)}


def texts(element: etree._Element) -> list[str]:
    return [text for text in element.itertext() if text.strip()]


def numbers(found: list[str]) -> list[float]:
    return [float(number) for text in found for number in text.split()]
