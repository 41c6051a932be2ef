"""Parts of JPEGs are decoded as libjpeg decodes the whole."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import simplejpeg
from PIL import Image
from tests.sizes import only_full
from tests.tiny import tiny_installation

from mastaba.wsgi import create_application
from mastaba_render import native
from mastaba_render.mosaic import LevelPixels
from mastaba_render.native import Window
from mastaba_render.tile_cache import TileCache

Bytes = npt.NDArray[np.uint8]
WHOLE = slice(0, 256), slice(0, 256)


def picture(seed: int, height: int = 256, width: int = 256, roughness: float = 40.0) -> Bytes:
    """Return slopes of colour with noise."""
    generator = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    slopes = [x * a + y * b + c for a, b, c in generator.uniform(-1.5, 1.5, (3, 3))]
    noise = generator.normal(0.0, roughness, (height, width, 3))
    return np.clip(128 + np.stack(slopes, axis=2) + noise, 0, 255).astype(np.uint8)


def encoded(pixels: Bytes, **options: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", **{"quality": 90, **options})
    return file.getvalue()


def decoded(payload: bytes, part: tuple[slice, slice] = WHOLE, size: int = 256) -> Bytes | None:
    rows, columns = part
    # Rows that are apart, as in a window of several tiles.
    window = np.full((rows.stop - rows.start, columns.stop - columns.start + 3, 3), 7, np.uint8)
    is_done = native.decode_jpeg(payload, (size, size), part, window[:, 1:-2])
    assert (window[:, [0, -2, -1]] == 7).all()
    return window[:, 1:-2] if is_done else None


@pytest.mark.parametrize("roughness", [0.0, 4.0, 40.0, 200.0])
@pytest.mark.parametrize("quality", [1, 30, 75, 90, 100])
def test_all_pixels_are_those_of_libjpeg(quality: int, roughness: float) -> None:
    for optimize in (False, True):
        pixels = picture(quality, roughness=roughness)
        payload = encoded(pixels, quality=quality, optimize=optimize)
        result = decoded(payload)
        assert result is not None
        assert (result == simplejpeg.decode_jpeg(payload)).all()


@pytest.mark.parametrize("size", [6, 15, 16, 17, 31, 33, 250, 257])
def test_sides_need_not_be_multiples_of_a_block(size: int) -> None:
    payload = encoded(picture(size, size, size))
    result = decoded(payload, (slice(0, size), slice(0, size)), size)
    assert result is not None
    assert (result == simplejpeg.decode_jpeg(payload)).all()


@pytest.mark.parametrize("size", [6, 40, 41, 256])
def test_a_part_has_the_pixels_of_the_whole(size: int) -> None:
    payload = encoded(picture(size, size, size))
    whole = simplejpeg.decode_jpeg(payload)
    generator = random.Random(size)
    for _ in range(300):
        top, bottom = sorted(generator.sample(range(size + 1), 2))
        left, right = sorted(generator.sample(range(size + 1), 2))
        part = slice(top, bottom), slice(left, right)
        result = decoded(payload, part, size)
        assert result is not None
        assert (result == whole[part]).all(), part


OTHERS = {
    "4:4:4": encoded(picture(1), subsampling="4:4:4"),
    "4:2:2": encoded(picture(1), subsampling="4:2:2"),
    "progressive": encoded(picture(1), progressive=True),
    "restart markers": encoded(picture(1), restart_marker_blocks=4),
    "RGB": encoded(picture(1), keep_rgb=True),
    "grey": encoded(picture(1)[:, :, 0]),
    "lower": encoded(picture(1, 128, 256)),
    "wider": encoded(picture(1, 256, 512)),
    "without end": encoded(picture(1))[:-2],
    "cut": encoded(picture(1))[:9000],
    "cut in the tables": encoded(picture(1))[:300],
    "only markers": b"\xff\xd8\xff\xd9",
    "start": b"\xff\xd8",
    "empty": b"",
    "zeros": bytes(1000),
}


@pytest.mark.parametrize("payload", OTHERS.values(), ids=OTHERS)
def test_other_kinds_and_damage_are_left_to_the_library(payload: bytes) -> None:
    assert decoded(payload) is None
    assert decoded(payload, (slice(0, 3), slice(0, 3))) is None


def test_bytes_after_the_last_pixel_are_found_if_it_is_needed() -> None:
    payload = encoded(picture(1))[:-2] + b"\x12\x34\xff\xd9"
    assert decoded(payload) is None
    assert decoded(payload, (slice(255, 256), slice(0, 1))) is None


@pytest.mark.parametrize(
    "count",
    [
        100,
        pytest.param(1000, marks=pytest.mark.thorough),
        *only_full(3000),
    ],
)
def test_damage_is_found_or_decoded_as_the_library_does(count: int) -> None:
    payload = encoded(picture(1, roughness=4.0))
    generator = random.Random(1)
    equal = 0
    for _ in range(count):
        damaged = bytearray(payload)
        for _ in range(generator.choice((1, 1, 3, 20))):
            damaged[generator.randrange(2, len(payload))] = generator.randrange(256)
        top, left = generator.randrange(256), generator.randrange(256)
        decoded(bytes(damaged), (slice(top, 256), slice(left, 256)))
        result = decoded(bytes(damaged))
        try:
            expected = simplejpeg.decode_jpeg(bytes(damaged))
        except ValueError:
            continue
        if result is not None and expected.shape == result.shape:
            # Impossible coefficients are cut to 16 bits in different places.
            equal += int((result == expected).all(axis=2).mean() > 0.9)
    assert equal > count / 30


def test_an_array_of_another_shape_is_refused() -> None:
    payload = encoded(picture(1))
    with pytest.raises(ValueError, match="shape"):
        native.decode_jpeg(payload, (256, 256), WHOLE, np.empty((256, 255, 3), np.uint8))
    with pytest.raises(ValueError, match="follow"):
        native.decode_jpeg(payload, (256, 256), WHOLE, np.empty((256, 512, 3), np.uint8)[:, ::2])


@pytest.mark.parametrize(
    "window",
    [
        Window(512, 1024, 1024, 1536),
        Window(600, 1000, 1100, 3500),
        Window(400, 700, 1150, 1190),
        Window(520, 560, 1300, 1350),
    ],
    ids=["whole", "around the world", "over the edge", "in a tile"],
)
def test_a_window_has_the_same_pixels_at_each_reading(tmp_path: Path, window: Window) -> None:
    catalogue = create_application(str(tiny_installation(tmp_path))).site.catalogue
    layer = catalogue.layers["RGB_JPG"]
    reader = catalogue.readers[layer.id]["3"]
    # Tiles of several strips are decoded whole.
    whole = LevelPixels(layer.pyramid, reader, TileCache(0)).read(window, 8, kept={}).pixels
    cache = TileCache(10**7)
    for _ in range(3):
        found = LevelPixels(layer.pyramid, reader, cache).read(window, 8)
        assert (found.pixels == whole).all()
    assert cache.hits
    assert cache.used
    catalogue.storages.close()
