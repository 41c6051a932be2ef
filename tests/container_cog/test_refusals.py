"""Files and options that cannot be published: each is refused with a reason and a remedy."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.container_cog.files import (
    PLACE,
    Storage,
    by_gdal,
    by_tifffile,
    changed,
    ground,
    opened,
    reader_of,
)

from mastaba.errors import ContainerFormatError, SlabFormatError

KEYS = (1, 1, 0, 2, 1024, 0, 1, 1)
"""A directory of two GeoKeys, of which the first one says: a projected CRS."""

TAGS: list[tuple[int, tuple[float, ...], str, str]] = [
    (259, (2,), "CCITT", "COG"),
    (259, (6,), "old JPEG", "COG"),
    (259, (34712,), "JPEG 2000", "COG"),
    (259, (50002,), "JPEG XL", "COG"),
    (259, (4711,), "compression 4711", "COG"),
    (258, (24,), "24 bits", "type"),
    (262, (5,), "photometric interpretation 5", "COG"),
    (317, (3,), "predictor", "write it again"),
    (322, (8192,), "8192 × 32", "COG"),
    (256, (0,), "0 × 70", "write it again"),
    (33550, (10.0, 11.0, 0.0), "not square", "gdalwarp"),
    (33550, (10.0, -10.0, 0.0), "southernmost", "gdalwarp"),
    (33550, (0.0, 0.0, 0.0), "size 0", "gdalwarp"),
    (34735, (*KEYS, 3072, 0, 1, 32767), "no code", "crs"),
    (34735, (*KEYS, 3072, 0, 1, 1025), "not known", "crs"),
    (34735, (*KEYS, 2048, 0, 1, 4326), "no code", "crs"),
]


@pytest.mark.parametrize(("tag", "values", "reason", "remedy"), TAGS)
def test_tag_is_refused(tag: int, values: tuple[float, ...], reason: str, remedy: str) -> None:
    data = by_tifffile(ground("uint8"), compression="deflate", predictor=2)
    with pytest.raises(ContainerFormatError, match=reason) as error:
        opened(Storage(changed(data, tag, *values)))
    assert remedy in error.value.remedy


POINTS = (0.0, 0.0, 0.0, 5e5, 4.6e6, 0.0) * 2
FURTHER: list[tuple[list[Any], str, str]] = [
    ([(33922, "d", 12, POINTS)], "several points", "gdalwarp"),
    ([(33550, "d", 1, 10.0)], "several points", "gdalwarp"),
    ([(34264, "d", 16, (1.0, 0.5, *(0.0,) * 14))], "rotated", "gdalwarp"),
    (
        [(34735, "H", 16, (1, 1, 0, 3, 1024, 0, 1, 1, 3072, 0, 1, 32631, 3076, 0, 1, 9002))],
        "unit",
        "crs",
    ),
]


@pytest.mark.parametrize(("tags", "reason", "remedy"), FURTHER)
def test_further_tag_is_refused(
    tags: list[Any], reason: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.container_cog import files

    own = {tag[0] for tag in tags}
    monkeypatch.setattr(files, "PLACE", [tag for tag in PLACE if tag[0] not in own])
    values = ground("uint8") > 60
    with pytest.raises(ContainerFormatError, match=reason) as error:
        opened(Storage(by_tifffile(values, tags=tags)))
    assert remedy in error.value.remedy


def test_bits_in_the_reverse_order_are_refused() -> None:
    data = by_tifffile(ground("uint8") > 60, tags=[(65000, "H", 1, 2)])
    data = data.replace(struct.pack("<HH", 65000, 3), struct.pack("<HH", 266, 3))
    with pytest.raises(ContainerFormatError, match="FillOrder") as error:
        opened(Storage(data))
    assert "COG" in error.value.remedy


def test_complex_samples_are_refused() -> None:
    with pytest.raises(ContainerFormatError, match="complex samples of 64 bits") as error:
        opened(Storage(by_tifffile(ground("float32").astype(np.complex64))))
    assert "another type" in error.value.remedy


def test_file_without_position_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.container_cog import files

    monkeypatch.setattr(files, "PLACE", [])
    with pytest.raises(ContainerFormatError, match="no position") as error:
        opened(Storage(by_tifffile(ground("uint8"))))
    assert "into the file" in error.value.remedy


OPTIONS: list[tuple[str, int, dict[str, Any], str, str]] = [
    ("uint8", 1, {"bands": [2]}, "names 2 of 1", "correct"),
    ("uint8", 1, {"bands": [1, 1]}, "2 bands", "1 or 3"),
    ("uint8", 1, {"rescale": [[5, 5]]}, "low", "correct"),
    ("uint8", 1, {"rescale": [[1, 5], [1, 5]]}, "2 ranges", "correct"),
    ("uint8", 1, {"format": "bil"}, "not for pictures", "format"),
    ("uint8", 1, {"format": "webp"}, "three bands", "format"),
    ("float32", 1, {"format": "png"}, "not a picture", "rescale"),
    ("uint16", 3, {}, "3 bands", "rescale"),
    ("uint16", 4, {"bands": [1, 2, 3]}, "4 bands", "rescale"),
    ("uint16", 4, {"format": "tiff", "bands": [1]}, "sent as TIFF", "format"),
    ("uint8", 1, {"crs": "EPSG:1"}, "crs", "correct"),
]


@pytest.mark.parametrize(("sample", "bands", "options", "reason", "remedy"), OPTIONS)
def test_option_is_refused(
    sample: str, bands: int, options: dict[str, Any], reason: str, remedy: str
) -> None:
    photometric = "rgb" if bands == 3 else "minisblack"
    data = by_tifffile(ground(sample, bands), photometric=photometric, planarconfig="contig")
    with pytest.raises(ContainerFormatError, match=reason) as error:
        opened(Storage(data), **options)
    assert remedy in error.value.remedy


def test_ranges_are_proposed_by_the_statistics() -> None:
    items = "".join(
        f'<Item name="STATISTICS_{name}" sample="{band}">{value + band}</Item>'
        for band in range(3)
        for name, value in (("MINIMUM", 10), ("MAXIMUM", 200))
    )
    text = f"<GDALMetadata>{items}</GDALMetadata>"
    data = by_tifffile(
        ground("uint16", 3),
        photometric="rgb",
        planarconfig="contig",
        tags=[(42112, "s", len(text), text)],
    )
    with pytest.raises(ContainerFormatError) as error:
        opened(Storage(data))
    assert "[[10.0, 200.0], [11.0, 201.0], [12.0, 202.0]]" in error.value.remedy


def test_jpeg_whose_colours_contradict_the_file_is_refused(tmp_path: Path) -> None:
    data = by_gdal(tmp_path, ground("uint8", 3), COMPRESS="JPEG")
    reader = reader_of(opened(Storage(changed(data, 262, 2))))
    with pytest.raises(SlabFormatError, match="different sizes"):
        reader.locate(0, 0).read()
    # The first frame header names its components.
    place = data.index(b"\xff\xc0")
    assert data[place + 9] == 3
    named = bytearray(data)
    named[place + 10 : place + 19 : 3] = b"RGB"
    reader = reader_of(opened(Storage(bytes(named))))
    with pytest.raises(SlabFormatError, match="not YCbCr"):
        reader.locate(0, 0).read()
    # 12 bits.
    deep = bytearray(data)
    deep[place + 4] = 12
    reader = reader_of(opened(Storage(bytes(deep)), format="png"))
    with pytest.raises(SlabFormatError, match="12 bits"):
        reader.decoder.decode(reader.locate(0, 0).read())


def test_jpeg_with_nodata_is_warned_of(tmp_path: Path) -> None:
    warnings: list[str] = []
    data = by_gdal(tmp_path, ground("uint8", 3), nodata=0, COMPRESS="JPEG")
    opened(Storage(data), warnings=warnings)
    assert ["with a mask" in one for one in warnings] == [True]


@pytest.mark.parametrize("bands", [5, 7])
def test_pictures_of_many_bands_are_refused(bands: int) -> None:
    data = by_tifffile(ground("uint8", bands), planarconfig="contig", compression="deflate")
    with pytest.raises(ContainerFormatError, match=f"{bands} bands") as error:
        opened(Storage(changed(data, 259, 50001)), bands=[1])
    assert "COG" in error.value.remedy
