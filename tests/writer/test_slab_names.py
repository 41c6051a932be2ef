import pytest

from mastaba_writer.slab_names import slab_object, slab_path


@pytest.mark.parametrize(
    ("column", "row", "depth", "path"),
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
def test_slab_path_interleaves_base_36_digits(column: int, row: int, depth: int, path: str) -> None:
    assert slab_path(column, row, depth) == path


@pytest.mark.parametrize(
    ("column", "row", "depth"), [(-1, 0, 2), (0, -1, 2), (0, 0, 9), (0, 0, -1)]
)
def test_slab_path_refuses_invalid_arguments(column: int, row: int, depth: int) -> None:
    with pytest.raises(ValueError):
        slab_path(column, row, depth)


def test_slab_object_is_decimal() -> None:
    assert slab_object("LIMADM/DATA_18", 5424, 7526) == "LIMADM/DATA_18_5424_7526"
