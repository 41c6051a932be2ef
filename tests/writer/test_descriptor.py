"""Descriptors and lists of pyramids have a fixed order."""

from __future__ import annotations

import pytest

from mastaba_writer.descriptor import LevelPlan, pyramid_descriptor, slab_list


def test_keys_of_a_descriptor_have_the_canonical_order() -> None:
    document = pyramid_descriptor(
        "PM",
        "TIFF_PNG_UINT8",
        [LevelPlan("3", 1, 2, 3, 4)],
        slab_size=(16, 8),
        storage=lambda level: {"type": "FILE", "image_directory": f"a/DATA/{level}"},
        channels=4,
        nodata=(1, 2, 3, 0),
        mask_format="TIFF_ZIP_UINT8",
    )
    assert list(document) == [
        "tile_matrix_set",
        "format",
        "raster_specifications",
        "mask_format",
        "levels",
    ]
    (level,) = document["levels"]
    assert list(level) == ["id", "tiles_per_width", "tiles_per_height", "tile_limits", "storage"]
    assert level["tile_limits"] == {"min_row": 1, "max_row": 2, "min_col": 3, "max_col": 4}
    assert document["raster_specifications"]["nodata"] == "1,2,3,0"


def test_nodata_needs_a_value_for_each_channel() -> None:
    with pytest.raises(ValueError, match="1 nodata values for 3 channels"):
        pyramid_descriptor(
            "PM", "TIFF_PNG_UINT8", [], slab_size=(1, 1), storage=lambda _: {}, nodata=(0,)
        )


@pytest.mark.parametrize(
    ("value", "text"),
    [(-9999.1, "-9999.1"), (-3.4028234663852886e38, "-3.40282347e+38"), (16777215, "16777215")],
)
def test_nodata_has_as_many_digits_as_float32_needs(value: float, text: str) -> None:
    document = pyramid_descriptor(
        *("PM", "TIFF_RAW_FLOAT32", []),
        slab_size=(1, 1),
        storage=lambda _: {},
        channels=1,
        nodata=(value,),
    )
    assert document["raster_specifications"]["nodata"] == text


def test_list_names_the_root_once() -> None:
    text = slab_list(["/data/A", "/data/B"], [(0, "DATA/1/00.tif"), (1, "DATA/1/01.tif")])
    assert text == "0=/data/A\n1=/data/B\n#\n0/DATA/1/00.tif\n1/DATA/1/01.tif\n"
    with pytest.raises(ValueError, match="white space"):
        slab_list(["/my data/A"], [])
