"""Grids of tiles (tilematrixset.md sections 2, 3 and 5)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mastaba.config.tile_matrix_sets import make_tile_matrix_set
from mastaba.model.bbox import BoundingBox
from mastaba.model.crs import CRS
from mastaba.model.tile_matrix_set import TileLimits, TileMatrix, TileMatrixSet
from mastaba_documents.faults import Faults, FileFaults

# Tiles of 10 × 20 units with the upper left corner at (-100, 50).
MATRIX = TileMatrix("0", 0.1, -100.0, 50.0, 100, 200, 8, 4)


@pytest.mark.parametrize(
    ("limits", "box"),
    [
        (TileLimits(0, 0, 0, 0), BoundingBox(-100, 30, -90, 50)),
        (TileLimits(1, 2, 3, 5), BoundingBox(-70, -10, -40, 30)),
        (TileLimits(0, 3, 0, 7), BoundingBox(-100, -30, -20, 50)),
    ],
)
def test_bbox_of_and_limits_of_are_inverse(limits: TileLimits, box: BoundingBox) -> None:
    found = MATRIX.bbox_of(limits)
    assert (found.xmin, found.ymin, found.xmax, found.ymax) == pytest.approx(
        (box.xmin, box.ymin, box.xmax, box.ymax)
    )
    assert MATRIX.limits_of(box) == limits
    assert MATRIX.limits_of(found) == limits


@pytest.mark.parametrize(
    ("box", "limits"),
    [
        (BoundingBox(-95, 35, -94, 36), TileLimits(0, 0, 0, 0)),
        (BoundingBox(-95, 29, -89, 36), TileLimits(0, 1, 0, 1)),
        (BoundingBox(-1000, -1000, 1000, 1000), TileLimits(0, 3, 0, 7)),
        (BoundingBox(-1000, 40, -95, 1000), TileLimits(0, 0, 0, 0)),
    ],
)
def test_limits_of_a_box_are_restricted_to_the_matrix(box: BoundingBox, limits: TileLimits) -> None:
    assert MATRIX.limits_of(box) == limits


@pytest.mark.parametrize(
    "box", [BoundingBox(0, 0, 10, 10), BoundingBox(-95, 51, -90, 60), BoundingBox(-20, 0, -10, 10)]
)
def test_box_outside_the_matrix_has_no_tiles(box: BoundingBox) -> None:
    assert MATRIX.limits_of(box) is None


def test_limits_contain_their_edges() -> None:
    limits = TileLimits(2, 4, 6, 6)
    assert limits.contains(2, 6)
    assert limits.contains(4, 6)
    assert not limits.contains(5, 6)
    assert not limits.contains(4, 7)


def test_intersection_of_limits_contains_the_common_tiles() -> None:
    one = TileLimits(0, 5, 0, 5)
    assert one.intersection(TileLimits(5, 9, 3, 9)) == TileLimits(5, 5, 3, 5)
    assert one.intersection(TileLimits(6, 9, 3, 9)) is None


def make_set(*matrices: TileMatrix) -> TileMatrixSet:
    return TileMatrixSet.of("S", CRS.from_code("EPSG:3857"), matrices)


def make_matrix(identifier: str, cell_size: float, origin_x: float = 0.0) -> TileMatrix:
    return TileMatrix(identifier, cell_size, origin_x, 0.0, 256, 256, 4, 4)


def test_matrices_are_ordered_by_cell_size_and_not_by_identifier() -> None:
    tms = make_set(make_matrix("10", 1), make_matrix("9", 2), make_matrix("8", 4))
    assert list(tms.matrices) == ["8", "9", "10"]
    assert [matrix.id for matrix in tms.between("9", "10")] == ["9", "10"]
    with pytest.raises(KeyError):
        tms.between("7", "10")


def test_set_that_halves_cell_sizes_within_the_tolerance_is_a_quadtree() -> None:
    assert make_set(make_matrix("0", 4.0001), make_matrix("1", 2)).is_quadtree is True
    assert make_set(make_matrix("0", 4.001), make_matrix("1", 2)).is_quadtree is False
    assert make_set(make_matrix("0", 4), make_matrix("1", 2, 0.5)).is_quadtree is False
    assert make_set(make_matrix("0", 4)).is_quadtree is True


def test_scale_denominator_uses_the_ogc_pixel_size() -> None:
    mercator, degrees = CRS.from_code("EPSG:3857"), CRS.from_code("EPSG:4326")
    assert make_matrix("0", 156543.033928041).scale_denominator(mercator) == pytest.approx(
        559082264.028718
    )
    assert make_matrix("0", 0.703125).scale_denominator(degrees) == pytest.approx(279541132.01436)


HALVING = {"LAMB93_10cm": True, "PM": True, "LAMB93_IGNF": False, "LAMB93_1M_MNT": False}


@pytest.mark.shared_data
def test_real_sets_load_and_their_scales_agree(shared_data: Path) -> None:
    faults, loaded = Faults(), 0
    for file in sorted((shared_data / "alps/tilematrixsets").iterdir()):
        document = json.loads(file.read_text("utf-8"))
        tms = make_tile_matrix_set(file.stem, document, FileFaults(faults, str(file)))
        if file.stem in HALVING:
            assert tms.is_quadtree is HALVING[file.stem]
        for entry in document["tileMatrices"]:
            scale = tms.matrices[entry["id"]].scale_denominator(tms.crs)
            assert scale == pytest.approx(entry["scaleDenominator"], rel=1e-6)
        loaded += 1
    assert faults.all == ()
    assert loaded > 0
