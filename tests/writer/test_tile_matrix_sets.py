import json
from pathlib import Path
from typing import Any

import pytest

from mastaba_writer.tile_matrix_sets import geographic, synthetic, web_mercator


@pytest.mark.shared_data
@pytest.mark.parametrize("document", [web_mercator(), geographic()], ids=lambda d: d["id"])
def test_documents_equal_the_published_ones(document: dict[str, Any], shared_data: Path) -> None:
    path = shared_data / "alps/tilematrixsets" / f"{document['id']}.json"
    published = json.loads(path.read_text())
    published["tileMatrices"].sort(key=lambda matrix: -matrix["cellSize"])
    for made, real in zip(document["tileMatrices"], published["tileMatrices"], strict=True):
        # Published values differ in the last of 15 digits and use another length of a degree.
        assert made.pop("cellSize") == pytest.approx(real.pop("cellSize"), rel=1e-14)
        assert made.pop("scaleDenominator") == pytest.approx(real.pop("scaleDenominator"), rel=1e-7)
        assert made == real
    assert {**document, "tileMatrices": []} == {**published, "tileMatrices": []}


def test_web_mercator_matches_the_published_numbers() -> None:
    matrices = web_mercator()["tileMatrices"]
    assert len(matrices) == 22
    assert matrices[0]["cellSize"] == 156543.033928041
    assert matrices[21]["cellSize"] == 0.0746455354347424
    assert matrices[21]["pointOfOrigin"] == [-20037508.3427892, 20037508.3427892]
    assert matrices[21]["matrixWidth"] == 2**21


def test_synthetic_levels_cover_the_area_of_the_first() -> None:
    document = synthetic(
        "S", crs="EPSG:2154", origin=(0, 100), cell_sizes=[10, 5, 2], tile_size=(64, 32)
    )
    assert [matrix["matrixWidth"] for matrix in document["tileMatrices"]] == [4, 8, 20]
    assert document["tileMatrices"][2]["tileHeight"] == 32
