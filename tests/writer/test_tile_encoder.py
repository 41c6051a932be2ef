import io
import zlib
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile
from tests.support.lzw import OWN

from mastaba_writer import tile_encoder
from mastaba_writer.deflate import ENCODERS, deflater
from mastaba_writer.slab_writer import build_slab
from mastaba_writer.tile_encoder import TILE_FORMATS, Pixels, encode_tile

RASTER = [
    (name, channels)
    for name, properties in TILE_FORMATS.items()
    for channels in sorted(properties.channels)
]
LOSSLESS_TIFF = [
    (name, channels)
    for name, channels in RASTER
    if "JPG" not in name and "PNG" not in name and channels != 2  # Pillow cannot read these
]


@pytest.fixture(autouse=True)
def _own_lzw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tile_encoder, "_lzw", OWN)


def noise(name: str, channels: int, size: int = 64) -> Pixels:
    dtype = TILE_FORMATS[name].dtype
    assert dtype is not None
    values = np.random.default_rng(7).integers(0, 256, (size, size, channels))
    return values.astype(dtype)


def steps(name: str, channels: int) -> Pixels:
    """Return long runs that reach the limits of the encoders (128 bytes, full LZW tables)."""
    dtype = TILE_FORMATS[name].dtype
    assert dtype is not None
    image = np.empty((256, 256, channels), dtype)
    image[:] = (np.add.outer(np.arange(256) // 9, np.arange(256) // 150) % 251)[..., np.newaxis]
    return image


@pytest.mark.sampled
@pytest.mark.parametrize("make_pixels", [noise, steps])
@pytest.mark.parametrize(("name", "channels"), LOSSLESS_TIFF)
def test_slab_with_one_lossless_tile_can_be_opened_as_tiff(
    name: str, channels: int, make_pixels: Callable[[str, int], Pixels]
) -> None:
    pixels = make_pixels(name, channels)
    slab = build_slab(
        [encode_tile(name, pixels)],
        format=name,
        channels=channels,
        tile_width=pixels.shape[1],
        tile_height=pixels.shape[0],
        tiles_per_width=1,
        tiles_per_height=1,
    )
    decoded = np.asarray(Image.open(io.BytesIO(slab)))
    assert np.array_equal(decoded.reshape(pixels.shape), pixels)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_png_has_one_unfiltered_data_chunk(channels: int) -> None:
    pixels = noise("TIFF_PNG_UINT8", channels)
    payload = encode_tile("TIFF_PNG_UINT8", pixels)
    image = Image.open(io.BytesIO(payload))
    assert image.mode == {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[channels]
    assert np.array_equal(np.asarray(image).reshape(pixels.shape), pixels)
    assert payload[25] == {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    assert payload.count(b"IDAT") == 1
    assert payload[37:43] == b"IDAT\x78\x5e"
    rows = np.frombuffer(zlib.decompress(payload[41:-16]), np.uint8).reshape(len(pixels), -1)
    assert not rows[:, 0].any()


@pytest.mark.parametrize(("name", "quality"), [("TIFF_JPG_UINT8", 75), ("TIFF_JPG90_UINT8", 90)])
def test_jpeg_is_baseline_with_halved_chroma(name: str, quality: int) -> None:
    pixels = np.full((64, 64, 3), (200, 120, 40), np.uint8)
    payload = encode_tile(name, pixels)
    image = Image.open(io.BytesIO(payload))
    assert payload[:2] == b"\xff\xd8"
    assert payload[-2:] == b"\xff\xd9"
    assert isinstance(image, JpegImageFile)
    assert "progressive" not in image.info
    assert [component[1:3] for component in image.layer] == [(2, 2), (1, 1), (1, 1)]
    reference = io.BytesIO()
    Image.fromarray(pixels).save(reference, "JPEG", quality=quality)
    expected = Image.open(reference)
    assert isinstance(expected, JpegImageFile)
    assert image.quantization == expected.quantization
    assert np.abs(np.asarray(image).astype(int) - pixels).max() <= 6


def test_zip_is_one_zlib_stream() -> None:
    pixels = noise("TIFF_ZIP_FLOAT32", 1)
    payload = encode_tile("TIFF_ZIP_FLOAT32", pixels)
    assert payload[:2] == b"\x78\x9c"
    assert zlib.decompress(payload) == pixels.tobytes()


def test_packbits_runs_do_not_cross_rows_or_use_the_code_128() -> None:
    payload = encode_tile("TIFF_PKB_UINT8", np.zeros((2, 300), np.uint8))
    assert payload == 2 * (bytes([129, 0]) * 2 + bytes([257 - 44, 0]))


def test_bytes_are_stored_unchanged() -> None:
    assert encode_tile("TIFF_PBF_MVT", b"\x1a\x00") == b"\x1a\x00"
    assert encode_tile("TIFF_PNG_UINT8", b"damaged") == b"damaged"


@pytest.mark.parametrize(
    ("name", "pixels"),
    [
        ("TIFF_JPG_UINT8", np.zeros((4, 4), np.uint8)),
        ("TIFF_RAW_FLOAT32", np.zeros((4, 4, 3), np.float32)),
        ("TIFF_RAW_FLOAT32", np.zeros((4, 4), np.float64)),
        ("TIFF_RAW_UINT8", np.zeros((4, 4, 5), np.uint8)),
        ("TIFF_RAW_UINT8", np.zeros(4, np.uint8)),
        ("TIFF_PBF_MVT", np.zeros((4, 4), np.uint8)),
        ("TIFF_RAW_INT16", np.zeros((4, 4), np.int16)),
    ],
)
def test_pixels_that_the_format_cannot_store_are_refused(name: str, pixels: Pixels) -> None:
    with pytest.raises(ValueError, match="TIFF_"):
        encode_tile(name, pixels)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("format", ["TIFF_PNG_UINT8", "TIFF_ZIP_UINT8"])
def test_every_deflate_library_stores_the_same_pixels(format: str, encoder: str) -> None:
    if encoder == "libdeflate":
        pytest.importorskip("deflate")
    pixels = np.arange(48 * 32 * 3, dtype=np.uint32).reshape(48, 32, 3).astype(np.uint8)
    payload = encode_tile(format, pixels, deflater(encoder))
    if format == "TIFF_ZIP_UINT8":
        assert zlib.decompress(payload) == pixels.tobytes()
    else:
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(payload))), pixels)


def test_zlib_is_the_default_and_an_unknown_encoder_is_refused() -> None:
    pixels = np.zeros((8, 8, 1), np.uint8)
    assert encode_tile("TIFF_ZIP_UINT8", pixels) == zlib.compress(pixels.tobytes(), 6)
    with pytest.raises(ValueError, match="unknown encoder 'gzip'"):
        deflater("gzip")
