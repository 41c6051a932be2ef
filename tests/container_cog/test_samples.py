"""Decoded tiles: every compression, predictor, sample type, arrangement and byte order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from tests.container_cog.files import Storage, by_tifffile, ground, opened, pixels_of

SAMPLES = ("uint8", "uint16", "int16", "int32", "float16", "float32", "float64")
COMPRESSIONS = ("none", "lzw", "deflate", "packbits", "zstd", "lzma", "lerc")


def encodings() -> Iterator[tuple[str, int, str, str]]:
    """Yield each compression, predictor, sample and byte order of which there are files."""
    for compression, predictor, sample, order in product(COMPRESSIONS, (1, 2, 3), SAMPLES, "<>"):
        is_float = sample.startswith("float")
        # tifffile writes no floats with predictor 2.
        if predictor > 1 and is_float != (predictor == 3):
            continue
        if predictor > 1 and compression in ("none", "packbits", "lerc"):
            continue
        if compression == "lerc" and (sample == "float16" or order == ">"):
            continue
        yield compression, predictor, sample, order


@pytest.mark.sampled(one_in=13)
@pytest.mark.parametrize("planar", ["contig", "separate"])
@pytest.mark.parametrize("bigtiff", [False, True])
@pytest.mark.parametrize(("compression", "predictor", "sample", "order"), list(encodings()))
def test_samples_are_exact(
    compression: str, predictor: int, sample: str, order: str, bigtiff: bool, planar: str
) -> None:
    values = ground(sample, 3 if planar == "separate" else 1)
    data = by_tifffile(
        values,
        compression=None if compression == "none" else compression,
        predictor=predictor if predictor > 1 else None,
        planarconfig=planar,
        byteorder=order,
        bigtiff=bigtiff,
    )
    options = {} if planar == "contig" else {"bands": [2]}
    found = opened(Storage(data), **options)
    wanted = values if planar == "contig" else values[:, :, 1:2]
    wanted = wanted if sample == "uint8" else wanted.astype(np.float32)
    np.testing.assert_array_equal(pixels_of(found), wanted)


@pytest.mark.parametrize("bands", [1, 3, 4])
def test_bands_of_bytes_become_png(bands: int) -> None:
    values = ground("uint8", bands)
    rgb = {"photometric": "rgb"} if bands > 1 else {}
    extra = {"extrasamples": ["unassalpha"]} if bands == 4 else {}
    found = opened(Storage(by_tifffile(values, compression="deflate", **rgb, **extra)))
    assert found.pyramid.format.media_type == "image/png"
    assert found.pyramid.raster.channels == bands
    np.testing.assert_array_equal(pixels_of(found), values)


def test_palette_becomes_colours() -> None:
    values = ground("uint8")
    palette = np.random.default_rng(1).integers(0, 256, (3, 256), np.uint8)
    data = by_tifffile(values, photometric="palette", colormap=palette.astype(np.uint16) * 257)
    np.testing.assert_array_equal(pixels_of(opened(Storage(data))), palette.T[values[:, :, 0]])


def test_bits_become_black_and_white() -> None:
    values = ground("uint8") > 60
    data = by_tifffile(values.astype(np.bool_), photometric="minisblack")
    np.testing.assert_array_equal(pixels_of(opened(Storage(data))), values * np.uint8(255))


def test_bands_and_ranges_make_a_picture() -> None:
    values = ground("uint16", 4)
    data = by_tifffile(values, planarconfig="contig")
    found = opened(Storage(data), bands=[3, 1, 2], rescale=[[10, 110]])
    scaled = (values[:, :, [2, 0, 1]].astype(float) - 10) / 100 * 255
    np.testing.assert_array_equal(pixels_of(found), np.rint(np.clip(scaled, 0, 255)))


def test_nodata_of_bytes_is_transparent_and_of_values_is_kept() -> None:
    values = ground("int16")
    values[:20] = -7
    tags = [(42113, "s", 3, "-7")]
    found = opened(Storage(by_tifffile(values, tags=tags)))
    assert found.pyramid.raster.nodata == (-7.0,)
    np.testing.assert_array_equal(pixels_of(found), values)
    pixels = pixels_of(opened(Storage(by_tifffile(values, tags=tags)), rescale=[[-40, 40]]))
    assert pixels.shape[2] == 2
    assert not pixels[:20].any()
    assert (pixels[20:, :, 1] == np.where(values[20:, :, 0] == -7, 0, 255)).all()
