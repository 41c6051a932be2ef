"""Names of slabs (pyramid.md section 3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from mastaba.slab.layout import PathLayout, PrefixLayout


@pytest.mark.parametrize(
    ("slab_col", "slab_row", "depth", "path"),
    [
        (1, 11, 2, "00/00/1B.tif"),
        (129, 93, 2, "00/32/LL.tif"),
        (1121, 11181, 2, "08/VM/5L.tif"),
        (33030, 23940, 2, "PI/HH/I0.tif"),
        (68025, 15418, 2, "10GB/HW/LA.tif"),
        (272104, 61674, 2, "51TB/YL/G6.tif"),
        (68025, 15418, 1, "10GBHW/LA.tif"),
        (68025, 15418, 3, "10/GB/HW/LA.tif"),
        (5, 1, 1, "00/51.tif"),
        (0, 0, 0, "00.tif"),
    ],
)
def test_path_of_a_file_slab_matches_the_specification(
    slab_col: int, slab_row: int, depth: int, path: str
) -> None:
    assert PathLayout("/maps/L", depth).key(slab_col, slab_row) == f"/maps/L/{path}"


@pytest.mark.parametrize("depth", range(9))
def test_path_depth_is_the_number_of_directories(depth: int) -> None:
    for slab_col, slab_row in [(0, 0), (35, 36), (46655, 1), (1, 46656), (2**31, 2**31)]:
        key = PathLayout("D", depth).key(slab_col, slab_row)
        assert key.count("/") == depth + 1
        digits = key.removeprefix("D/").removesuffix(".tif").replace("/", "")
        assert (int(digits[::2], 36), int(digits[1::2], 36)) == (slab_col, slab_row)


@pytest.mark.parametrize(
    ("prefix", "slab_col", "slab_row", "name"),
    [
        ("LIMADM/DATA_18", 5424, 7526, "LIMADM/DATA_18_5424_7526"),
        ("ORTHO/DATA_9", 16, 11, "ORTHO/DATA_9_16_11"),
        ("ORTHO/MASK_9", 16, 11, "ORTHO/MASK_9_16_11"),
    ],
)
def test_name_of_an_object_slab_matches_the_specification(
    prefix: str, slab_col: int, slab_row: int, name: str
) -> None:
    assert PrefixLayout(prefix).key(slab_col, slab_row) == name


@pytest.mark.shared_data
def test_paths_of_real_slabs_match_their_indices(shared_data: Path) -> None:
    found = 0
    for level in sorted((shared_data / "ign").glob("*/DATA/*")):
        for slab in level.rglob("*.tif"):
            depth = len(slab.relative_to(level).parts) - 1
            digits = "".join(slab.relative_to(level).with_suffix("").parts)
            indices = int(digits[::2], 36), int(digits[1::2], 36)
            assert PathLayout(str(level), depth).key(*indices) == str(slab)
            found += 1
    assert found > 0
