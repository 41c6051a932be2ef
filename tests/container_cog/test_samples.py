"""Decoded tiles: every compression, predictor, sample type, arrangement and byte order."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.container_cog.files import (
    Pixels,
    Storage,
    by_gdal,
    by_tifffile,
    geotiff,
    ground,
    opened,
    pixels_of,
    reader_of,
)

from mastaba.errors import ContainerFormatError

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


LERCS = ("LERC", "LERC_DEFLATE", "LERC_ZSTD")
SIDE = (130, 150)


def only(values: Pixels, below: int) -> Pixels:
    """Return values of which the last band is 0 or 255."""
    values[:, :, -1] = np.where(values[:, :, -1] < below, 0, 255)
    return values


@pytest.mark.parametrize("compression", LERCS)
@pytest.mark.parametrize("error", [0.0, 0.5])
def test_lerc_of_gdal(compression: str, error: float, tmp_path: Path) -> None:
    values = ground("float32", 1, SIDE)
    values[20:40, 10:90] = np.nan
    data, read = geotiff(tmp_path, values, compress=compression, MAX_Z_ERROR=error, nodata=np.nan)
    found = pixels_of(opened(Storage(data)))
    gone = np.isnan(values)
    assert (found[gone] == -99999).all()
    np.testing.assert_array_equal(found[~gone], read[~gone])
    assert np.abs(found - values)[~gone].max() <= error


@pytest.mark.parametrize("compression", LERCS)
@pytest.mark.parametrize("bands", [2, 4])
@pytest.mark.parametrize("below", [0, 80, 300])
def test_alpha_of_lerc_is_its_mask(
    compression: str, bands: int, below: int, tmp_path: Path
) -> None:
    """libtiff writes alpha of 0 and 255 as the mask of a tile, and not as a band."""
    photometric = {"photometric": "RGB"} if bands == 4 else {}
    data, read = geotiff(
        tmp_path,
        only(ground("uint8", bands, SIDE), below),
        compress=compression,
        alpha="yes",
        **photometric,
    )
    np.testing.assert_array_equal(pixels_of(opened(Storage(data))), read)


@pytest.mark.parametrize("compression", LERCS)
def test_bands_of_lerc_have_masks_of_their_own(compression: str, tmp_path: Path) -> None:
    values = ground("float32", 3, SIDE)
    values[20:90, 30:100, 1] = np.nan
    data, read = geotiff(tmp_path, values, compress=compression)
    for band in (1, 2, 3):
        wanted = np.nan_to_num(read[:, :, band - 1 : band], nan=-99999)
        np.testing.assert_array_equal(pixels_of(opened(Storage(data), bands=[band])), wanted)


@pytest.mark.parametrize(
    ("sample", "compression"),
    [
        *product(("uint32", "int8", "uint64", "int64"), ("DEFLATE", "LZW", "ZSTD")),
        # LERC has no integers of 64 bits.
        *product(("uint32", "int8"), LERCS),
    ],
)
def test_integers_of_gdal(sample: str, compression: str, tmp_path: Path) -> None:
    data, read = geotiff(tmp_path, ground(sample, 1, SIDE), compress=compression)
    np.testing.assert_array_equal(pixels_of(opened(Storage(data))), read.astype(np.float32))


@pytest.mark.parametrize("bits", [1, 2, 4])
@pytest.mark.parametrize("white", [False, True])
def test_few_bits_are_spread_over_a_byte(bits: int, white: bool, tmp_path: Path) -> None:
    values = (ground("uint8", 1, SIDE) % (1 << bits)).astype(np.uint8)
    photometric = "MINISWHITE" if white else "MINISBLACK"
    data, read = geotiff(tmp_path, values, NBITS=bits, compress="DEFLATE", photometric=photometric)
    wanted = read * np.uint8(255 // ((1 << bits) - 1))
    np.testing.assert_array_equal(
        pixels_of(opened(Storage(data))), 255 - wanted if white else wanted
    )


@pytest.mark.parametrize("compression", ["LZW", "JPEG"])
def test_white_may_be_zero(compression: str, tmp_path: Path) -> None:
    data, read = geotiff(
        tmp_path, ground("uint8", 1, SIDE), photometric="MINISWHITE", compress=compression
    )
    found = opened(Storage(data))
    assert found.pyramid.format.media_type == "image/png"
    np.testing.assert_array_equal(pixels_of(found), 255 - read)


def test_colours_multiplied_by_alpha_are_divided(tmp_path: Path) -> None:
    values = ground("uint8", 4, SIDE)
    values[:, :, 3] = np.arange(150) * 255 // 149
    values[:, :, :3] = np.minimum(values[:, :, :3], values[:, :, 3:])
    data, read = geotiff(tmp_path, values, photometric="RGB", alpha="premultiplied")
    alpha = read[:, :, 3:].astype(float)
    straight = np.rint(np.where(alpha > 0, read[:, :, :3] * 255.0 / np.maximum(alpha, 1), 0))
    found = pixels_of(opened(Storage(data)))
    np.testing.assert_array_equal(found, np.concatenate([straight, alpha], axis=2))


@pytest.mark.parametrize("kind", ["yes", "premultiplied"])
def test_alpha_of_16_bits(kind: str, tmp_path: Path) -> None:
    values = ground("uint16", 4, SIDE) * 100
    values[:, :, 3] = np.arange(150) * 65535 // 149
    data, read = geotiff(tmp_path, values, photometric="RGB", alpha=kind)
    found = pixels_of(opened(Storage(data), rescale=[[0, 20000]]))
    alpha = read[:, :, 3:].astype(float)
    colours = read[:, :, :3].astype(float)
    if kind == "premultiplied":
        colours = np.where(alpha > 0, colours * 65535 / np.maximum(alpha, 1), 0)
    wanted = np.concatenate([np.clip(colours / 20000, 0, 1), alpha / 65535], axis=2) * 255
    np.testing.assert_array_equal(found, np.rint(wanted))


def scaled(dataset: Any) -> None:
    dataset.scales, dataset.offsets = (0.5,), (100.0,)


def test_scale_and_offset_may_be_applied(tmp_path: Path) -> None:
    data, read = geotiff(tmp_path, ground("int16", 1, SIDE), scaled, nodata=-7)
    assert (read == -7).any()
    wanted = np.where(read == -7, -7, read * 0.5 + 100)
    np.testing.assert_array_equal(pixels_of(opened(Storage(data))), wanted)
    np.testing.assert_array_equal(pixels_of(opened(Storage(data), apply_scale=False)), read)


def test_palette_with_nodata(tmp_path: Path) -> None:
    colours = {number: (number, 255 - number, number // 2, 255) for number in range(256)}
    data, read = geotiff(
        tmp_path,
        ground("uint8", 1, SIDE),
        lambda dataset: dataset.write_colormap(1, colours),
        nodata=90,
        photometric="PALETTE",
    )
    wanted = np.array(list(colours.values()))[read[:, :, 0]]
    wanted[read[:, :, 0] == 90] = 0
    np.testing.assert_array_equal(pixels_of(opened(Storage(data))), wanted)


def test_palette_may_have_colours_of_8_bits() -> None:
    values = ground("uint8")
    palette = np.random.default_rng(1).integers(0, 256, (3, 256), np.uint8)
    data = by_tifffile(values, photometric="palette", colormap=palette.astype(np.uint16))
    np.testing.assert_array_equal(pixels_of(opened(Storage(data))), palette.T[values[:, :, 0]])


@pytest.mark.parametrize(
    ("sample", "nodata"), [("uint64", 2**64 - 1), ("int64", 5 - 2**63), ("uint32", 2**32 - 1)]
)
def test_nodata_has_all_its_digits(sample: str, nodata: int) -> None:
    values = ground(sample)
    values[:20], values[20:30] = nodata, nodata - 1 if nodata > 0 else nodata + 1
    data = by_tifffile(values, tags=[(42113, "s", len(str(nodata)), str(nodata))])
    found = pixels_of(opened(Storage(data), rescale=[[0, 200]]))
    assert not found[:20].any()
    assert (found[20:, :, 1] == 255).all()


def test_sparse_tiles_are_absent(tmp_path: Path) -> None:
    values = np.zeros((200, 200, 1), np.uint8)
    values[:64, :64] = 7
    data, read = geotiff(tmp_path, values, SPARSE_OK=True, compress="DEFLATE")
    reader = reader_of(opened(Storage(data)))
    assert reader.locate(2, 2) is None
    np.testing.assert_array_equal(reader.decoder.decode(reader.locate(0, 0).read()), read[:64, :64])


@pytest.mark.parametrize("compression", ["ZSTD", "LERC"])
def test_missing_codec_is_named(
    compression: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = by_gdal(tmp_path, ground("float32"), COMPRESS=compression)
    monkeypatch.setitem(sys.modules, "imagecodecs", None)
    with pytest.raises(ContainerFormatError, match="imagecodecs") as error:
        opened(Storage(data))
    assert "mastaba-cog[codecs]" in error.value.remedy
    # Others need no codec.
    opened(Storage(by_gdal(tmp_path, ground("float32"), COMPRESS="LZW")))
